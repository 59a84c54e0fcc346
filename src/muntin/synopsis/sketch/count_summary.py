"""What is known of how often items occur in one window: counts that are never too high."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.item_numbers import sum_items
from muntin.synopsis.sketch.scratch import slots


class Frequent(NamedTuple):
    """An item that may be frequent: it occurs `lower` times at least, and `upper` times at most."""

    item: int
    lower: int
    upper: int


class CountSummary:
    """Items with their counts, of `count` elements.

    An item occurs `count_of[i]` times at least, and at most `slack + left_out - spared[i]` times more; one
    that is not there up to `slack + left_out` times. Summaries of one window over several streams, or shards
    of one, merge: their errors add up.

    >>> summary = CountSummary.of(np.array([7, 9, 7]), np.array([5, 2, 1]), np.array([1, 0, 0]), 10, 2, 0)
    >>> summary.frequent(0.3), summary.error
    ([Frequent(item=7, lower=6, upper=7), Frequent(item=9, lower=2, upper=4)], 2)
    """

    def __init__(self, item: Ints, count_of: Ints, spared: Ints, count: int, slack: int, left_out: int):
        self.item = item  # each once, in no order
        self.count_of = count_of
        self.spared = spared
        self.count = count
        self.slack = slack
        self.left_out = left_out  # elements of the window that are in no count, at most

    @staticmethod
    def of(item: Ints, count_of: Ints, spared: Ints, count: int, slack: int, left_out: int) -> CountSummary:
        """Of pairs of which several may be of one item, in arrays that become its own; O(pairs)."""
        items = sum_items(item, count_of, spared, slots(len(item)))
        return CountSummary(item[:items], count_of[:items], spared[:items], count, slack, left_out)

    @property
    def error(self) -> int:
        """By how much a count may be too low."""
        return self.slack + self.left_out

    def bounds(self, item: int) -> tuple[int, int]:
        """How often an item occurs, at least and at most; O(items)."""
        found = np.flatnonzero(self.item == item)
        if not len(found):
            return 0, self.error
        at = int(found[0])
        least = int(self.count_of[at])
        return least, least + self.error - int(self.spared[at])

    def frequent(self, support: float | Fraction) -> list[Frequent]:
        """All items that occur more than `support * n` times, and some that miss it by `error` at most; from
        the greatest count down, equal ones by item."""
        upper = self.count_of + self.error - self.spared
        least = Fraction(str(support)) * self.count  # of n, which may be greater by what is left out
        some = np.flatnonzero(upper > float(least) if least.denominator > 1 else upper > int(least))
        some = some[np.lexsort((self.item[some], -self.count_of[some]))]
        rows = zip(self.item[some].tolist(), self.count_of[some].tolist(), upper[some].tolist(), strict=True)
        return [Frequent(*row) for row in rows]

    @staticmethod
    def merge(summaries: Sequence[CountSummary]) -> CountSummary:
        """Of all that several summaries are of; O(their size)."""
        return CountSummary.of(
            np.concatenate([each.item for each in summaries]),
            np.concatenate([each.count_of for each in summaries]),
            np.concatenate([each.spared for each in summaries]),
            sum(each.count for each in summaries),
            sum(each.slack for each in summaries),
            sum(each.left_out for each in summaries),
        )
