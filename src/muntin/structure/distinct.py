"""distinct: how many different values any run holds, from where each value was seen before.

| | |
|---|---|
| Full name | previous-occurrence counting |
| Answers | COUNT(DISTINCT), exactly, over suffix and historical windows |
| Insert | O(log n) amortised |
| Lookup | O(log n) for a window that ends now, O(log^2 W) for one that ended before |
| Space | O(n log n); O(n) without historical windows |
| Shares | one structure for all windows |
| Reference | Gupta, Janardan & Smid, J. Algorithms 19, 1995 (counting colours on a line); no window paper has it |

Of the equal values of a run, exactly one has no equal before it in the run. So the answer for
`[lo, hi)` is the number of its elements whose *previous* occurrence is numbered below `lo`:

    number      0   1   2   3   4   5         [2, 5) holds b a c: previous occurrences 1, 0, none
    value       a   b   b   a   c   a         are all below 2, so 3 different values
    previous    -   -   1   0   -   3         [1, 4) holds b b a: -, 1, 0; 1 is not below 1, so 2

If the run ends now, that is also the number of elements from `lo` on with no equal *after* them, the
latest occurrences: a Fenwick tree counts these. Other runs split into base intervals with the previous
occurrences sorted (`sorted_runs.py`), and a binary search in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregates.contract import Array
from muntin.arrays import Bools, Ints
from muntin.kernels.combine import SMALLEST, ring_capacity
from muntin.kernels.distinct import (
    append_codes,
    count_latest,
    count_runs,
    count_suffixes,
    forget_codes,
    rehash,
    rewind_codes,
)
from muntin.store.codes import item_codes
from muntin.store.columns import Columns
from muntin.structure.intervals import check_rewind, known_runs
from muntin.structure.sorted_runs import Ordinals, SortedRuns

_INT = np.dtype(np.int64)


class DistinctCounter:
    """Different values in runs of a sequence, numbered as in `Intervals`. NULL does not count.

    All NaN are one value, and so are 0.0 and -0.0.

    >>> counter = DistinctCounter(np.dtype(np.int64))
    >>> counter.extend(np.array([7, 8, 8, 7, 9, 7]), np.ones(6, np.bool_))
    >>> counter.query(np.array([0, 2, 1]), np.array([6, 5, 4]))
    array([3, 3, 2])
    """

    name = "distinct"

    def __init__(self, dtype: np.dtype[Any], first: int = 0, historical: bool = True):
        """Of values of `dtype` (float64 or int64); the first element to come has number `first`.

        With `historical=False` only runs up to the end can be asked for, at a fraction of the space.
        """
        self.dtype = dtype
        self.first = first
        self.end = first
        self._ordinals = Ordinals(first)
        self._elements = Columns({"code": _INT, "previous": _INT})  # valid elements only
        self._elements.dropped = first
        self._runs = SortedRuns(_INT, first) if historical else None  # of previous occurrences
        self._size = 0  # how many different values there are
        self._code, self._last = _empty_table(SMALLEST)
        self._count = np.zeros(SMALLEST + 1, np.int64)

    def extend(self, value: Array, valid: Bools) -> None:
        """Append elements; O(log n) amortised each."""
        self._ordinals.extend(valid)
        code = item_codes(np.asarray(value[valid], self.dtype))
        done, start = 0, self._elements.dropped + len(self._elements)
        self._elements.extend({"code": code, "previous": np.empty_like(code)})
        if len(self._elements) >= len(self._count):
            self._fit_ring()
        previous = self._elements["previous"][len(self._elements) - len(code) :]
        while done < len(code):
            came, self._size = append_codes(
                code[done:], start + done, previous[done:], self._code, self._last, self._count, self._size
            )
            done += came
            if done < len(code):
                self._fit_table(2 * len(self._code))
        if self._runs is not None:
            self._runs.extend(previous)
        self.end += len(value)

    def rewind(self, end: int) -> None:
        """Take back the elements numbered `end` and later; O(log n) each."""
        check_rewind(self.first, self.end, end)
        kept = self._ordinals.rewind(end) - self._elements.dropped
        code, previous = self._elements["code"][kept:], self._elements["previous"][kept:]
        start, first = self._elements.dropped + kept, self._elements.dropped
        self._size = rewind_codes(
            code, previous, start, first, self._code, self._last, self._count, self._size
        )
        self._elements.truncate(kept)
        if self._runs is not None:
            self._runs.rewind(start)
        self.end = end

    def forget(self, first: int) -> None:
        """Elements numbered below `first` will not be asked for any more; O(log n) amortised each."""
        self.first = min(max(first, self.first), self.end)
        gone = self._ordinals.forget(self.first) - self._elements.dropped
        code = self._elements["code"][:gone]
        self._size = forget_codes(
            code, self._elements.dropped, self._code, self._last, self._count, self._size
        )
        self._elements.drop_first(gone)
        if self._runs is not None:
            self._runs.forget(self._elements.dropped)
        self._fit_table(ring_capacity(len(self._code), 2 * self._size))
        self._fit_ring()

    def query(self, lo: Ints, hi: Ints) -> Ints:
        """Different values of many runs `[lo, hi)`; 0 where hi <= lo."""
        lo, hi = known_runs(self.first, self.end, lo, hi)
        start, stop = self._ordinals.of(lo), self._ordinals.of(hi)
        found = np.zeros(len(lo), np.int64)
        ends_now = stop == self._ordinals.valid_end
        suffix = np.empty(int(ends_now.sum()), np.int64)
        count_suffixes(start[ends_now], self._elements.dropped, self._count, self._size, suffix)
        found[ends_now] = suffix
        earlier = ~ends_now
        if bool(earlier.any()):
            if self._runs is None:
                raise ValueError("a run that ends before the newest element needs historical=True")
            within = np.empty(int(earlier.sum()), np.int64)
            count_runs(self._runs.rows, start[earlier], stop[earlier], within)
            found[earlier] = within
        return found

    def nbytes(self) -> int:
        """Bytes of state."""
        arrays = self._code.nbytes + self._last.nbytes + self._count.nbytes
        runs = self._runs.nbytes() if self._runs is not None else 0
        return self._ordinals.nbytes() + self._elements.nbytes() + arrays + runs

    def check(self) -> None:
        """Assert every invariant."""
        self._ordinals.check()
        self._elements.check()
        # the table holds the latest occurrence of every value, and nothing else
        latest = {
            int(code): number for number, code in enumerate(self._elements["code"], self._elements.dropped)
        }
        used = self._last >= 0
        held = dict(zip(self._code[used].tolist(), self._last[used].tolist(), strict=True))
        assert held == latest
        assert len(latest) == self._size == int(used.sum())
        # the table is at most half full; the ring has a place for every element
        assert 2 * self._size <= len(self._code)
        assert len(self._elements) <= len(self._count) - 1
        # the Fenwick tree counts the latest occurrences
        count = np.zeros_like(self._count)
        count_latest(self._last, count)
        np.testing.assert_array_equal(self._count, count)
        if self._runs is not None:
            self._runs.check()
            # the sorted runs are of the previous occurrences
            numbers = np.arange(self._runs.first, self._runs.end)
            rows = self._runs.rows
            np.testing.assert_array_equal(rows[0, numbers % rows.shape[1]], self._elements["previous"])

    def _fit_table(self, places: int) -> None:
        if places != len(self._code):
            code, last = _empty_table(places)
            rehash(self._code, self._last, code, last)
            self._code, self._last = code, last

    def _fit_ring(self) -> None:
        width = ring_capacity(len(self._count) - 1, len(self._elements))
        if width != len(self._count) - 1:
            self._count = np.zeros(width + 1, np.int64)
            count_latest(self._last, self._count)


def _empty_table(places: int) -> tuple[Ints, Ints]:
    return np.zeros(places, np.int64), np.full(places, -1, np.int64)
