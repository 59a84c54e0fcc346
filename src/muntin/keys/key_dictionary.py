"""Keys: the values of GROUP BY, of one column or several, to dense ids and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.keys.dictionary import Dictionary
from muntin.keys.table_room import ALL_VALID, renumbered
from muntin.keys.word_table import WordTable
from muntin.store.saved import Saved

__all__ = ["Dictionary", "KeyDictionary"]


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

    def __len__(self) -> int:
        return len(self._pairs[-1] if self._pairs else self._parts[0])

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        """The id of each row; new keys get the next ids. O(rows) for each column."""
        ids = self._parts[0].encode(columns[0])
        for part, pair, column in zip(self._parts[1:], self._pairs, columns[1:], strict=True):
            ids = pair.encode(_paired(ids, part.encode(column)), ALL_VALID)
        return ids

    def find(self, columns: Sequence[pa.Array]) -> Ints:
        """Ids of known keys, -1 for unknown ones."""
        ids = self._parts[0].find(columns[0])
        for part, pair, column in zip(self._parts[1:], self._pairs, columns[1:], strict=True):
            code = part.find(column)
            known = (ids >= 0) & (code >= 0)
            ids = np.where(known, pair.find(_paired(ids, code), ALL_VALID), -1)
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
