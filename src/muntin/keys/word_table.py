"""A word table: ids of int64 words in order of first appearance, at any number of words.

While the words span a small range, ids are found directly by value, otherwise by hash. Which of the two
it is shows in nothing but the speed. The loops are in `kernels/word_table.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muntin.arrays import Bools, Ints
from muntin.kernels.word_table import (
    bounds_of,
    encode_direct,
    encode_hashed,
    fill_direct,
    fill_hashed,
    find_direct,
    find_hashed,
)
from muntin.keys.table_room import (
    SALT,
    empty_table,
    enlarged,
    more_room,
    places_for,
    read_only,
    renumbered,
    room_in,
)
from muntin.store.words import ALL_VALID

_NARROW = 2**20  # a span this small is always addressed directly: 4 MB at most
_SPARSE = 4  # and so is one of up to this many times the ids
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_NO_WORDS: Ints = np.zeros(0, np.int64)


class WordTable:
    """Ids of words; NULL has one like any word. `find` and `encode` take O(rows), `retain` O(ids).

    >>> table = WordTable()
    >>> table.encode(np.array([7, -3, 7]), ALL_VALID), table.find(np.array([-3, 0]), ALL_VALID)
    (array([0, 1, 0]), array([ 1, -1]))
    """

    def __init__(self, salt: npt.NDArray[np.uint64] = SALT) -> None:
        self.null_id = -1
        self._salt = salt
        self._count = 0
        self._words = _NO_WORDS  # by id; its length is how many there is room for
        self._base = 0
        # int32 is enough: 2**31 ids would need 70 GB. None: ids are found by hash
        self._direct: npt.NDArray[np.int32] | None = np.zeros(0, np.int32)
        self._table, self._mix = _NO_WORDS, salt

    def __len__(self) -> int:
        return self._count

    @property
    def words(self) -> Ints:
        """The word of each id, 0 for NULL; a view that stays as it is while more come."""
        return self._words[: self._count]

    @property
    def is_direct(self) -> bool:
        return self._direct is not None

    def encode(self, word: Ints, valid: Bools) -> Ints:
        """The id of each row; new words get the next ids."""
        word, valid = read_only(word), read_only(valid)
        ids = np.empty(len(word), np.int64)
        before, done = self._count, 0
        while done < len(word):
            if self._direct is not None:
                done, self._count, self.null_id = encode_direct(
                    word, valid, self._direct, self._base, self._words, self._count, self.null_id, ids, done
                )
            else:
                done, self._count, self.null_id = encode_hashed(
                    word, valid, self._table, self._mix, self._words, self._count, self.null_id, ids, done
                )
            if done < len(word):
                room = more_room(self._count, self._count - before, done, len(word))
                self._make_room(room, word[done:], valid[done:])
        return ids

    def find(self, word: Ints, valid: Bools, into: Ints | None = None) -> Ints:
        """Ids of known words, -1 for unknown ones; in an array of their own or in one that is given."""
        word, valid = read_only(word), read_only(valid)
        ids = np.empty(len(word), np.int64) if into is None else into
        if self._direct is not None:
            find_direct(word, valid, self._direct, self._base, self.null_id, ids)
        else:
            find_hashed(word, valid, self._table, self._mix, self.null_id, ids)
        return ids

    def find_one(self, word: int) -> int:
        """The id of one word, -1 if it is unknown; without arrays where ids are addressed directly."""
        if self._direct is None:
            return int(self.find(np.array([word], np.int64), ALL_VALID)[0])
        place = word - self._base
        return int(self._direct[place]) if 0 <= place < len(self._direct) else -1

    def retain(self, kept: Bools) -> Ints:
        """Forget ids that are not kept; the others move up, in order. The new id of each, -1 if gone."""
        new_id = renumbered(kept)
        null_id = int(new_id[self.null_id]) if self.null_id >= 0 else -1
        self.fill(self.words[kept], null_id)
        return new_id

    def fill(self, words: Ints, null_id: int) -> None:
        """Have these words, by id, in place of all that are here."""
        self._count, self.null_id = len(words), null_id
        self._words = words.copy()
        self._direct, self._base = np.zeros(0, np.int32), 0
        self._index(read_only(_NO_WORDS), ALL_VALID)

    def nbytes(self) -> int:
        direct = 0 if self._direct is None else self._direct.nbytes
        return self._words.nbytes + self._table.nbytes + direct

    def check(self) -> None:
        # every word is found again, under one id only
        valid = np.arange(self._count) != self.null_id
        ids = self.find(self.words, ALL_VALID)
        assert np.array_equal(ids[valid], np.flatnonzero(valid))
        # a table by hash has free places, so that every search ends
        assert self._direct is not None or len(self._words) <= room_in(len(self._table) // 2)
        assert self.null_id < self._count <= len(self._words)

    def _make_room(self, room: int, word: Ints, valid: Bools) -> None:
        """These rows are still to come: there is no room for another id, or a word is out of range."""
        if self._count == len(self._words):
            self._words = enlarged(self._words, max(room, room_in(places_for(0))))
            if self._direct is not None and len(self._direct):
                return
        self._index(word, valid)

    def _index(self, word: Ints, valid: Bools) -> None:
        """Make what finds the ids anew: of all words here, fit for rows still to come; O(both)."""
        known = ALL_VALID if self.null_id < 0 else read_only(np.arange(self._count) != self.null_id)
        low, high = bounds_of(read_only(self.words), known, *bounds_of(word, valid, _GREATEST, _LEAST))
        if high - low < max(_NARROW, _SPARSE * self._count):
            self._address_directly(low, high)
            return
        places = places_for(len(self._words))
        self._words = enlarged(self._words, room_in(places))
        self._direct = None
        self._table, self._mix = empty_table(places, self._salt)
        fill_hashed(self.words, self.null_id, self._table, self._mix)

    def _address_directly(self, low: int, high: int) -> None:
        span = max(high - low + 1, 0)
        if self._direct is not None and len(self._direct):
            # a range that has grown may grow on: leave room on the side where it did
            if low < self._base:
                low = max(low - span // 2, _LEAST)
            if high >= self._base + len(self._direct):
                high = min(high + span // 2, _GREATEST)
        self._base = low
        self._direct = np.full(max(high - low + 1, 0), -1, np.int32)
        self._table = _NO_WORDS
        fill_direct(self.words, self.null_id, self._direct, low)
