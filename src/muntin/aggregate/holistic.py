"""QUANTILE and COUNT(DISTINCT): no fixed-size partial can be merged into them.

Synopses that keep events compute their components, `quantile` and `distinct`, outright. The
functions below do it from the values of each slot, sorted and laid end to end: slot i holds
`value[offset[i]:offset[i + 1]]`, NaN last.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Array, Lowered, Partial, Partials, is_number


class Quantile(Aggregate):
    """The value of rank `ceil(phi * n)` among the n values of the window, as PERCENTILE_DISC.

    `phi` is read as the decimal it was written as: 0.29 of 100 values is rank 29, though
    `0.29 * 100` is 28.999… in binary. NaN is left out like NULL.
    """

    name = "quantile"
    components = ("quantile",)
    parameters = ("phi",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        return argument

    def check_parameters(self, parameters: tuple[float, ...]) -> None:
        if not 0 < parameters[0] <= 1:
            raise ValueError("phi must lie in (0, 1]")

    def lower(self, partials: Partials) -> Lowered:
        value, count = partials["quantile"]
        return Lowered(value, count > 0)


class CountDistinct(Aggregate):
    """How many different values the window holds; 0 if none. All NaN are one value."""

    name = "count_distinct"
    components = ("distinct",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None:
            raise TypeError("takes a column or expression")
        return pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["distinct"]
        return Lowered(count, np.ones(len(count), np.bool_))


def rank_of(phi: float, count: Array) -> Array:
    """`ceil(phi * n)` of each count, in whole numbers.

    >>> rank_of(0.29, np.array([100, 1, 0]))
    array([29,  1,  0])
    >>> rank_of(1e-300, np.array([5]))
    array([1])
    """
    exact = Fraction(str(phi))
    if exact.numerator * int(count.max(initial=0)) < 2**62 and exact.denominator < 2**62:
        return np.asarray(-(-count * exact.numerator // exact.denominator))
    return np.array([-(-int(n) * exact.numerator // exact.denominator) for n in count], np.int64)


def pick_quantile(value: Array, offset: Array, phi: float) -> Partial:
    """Partial of `quantile`: the value picked from each slot, and of how many."""
    count = np.diff(offset)
    if value.dtype == np.float64:
        nans = np.concatenate([[0], np.cumsum(np.isnan(value))])
        count = count - (nans[offset[1:]] - nans[offset[:-1]])
    at = np.where(count > 0, offset[:-1] + np.maximum(rank_of(phi, count), 1) - 1, 0)
    return (value[at] if len(value) else np.zeros(len(count), value.dtype)), count


def count_distinct(value: Array, offset: Array) -> Partial:
    """Partial of `distinct`: how many different values each slot has."""
    is_first = np.ones(len(value), np.int64)  # whether a value differs from the one before it
    if len(value):
        same = value[1:] == value[:-1]
        if value.dtype == np.float64:
            same |= np.isnan(value[1:]) & np.isnan(value[:-1])
        is_first[1:] = ~same
        is_first[offset[:-1][offset[:-1] < offset[1:]]] = 1
    running = np.concatenate([[0], np.cumsum(is_first)])
    return (running[offset[1:]] - running[offset[:-1]],)
