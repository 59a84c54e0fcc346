"""sampled_counts: how often items occur in any recent window, from a sample; right but for a small chance.

| | |
|---|---|
| Full name | RC, randomised counts over sliding windows: sticky sampling with one in 2**r |
| Answers | APPROX_FREQUENT and APPROX_COUNT with a delta, suffix windows of any length |
| Insert | O(1) amortised per element, in chunks |
| Lookup | O(sample log sample) |
| Space | O(X log(n / X)) triples, X = 1/eps ln(1/(eps delta)); for windows of at most W, 2 X + 2 and a chunk |
| Shares | one sample for all windows, all supports and all items over an input |
| Reference | Arasu & Manku, PODS 2004, sections 6.1 and 7.2 |

Guarantee, for a window of n elements:

* no count is too high;
* with probability 1 - delta, no count is too low by more than eps * n; or eps * W for a sample made for
  windows of up to W elements.

The newest chunk is kept whole: at most W / 16 elements (but 64 may be), and never more than 8,192.

An element that is kept counts those like it that follow, until one of them is kept. When it goes, because the
sample gets thinner with age, what it counted goes to the one before it: the paper's Property P does not say so,
but without it those would be lost.
"""

from __future__ import annotations

from math import log

import numpy as np

from muntin.arrays import Bools, Ints
from muntin.sketch.count_summary import CountSummary
from muntin.sketch.sticky_sample import StickySample


class SampledCounts(StickySample):
    """Counts of items in the last n elements, or in all since an instant.

    >>> sample = SampledCounts(eps=0.01, delta=0.01, seed=1)
    >>> sample.extend(np.random.default_rng(1).geometric(0.5, 100_000))
    >>> [frequent.item for frequent in sample.summary(rows=50_000).frequent(0.1)]
    [1, 2, 3]
    """

    name = "sampled_counts"

    def __init__(self, eps: float, delta: float, window: int | None = None, seed: int = 0):
        """For windows of any length, or up to `window` elements; equal seeds make equal choices."""
        super().__init__(eps, delta, window, seed, counts=True)

    def extend(self, item: Ints, valid: Bools | None = None, at: Ints | None = None) -> None:
        """Take in elements, with their times if windows in time are to be asked for."""
        kept = np.ones(len(item), np.bool_) if valid is None else np.asarray(valid, np.bool_)
        self.extend_codes(np.ascontiguousarray(item, np.int64), kept, at)

    def summary(self, rows: int | None = None, since: int | None = None) -> CountSummary:
        """What is known of the last `rows` elements, or of all `since` an instant."""
        first = self._from(rows, since)
        code, count = self._kept["code"][first:].copy(), self._kept["count"][first:].copy()
        position = self._kept["position"][first:]
        if since is not None:
            elements = self.end - int(position[0]) if len(position) else 0
        else:
            elements = self.end - max(self.kept_from, 0 if rows is None else self.end - rows)
        level = self._kept["level"][first:]
        # what is in no count: nothing if all is kept
        slack = int(np.ceil(self.eps * (self.window or elements))) if len(level) and level.max() > 0 else 0
        return CountSummary.of(code, count, np.zeros(len(code), np.int64), elements, slack, 0)

    @staticmethod
    def needed(eps: float, delta: float) -> float:
        """The paper's X."""
        return log(1 / (eps * delta)) / eps
