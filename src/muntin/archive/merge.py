"""Merging: sorted runs as one sequence of rows in order, in pieces of bounded size.

The fences of the runs say at which rows the merged sequence can be cut into pieces of a few MiB; each piece
is cut out of every run and sorted. Memory does not grow with the runs, unless very many rows are equal in
all that they are sorted by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from muntin.archive.sorted_columns import Side, SortedColumns, ordered_rows, sort_rows, value_at
from muntin.kernels.gather import gather_rows, gather_values

# Gathering: chosen rows of a table in chunks, in any order, as one chunk, copied once.
#
# Arrow filters, joins chunks and takes rows in three copies. Rows of results are wide and an update copies
# all that it touches, so columns of fixed width go straight from where they are mapped to where they
# belong.

_WORD = 8
_SMALL = 1 << 16  # bytes below which three copies cost less than looking at each chunk


def gather(table: pa.Table, rows: Any) -> pa.Table:
    """The rows of these numbers, in their order.

    >>> halves = pa.concat_tables([pa.table({"k": [1, 2]}), pa.table({"k": [3, 4]})])
    >>> gather(halves, np.array([3, 0, 2])).to_pydict()
    {'k': [4, 1, 3]}
    """
    if table.nbytes < _SMALL:
        return table.combine_chunks().take(pa.array(rows))
    plain = [field.name for field in table.schema if _is_plain(table.column(field.name))]
    bounds = _chunk_bounds(table, plain)
    if not plain or bounds is None:
        return table.combine_chunks().take(pa.array(rows))
    taken: dict[str, Any] = {name: _gathered(table.column(name), rows, bounds) for name in plain}
    rest = [name for name in table.column_names if name not in taken]
    if rest:
        other = table.select(rest).combine_chunks().take(pa.array(rows))
        taken |= {name: other.column(name) for name in rest}
    return pa.table([taken[name] for name in table.column_names], schema=table.schema)


def compile_gather() -> None:
    """Have compiled what large tables need, before somebody waits for it."""
    many = _SMALL // _WORD
    wide = pa.array([bytes(2 * _WORD)] * many, pa.binary(2 * _WORD))
    gather(pa.table({"word": np.arange(many), "wide": wide}), np.arange(1))


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Whether its values lie side by side, a whole number of words each, and none is NULL."""
    kind = column.type
    is_fixed = pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_fixed and kind.bit_width % (8 * _WORD) == 0 and not column.null_count)


def _chunk_bounds(table: pa.Table, names: list[str]) -> Any:
    """Where chunks begin and end; None if columns are not cut alike."""
    cuts = {tuple(len(chunk) for chunk in table.column(name).chunks) for name in names}
    return np.cumsum([0, *cuts.pop()]) if len(cuts) == 1 else None


def _gathered(column: pa.ChunkedArray, rows: Any, bounds: Any) -> pa.Array:
    words = column.type.bit_width // (8 * _WORD)
    out = np.empty((len(rows), words), np.uint64)
    chunk_of = np.searchsorted(bounds, rows, "right") - 1
    for number, chunk in enumerate(column.chunks):
        places = np.flatnonzero(chunk_of == number)
        if not len(places):
            continue
        source = np.frombuffer(chunk.buffers()[1], np.uint64)
        source = source[chunk.offset * words : (chunk.offset + len(chunk)) * words]
        source.flags.writeable = False  # so that all are of one type to the compiler
        if words == 1:
            gather_values(source, rows[places] - bounds[number], places, out[:, 0])
        else:
            gather_rows(source.reshape(-1, words), rows[places] - bounds[number], places, out)
    return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(out)])


# Run: rows in order of key and expiry, in a segment on disk or in memory; what merges and probes work on.


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


PIECE_BYTES = 8 << 20
Keep = Callable[[pa.Table], Any]  # one boolean a row, as a NumPy array


def merge_runs(runs: Sequence[Run], order: Sequence[str], keep: Keep | None = None) -> Iterator[pa.Table]:
    """The rows of all runs in ascending order, of those that `keep` keeps."""
    cuts = _cuts(runs, order)
    starts = [0] * len(runs)
    for cut in [*cuts, None]:
        stops = [run.rows if cut is None else run.bound(cut, "left") for run in runs]
        spans = zip(runs, starts, stops, strict=True)
        found = [batches for run, start, stop in spans if (batches := run.between(start, stop))]
        starts = stops
        if not found:
            continue
        piece = pa.Table.from_batches([batch for batches in found for batch in batches])
        chosen = None if keep is None else keep(piece)
        if len(found) > 1:
            piece = gather(piece, ordered_rows(piece, order, chosen))
        else:
            piece = kept(piece, chosen)
        if piece.num_rows:
            yield piece


def chain_runs(runs: Sequence[Run], keep: Keep | None = None) -> Iterator[pa.Table]:
    """The rows of all runs one after the other, of those that `keep` keeps, in pieces."""
    for run in runs:
        step = max(1, PIECE_BYTES * run.rows // max(run.size, 1))
        for start in range(0, run.rows, step):
            piece = pa.Table.from_batches(run.between(start, min(start + step, run.rows)))
            piece = kept(piece, None if keep is None else keep(piece))
            if piece.num_rows:
                yield piece


def kept(rows: pa.Table, chosen: Any) -> pa.Table:
    """The rows that are chosen; as they are, if that is all of them."""
    return rows if chosen is None or chosen.all() else gather(rows, np.flatnonzero(chosen))


def _cuts(runs: Sequence[Run], order: Sequence[str]) -> list[tuple[Any, ...]]:
    """Values at which the merged rows are cut, in ascending order."""
    rows, size = sum(run.rows for run in runs), sum(run.size for run in runs)
    if size <= PIECE_BYTES:
        return []
    fences = sort_rows(pa.concat_tables([run.fences for run in runs]), order)
    before = np.cumsum(fences.column("rows").to_numpy()) - fences.column("rows").to_numpy()
    piece = before // max(1, PIECE_BYTES * rows // size)
    cut = np.flatnonzero(np.diff(piece, prepend=piece[:1]))
    columns = [fences.column(name).chunk(0) for name in order]
    return [tuple(value_at(column, int(row)) for column in columns) for row in cut]
