"""A dictionary: values of one column to dense ids, in order of first appearance, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Bools, Ints
from muntin.kernels.word_table import is_run
from muntin.keys.table_room import read_only
from muntin.keys.text_table import TextTable
from muntin.keys.word_table import WordTable
from muntin.keys.words import dtype_of_words, from_words, to_words
from muntin.store.saved import Saved


class Dictionary:
    """Ids of the values of one column; NULL is a value like any other, and so is NaN.

    `encode` and `find` take O(rows), `values` O(values that came since the last time), however many there
    are: nothing is copied but where a type is narrower than a word. `retain` takes O(ids).

    >>> dictionary = Dictionary(pa.string())
    >>> dictionary.encode(pa.array(["b", "a", "b", None]))
    array([0, 1, 0, 2])
    >>> dictionary.find(pa.array(["a", "z"]))
    array([ 1, -1])
    >>> dictionary.retain(np.array([False, True, True]))
    array([-1,  0,  1])
    """

    def __init__(self, kind: pa.DataType):
        self.kind = kind
        self._dtype = dtype_of_words(kind)
        self._table: WordTable | TextTable
        if self._dtype is not None or pa.types.is_null(kind):
            self._table = WordTable()
        elif _is_bytes(kind):
            self._table = TextTable()
        else:
            raise TypeError(f"values of type {kind} cannot be encoded")
        # the integers that are values as they are; none where the words of a type are something else
        half = 2 ** (kind.bit_width - 1) if pa.types.is_signed_integer(kind) else 0
        self._least, self._greatest = -half, half - 1
        # made when asked for; what has been handed out never changes
        self._values: pa.Array | None = None
        self._sorted: tuple[Ints, Ints] | None = None
        self._narrow: npt.NDArray[Any] = np.zeros(0, self._dtype)
        self._narrow_count = 0
        self._validity: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._table)

    def encode(self, column: pa.Array) -> Ints:
        """The id of each value; new values get the next ids."""
        if isinstance(self._table, TextTable):
            return self._table.encode(_plain(column))
        return self._table.encode(*to_words(column))

    def find(self, values: pa.Array) -> Ints:
        """Ids of known values, -1 for unknown ones."""
        if isinstance(self._table, TextTable):
            return self._table.find(_plain(values))
        return self._table.find(*to_words(values))

    def find_one(self, value: Any) -> int:
        """The id of one value, -1 if it is unknown, -2 if its type is not plain: `find` knows what to do."""
        if isinstance(self._table, TextTable):
            return self._table.find_one(value.encode()) if type(value) is str else -2
        if type(value) is not int or not self._least <= value <= self._greatest:
            return -2
        return self._table.find_one(value)

    @property
    def values(self) -> pa.Array:
        """All values by id, to be read only; O(1) unless there are new ones.

        Texts of more than 2 GB in all come as Arrow's large kind.
        """
        if self._values is None or len(self._values) != len(self):
            self._values = self._make_values()
        return self._values

    def take(self, ids: Ints) -> pa.Array:
        """The values of some ids; nothing is copied when the ids follow one another and are many."""
        values = self.values
        if 0 < len(values) <= 4 * len(ids) and ids[-1] - ids[0] == len(ids) - 1 and is_run(read_only(ids)):
            taken = values.slice(int(ids[0]), len(ids))
        else:
            taken = values.take(pa.array(ids))
        return taken if taken.type == self.kind else taken.cast(self.kind)

    def order(self) -> tuple[Ints, Ints]:
        """The rank of each id when values are sorted, and the id of each rank; cached."""
        if self._sorted is None or len(self._sorted[0]) != len(self):
            by_rank = np.asarray(pc.sort_indices(self.values).to_numpy(zero_copy_only=False), np.int64)
            rank = np.empty(len(by_rank), np.int64)
            rank[by_rank] = np.arange(len(by_rank))
            self._sorted = rank, by_rank
        return self._sorted

    def retain(self, kept: Bools) -> Ints:
        """Forget the ids that are not kept; the others move up, in order. The new id of each, -1 if gone."""
        new_id = self._table.retain(kept)
        self._forget_cached()
        return new_id

    def snapshot(self) -> pa.Array:
        return self.values

    def restore(self, saved: Saved, name: str) -> None:
        """Have the values of a snapshot in place of all that are here."""
        kinds = {self.kind}
        if isinstance(self._table, TextTable):
            kinds |= {_with_offsets(self.kind, np.dtype(width)) for width in (np.int32, np.int64)}
        values = saved.column(name, kinds)
        if values.null_count > 1:
            raise saved.damaged(name, "is NULL more than once")
        if isinstance(self._table, TextTable):
            self._table.fill(_plain(values))
        else:
            words, valid = to_words(values)
            self._table.fill(words, int(np.flatnonzero(~valid)[0]) if len(valid) else -1)
        self._forget_cached()

    def nbytes(self) -> int:
        return self._table.nbytes()

    def check(self) -> None:
        self._table.check()
        # what is handed out has a value for each id, NULL only where it is one
        assert len(self.values) == len(self)
        assert self.values.null_count == (self._table.null_id >= 0)

    def _forget_cached(self) -> None:
        self._values = self._sorted = None
        self._narrow, self._narrow_count = np.zeros(0, self._dtype), 0
        self._validity = np.zeros(0, np.uint8)

    def _make_values(self) -> pa.Array:
        table, length = self._table, len(self)
        if isinstance(table, TextTable):
            kind = _with_offsets(self.kind, table.starts.dtype)
            parts = [pa.py_buffer(table.starts), pa.py_buffer(table.arena)]
            return pa.Array.from_buffers(kind, length, [self._bitmap(), *parts])
        if self._dtype is None:
            return pa.nulls(length)
        values = self._narrowed(table.words, self._dtype)
        if pa.types.is_boolean(self.kind):  # three at most
            return pa.array(values != 0, mask=np.arange(length) == table.null_id)
        return pa.Array.from_buffers(self.kind, length, [self._bitmap(), pa.py_buffer(values)])

    def _narrowed(self, words: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Words as Arrow keeps their values; of narrow types a copy is kept that grows as the words do."""
        if dtype.itemsize == 8:
            return from_words(words, dtype)
        if len(words) > len(self._narrow):
            self._narrow, self._narrow_count = np.empty(2 * len(words), dtype), 0
        self._narrow[self._narrow_count : len(words)] = from_words(words[self._narrow_count :], dtype)
        self._narrow_count = len(words)
        return self._narrow[: len(words)]

    def _bitmap(self) -> pa.Buffer | None:
        """Arrow's validity: one bit a value, all set but that of NULL; made ahead for values to come."""
        if self._table.null_id < 0:
            return None
        if 8 * len(self._validity) < len(self):
            place, bit = divmod(self._table.null_id, 8)
            self._validity = np.full(len(self) // 4 + 8, 255, np.uint8)
            self._validity[place] ^= np.uint8(1 << bit)
        return pa.py_buffer(self._validity)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(is_so(kind) for is_so in (*_VIEWS, *_LARGE, pa.types.is_string, pa.types.is_binary))


_VIEWS = (pa.types.is_string_view, pa.types.is_binary_view)
_LARGE = (pa.types.is_large_string, pa.types.is_large_binary)


def _plain(texts: pa.Array) -> pa.Array:
    """Texts in the form of offsets and bytes."""
    if pa.types.is_string_view(texts.type):
        return texts.cast(pa.large_string())
    return texts.cast(pa.large_binary()) if pa.types.is_binary_view(texts.type) else texts


def _with_offsets(kind: pa.DataType, offsets: np.dtype[Any]) -> pa.DataType:
    """The type for texts of a type when they are kept with offsets of a width."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if offsets.itemsize == 8:
        return pa.large_string() if is_text else pa.large_binary()
    return pa.string() if is_text else pa.binary()
