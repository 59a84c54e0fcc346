"""The pairs of keys and lanes that have been seen, with the id that a store knows each by.

Where most keys have events in most lanes, a pair is found by its place in a table of keys and lanes. Otherwise its key
and its lane make up a word that is looked up by hash. Which of the two it is shows in nothing but the speed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from muntin.arrays import Bools, Ints
from muntin.kernels.pair_table import find_pairs
from muntin.keys.word_table import WordTable
from muntin.store.words import ALL_VALID

_SMALL = 1 << 20  # a table of so many places is always affordable
_SPARSE = 4  # and so is one with up to this many places for each pair
_MOST_PLACES = 2**31
_NOBODY: Ints = np.zeros(0, np.int64)


class PairTable:
    """Ids by key and lane, for keys of any id and lanes below `room`.

    >>> table = PairTable(3)
    >>> table.ids(np.array([0, 2, 0]), np.array([1, 2, 1]), lambda first: first + 10)
    array([10, 11, 10])
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._many = self._keys = 0  # pairs, and keys that there may be
        self._table: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._words: WordTable | None = None  # in place of the table
        self._id = _NOBODY  # of each word

    def __len__(self) -> int:
        return self._many

    def ids(self, key: Ints, lane: Ints, make: Callable[[Ints], Ints]) -> Ints:
        """The id of the pair of each event. `make` gives ids to new pairs, each told by one of its events."""
        if not len(key):
            return _NOBODY
        self._fit(int(key.max()) + 1)
        if self._words is not None:
            return self._hashed(key * self._room + lane, make)
        ids = np.empty(len(key), np.int64)
        if find_pairs(key, lane, self._room, self._table, ids):
            fresh = np.flatnonzero(ids < 0)
            words = key[fresh] * self._room + lane[fresh]
            new, first = np.unique(words, return_index=True)
            order = np.argsort(first)  # pairs are made in the order of their first events
            self._table[new[order]] = make(fresh[first[order]])
            ids[fresh] = self._table[words]
            self._many += len(new)
        return ids

    def _hashed(self, words: Ints, make: Callable[[Ints], Ints]) -> Ints:
        assert self._words is not None
        seen = self._words.encode(words, ALL_VALID)
        if len(self._words) > self._many:
            fresh = np.flatnonzero(seen >= self._many)
            _, first = np.unique(seen[fresh], return_index=True)
            self._id = np.concatenate([self._id, make(fresh[first])])
            self._many = len(self._words)
        return self._id[seen]

    def _fit(self, keys: int) -> None:
        """Find pairs in the way that is right for so many keys."""
        self._keys = max(self._keys, keys)
        if self._keys * self._room <= len(self._table):
            return
        affordable = min(max(_SMALL, _SPARSE * self._many), _MOST_PLACES)
        keys = self._keys + self._keys // 8
        if keys * self._room <= affordable:
            words, ids = self.pairs()
            self._table, self._words, self._id = np.full(keys * self._room, -1, np.int32), None, _NOBODY
            self._table[words] = ids
        elif self._words is None:
            words, self._id = self.pairs()
            self._words, self._table = WordTable(), np.zeros(0, np.int32)
            self._words.fill(words, -1)

    def pairs(self) -> tuple[Ints, Ints]:
        """All pairs: key * room + lane, and the id."""
        if self._words is not None:
            return self._words.words, self._id
        words = np.flatnonzero(self._table >= 0)
        return words, self._table[words].astype(np.int64)

    def renumbered(self, new_lane: Ints, room: int) -> PairTable:
        """The same pairs with other numbers of lanes; without those of lanes that are -1 now."""
        other = PairTable(room)
        if not self._many:
            return other
        words, ids = self.pairs()
        lane = new_lane[words % self._room]
        kept: Bools = lane >= 0
        other._words, other._id = WordTable(), ids[kept]
        other._words.fill((words // self._room * room + lane)[kept], -1)
        other._many, other._keys = len(other._id), self._keys
        return other

    def nbytes(self) -> int:
        return self._table.nbytes + self._id.nbytes + (0 if self._words is None else self._words.nbytes())
