"""sum: of integers exactly, of floats to about 30 digits of the largest value.

Integers: the total modulo 2**64, beside a *shadow* that was added up in floats. The shadow is off by some rounding
errors, far less than 2**62, so the two together say what the exact total is, however large.

Floats: the *high* part is the sum as it was rounded, the *low* part is what the roundings have lost.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

from muntin.component.rules import FLOAT, Numbers, Rules, rule

FAR = float(2**62)  # how far a total is from its shadow at least if it has overflown
LAP = float(2**64)  # what it is short of each time


class IntSums(NamedTuple):
    total: Any
    shadow: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return value, value * 1.0

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return left[0] + right[0], left[1] + right[1]

    @staticmethod
    def subtract(whole: Numbers, part: Numbers) -> Numbers:
        return whole[0] - part[0], whole[1] - part[1]


class FloatSums(NamedTuple):
    """Not subtracted: 1e16 rounds its neighbours away, and NaN never goes."""

    high: Any
    low: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return value, 0.0

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        high, lost = two_sum(left[0], right[0])
        return high, left[1] + (lost + right[1] if isfinite(lost) else 0.0)

    @staticmethod
    def fold(state: Numbers, value: Any, at: Any) -> Numbers:
        high, lost = two_sum(state[0], value)
        return high, state[1] + (lost if isfinite(lost) else 0.0)


@rule
def two_sum(a: Any, b: Any) -> Any:
    """The sum as it is rounded, and what the rounding has lost; that is not finite once the sum is not."""
    total = a + b
    step = total - a
    return total, (a - (total - step)) + (b - step)


@rule
def has_overflown(total: Any, shadow: Any) -> Any:
    """Whether an integer total is not the exact one."""
    return abs(total * 1.0 - shadow) > FAR


@rule
def whole_sum(high: Any, low: Any) -> Any:
    """The sum of floats with what its roundings have lost; infinities and NaN have lost nothing."""
    return high + low if isfinite(high) else high


SUM = Rules("sum", IntSums, FloatSums, lambda kind: ((kind, 0), (FLOAT, 0.0)), lifts_columns=True)
