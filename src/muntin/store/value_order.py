"""Value order: the entries of each run in the order of their values, so that quantiles of any window are counted.

    run of a key   number   0   1   2   3   4      in order   2   4   0   3   1     of [1, 4) there are 2 3 1 in it:
                   value    5   9   1   7   3                                       the median is entry 3, a 7

Equal values are side by side, so that the most frequent one of a window is found by one pass.

What a look-up finds in order stays there: the next one, of a window that has moved on a little, sorts what is new in.
Nested windows and all phi have the order in common. It is made when it is first read, and no state: a checkpoint does
not have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregates.contract import Array, Partial
from muntin.arrays import Bools, Ints
from muntin.kernels.value_order import (
    FIRST,
    HOME,
    LAST,
    ORIGIN,
    SIZE,
    arrange_order,
    pick_longest,
    pick_ranks,
    take_back_order,
)


class Pool(NamedTuple):
    """The runs of all keys, as `kernels/key_runs.py` explains them, and the values of one input."""

    start: Ints
    entries: Ints  # of each key
    left: Ints
    at: Ints
    value: Array
    valid: Bools


class Order(NamedTuple):
    """In which order the rows of all windows are read for what is kept from one to the next."""

    sequence: Ints
    oldest: Ints  # of each row: when it, or one that comes later, may begin
    entries: int = 0  # or how many entries of a key it may have

    @classmethod
    def by_time(cls, begins: Ints, ends: Ints, reach: int) -> Order:
        """By their ends, the longest first; no window goes back further than `reach`."""
        return cls(np.lexsort((begins, ends)), ends - reach)


class Ranks(NamedTuple):
    """Which phi are wanted of some windows. A window has a row of slots, by key, for each instant."""

    many: Sequence[int]  # rows of each window
    phis: Sequence[Sequence[Fraction]]  # of each window, ascending
    sequence: Ints  # the rows by their ends, the longest first
    oldest: Ints  # of each row: what is wanted later is no older
    entries: int = 0  # or among so many entries; 0: time decides


class ValueOrder:
    """The order of one input. It belongs to the runs of a pool, which say when entries move or go."""

    def __init__(self, capacity: int, dtype: np.dtype[Any]):
        self._order = np.empty(capacity, np.int32)
        self._ascending = np.empty(capacity, dtype)
        self._held = np.zeros((0, 6), np.int64)

    def arrange(self, capacity: int, start: Ints, left: Ints) -> None:
        """The runs lie in another pool; O(entries in order)."""
        order, ascending = np.empty(capacity, np.int32), np.empty(capacity, self._ascending.dtype)
        arrange_order(self._order, self._ascending, order, ascending, self._held, start, left)
        self._order, self._ascending = order, ascending

    def take_back(self, keys: Ints, left: Ints, count: Ints) -> None:
        """Some keys have fewer entries than before; O(entries of those)."""
        take_back_order(keys, self._order, self._ascending, self._held, left, count)

    def pick(self, pool: Pool, ids: Ints, lo: Ints, hi: Ints, ranks: Ranks) -> list[list[Partial]]:
        """For each window and each of its phi the partial of all rows: values, and among how many each was picked.

        O(entries of the longest window / 8) for a slot, and O(log entries) for each entry that is new in order.
        """
        self._know_all(pool)
        wanted = [len(each) for each in ranks.phis]
        offset = np.concatenate([[0], np.cumsum(np.repeat(wanted, ranks.many))])
        flat = [
            phi.as_integer_ratio()
            for many, phis in zip(ranks.many, ranks.phis, strict=True)
            for phi in [*phis] * many
        ]
        numerator, denominator = np.array(flat, np.int64).T.copy()
        picked = np.zeros((len(flat), len(ids)), pool.value.dtype)
        counted = np.zeros((len(flat), len(ids)), np.int64)
        pick_ranks(
            ids, lo, hi, ranks.sequence, ranks.oldest, ranks.entries, *pool, *self._arrays(pool, ids),
            offset, numerator, denominator, picked.ravel(), counted.ravel(),
        )  # fmt: skip
        found: list[list[Partial]] = []
        first = 0
        for many, width in zip(ranks.many, wanted, strict=True):
            rows = slice(first, first + many * width)
            values, counts = (each[rows].reshape(many, width, len(ids)) for each in (picked, counted))
            found.append([(values[:, each].ravel(), counts[:, each].ravel()) for each in range(width)])
            first += many * width
        return found

    def pick_modes(self, pool: Pool, ids: Ints, lo: Ints, hi: Ints, order: Order, rank: Ints) -> Partial:
        """The partial of the rows that are named: the most frequent value of each slot, and of how many it was picked.
        Of several it is the least, or the one of the least `rank`, if values are codes that have one.

        O(entries in order) for a slot, and O(log entries) for each entry that is new in order.
        """
        self._know_all(pool)
        picked, counted = np.zeros(len(lo), pool.value.dtype), np.zeros(len(lo), np.int64)
        pick_longest(ids, lo, hi, *order, *pool, *self._arrays(pool, ids), rank, picked, counted)
        return picked, counted

    def _know_all(self, pool: Pool) -> None:
        """Have a row for each key."""
        if len(self._held) < len(pool.start):
            more = np.zeros((len(pool.start) - len(self._held), 6), np.int64)
            self._held = np.concatenate([self._held, more])

    def _arrays(self, pool: Pool, ids: Ints) -> tuple[Array, ...]:
        """What is in order, and room to sort the entries of a key."""
        most = int(pool.entries[ids].max(initial=0))
        some_value, some_number = np.empty((2, most), pool.value.dtype), np.empty((2, most), np.int64)
        return self._order, self._ascending, self._held, some_value, some_number

    def nbytes(self) -> int:
        return self._order.nbytes + self._ascending.nbytes + self._held.nbytes

    def check(self, pool: Pool) -> None:
        """Assert that what is said to be in order is."""
        for k, row in enumerate(self._held.tolist()):
            place = slice(row[HOME], row[HOME] + row[SIZE])
            number = self._order[place].astype(np.int64) + row[ORIGIN]
            is_here = number >= pool.left[k]  # the others go when they are next looked at
            number = number[is_here]
            first = max(row[FIRST], int(pool.left[k]))
            assert not len(number) or row[LAST] <= pool.left[k] + pool.entries[k]
            known = np.arange(first, row[LAST]) if row[SIZE] else np.zeros(0, np.int64)
            at = known + pool.start[k] - pool.left[k]
            value = pool.value[at]
            counts = pool.valid[at] & (value == value)
            by_value = np.argsort(value[counts], kind="stable")
            assert np.array_equal(number, known[counts][by_value])
            assert self._ascending[place][is_here].tobytes() == value[counts][by_value].tobytes()
