"""Sorting: rows in the order of some columns; runs already in order are merged, not sorted anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive.sorted_columns import numbers_of


def sort_rows(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """The rows in ascending order of some columns, NULL last; rows that are equal stay as they were.

    >>> sort_rows(pa.table({"k": [2, 1, 2], "e": [5, 9, 4]}), ["k", "e"]).to_pydict()
    {'k': [1, 2, 2], 'e': [9, 4, 5]}
    """
    table = table.combine_chunks()
    return table.take(pa.array(_in_order(table, order))) if table.num_rows > 1 else table


def is_sorted(table: pa.Table, order: Sequence[str]) -> bool:
    """Whether the rows are in that order already."""
    table = table.combine_chunks()
    return table.num_rows < 2 or bool((_in_order(table, order) == np.arange(table.num_rows)).all())


def ordered_rows(table: pa.Table, order: Sequence[str], chosen: Any = None) -> Any:
    """Numbers of the rows in that order, of those that are chosen; only what is sorted by is read."""
    sorted_by = table.select(list(dict.fromkeys(order))).combine_chunks()
    if chosen is None or chosen.all():
        return _in_order(sorted_by, order) if table.num_rows else np.arange(0)
    numbers = np.flatnonzero(chosen)
    if not len(numbers):
        return numbers
    return numbers[_in_order(sorted_by.take(pa.array(numbers)).combine_chunks(), order)]


def _in_order(table: pa.Table, order: Sequence[str]) -> Any:
    """Numbers of the rows, in order."""
    columns = [numbers_of(table.column(name).chunk(0)) for name in order]
    if all(column is not None for column in columns):
        return np.lexsort(columns[::-1])  # a merge sort, which finds runs that are in order
    in_order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in order])
    return in_order.to_numpy().astype(np.int64)
