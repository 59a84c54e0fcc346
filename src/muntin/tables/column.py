"""One column of a table, by slot: numbers and times as an array, texts as codes of a dictionary.

A slot is a place for one row. What stands in the slot of no row is nobody's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.fixed_point import is_decimal, wide_decimals
from muntin.keys.key_dictionary import Dictionary
from muntin.keys.table_room import enlarged
from muntin.store.words import dtype_of_words

_FEW = 4096  # texts that are not worth a sweep


class Column(Protocol):
    """What a table keeps of one column."""

    def grow(self, slots: int) -> None:
        """Have room for so many slots."""

    def put(self, slots: Ints, values: pa.Array) -> None:
        """Set the values of some slots; O(slots)."""

    def take(self, slots: Ints) -> pa.Array:
        """The values of some slots; O(slots)."""

    def sweep(self, rows: int, used: Callable[[], Ints]) -> None:
        """Forget what only other slots than those of the rows have had; seldom more than a comparison."""

    def nbytes(self) -> int: ...


def column_of(kind: pa.DataType) -> Column:
    """An empty column of a type."""
    dtype = dtype_of_words(kind)
    return TextColumn(kind) if dtype is None else FixedColumn(kind, dtype)


class FixedColumn:
    """Values of one width, and which of them are not NULL.

    >>> column = FixedColumn(pa.int64(), np.dtype(np.int64))
    >>> column.grow(3)
    >>> column.put(np.array([2, 0]), pa.array([5, None]))
    >>> column.take(np.array([0, 2])).to_pylist()
    [None, 5]
    """

    def __init__(self, kind: pa.DataType, dtype: np.dtype[Any]):
        self.kind = kind
        self._values: npt.NDArray[Any] = np.zeros(0, dtype)
        self._valid: Bools | None = None  # as long as none is NULL

    def grow(self, slots: int) -> None:
        self._values = enlarged(self._values, slots)
        if self._valid is not None:
            self._valid = enlarged(self._valid, slots)

    def put(self, slots: Ints, values: pa.Array) -> None:
        if values.null_count and self._valid is None:
            self._valid = np.ones(len(self._values), np.bool_)
        if self._valid is not None:
            self._valid[slots] = np.asarray(values.is_valid()) if values.null_count else True
        self._values[slots] = _numbers(values, self._values.dtype)

    def take(self, slots: Ints) -> pa.Array:
        values = self._values[slots]
        valid = None if self._valid is None else self._valid[slots]
        mask = None if valid is None or valid.all() else ~valid
        if pa.types.is_boolean(self.kind):
            return pa.array(values != 0, mask=mask)
        if is_decimal(self.kind):
            return wide_decimals(values, mask, self.kind)
        made = pa.array(values, mask=mask)
        return made if made.type == self.kind else made.view(self.kind)

    def sweep(self, rows: int, used: Callable[[], Ints]) -> None:
        pass

    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._valid is None else self._valid.nbytes)


def _numbers(values: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values as they lie in memory, anything for NULL; booleans as 0 and 1."""
    if pa.types.is_boolean(values.type):
        return np.asarray(values.fill_null(False).cast(pa.int8()))
    data = values.buffers()[1]
    found = np.zeros(len(values), dtype) if data is None else np.frombuffer(data, dtype)
    return found[values.offset : values.offset + len(values)]


class TextColumn:
    """Codes of texts, NULL among them. Texts that no row has any more are forgotten when they are more than those
    that rows have: O(1) amortised per text that comes.

    >>> column = TextColumn(pa.string())
    >>> column.grow(3)
    >>> column.put(np.array([2, 0]), pa.array(["gold", None]))
    >>> column.take(np.array([0, 2])).to_pylist()
    [None, 'gold']
    """

    def __init__(self, kind: pa.DataType):
        self.kind = kind
        self._texts = Dictionary(kind)
        self._codes: npt.NDArray[np.int32] = np.zeros(0, np.int32)

    def grow(self, slots: int) -> None:
        self._codes = enlarged(self._codes, slots)

    def put(self, slots: Ints, values: pa.Array) -> None:
        self._codes[slots] = self._texts.encode(values)

    def take(self, slots: Ints) -> pa.Array:
        return self._texts.take(self._codes[slots].astype(np.int64))

    def sweep(self, rows: int, used: Callable[[], Ints]) -> None:
        if len(self._texts) <= max(_FEW, 2 * rows):
            return
        slots, kept = used(), np.zeros(len(self._texts), np.bool_)
        kept[self._codes[slots]] = True
        self._codes[slots] = self._texts.retain(kept)[self._codes[slots]]

    def nbytes(self) -> int:
        return self._codes.nbytes + self._texts.nbytes()
