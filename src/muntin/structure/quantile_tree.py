"""quantile_tree: B-INT-QNT, exact quantiles of any run, from base intervals kept sorted.

| | |
|---|---|
| Full name | B-INT-QNT, base intervals for quantiles |
| Answers | QUANTILE, several phi at once, over suffix and historical windows |
| Insert | O(log n) amortised |
| Lookup | O(log^3 W) at worst: O(log W) rounds of a binary search in each of up to 2 log W pieces |
| Space | O(n log n) |
| Shares | one tree for all windows and all phi; one split of the window for all its phi |
| Reference | Arasu & Widom, VLDB 2004, section 3.3 |

A look-up splits the run into sorted pieces (`sorted_runs.py`) and eliminates: a pivot taken from all
pieces, a binary search for it in each, and one side of every piece is out.

The paper leaves open how to select. Pivots that aim at the wanted rank need a quarter of the rounds of
pivots from the middle of the pieces. Departures: intervals below 16 elements are not kept, look-ups sort
those few elements instead; ranks round up (`ceil`), as in SQL's PERCENTILE_DISC, unless `floor` is asked
for. The paper's rank floor(phi * n) can be 0, which no element has: it is raised to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from muntin.aggregates.contract import Array
from muntin.aggregates.holistic import RankRule, as_written, ranks_of
from muntin.arrays import Bools, Ints
from muntin.kernels.quantile_tree import select_ranks
from muntin.structure.intervals import check_rewind, known_runs
from muntin.structure.sorted_runs import Ordinals, SortedRuns


class QuantileTree:
    """Quantiles over the elements of a sequence, numbered as in `Intervals`. NULL and NaN do not count.

    >>> tree = QuantileTree(np.dtype(np.int64))
    >>> tree.extend(np.array([3, 1, 4, 1, 5, 9, 2, 6]), np.ones(8, np.bool_))
    >>> tree.query(np.array([0, 4]), np.array([8, 7]), [0.5, 1.0])
    (array([[3, 9], [5, 9]]), array([8, 3]))
    """

    name = "quantile_tree"

    def __init__(self, dtype: np.dtype[Any], first: int = 0):
        """Of values of `dtype` (float64 or int64); the first element to come has number `first`."""
        self.dtype = dtype
        self.first = first
        self.end = first
        self._ordinals = Ordinals(first)
        self._runs = SortedRuns(dtype, first)

    def extend(self, value: Array, valid: Bools) -> None:
        """Append elements; O(log n) amortised each."""
        value = np.asarray(value, self.dtype)
        if self.dtype == np.float64:
            valid = valid & ~np.isnan(value)
        self._ordinals.extend(valid)
        self._runs.extend(value[valid])
        self.end += len(value)

    def rewind(self, end: int) -> None:
        """Take back the elements numbered `end` and later; O(1)."""
        check_rewind(self.first, self.end, end)
        self._runs.rewind(self._ordinals.rewind(end))
        self.end = end

    def forget(self, first: int) -> None:
        """Elements numbered below `first` will not be asked for any more; O(1) amortised each."""
        self.first = min(max(first, self.first), self.end)
        self._runs.forget(self._ordinals.forget(self.first))

    def query(
        self, lo: Ints, hi: Ints, phis: Sequence[float | Fraction], rule: RankRule = "ceil"
    ) -> tuple[Array, Ints]:
        """Quantiles of many runs `[lo, hi)`: `value[run, phi]`, and how many values each run holds.

        The value of rank ceil(phi * count), or max(1, floor(phi * count)); meaningless where the count
        is 0. O(log W) to split a run, then O(log^3 W) for each phi, about 4 rounds of O(log^2 W) if
        values come in random order.
        """
        lo, hi = known_runs(self.first, self.end, lo, hi)
        start, stop = self._ordinals.of(lo), self._ordinals.of(hi)
        count = stop - start
        exact = [as_written(phi) for phi in phis]
        order = sorted(range(len(exact)), key=exact.__getitem__)
        ranks = np.empty((len(lo), len(exact)), np.int64)
        for column, phi in enumerate(order):
            ranks[:, column] = ranks_of(exact[phi], count, rule)
        found = np.zeros(ranks.shape, self.dtype)
        select_ranks(self._runs.rows, start, stop, ranks, found)
        value = np.empty_like(found)
        value[:, order] = found
        return value, count

    def nbytes(self) -> int:
        """Bytes of state."""
        return self._ordinals.nbytes() + self._runs.nbytes()

    def check(self) -> None:
        """Assert every invariant."""
        self._ordinals.check()
        self._runs.check()
        # the runs hold exactly the valid elements from `first` to `end`
        both = self._ordinals.of(np.array([self.first, self.end]))
        assert both.tolist() == [self._runs.first, self._runs.end]
