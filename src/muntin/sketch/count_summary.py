"""What is known of how often items occur in one window: counts that are never too high."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints, slots
from muntin.described import COUNT
from muntin.errors import MuntinError
from muntin.kernels.sliding_counts import sum_items
from muntin.sketch.summary_text import (
    COUNTS,
    MOST_ELEMENTS,
    check_column,
    check_facts,
    damaged,
    pack_summary,
    unpack_summary,
)


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
        some = np.flatnonzero(upper > int(least))  # in whole numbers: they may have more digits than a float
        some = some[np.lexsort((self.item[some], -self.count_of[some]))]
        rows = zip(self.item[some].tolist(), self.count_of[some].tolist(), upper[some].tolist(), strict=True)
        return [Frequent(*row) for row in rows]

    def times(self, bit: int) -> CountSummary:
        """Of elements that count 2**bit times each."""
        count_of, spared = self.count_of << bit, self.spared << bit
        numbers = (each << bit for each in (self.count, self.slack, self.left_out))
        return CountSummary(self.item, count_of, spared, *numbers)

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


# What is known of how often values occur in one window: counts of items that have left their dictionary.

_FACTS = {"count": COUNT, "slack": COUNT, "left_out": COUNT}


class ItemSummary:
    """As `CountSummary`, with values of any type in place of codes.

    >>> known = CountSummary.of(np.array([0, 1]), np.array([6, 2]), np.array([0, 0]), 10, 2, 0)
    >>> summary = ItemSummary(pa.array(["a", "b"]), known)
    >>> both = ItemSummary.merge([summary, ItemSummary.from_text(summary.to_text())])
    >>> both.bounds("b"), both.bounds("c"), both.frequent(0.5), both.count, both.error
    ((4, 8), (0, 4), [Frequent(item='a', lower=12, upper=16)], 20, 4)
    """

    def __init__(self, value: pa.Array, counts: CountSummary):
        """`value[i]` is the i-th item of `counts`."""
        self.value = value
        self.counts = CountSummary(
            np.arange(len(value)), counts.count_of, counts.spared, counts.count, counts.slack, counts.left_out
        )

    @property
    def count(self) -> int:
        """Elements that were counted."""
        return self.counts.count

    @property
    def error(self) -> int:
        """By how much a count may be too low."""
        return self.counts.error

    def bounds(self, item: Any) -> tuple[int, int]:
        """How often a value occurs, at least and at most; O(items)."""
        return self.counts.bounds(self.find(item))

    def find(self, item: Any) -> int:
        """The place of a value; one that no item has if it is not there."""
        wanted = pa.array([item], self.value.type)
        return int(_numbered([self.value, wanted]).indices[len(self.value)].as_py())

    def frequent(self, support: float | Fraction) -> list[Frequent]:
        """As that of `CountSummary`."""
        found = self.counts.frequent(support)
        items = self.value.take(pa.array([each.item for each in found], pa.int64())).to_pylist()
        return [each._replace(item=item) for each, item in zip(found, items, strict=True)]

    @staticmethod
    def merge(summaries: Sequence[ItemSummary]) -> ItemSummary:
        """Of all that several summaries are of; O(their size)."""
        if len({each.value.type for each in summaries}) > 1:
            raise MuntinError("summaries of items of different types do not merge")
        if sum(each.count + each.error for each in summaries) > MOST_ELEMENTS:
            raise MuntinError("these summaries are of more elements than can be added up")
        values = _numbered([each.value for each in summaries])
        coded = np.split(values.indices.to_numpy(), np.cumsum([len(each.value) for each in summaries])[:-1])
        parts = [
            CountSummary(
                code.astype(np.int64), each.counts.count_of, each.counts.spared, each.count, each.counts.slack,
                each.counts.left_out,
            )
            for code, each in zip(coded, summaries, strict=True)
        ]  # fmt: skip
        # items of the sum are in order of first appearance, as the values of a dictionary
        return ItemSummary(values.dictionary, CountSummary.merge(parts))

    def to_text(self) -> str:
        """All of it, for `from_text` and `merge_summaries`, anywhere."""
        facts = {"count": self.count, "slack": self.counts.slack, "left_out": self.counts.left_out}
        columns = {
            "item": self.value,
            "count": pa.array(self.counts.count_of),
            "spared": pa.array(self.counts.spared),
        }
        return pack_summary(COUNTS, facts, columns)

    @staticmethod
    def from_text(text: str) -> ItemSummary:
        """What `to_text` wrote."""
        facts, columns = unpack_summary(text, COUNTS)
        check_facts(facts, _FACTS)
        item = check_column(columns, "item")
        count_of, spared = (
            check_column(columns, name, pa.int64()).to_numpy() for name in ("count", "spared")
        )
        try:
            distinct = len(_numbered([item]).dictionary)
        except pa.ArrowException as error:
            raise damaged(error) from None
        if distinct < len(item):
            raise damaged("it has an item twice")
        unsure = facts["slack"] + facts["left_out"]
        if min(count_of.min(initial=0), spared.min(initial=0)) < 0 or int(spared.max(initial=0)) > unsure:
            raise damaged("it has counts that cannot be")
        if int(count_of.astype(object).sum()) > facts["count"] or facts["count"] + unsure > MOST_ELEMENTS:
            raise damaged("its counts are more than its elements, or more than can be added up")
        return ItemSummary(item, CountSummary(np.arange(len(count_of)), count_of, spared, **facts))


def _numbered(values: Sequence[pa.Array]) -> pa.DictionaryArray:
    """All values, numbered in order of first appearance."""
    return pa.concat_arrays(values).dictionary_encode()
