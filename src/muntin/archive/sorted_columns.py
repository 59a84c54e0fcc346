"""SortedColumns: rows in ascending order of some columns, in which values are found by bisection.

Columns of numbers or times are searched as NumPy arrays, texts as bytes, both in place; others value by
value. NULL comes last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ArchiveError, MuntinError
from muntin.fixed_point import is_kept, units_of
from muntin.key_value import key_column

Side = Literal["left", "right"]
_NEAR = 16


class SortedColumns:
    """Columns whose rows are in order.

    >>> rows = SortedColumns([pa.array([1, 1, 2, 4]), pa.array([7, 9, 7, 8])])
    >>> rows.bound((1,), "left"), rows.bound((1,), "right"), rows.bound((1, 8), "left"), rows.bound((3,), "left")
    (0, 2, 1, 3)
    """

    def __init__(self, columns: Sequence[pa.Array]):
        self.rows = len(columns[0])
        self._columns = [_searched(column) for column in columns]

    def bound(self, values: Sequence[Any], side: Side) -> int:
        """How many rows come before all rows that begin with `values`, or, on the right, not after them."""
        if not values:
            return 0 if side == "left" else self.rows
        start, stop = 0, self.rows
        for column, value in zip(self._columns, values[:-1], strict=False):
            start = column.find(value, "left", start, stop)
            stop = column.find(value, "right", start, stop)
            if start == stop:
                return start
        return self._columns[len(values) - 1].find(values[-1], side, start, stop)

    def span(self, values: Sequence[Any]) -> tuple[int, int]:
        """Both bounds. The right one is first looked for near the left one: most keys have few rows."""
        start = self.bound(values, "left")
        if len(values) != 1:
            return start, self.bound(values, "right")
        column, near = self._columns[0], min(start + _NEAR, self.rows)
        stop = column.find(values[0], "right", start, near)
        return start, stop if stop < near else column.find(values[0], "right", near, self.rows)


def sought(value: Any, field: pa.Field) -> Any:
    """A value as `SortedColumns` looks for it, or an error that names the column."""
    if value is None:
        return None
    try:
        return value_at(key_column([value], field.type, field.name), 0)
    except MuntinError as error:
        raise ArchiveError(str(error)) from None


def value_at(column: pa.Array, row: int) -> Any:
    """The value in a row, as `SortedColumns` looks for it."""
    if not column[row].is_valid:
        return None
    numbers = numbers_of(column[row : row + 1])
    return column[row].as_py() if numbers is None else numbers[0]


def numbers_of(column: pa.Array) -> Any:
    """A column of numbers or times as a NumPy array that shares its memory; None for others or with NULL."""
    if column.null_count:
        return None
    if pa.types.is_temporal(column.type):
        width = column.type.bit_width
        return column.view(pa.int64() if width == 64 else pa.int32()).to_numpy() if width <= 64 else None
    if is_kept(column.type):
        return units_of(column)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.to_numpy()
    return None


class _Column(Protocol):
    def find(self, value: Any, side: Side, start: int, stop: int) -> int: ...


class _Numbers:
    def __init__(self, numbers: Any):
        self._numbers = numbers

    def find(self, value: Any, side: Side, start: int, stop: int) -> int:
        if value is None:
            return stop
        return start + int(self._numbers[start:stop].searchsorted(value, side))


class _Texts:
    """Texts or bytes, compared where they lie: the order of UTF-8 is that of the characters."""

    def __init__(self, column: pa.Array):
        _, offsets, data = column.buffers()
        is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        width = np.int64 if is_large else np.int32
        within = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
        self._offsets: Any = memoryview(within)  # type: ignore[arg-type]  # its items are plain numbers
        self._data = memoryview(b"" if data is None else data)

    def find(self, value: Any, side: Side, start: int, stop: int) -> int:
        if value is None:
            return stop
        wanted = value.encode() if isinstance(value, str) else value
        bisect = bisect_left if side == "left" else bisect_right
        return bisect(range(len(self._offsets)), wanted, start, stop, key=self._at)

    def _at(self, row: int) -> bytes:
        return bytes(self._data[self._offsets[row] : self._offsets[row + 1]])


class _Objects:
    def __init__(self, column: pa.Array):
        self._column = column

    def find(self, value: Any, side: Side, start: int, stop: int) -> int:
        wanted = _ranked(value)
        bisect = bisect_left if side == "left" else bisect_right
        return bisect(range(len(self._column)), wanted, start, stop, key=self._at)

    def _at(self, row: int) -> tuple[int, Any]:
        return _ranked(value_at(self._column, row))


def _ranked(value: Any) -> tuple[int, Any]:
    """Values in order, then NaN, then NULL."""
    if value is None:
        return (2, 0)
    return (1, 0) if value != value else (0, value)


def _searched(column: pa.Array) -> _Column:
    numbers = numbers_of(column)
    if numbers is not None:
        return _Numbers(numbers)
    return _Texts(column) if _is_text(column.type) and not column.null_count else _Objects(column)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


# Sorting: rows in the order of some columns; runs already in order are merged, not sorted anew.


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
