"""Keys: the values of GROUP BY, of one column or several, to dense ids and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Bools, Ints
from muntin.crew import ALONE, Crew, pieces_of
from muntin.kernels.word_table import is_run
from muntin.keys.table_room import read_only, renumbered
from muntin.keys.text_table import TextTable
from muntin.keys.word_table import WordTable
from muntin.store.saved import Saved
from muntin.store.words import ALL_VALID, dtype_of_words, from_words, to_words

_FEW_TAKEN = 256  # values


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
        self._is_plain = pa.types.is_int64(kind) or pa.types.is_float64(kind)
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

    def find(self, values: pa.Array, into: Ints | None = None) -> Ints:
        """Ids of known values, -1 for unknown ones; in an array of their own or in one that is given."""
        if isinstance(self._table, TextTable):
            return self._table.find(_plain(values), into)
        return self._table.find(*to_words(values), into)

    def find_one(self, value: Any) -> int:
        """The id of one value, -1 if it is unknown, -2 if its type is not plain: `find` knows what to do."""
        if isinstance(self._table, TextTable):
            try:
                return self._table.find_one(value.encode()) if type(value) is str else -2
            except UnicodeEncodeError:  # half of a surrogate pair, which is no key
                return -2
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
        elif len(ids) <= _FEW_TAKEN and self._is_plain and not values.null_count:
            return pa.array(np.asarray(values)[ids])  # a call of Arrow's costs more than a few numbers
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


_MANY_KNOWN = 16  # rows for each that brings a new key: to look for all of them first is no loss


class KeyDictionary:
    """Ids of keys in order of first appearance.

    Several columns are encoded each by its own dictionary, the parts; their ids, two side by side, make a
    word that has an id of its own, which is paired with the third column's, and so on.

    >>> keys = KeyDictionary([pa.string(), pa.int64()])
    >>> keys.encode([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])])
    array([0, 1, 0])
    >>> keys.find([pa.array(["b"]), pa.array([2])])
    array([-1])
    """

    def __init__(self, kinds: Sequence[pa.DataType]):
        self._parts = [Dictionary(kind) for kind in kinds]
        self._pairs = [WordTable() for _ in kinds[1:]]
        self._all: list[pa.Array] = []  # the columns of all keys, as they were last asked for
        self._are_few_new = False  # of the keys that were last encoded

    def __len__(self) -> int:
        return len(self._pairs[-1] if self._pairs else self._parts[0])

    def encode(self, columns: Sequence[pa.Array], crew: Crew = ALONE) -> Ints:
        """The id of each row; new keys get the next ids. O(rows) for each column."""
        if crew.threads > 1 and self._are_few_new:
            return self._encode_found(columns, crew)
        before = len(self)
        ids = self._encode(columns)
        self._are_few_new = _MANY_KNOWN * (len(self) - before) <= len(ids)
        return ids

    def _encode_found(self, columns: Sequence[pa.Array], crew: Crew) -> Ints:
        """The same where most keys are known: these are found side by side."""
        ids = np.empty(len(columns[0]), np.int64)

        def find(some: slice) -> bool:
            """Whether all keys are known."""
            found = self.find([column[some] for column in columns], ids[some])
            return int(found.min(initial=0)) >= 0

        are_known = crew.share([partial(find, some) for some in pieces_of(len(ids), crew.threads)])
        unknown = np.zeros(0, np.int64) if all(are_known) else np.flatnonzero(ids < 0)
        if len(unknown):
            places = pa.array(unknown)
            ids[unknown] = self._encode([column.take(places) for column in columns])
        self._are_few_new = _MANY_KNOWN * len(unknown) <= len(ids)
        return ids

    def _encode(self, columns: Sequence[pa.Array]) -> Ints:
        ids = self._parts[0].encode(columns[0])
        for part, pair, column in zip(self._parts[1:], self._pairs, columns[1:], strict=True):
            ids = pair.encode(_paired(ids, part.encode(column)), ALL_VALID)
        return ids

    def find(self, columns: Sequence[pa.Array], into: Ints | None = None) -> Ints:
        """Ids of known keys, -1 for unknown ones; in an array of their own or in one that is given."""
        ids = self._parts[0].find(columns[0], into)
        for part, pair, column in zip(self._parts[1:], self._pairs, columns[1:], strict=True):
            code = part.find(column)
            is_unknown = (ids < 0) | (code < 0)
            pair.find(_paired(ids, code), ALL_VALID, ids)
            ids[is_unknown] = -1
        return ids

    def find_one(self, key: tuple[Any, ...]) -> int:
        """The id of one key, -1 if it is unknown, -2 if it cannot be told so quickly."""
        if len(key) != len(self._parts):
            return -2
        id = self._parts[0].find_one(key[0])
        for part, pair, value in zip(self._parts[1:], self._pairs, key[1:], strict=True):
            other = part.find_one(value)
            if id < 0 or other < 0:
                return min(id, other)
            id = int(pair.find(np.array([(id << 32) | other]), ALL_VALID)[0])
        return id

    def take(self, ids: Ints) -> list[pa.Array]:
        """The key columns of some ids; of all ids in order, what was made before is given again."""
        if not self._pairs:
            return [self._parts[0].take(ids)]
        if len(ids) == len(self) and np.array_equal(ids, np.arange(len(ids))):
            if not self._all or len(self._all[0]) != len(ids):
                self._all = self._make_columns(ids)
            return list(self._all)
        return self._make_columns(ids)

    def retain(self, kept: Bools) -> Ints:
        """Forget the keys that are not kept, and parts that only they had; the others move up, in order.

        The new id of each key, -1 for those gone. O(keys).
        """
        self._all = []
        return self._retain(len(self._pairs), kept)

    def snapshot(self) -> list[pa.Array]:
        return [*(part.snapshot() for part in self._parts), *(pa.array(pair.words) for pair in self._pairs)]

    def restore(self, saved: Saved) -> None:
        """Have the keys of a snapshot in place of all that are here."""
        for number, part in enumerate(self._parts):
            part.restore(saved, str(number))
        lefts = len(self._parts[0])
        for number, (part, pair) in enumerate(zip(self._parts[1:], self._pairs, strict=True)):
            name = str(len(self._parts) + number)
            column = saved.column(name, {pa.int64()})
            words = np.asarray(column)
            if column.null_count or (
                len(words)
                and not (
                    int((words >> 32).min()) >= 0
                    and int((words >> 32).max()) < lefts
                    and int((words & _LOW).max()) < len(part)
                )
            ):
                raise saved.damaged(name, "has pairs of values that are not there")
            pair.fill(words, -1)
            lefts = len(pair)
        self._all = []

    def nbytes(self) -> int:
        return sum(part.nbytes() for part in self._parts) + sum(pair.nbytes() for pair in self._pairs)

    def check(self) -> None:
        for part in self._parts:
            part.check()
        lefts = len(self._parts[0])
        for part, pair in zip(self._parts[1:], self._pairs, strict=True):
            pair.check()
            # a pair is of ids that there are, and each of those is in some pair
            assert np.array_equal(np.unique(pair.words >> 32), np.arange(lefts))
            assert np.array_equal(np.unique(pair.words & _LOW), np.arange(len(part)))
            lefts = len(pair)

    def _make_columns(self, ids: Ints) -> list[pa.Array]:
        columns = []
        for part, pair in zip(reversed(self._parts[1:]), reversed(self._pairs), strict=True):
            paired = pair.words[ids]
            columns.append(part.take(paired & _LOW))
            ids = paired >> 32
        columns.append(self._parts[0].take(ids))
        return columns[::-1]

    def _retain(self, level: int, kept: Bools) -> Ints:
        """Of the ids of the first `level` + 1 columns."""
        if level == 0:
            return self._parts[0].retain(kept)
        pair, part = self._pairs[level - 1], self._parts[level]
        words = pair.words[kept]
        left, right = words >> 32, words & _LOW
        lefts = len(self._parts[0] if level == 1 else self._pairs[level - 2])
        new_left = self._retain(level - 1, _used(left, lefts))
        new_right = part.retain(_used(right, len(part)))
        pair.fill(_paired(new_left[left], new_right[right]), -1)
        return renumbered(kept)


_LOW = 2**32 - 1


def _paired(left: Ints, right: Ints) -> Ints:
    return (left << 32) | right


def _used(ids: Ints, count: int) -> Bools:
    used = np.zeros(count, np.bool_)
    used[ids] = True
    return used
