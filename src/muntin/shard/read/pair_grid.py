"""A grid of the pairs of a store: a row for each key, a column for each lane, or for each band of a lane.

    lanes        fuel   food   rent
    account 0       0      1      .       pair 3 is that of account 1 and food: its place is row 1, column 1
    account 1       2      3      4

Where most keys have events in most lanes, what is known of pairs lies in such a grid without gaps: the place of a pair
does not change when others come, and rows are read from one end to the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Ints
from muntin.keys.key_dictionary import KeyDictionary
from muntin.shard.read.lane_order import PairPlaces
from muntin.store.columns import Columns

Places = npt.NDArray[np.int32]
_SPARSE = 8  # places that there may be for each pair
_SMALL = 1 << 16  # so many places are always affordable
_MOST_PLACES = 2**31 - 1


class PairGrid:
    """The places of pairs; `follow` takes O(pairs that are new) if rows and columns have room for them."""

    def __init__(self, pairs: PairPlaces):
        self._pairs = pairs
        kinds = [pa.int64()] * len(pairs.lanes_of(slice(0, 0)))
        self._columns = KeyDictionary(kinds)  # by the number of a lane, and the ends of a band
        self._known = Columns({"column": np.dtype(np.int32), "place": np.dtype(np.int32)})
        self._seen = 0  # the version of the pairs that are known
        self._has_waited = False  # whether a pair has no place though its key may be known by now
        self.version = 0  # changes whenever places do
        self.rows = self.room = 0  # for so many keys, and so many columns
        self.pair: Places = np.zeros(0, np.int32)  # by place; -1 where there is none

    @property
    def columns(self) -> int:
        """How many there are; they keep their numbers."""
        return len(self._columns)

    @property
    def keys(self) -> int:
        return self._pairs.keys

    @property
    def places(self) -> int:
        return self.rows * self.room

    @property
    def is_affordable(self) -> bool:
        return self.places <= min(max(_SMALL, _SPARSE * len(self._known)), _MOST_PLACES)

    @property
    def place(self) -> Places:
        """Of each pair; -1 if its key is not known yet."""
        return self._known["place"]

    def lanes_of_columns(self) -> list[Ints]:
        """The number of the lane of each column, and the ends of its band if there are bands."""
        return [np.asarray(each) for each in self._columns.take(np.arange(self.columns))]

    def follow(self) -> None:
        """Have places for all pairs that there are now."""
        pairs = self._pairs
        known, now = len(self._known), len(pairs.key_of)
        if self._seen == pairs.version and self.rows >= self.keys:
            return
        self._seen = pairs.version
        lanes = [pa.array(each) for each in pairs.lanes_of(slice(known, now))]
        column = self._columns.encode(lanes).astype(np.int32)
        self._known.extend({"column": column, "place": np.full(len(column), -1, np.int32)})
        was_room, was_rows = self.room, self.rows
        if self.columns > self.room:
            self.room = self.columns + self.columns // 8
        if self.keys > self.rows:
            self.rows = self.keys + self.keys // 8
        if not self.is_affordable:
            self.pair = np.zeros(0, np.int32)
            self.version += 1
            return
        has_moved = self.room != was_room or len(self.pair) != was_rows * was_room
        if has_moved or self._has_waited:
            self.version += 1
            self.pair = np.full(self.places, -1, np.int32)
            self._put(0)
        else:
            if self.rows > was_rows:
                more = np.full(self.places - len(self.pair), -1, np.int32)
                self.pair = np.concatenate([self.pair, more])
            self._put(known)
        self._has_waited = pairs.is_waiting

    def _put(self, first: int) -> None:
        """Put pairs from a number on in their places."""
        key, column = self._pairs.key_of[first:], self._known["column"][first:]
        place = np.where(key < 0, -1, key * self.room + column)
        self.place[first:] = place
        is_there = place >= 0
        self.pair[place[is_there]] = np.flatnonzero(is_there) + first

    def check(self) -> None:
        # each pair whose key is known is found at its place, and no other is in the grid
        if not self.is_affordable:
            return
        there = np.flatnonzero(self.place >= 0)
        assert np.array_equal(self.pair[self.place[there]], there)
        assert np.count_nonzero(self.pair >= 0) == len(there)
