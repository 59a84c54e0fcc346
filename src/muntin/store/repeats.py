"""Repeats: how far the next entry with the same value is, so that the different values of any window are counted.

    run of a key   value   a   b   b   a   c   a       [2, 5) holds b a c, and none of them again before 5: 3 values
                   ahead   3   1   -   2   -   -       [1, 4) holds b b a: the first b comes again, 1 later: 2 values

A window inside another that ends where it does has been counted when that is. It is made when it is first read, and no
state: a checkpoint does not have it.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.repeats import (
    NEVER,
    count_different,
    count_kept,
    keep_rows,
    link_entries,
    link_runs,
    unlink_entries,
)
from muntin.store.value_order import Pool

_SMALLEST = 64  # places of a table
_PART = 1 << 16  # entries that are linked together


class Repeats:
    """The repeats of one input, in the places of a pool, which says when entries come, move or go."""

    def __init__(self, pool: Pool):
        """O(entries)."""
        self.allocate(len(pool.at))
        self._link_all(pool)

    def allocate(self, capacity: int) -> None:
        """Have columns for a pool, without entries."""
        self.ahead = np.empty(capacity, np.int32)

    def _link_all(self, pool: Pool) -> None:
        self._table, self._used = np.full((_SMALLEST, 2), -1, np.int64), 0
        # in parts: how many values are different, and how large the table, is not known before
        seen = np.concatenate([[0], np.cumsum(pool.entries)])
        first = 0
        while first < len(pool.start):
            last = max(first + 1, int(np.searchsorted(seen, seen[first] + _PART, "right")) - 1)
            self._make_room(pool, int(seen[last] - seen[first]))
            headers = (pool.start, pool.entries, pool.left)
            self._used += link_runs(first, last, *headers, *self._entries(pool))
            first = last

    def _make_room(self, pool: Pool, coming: int) -> None:
        """Have room in the table for that many values more; what has left goes first. O(1) amortised."""
        if 4 * (self._used + coming) <= 3 * len(self._table):
            return
        self._used = count_kept(self._table, pool.left)
        places = max(_SMALLEST, 1 << (2 * (self._used + coming) - 1).bit_length())
        table = np.full((places, 2), -1, np.int64)
        keep_rows(self._table, pool.start, pool.left, pool.value, pool.value.view(np.int64), table)
        self._table = table

    def append(self, pool: Pool, key: Ints, place: Ints) -> None:
        """Entries have come; O(1) amortised each."""
        self._make_room(pool, len(key))
        self._used += link_entries(key, place, pool.start, pool.left, *self._entries(pool))

    def take_back(self, pool: Pool, keys: Ints, instant: int) -> None:
        """The entries of some keys after an instant are about to go."""
        headers = (pool.at, pool.start, pool.entries, pool.left)
        self._used += unlink_entries(keys, instant, *headers, *self._entries(pool))

    def count(self, pool: Pool, ids: Ints, lo: Ints, hi: Ints, sequence: Ints) -> Ints:
        """How many different values there are in the slots of some rows, which come by their ends, the longest first;
        O(entries / 8) for all rows that end together."""
        found = np.zeros(len(lo), np.int64)
        count_different(ids, lo, hi, sequence, pool.start, pool.entries, self.ahead, found)
        return found

    def _entries(self, pool: Pool) -> tuple[np.ndarray, ...]:
        bits = pool.value.view(np.int64)
        return pool.value, bits, pool.valid, self.ahead, self._table

    def nbytes(self) -> int:
        return self.ahead.nbytes + self._table.nbytes

    def check(self, pool: Pool) -> None:
        """Assert that each entry knows the next one that is like it."""
        for k in range(len(pool.start)):
            run = slice(pool.start[k], pool.start[k] + pool.entries[k])
            seen: dict[object, int] = {}
            ahead = np.where(pool.valid[run], NEVER, 0)
            for i in np.flatnonzero(pool.valid[run]).tolist():
                value = pool.value[run][i].item()
                value = "NaN" if value != value else value
                if value in seen:
                    ahead[seen[value]] = i - seen[value]
                seen[value] = i
            assert np.array_equal(self.ahead[run], ahead)
