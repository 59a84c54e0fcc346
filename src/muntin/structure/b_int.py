"""B-INT: keep the partial of every dyadic run, answer a run from the few that make it up.

| | |
|---|---|
| Full name | B-INT (base intervals) |
| Answers | every component, over any run of elements |
| Insert | O(1) amortised: less than one combine per element |
| Lookup | O(log W): at most max(1, 2 floor(log2 W)) partials for a run of W elements |
| Space | less than 2 partials per element remembered (rings: up to twice that, four times after a burst) |
| Shares | the partials, among all windows, suffix or historical |
| Reference | Arasu & Widom, VLDB 2004, section 3.1.1, Definition 3.1 and Figure 3 |

Interval `q` of level `j` covers elements `[q 2^j, (q + 1) 2^j)`. It is made of two of the level below
as soon as its last element is here, and each level is a ring:

    level 2   [ 3 1 4 1     | 5 9 2 6     ]
    level 1   [ 3 1  | 4 1  | 5 9  | 2 6  | 5 3  ]        max of [1, 9): levels 0, 1, 2, 0
    level 0   [ 3 | 1 | 4 | 1 | 5 | 9 | 2 | 6 | 5 | 3 ]     -> 1, 4, 9, 5 -> 9

A look-up goes from left to right, each time with the longest interval that begins there and fits, so
components that depend on order are as good as others. That gives the fewest intervals: the paper's
Example 3.1 has 8 of them for (1, 43), here there are 4. Elements are numbered from 0 here, from 1
in the paper; the intervals are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregates.component import COMPONENTS, Component, cells_of
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels import b_int as kernels
from muntin.kernels.combine import SMALLEST, as_words, ring_capacity
from muntin.structure.intervals import Intervals, not_remembered


class BInt(Intervals):
    """
    >>> greatest = BInt(COMPONENTS["max"], np.dtype(np.int64))
    >>> greatest.extend((np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3]),))
    >>> greatest.query(np.array([1, 6]), np.array([9, 10]))
    (array([9, 6]),)
    >>> greatest.reads  # 4 intervals for [1, 9), 2 for [6, 10)
    6
    """

    name = "b_int"
    components = COMPONENTS.keys()

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        super().__init__(component, dtype, first)
        self.combines = 0  # made by updates so far
        self.reads = 0  # partials that look-ups have combined so far
        # level j is a ring of capacity >> j cells; all lie one after the other in one set of arrays
        self._capacity = SMALLEST
        self._cells = self._new_cells(SMALLEST)
        self._point = kernels.query_point(type(self._cells))

    def extend(self, lifted: Partial) -> None:
        """O(1) amortised per element; O(log n) for one that completes many levels."""
        count = len(lifted[0])
        self._resize(self.end + count - self.first)
        arrays = tuple(np.require(array, requirements=["C", "W"]) for array in lifted)
        self.combines += kernels.extend(self._cells, self._capacity, self.end, arrays)
        self.end += count

    def forget(self, first: int) -> None:
        """O(1) amortised per element."""
        self.first = min(max(first, self.first), self.end)
        self._resize(self.end - self.first)

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(log W) for a run of W elements."""
        lo, hi = (np.require(array, np.int64, ["C", "W"]) for array in (lo, hi))
        out = self.component.start(self.dtype, len(lo))
        read = kernels.query(self._cells, self._capacity, self.first, self.end, lo, hi, out)
        if read < 0:
            raise not_remembered(self.first, self.end, lo, hi, ~read)
        self.reads += read
        return out

    def point(self, lo: int, hi: int) -> tuple[Any, ...]:
        if lo < self.first or hi > self.end or hi <= lo:
            return super().point(lo, hi)  # the error, or the identity
        partial, read = self._point(self._capacity, lo, hi, *self._cells)
        self.reads += read
        found: tuple[Any, ...] = partial
        return found

    def active(self) -> tuple[Ints, Ints, Partial]:
        """Every interval within what is remembered: start, end and partial, level by level; O(n)."""
        starts, ends, cells = [], [], []
        for level in range(self._capacity.bit_length()):
            slots = self._capacity >> level
            intervals = np.arange(-(-self.first >> level), self.end >> level)
            starts.append(intervals << level)
            ends.append(intervals + 1 << level)
            cells.append(2 * (self._capacity - slots) + (intervals & (slots - 1)))
        cell = np.concatenate(cells)
        return np.concatenate(starts), np.concatenate(ends), tuple(array[cell] for array in self._cells)

    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._cells)

    def check(self) -> None:
        # everything remembered is in the ring of level 0, whose capacity is a power of 2
        assert 0 <= self.end - self.first <= self._capacity
        assert self._capacity & (self._capacity - 1) == 0
        # the rings are not much larger than what they hold
        assert self._capacity <= max(SMALLEST, 4 * (self.end - self.first))
        # every interval is what its elements combine to, in the same order
        start, stop, partial = self.active()
        again = BInt(self.component, self.dtype, self.first)
        again.extend(tuple(array[: self.end - self.first] for array in partial))
        start_again, stop_again, partial_again = again.active()
        for one, other in zip(
            (start, stop, *partial), (start_again, stop_again, *partial_again), strict=True
        ):
            np.testing.assert_array_equal(one, other)

    def _new_cells(self, capacity: int) -> Partial:
        arrays = self.component.start(self.dtype, 2 * capacity)
        cells: Partial = cells_of(self.component.name, self.dtype, arrays)
        return cells

    def _resize(self, needed: int) -> None:
        """Make the rings fit `needed` elements; O(n) when they change."""
        capacity = ring_capacity(self._capacity, needed)
        if capacity != self._capacity:
            cells = self._new_cells(capacity)
            old, new = as_words(self._cells), as_words(cells)
            kernels.resize(old, self._capacity, new, capacity, self.first, self.end)
            self._cells, self._capacity = cells, capacity
