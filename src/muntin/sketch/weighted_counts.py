"""weighted_counts: the weight that items have in any recent window, in memory that does not grow with it.

| | |
|---|---|
| Full name | C with weights: deterministic counts over sliding windows, for each bit of the weights |
| Answers | APPROX_FREQUENT with a weight at any support, suffix windows of any length |
| Insert | that of `sliding_counts` for each bit that a weight has: 5 of a mean weight of 1,000 |
| Lookup | that of `sliding_counts` for each bit of the greatest weight |
| Space | that of `sliding_counts` for each bit of the greatest weight |
| Shares | one sketch for all windows and all supports over an input and a weight |
| Reference | Arasu & Manku, PODS 2004, sections 3 and 5, which counts elements; the bits are ours |

An element of weight w is taken in once for each bit of w, by the sketch of that bit, which counts elements:

    weight   5 = 101     item a in the sketches of 1 and 4           weight of a: 1 * 1 + 4 * 2, at least
             6 = 110     item a in the sketches of 2 and 4                        + 2 * 1

Guarantee, for a window whose elements weigh W: the sketch of bit b has n_b of them, and its counts are never too high,
and too low by at most eps * n_b. All of them together are too low by at most the sum of 2**b * eps * n_b, which is
eps * W. Elements of no weight count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from muntin.aggregates.approximate import WEIGHT_BITS
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.component.pairs import pair_dtype
from muntin.sketch.count_summary import CountSummary
from muntin.sketch.sliding_counts import SlidingCounts
from muntin.store.saved import Saved

WEIGHED = pair_dtype(np.dtype(np.int64))  # an item, and its weight in place of a rank
_NONE = np.zeros(0, np.int64)
_USUAL_BITS = 16  # of weights that nobody has seen yet


def weighed(item: Ints, weight: Ints) -> np.ndarray:
    """Items with their weights, as a sketch takes them in."""
    pairs = np.empty(len(item), WEIGHED)
    pairs["value"], pairs["rank"] = item, weight
    return pairs


class WeightedCounts:
    """Weights of items in the last elements since an instant. Items are integers: codes of a dictionary for any other
    kind. Weights are integers from 0 to 2**40 - 1.

    >>> sketch = WeightedCounts(eps=0.01)
    >>> sketch.extend(weighed(np.array([7, 8, 7]), np.array([1000, 24, 500])), at=np.arange(3))
    >>> sketch.summary(since=1).frequent(0.9), sketch.summary().count
    ([Frequent(item=7, lower=500, upper=500)], 1524)
    """

    name = "weighted_counts"

    def __init__(self, eps: float):
        self._empty = SlidingCounts(eps)  # what a bit begins with
        self._of_bit: dict[int, SlidingCounts] = {}

    @property
    def eps(self) -> float:
        return self._empty.eps

    def extend(self, pairs: np.ndarray, at: Ints) -> None:
        """Take in elements with their times."""
        weight = pairs["rank"]
        for bit in range(int(weight.max(initial=0)).bit_length()):
            has = np.flatnonzero(weight >> bit & 1)
            if len(has):
                if bit not in self._of_bit:
                    self._of_bit[bit] = self._empty.copy()
                self._of_bit[bit].extend(pairs["value"][has], at=at[has])

    def summary(self, since: int | None = None) -> CountSummary:
        """What is known of all elements `since` an instant; weights in place of counts."""
        parts = [CountSummary(_NONE, _NONE, _NONE, 0, 0, 0)]
        for bit, sketch in self._of_bit.items():
            parts.append(sketch.summary(since=since).times(bit))
        return CountSummary.merge(parts)

    def forget_before(self, instant: int) -> None:
        """Windows will start at this instant or later."""
        for sketch in self._of_bit.values():
            sketch.forget_before(instant)

    # -- as much room as there is ------------------------------------------------------------------

    def _all(self) -> Iterator[SlidingCounts]:
        yield self._empty
        yield from self._of_bit.values()

    def coarsen(self) -> bool:
        """Promise only twice the error from now on; False if there is no more to give."""
        done = [sketch.coarsen() for sketch in self._all()]
        return all(done)

    def shorten(self) -> bool:
        """Keep only half as many elements as they come from now on; False if that is no gain."""
        done = [sketch.shorten() for sketch in self._all()]
        return all(done)

    @property
    def unsettled(self) -> int:
        """How many elements can come before any of them becomes a block."""
        return min(sketch.unsettled for sketch in self._all())

    def bytes_for(self, count: int) -> int:
        """About what so many elements would take."""
        return self._empty.bytes_for(count // 2) * max(len(self._of_bit), _USUAL_BITS)

    @property
    def needed_from(self) -> int:
        """Elements of all bits that no window needs any more."""
        return sum(sketch.needed_from for sketch in self._of_bit.values())

    @property
    def end(self) -> int:
        """Elements of all bits that have come."""
        return sum(sketch.end for sketch in self._of_bit.values())

    def newest(self) -> None:
        """Elements are not kept as they came, but by bit."""

    def time_of_last(self, rows: int) -> int:
        """The time of the first element that is known; `rows` are all of them."""
        times = [sketch.time_of_last(sketch.end) for sketch in self._of_bit.values()]
        return min((each for each in times if each > LONG_AGO), default=LONG_AGO)

    # -- state -------------------------------------------------------------------------------------

    def entries(self) -> int:
        return sum(sketch.entries() for sketch in self._of_bit.values())

    def most_entries(self) -> int:
        return sum(sketch.most_entries() for sketch in self._of_bit.values())

    def nbytes(self) -> int:
        return sum(sketch.nbytes() for sketch in self._all())

    def item_bounds(self) -> tuple[int, int]:
        """The least and the greatest item that is there."""
        bounds = [sketch.item_bounds() for sketch in self._all()]
        return min(least for least, _ in bounds), max(greatest for _, greatest in bounds)

    def mark_items(self, used: Bools) -> None:
        for sketch in self._of_bit.values():
            sketch.mark_items(used)

    def renumber_items(self, new_code: Ints) -> None:
        for sketch in self._of_bit.values():
            sketch.renumber_items(new_code)

    def snapshot(self) -> Arrays:
        arrays: Arrays = {"bits": np.array(list(self._of_bit), np.int64)}
        for bit, sketch in self._of_bit.items():
            arrays |= {f"bit {bit}/{part}": array for part, array in sketch.snapshot().items()}
        return arrays

    def restore(self, saved: Saved) -> None:
        """Go on from a snapshot."""
        bits = saved.ints("bits", (0, WEIGHT_BITS - 1)).tolist()
        if len(set(bits)) < len(bits):
            raise saved.damaged("bits", "has one twice")
        self._of_bit = {bit: self._empty.copy() for bit in bits}
        for bit, sketch in self._of_bit.items():
            sketch.restore(saved.under(f"bit {bit}/"))

    def copy(self) -> Any:
        """A sketch of its own in the same state."""
        other = type(self)(self.eps)
        other._empty = self._empty.copy()
        other._of_bit = {bit: sketch.copy() for bit, sketch in self._of_bit.items()}
        return other

    def check(self) -> None:
        """Assert every invariant."""
        for sketch in self._all():
            sketch.check()
