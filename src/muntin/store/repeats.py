"""Repeats: how far the next entry with the same value is, so that the different values of any window are counted.

    run of a key   value   a   b   b   a   c   a       [2, 5) holds b a c, and none of them again before 5: 3 values
                   ahead   3   1   -   2   -   -       [1, 4) holds b b a: the first b comes again, 1 later: 2 values

A window inside another that ends where it does has been counted when that is. It is made when it is first read, and no
state: a checkpoint does not have it.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.repeats import NEVER, count_different, link_entries, link_runs, unlink_entries
from muntin.store.value_order import Pool

_SMALLEST = 64  # places of a table


class Repeats:
    """The repeats of one input, in the places of a pool, which says when entries come, move or go."""

    def __init__(self, pool: Pool):
        """O(entries)."""
        self.allocate(len(pool.at))
        self._link_all(pool)

    def allocate(self, capacity: int) -> None:
        """Have columns for a pool, without entries."""
        self.back, self.ahead = np.empty((2, capacity), np.int32)

    def _link_all(self, pool: Pool) -> None:
        """Have a table of what is there, half full at most; O(entries)."""
        many = int(pool.count.sum())
        places = max(_SMALLEST, 1 << (2 * many - 1).bit_length())
        self._table = np.full((places, 3), -1, np.int64)
        headers = (pool.start, pool.count, pool.left)
        self._used = link_runs(*headers, *self._entries(pool))

    def append(self, pool: Pool, key: Ints, place: Ints) -> None:
        """Entries have come; O(1) amortised each."""
        if 4 * (self._used + len(key)) > 3 * len(self._table):
            self._link_all(pool)
            return
        self._used += link_entries(key, place, pool.start, pool.left, *self._entries(pool))

    def take_back(self, pool: Pool, keys: Ints, instant: int) -> None:
        """The entries of some keys after an instant are about to go."""
        headers = (pool.at, pool.start, pool.count, pool.left)
        unlink_entries(keys, instant, *headers, *self._entries(pool))

    def count(self, pool: Pool, ids: Ints, lo: Ints, hi: Ints, sequence: Ints) -> Ints:
        """How many different values there are in the slots of some rows, which come by their ends, the longest first;
        O(entries / 8) for all rows that end together."""
        found = np.zeros(len(lo), np.int64)
        count_different(ids, lo, hi, sequence, pool.start, self.ahead, found)
        return found

    def _entries(self, pool: Pool) -> tuple[np.ndarray, ...]:
        bits = pool.value.view(np.int64)
        return pool.value, bits, pool.valid, self.back, self.ahead, self._table

    def nbytes(self) -> int:
        return self.back.nbytes + self.ahead.nbytes + self._table.nbytes

    def check(self, pool: Pool) -> None:
        """Assert that each entry knows the next one that is like it, and the one before it unless that has left."""
        for k in range(len(pool.start)):
            run = slice(pool.start[k], pool.start[k] + pool.count[k])
            seen: dict[object, int] = {}
            ahead = np.where(pool.valid[run], NEVER, 0)
            for i, (value, valid) in enumerate(zip(pool.value[run].tolist(), pool.valid[run], strict=True)):
                back = int(self.back[run][i])
                if not valid:
                    assert back == 0
                    continue
                last = seen.get("NaN" if value != value else value)
                assert back > i if last is None else back == i - last
                if last is not None:
                    ahead[last] = i - last
                seen["NaN" if value != value else value] = i
            assert np.array_equal(self.ahead[run], ahead)
