"""Repeats: how many entries ago each key had the same value, so that different values of any window are counted.

    run of a key   value   a   b   b   a   c   a       [2, 5) holds b a c, none of which has a gap that stays inside:
                   gap     -   -   1   3   -   2       3 different values; of [1, 4) the second b has, so there are 2

A gap never changes once its entry is there, wherever the window lies. It is made when it is first read, and no state: a
checkpoint does not have it.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.repeats import count_different, link_entries, link_runs, unlink_entries
from muntin.store.value_order import Pool

_SMALLEST = 64  # places of a table


class Repeats:
    """The gaps of one input, in the places of a pool, which says when entries come, move or go."""

    def __init__(self, pool: Pool):
        """O(entries)."""
        self.gap = np.empty(len(pool.at), np.int32)
        self._link_all(pool)

    def _link_all(self, pool: Pool) -> None:
        """Have a table of what is there, half full at most; O(entries)."""
        many = int(pool.count.sum())
        places = max(_SMALLEST, 1 << (2 * many - 1).bit_length())
        self._table = np.full((places, 3), -1, np.int64)
        self._used = link_runs(pool.start, pool.count, pool.left, *_values(pool), self.gap, self._table)

    def append(self, pool: Pool, key: Ints, place: Ints) -> None:
        """Entries have come; O(1) amortised each."""
        if 4 * (self._used + len(key)) > 3 * len(self._table):
            self._link_all(pool)
            return
        self._used += link_entries(key, place, pool.start, pool.left, *_values(pool), self.gap, self._table)

    def take_back(self, pool: Pool, keys: Ints, instant: int) -> None:
        """The entries of some keys after an instant are about to go."""
        headers = (pool.at, pool.start, pool.count, pool.left)
        unlink_entries(keys, instant, *headers, *_values(pool), self.gap, self._table)

    def count(self, pool: Pool, keys: Ints, lo: Ints, hi: Ints) -> Ints:
        """How many different values there are in each slot; O(entries / 8)."""
        found = np.zeros(len(keys), np.int64)
        count_different(keys, lo, hi, pool.start, self.gap, found)
        return found

    def nbytes(self) -> int:
        return self.gap.nbytes + self._table.nbytes

    def check(self, pool: Pool) -> None:
        """Assert that each entry knows the one before it that is like it, unless that has left."""
        for k in range(len(pool.start)):
            seen: dict[object, int] = {}
            for i in range(int(pool.count[k])):
                p = int(pool.start[k]) + i
                value = pool.value[p].item()
                value = "nan" if value != value else value
                if not pool.valid[p]:
                    assert self.gap[p] == 0
                    continue
                last = seen.get(value)
                assert self.gap[p] > i if last is None else self.gap[p] == i - last
                seen[value] = i


def _values(pool: Pool) -> tuple[np.ndarray, Ints, np.ndarray]:
    return pool.value, pool.value.view(np.int64), pool.valid
