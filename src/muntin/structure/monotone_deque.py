"""monotone_deque: keep the elements that no later one beats, answer suffixes by binary search.

| | |
|---|---|
| Full name | monotone deque of suffix extremes, one for all windows (the non-invertible half of SlickDeque) |
| Answers | MIN and MAX over suffixes: runs that end with the newest element |
| Insert | O(1) amortised per element |
| Lookup | O(log d) for a deque of d elements: about ln n if values come in random order, at most n |
| Space | n values, so that it can be rewound, and d numbers |
| Shares | the deque, among all suffix windows |
| Reference | Shein, Chrysanthis & Labrinidis, EDBT 2018 (SlickDeque), the non-invertible case |

For MAX an element matters only until one comes that is at least as great. What is left descends, and
its first element at or after `lo` is the greatest of `[lo, end)`:

    element     0   1   2   3   4   5   6   7   8   9
    value       3   1   4   1   5   9   2   6   5   3
    deque                           9       6   5   3     [6, 10) -> 6, [2, 10) -> 9

A batch is scanned from its end: only its own records can enter the deque, and its greatest decides by
binary search who leaves.
"""

from __future__ import annotations

import numpy as np

from muntin.aggregates.component import Component
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels import monotone_deque as kernels
from muntin.store.columns import Columns
from muntin.structure.intervals import Intervals, check_rewind


class MonotoneDeque(Intervals):
    """Suffix extremes. Asking for a run that ends earlier is an error: what it needs may be gone.

    >>> from muntin.aggregates.component import COMPONENTS
    >>> greatest = MonotoneDeque(COMPONENTS["max"], np.dtype(np.int64))
    >>> greatest.extend((np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3]),))
    >>> greatest.extremes()
    array([5, 7, 8, 9])
    >>> greatest.query(np.array([6, 2]), np.array([10, 10]))
    (array([6, 9]),)
    """

    name = "monotone_deque"
    components = frozenset({"min", "max"})

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        super().__init__(component, dtype, first)
        if component.name not in self.components:
            raise ValueError(f"a monotone deque serves min and max, not {component.name}")
        self._is_max = component.name == "max"
        self._values = Columns({"value": component.identity(dtype)[0][0]})
        self._values.dropped = first
        self._extremes = Columns({"number": np.dtype(np.int64)})  # ascending; their values descend

    def extend(self, lifted: Partial) -> None:
        """O(1) amortised per element."""
        count = len(lifted[0])
        if count:
            self._values.extend({"value": lifted[0]})
            self.end += count
            self._admit(self.end - count)

    def rewind(self, end: int) -> None:
        """O(d + elements from the last extreme left to `end`): about as many as are taken back, if in
        random order."""
        check_rewind(self.first, self.end, end)
        self.end = end
        self._values.truncate(end - self.first)
        # An extreme that is left beat all that came later, so what it beat before is no extreme now.
        # Only after the last of them there may be some that were beaten by what is taken back.
        self._extremes.truncate(int(np.searchsorted(self.extremes(), end)))
        left = self.extremes()
        start = int(left[-1]) + 1 if len(left) else self.first
        if start < end:
            self._admit(start)

    def forget(self, first: int) -> None:
        """O(log d), and O(1) amortised per element."""
        first = min(first, self.end)
        if first > self.first:
            self._values.drop_first(first - self.first)
            self._extremes.drop_first(int(np.searchsorted(self.extremes(), first)))
            self.first = first

    def can_answer(self, lo: Ints, hi: Ints) -> bool:
        """Whether all runs are suffixes, or empty."""
        return bool(np.all((hi == self.end) | (hi <= lo)))

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(log d) per run; ValueError if one does not end at `end`."""
        lo, hi = (np.require(array, np.int64, ["C", "W"]) for array in (lo, hi))
        (out,) = self.component.start(self.dtype, len(lo))
        wrong = kernels.query(self._values["value"], self.first, self.end, self.extremes(), lo, hi, out)
        if wrong < 0:
            run = f"[{lo[~wrong]}, {hi[~wrong]})"
            raise ValueError(
                f"{run} is asked for; a monotone deque answers only suffixes of [{self.first}, {self.end})"
            )
        return (out,)

    def extremes(self) -> Ints:
        """Numbers of the elements in the deque, oldest first."""
        return self._extremes["number"]

    def nbytes(self) -> int:
        return self._values.nbytes() + self._extremes.nbytes()

    def check(self) -> None:
        self._values.check()
        self._extremes.check()
        # all values remembered are there
        assert self._values.dropped == self.first
        assert len(self._values) == self.end - self.first
        # the deque has exactly the elements that beat every later one
        found = np.empty(len(self._values), np.int64)
        count = 0
        if len(found):
            value = self._values["value"]
            count = kernels.find_extremes(value, self.first, 0, len(found), self._is_max, found)
        np.testing.assert_array_equal(self.extremes(), found[len(found) - count :])

    def _admit(self, start: int) -> None:
        """Let the elements from `start` on into the deque, and out of it those they beat."""
        value = self._values["value"]
        found = np.empty(self.end - start, np.int64)
        count = kernels.find_extremes(
            value, self.first, start - self.first, self.end - self.first, self._is_max, found
        )
        found = found[len(found) - count :]
        best = value[found[0] - self.first]
        self._extremes.truncate(kernels.count_beating(value, self.first, self.extremes(), best, self._is_max))
        self._extremes.extend({"number": found})
