"""Approximate aggregates: answers from sketches, each with how wrong it may be.

`APPROX_QUANTILE` and `APPROX_COUNT` have a companion with the suffix `_ERROR`, which says how wrong they are
at most; every answer gets it as a column of its own (docs/decisions/0015). `APPROX_FREQUENT` has bounds for
every item. Summaries are all that a sketch knows of a window, for those who merge several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from muntin.aggregates.contract import Aggregate, Lowered, Partials, any_type, is_number, kept_type
from muntin.aggregates.holistic import Quantile

ERROR = "_error"  # suffix of the companions
_FINEST = 1e-5
MOST_WEIGHT = 2**62  # of a window: beyond, there is no answer
WEIGHT_BITS = 40  # of a weight, at most: those of four million events can be added up, whatever they are


class Counts(Protocol):
    """What a sketch knows of how often items occur in a window: the partial of `item_counts`."""

    def bounds(self, item: int) -> tuple[int, int]:
        """How often an item occurs, at least and at most."""

    def frequent(self, support: float) -> Sequence[tuple[int, int, int]]:
        """Items that may occur in more than that part of the window, with such bounds."""


class ApproxQuantile(Quantile):
    """A value whose rank differs from `ceil(phi * n)` by at most `eps * n`; with a `delta`, but for that
    chance. NaN is left out like NULL."""

    name = "approx_quantile"
    components = ("approx_quantile",)
    parameters = ("phi", "eps")
    optional = ("delta",)

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        super().check_parameters(parameters)
        check_promise(*parameters[1:])

    def lower(self, partials: Partials) -> Lowered:
        value, count, _ = partials["approx_quantile"]
        return Lowered(value, count > 0)


class ApproxQuantileError(ApproxQuantile):
    """By which part of n the rank of `APPROX_QUANTILE` may be wrong: never more than its eps."""

    name = "approx_quantile_error"

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        super().answer_type(argument)
        return pa.float64()

    def lower(self, partials: Partials) -> Lowered:
        _, count, error = partials["approx_quantile"]
        return Lowered(error, count > 0)


class ItemAggregate(Aggregate):
    """An aggregate of how often items occur. Items are codes, so it takes two steps to lower a partial: first
    to codes, here, then to the values they stand for, where those are known (`shard/read/items.py`)."""

    components = ("item_counts",)
    parameters: ClassVar[tuple[str, ...]] = ("eps",)
    optional = ("delta",)

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        check_promise(*parameters)

    def lower(self, partials: Partials) -> Lowered:
        raise NotImplementedError("items are lowered with the dictionary that they are codes of")


class ApproxCount(ItemAggregate):
    """How often an item occurs, too low by at most `eps * n`, never too high; 0 if it does not."""

    name = "approx_count"
    compares = True
    arguments = ("x = 7",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None:
            raise TypeError("takes a comparison such as x = 7")
        return pa.int64()

    def read(self, counts: Counts, item: int) -> int:
        """The answer for an item."""
        return counts.bounds(item)[0]


class ApproxCountError(ApproxCount):
    """By how much `APPROX_COUNT` may be too low: never more than `eps * n`."""

    name = "approx_count_error"

    def read(self, counts: Counts, item: int) -> int:
        least, most = counts.bounds(item)
        return most - least


class ApproxFrequent(ItemAggregate):
    """All items that occur in more than `support * n` of the n events, and perhaps some that do in more than
    `(support - eps) * n`, as a list of (item, estimate, lower, upper), from the most frequent down.

    `estimate` is never too high, so it is the lower bound as well. With a weight, items that weigh more than
    `support` of all that the events weigh.
    """

    name = "approx_frequent"
    takes_weight = True
    parameters = ("support", "eps")

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        bounds = [(name, pa.int64()) for name in ("estimate", "lower", "upper")]
        return pa.list_(pa.struct([("item", kept_type(any_type(argument))), *bounds]))

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        support, eps, *_ = parameters
        check_promise(*parameters[1:])
        if not eps < support <= 1:
            raise ValueError(f"support must lie above eps ({eps:g}), and be 1 at most")


class ApproxQuantileSummary(Aggregate):
    """All quantiles of the values at once, as a text that `muntin.merge_summaries` reads: of several windows, keys,
    shards or engines together."""

    name = "approx_quantile_summary"
    components = ("quantile_summary",)
    parameters = ("eps",)
    optional = ("delta",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        if pa.types.is_decimal(argument):  # a summary knows no scale
            raise TypeError("takes no DECIMAL; write CAST(x AS DOUBLE)")
        return pa.string()

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        check_promise(*parameters)

    def lower(self, partials: Partials) -> Lowered:
        (summaries,) = partials["quantile_summary"]
        texts = np.array([each.to_text() for each in summaries], object)
        return Lowered(texts, np.ones(len(texts), np.bool_))


class ApproxCountSummary(ItemAggregate):
    """How often all items occur, or what they weigh, likewise."""

    name = "approx_count_summary"
    takes_weight = True
    components = ("item_summary",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        any_type(argument)
        return pa.string()


class ApproxCountDistinct(Aggregate):
    """About how many different values the window holds: estimates have a standard deviation of `eps` of the number at
    most, by default 0.02. All NaN are one value."""

    name = "approx_count_distinct"
    components = ("approx_distinct",)
    optional = ("eps",)
    hashes = True

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        any_type(argument)
        return pa.int64()

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        if not 0.002 <= parameters[0] <= 0.25:
            raise ValueError("eps must lie between 0.002 and 0.25")

    def lower(self, partials: Partials) -> Lowered:
        estimate, _ = partials["approx_distinct"]
        return Lowered(np.rint(estimate).astype(np.int64), np.ones(len(estimate), np.bool_))


class ApproxCountDistinctError(ApproxCountDistinct):
    """The standard deviation of `APPROX_COUNT_DISTINCT`: two answers of three are wrong by no more, and 95 of a hundred
    by no more than twice as much."""

    name = "approx_count_distinct_error"

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        any_type(argument)
        return pa.float64()

    def lower(self, partials: Partials) -> Lowered:
        estimate, error = partials["approx_distinct"]
        return Lowered(estimate * error, np.ones(len(estimate), np.bool_))


APPROXIMATE_NAMES = frozenset(
    each.name
    for each in (
        ApproxQuantile, ApproxQuantileError, ApproxCount, ApproxCountError, ApproxFrequent,
        ApproxQuantileSummary, ApproxCountSummary, ApproxCountDistinct, ApproxCountDistinctError,
    )
)  # fmt: skip


def check_promise(eps: float, delta: float | None = None) -> None:
    """ValueError unless such an error can be promised."""
    if not _FINEST <= eps <= 0.5:
        raise ValueError(f"eps must lie between {_FINEST:g} and 0.5")
    if delta is not None and not 0 < delta <= 0.5:
        raise ValueError("delta must lie in (0, 0.5]")
