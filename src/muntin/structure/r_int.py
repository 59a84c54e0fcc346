"""R-INT: keep running prefixes, answer a run by subtracting two of them.

| | |
|---|---|
| Full name | R-INT (running intervals) |
| Answers | COUNT, SUM of integers (and AVG from both), FIRST, LAST, over any run of elements |
| Insert | O(1) per element |
| Lookup | O(1): two reads and a subtraction |
| Space | n + 1 prefixes for n elements remembered (rings: up to twice that, four times after a burst) |
| Shares | the prefixes, among all windows, suffix or historical |
| Reference | Arasu & Widom, VLDB 2004, section 3.2 and Figure 6 |

A run `[lo, hi)` is the prefix of `hi` minus the prefix of `lo`:

    element      0   1   2   3   4
    value        3   1   4   1   5
    prefix   0   3   4   8   9  14       [1, 4) -> 9 - 3 = 6

* Exact for ever: a prefix sum is kept in 128 bits, so an answer is right if it fits 64 bits, whatever
  the prefixes did, and its float shadow tells if it does not.
* n elements need n + 1 prefixes: the one *before* the first element counts (section 5 of the paper
  speaks of an array of Nmax values, one too few).
* FIRST and LAST subtract positions instead of values: the prefix counts the elements that hold a
  value, which lie in a list of their own. They must come in order of time.
* Sums of floats and m2 are not served, though the paper has them: a subtraction leaves a trace of
  what has left the window (1e16 rounds its neighbours away, NaN never goes). B-INT serves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.aggregates.component import COMPONENTS, Component, Those
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels import r_int as kernels
from muntin.kernels.combine import SMALLEST, ring_capacity
from muntin.structure.intervals import Intervals, not_remembered

# Sums need more bits than their partials have, and ends go by position. All else goes by its rule for subtraction.
_KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (kernels.extend_sum, kernels.query_sum),
    "first": (kernels.extend_ends, kernels.query_first),
    "last": (kernels.extend_ends, kernels.query_last),
}
_WRAPS = 2**63  # a total beyond has wrapped


class RInt(Intervals):
    """
    >>> sums = RInt(COMPONENTS["sum"], np.dtype(np.int64))
    >>> sums.extend((np.array([3, 1, 4, 1, 5]), np.array([3.0, 1.0, 4.0, 1.0, 5.0])))
    >>> sums.query(np.array([1, 0, 2]), np.array([4, 5, 2]))
    (array([ 6, 14,  0]), array([ 6., 14.,  0.]))
    """

    name = "r_int"
    components = Those(lambda each: each.name in _KERNELS or _is_plain(each))

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        super().__init__(component, dtype, first)
        if not self.serves(component.name, dtype):
            raise ValueError(
                f"R-INT cannot serve {component.name} of {dtype}: subtraction would not be exact"
            )
        kind = component.kind(dtype)
        self._extend, self._query = _KERNELS.get(component.name) or (
            kernels.extend_prefix(kind),
            kernels.query_prefix(kind),
        )
        self._is_sum, self._is_last = component.name == "sum", component.name == "last"
        self._is_count = component.name == "count"
        # The prefix of number i lies at i % capacity: for sums its total and wraps, for FIRST and LAST
        # how many elements below i hold a value. That of `first`, over nothing, is there at the start.
        if component.name in _KERNELS:
            self._hold(np.zeros((SMALLEST, 2) if self._is_sum else SMALLEST, np.int64))
        else:
            self._hold(component.start(dtype, SMALLEST)[0])
            self._subtract = kind.subtract
        # FIRST and LAST: the list of values and their times; value number v lies at v % capacity
        self._values: Partial = component.start(dtype, SMALLEST) if component.keeps_a_value else ()

    @classmethod
    def serves(cls, component: str, dtype: np.dtype) -> bool:
        """Whether subtraction is exact for a component of values of `dtype`."""
        return component in cls.components and (
            COMPONENTS[component].keeps_a_value or COMPONENTS[component].subtracts(dtype)
        )

    def extend(self, lifted: Partial) -> None:
        """O(1) per element: one addition."""
        count = len(lifted[0])
        self._resize(self.end + count)
        arrays = (np.require(array, requirements=["C", "W"]) for array in lifted)
        self._extend(self._prefix, *self._values, self.end, *arrays)
        self.end += count

    def forget(self, first: int) -> None:
        """O(1) amortised per element."""
        self.first = min(max(first, self.first), self.end)
        self._resize(self.end)

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(1) per run: two reads."""
        lo, hi = (np.require(array, np.int64, ["C", "W"]) for array in (lo, hi))
        out = self.component.start(self.dtype, len(lo))
        wrong = self._query(self._prefix, *self._values, self.first, self.end, lo, hi, *out)
        if wrong < 0:
            raise not_remembered(self.first, self.end, lo, hi, ~wrong)
        return out

    def point(self, lo: int, hi: int) -> tuple[Any, ...]:
        """O(1). Python's own integers: four reads cost less than calling a kernel."""
        if lo < self.first or hi > self.end or hi <= lo:
            return super().point(lo, hi)  # the error, or the identity
        prefix, mask = self._numbers, self._mask
        if self._is_sum:
            above, below = 2 * (hi & mask), 2 * (lo & mask)
            total = prefix[above] - prefix[below]
            if wraps := prefix[above + 1] - prefix[below + 1]:
                total += wraps << 64
            return (total, float(total)) if -_WRAPS <= total < _WRAPS else super().point(lo, hi)
        before, after = prefix[lo & mask], prefix[hi & mask]
        if self._is_count:  # every look-up asks for one: the rule would cost it a twentieth of its time
            return (after - before,)
        if not self._values:
            (left,) = self._subtract((after,), (before,))
            return (left,) if -_WRAPS <= left < _WRAPS else super().point(lo, hi)
        if before == after:
            return super().point(lo, hi)  # the identity
        v = (after - 1 if self._is_last else before) & mask
        return tuple(array.data[v] for array in self._values)

    def prefixes(self) -> npt.NDArray[np.int64]:
        """The prefixes of `first` to `end`, for a closer look; sums: (total, wraps)."""
        prefixes: npt.NDArray[np.int64] = self._prefix[_slots(self.first, self.end + 1, len(self._prefix))]
        return prefixes

    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._prefix, *self._values))

    def check(self) -> None:
        # n elements have n + 1 prefixes, all in the ring; its capacity is a power of 2
        capacity = len(self._prefix)
        assert self.first <= self.end
        assert self.end - self.first + 1 <= capacity
        assert capacity & (capacity - 1) == 0
        # the ring is not much larger than what it holds
        assert capacity <= max(SMALLEST, 4 * (self.end - self.first + 1))
        steps = np.diff(self.prefixes(), axis=0)
        # a count never falls
        assert self.component.name != "count" or bool(np.all(steps >= 0))
        # an element holds one value or none, and the list has room for all
        assert not self._values or bool(np.all((steps == 0) | (steps == 1)))
        assert all(len(array) == capacity for array in self._values)

    def _hold(self, prefix: npt.NDArray[np.int64]) -> None:
        self._prefix = prefix
        self._numbers = prefix.reshape(-1).data  # the same, read as Python's integers
        self._mask = len(prefix) - 1

    def _resize(self, end: int) -> None:
        """Make the rings fit prefixes of `first` to `end`; O(n) when they change."""
        capacity = ring_capacity(len(self._prefix), end - self.first + 1)
        if capacity != len(self._prefix):
            counted = self.prefixes()
            self._hold(_moved(self._prefix, self.first, min(end, self.end) + 1, capacity))
            self._values = tuple(_moved(each, counted[0], counted[-1], capacity) for each in self._values)


def _is_plain(component: Component) -> bool:
    """Whether a prefix is a partial of one number, from which another can be subtracted."""
    dtype = np.dtype(np.int64)
    return component.subtracts(dtype) and len(component.identity(dtype)) == 1


def _slots(first: int, end: int, capacity: int) -> Ints:
    return np.arange(first, end) & (capacity - 1)


def _moved(ring: npt.NDArray[Any], first: int, end: int, capacity: int) -> npt.NDArray[Any]:
    """A ring of another capacity with the numbers `first` to `end - 1` of this one."""
    moved = np.zeros((capacity, *ring.shape[1:]), ring.dtype)
    while first < end:  # in the few pieces that lie in one piece in both
        old, new = first & (len(ring) - 1), first & (capacity - 1)
        count = min(end - first, len(ring) - old, capacity - new)
        moved[new : new + count] = ring[old : old + count]
        first += count
    return moved
