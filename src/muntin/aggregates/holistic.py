"""QUANTILE, MODE and COUNT(DISTINCT): no fixed-size partial can be merged into them.

Synopses that keep events compute their components, `quantile`, `mode` and `distinct`, outright. The
functions below do it from the values of each slot, sorted and laid end to end: slot i holds
`value[offset[i]:offset[i + 1]]`, NaN last.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from muntin.aggregates.contract import Aggregate, Array, Lowered, Partial, Partials, any_type, is_number

RankRule = Literal["ceil", "floor"]


class Quantile(Aggregate):
    """The value of rank `ceil(phi * n)` among the n values of the window, as PERCENTILE_DISC.

    `phi` is read as the decimal it was written as: 0.29 of 100 values is rank 29, though
    `0.29 * 100` is 28.999… in binary. NaN is left out like NULL.
    """

    name = "quantile"
    components = ("quantile",)
    parameters: ClassVar[tuple[str, ...]] = ("phi",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        return argument

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        if not 0 < parameters[0] <= 1:
            raise ValueError("phi must lie in (0, 1]")

    def lower(self, partials: Partials) -> Lowered:
        value, count = partials["quantile"]
        return Lowered(value, count > 0)


class Mode(Aggregate):
    """The most frequent value of the window, of several the least. NaN is left out like NULL; 0.0 and -0.0 are 0.0."""

    name = "mode"
    components = ("mode",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return any_type(argument)

    def lower(self, partials: Partials) -> Lowered:
        value, count = partials["mode"]
        return Lowered(value + value.dtype.type(0), count > 0)  # -0.0 + 0.0 is 0.0


class CountDistinct(Aggregate):
    """How many different values the window holds; 0 if none. All NaN are one value."""

    name = "count_distinct"
    components = ("distinct",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        any_type(argument)
        return pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["distinct"]
        return Lowered(count, np.ones(len(count), np.bool_))


@lru_cache(maxsize=1024)
def as_written(phi: float | Fraction) -> Fraction:
    """The decimal that phi was written as, not the nearest binary number.

    >>> as_written(0.29) * 100
    Fraction(29, 1)
    """
    exact = Fraction(str(phi))
    if not 0 < exact <= 1:
        raise ValueError("phi must lie in (0, 1]")
    return exact


def ranks_of(phi: Fraction, count: Array, rule: RankRule = "ceil") -> Array:
    """Rank, from 1, of the phi-quantile of `count` values, in integers throughout.

    >>> ranks_of(as_written(0.1), np.array([5, 10, 11])), ranks_of(as_written(0.1), np.array([5, 25]), "floor")
    (array([1, 1, 2]), array([1, 2]))
    """
    if rule not in ("ceil", "floor"):
        raise ValueError(f"rule must be 'ceil' or 'floor', not {rule!r}")
    up = phi.denominator - 1 if rule == "ceil" else 0
    if phi.numerator * int(count.max(initial=0)) + phi.denominator < 2**63:
        rank = (count * phi.numerator + up) // phi.denominator
    else:  # too many digits for 64 bits: Python's integers, once for each count that occurs
        counts, back = np.unique(count, return_inverse=True)
        rank = np.array([(int(n) * phi.numerator + up) // phi.denominator for n in counts], np.int64)[back]
    return np.asarray(np.maximum(rank, 1))


def pick_quantile(value: Array, offset: Array, phi: float) -> Partial:
    """Partial of `quantile`: the value picked from each slot, and of how many."""
    count = _count_numbers(value, offset)
    at = np.where(count > 0, offset[:-1] + ranks_of(as_written(phi), count) - 1, 0)
    return (value[at] if len(value) else np.zeros(len(count), value.dtype)), count


def _count_numbers(value: Array, offset: Array) -> Array:
    """How many values of each slot are not NaN."""
    count = np.diff(offset)
    if value.dtype == np.float64:
        nans = np.concatenate([[0], np.cumsum(np.isnan(value))])
        count = count - (nans[offset[1:]] - nans[offset[:-1]])
    return count


def pick_mode(value: Array, offset: Array, rank: Array) -> Partial:
    """Partial of `mode`: the value that each slot has most often, and of how many it was picked. Of several it is the
    least, or the one of the least `rank`, if values are codes that have one."""
    count = _count_numbers(value, offset)
    picked = np.zeros(len(count), value.dtype)
    if not len(value):
        return picked, count
    slot = np.repeat(np.arange(len(count)), np.diff(offset))
    begins = np.flatnonzero(_is_first(value, offset))
    often = np.diff(np.append(begins, len(value)))
    value, slot = value[begins], slot[begins]
    often[value != value] = 0
    place = rank[value] if len(rank) else value
    order = np.lexsort((place, -often, slot))
    first = np.flatnonzero(np.diff(slot[order], prepend=-1))
    picked[slot[order][first]] = value[order][first]
    return picked, count


def _is_first(value: Array, offset: Array) -> Array:
    """Whether a value differs from the one before it in its slot."""
    is_first = np.ones(len(value), np.bool_)
    if len(value):
        same = value[1:] == value[:-1]
        if value.dtype == np.float64:
            same |= np.isnan(value[1:]) & np.isnan(value[:-1])
        is_first[1:] = ~same
        is_first[offset[:-1][offset[:-1] < offset[1:]]] = True
    return is_first


def count_distinct(value: Array, offset: Array) -> Partial:
    """Partial of `distinct`: how many different values each slot has."""
    running = np.concatenate([[0], np.cumsum(_is_first(value, offset))])
    return (running[offset[1:]] - running[offset[:-1]],)
