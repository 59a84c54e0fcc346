"""sampled_quantiles: quantiles of any recent window from a sample; right but for a small chance.

| | |
|---|---|
| Full name | RQ, randomised quantiles over sliding windows: one in 2**r |
| Answers | APPROX_QUANTILE with a delta, any phi, suffix windows of any length |
| Insert | O(1) amortised per element, in chunks |
| Lookup | O(sample log sample) |
| Space | O(1/eps^2 log(1/delta) log eps^2 n) values; for windows of at most W, O(1/eps^2 log(1/delta)) |
| Shares | one sample for all windows and all phi over an input |
| Reference | Arasu & Manku, PODS 2004, section 6.2 (which feeds a sample to Greenwald-Khanna) |

Guarantee, for a window of n elements: with probability 1 - delta, the answer's rank differs from
ceil(phi * n) by at most eps * n; or eps * W for a sample made for windows of up to W elements.

The paper samples within each block, which saves nothing until blocks have some 1/eps^2 elements for their own,
much smaller eps. One sample of the whole window needs ln(2/delta) / (2 eps^2) elements (Hoeffding: elements of
different blocks are chosen independently), less than `sliding_quantiles` keeps if eps is large.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from muntin.aggregates.contract import Array
from muntin.arrays import Bools, Ints
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.sketch.sticky_sample import StickySample
from muntin.store.codes import OrderCode, coded_parts


class SampledQuantiles(StickySample):
    """Quantiles of the last n elements, or of all since an instant.

    >>> sample = SampledQuantiles(np.dtype(np.float64), eps=0.05, delta=0.01, seed=1)
    >>> sample.extend(np.random.default_rng(1).random(100_000))
    >>> abs(sample.summary(rows=50_000).quantile(0.25) - 0.25) < 0.05
    True
    """

    name = "sampled_quantiles"

    def __init__(
        self, dtype: np.dtype[Any], eps: float, delta: float, window: int | None = None, seed: int = 0
    ):
        """Of values of `dtype` (float64 or int64); equal seeds make equal choices."""
        self.codes = OrderCode("max", dtype)
        super().__init__(eps, delta, window, seed, counts=False)

    def newest(self) -> tuple[Array, Ints] | None:
        """As that of any sample, with values in place of codes."""
        found = super().newest()
        return None if found is None else (self.codes.values(found[0]), found[1])

    def extend(self, value: Array, valid: Bools | None = None, at: Ints | None = None) -> None:
        """Take in elements, with their times if windows in time are to be asked for. NULL and NaN do not
        count, but have a place."""
        for part in coded_parts(self.codes, value, valid, at):
            self.extend_codes(*part)

    def summary(self, rows: int | None = None, since: int | None = None) -> QuantileSummary:
        """What is known of the last `rows` elements, or of all `since` an instant."""
        first = self._from(rows, since)
        code, level = self._kept["code"][first:], self._kept["level"][first:]
        levels = np.unique(level)
        runs = [np.sort(code[level == each]) for each in levels]
        weight = np.int64(1) << levels.astype(np.int64)
        count = int(sum(len(run) * int(each) for run, each in zip(runs, weight, strict=True)))
        thinned = bool(len(levels)) and int(levels[-1]) > 0
        slack = int(np.ceil(self.eps * (self.window or count))) if thinned else 0
        return QuantileSummary.of(
            self.codes, [*runs, np.zeros(0, np.int64)], np.append(weight, 1), 1, count, slack, 0
        )

    @staticmethod
    def needed(eps: float, delta: float) -> float:
        """By Hoeffding's inequality."""
        return log(2 / delta) / (2 * eps * eps)
