"""Run: rows in order of key and expiry, in a segment on disk or in memory; what merges and probes work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from muntin.archive.sorted_columns import Side, SortedColumns


class Run(Protocol):
    """Rows numbered from 0."""

    @property
    def rows(self) -> int:
        """How many there are."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def fences(self) -> pa.Table:
        """The first row of each block, as far as rows are sorted by it, and `rows`, how many it has."""

    def bound(self, values: Sequence[Any], side: Side) -> int:
        """Number of the first row that begins with `values` or more; on the right, with more."""

    def between(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows of some numbers, without a copy."""


class MemoryRun:
    """A table as a run of a single block.

    >>> run = MemoryRun(pa.table({"k": [1, 2, 2], "e": [3, 4, 5]}), ["k", "e"])
    >>> run.bound((2,), "left"), run.bound((2,), "right"), run.fences.to_pylist()
    (1, 3, [{'k': 1, 'e': 3, 'rows': 3}])
    """

    def __init__(self, table: pa.Table, order: Sequence[str]):
        self._table = table.combine_chunks()
        self.rows: int = table.num_rows
        self.size: int = table.nbytes
        columns = [self._table.column(name).chunk(0) for name in order]
        self._sorted = SortedColumns(columns)
        first = {name: column[:1] for name, column in zip(order, columns, strict=True)}
        self.fences = pa.table({**first, "rows": pa.array([self.rows], pa.int64())})

    def bound(self, values: Sequence[Any], side: Side) -> int:
        """Number of the first row that begins with `values` or more; on the right, with more."""
        return self._sorted.bound(values, side)

    def between(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows of some numbers, without a copy."""
        batches: list[pa.RecordBatch] = self._table.slice(start, stop - start).to_batches()
        return batches
