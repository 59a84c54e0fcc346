"""Distributive and algebraic aggregates: those that are computed from partials of fixed size.

COUNT, SUM and AVG, of what is in the window, without a trace of what has left it. MIN and MAX, where NaN counts as the
greatest number, as in DuckDB, PostgreSQL and Spark. FIRST and LAST, the value of the earliest or latest event that has
one; of equal times, FIRST takes the first to arrive and LAST the last. ARG_MAX and ARG_MIN, the
value of the event at which another one is greatest or least. Variance and standard deviation from
(count, mean, M2), which is stable where a sum of squares is not.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from muntin.aggregates.contract import (
    Aggregate,
    Array,
    Lowered,
    Partials,
    Picked,
    any_type,
    is_number,
    kept_type,
    real_type,
)
from muntin.arrays import recycled
from muntin.component.ends import NEVER
from muntin.component.sum import LAP, has_overflown, whole_sum
from muntin.errors import NoValue
from muntin.kernels.answers import add_rests, any_overflown


class Count(Aggregate):
    """Never NULL: an empty window counts 0."""

    name = "count"
    components = ("count",)
    takes_star = True

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        return Lowered(count, np.ones(len(count), np.bool_))

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        return partials[0][0]


TOO_LARGE = "SUM does not fit 64 bits; use SUM(CAST(x AS DOUBLE))"


class Sum(Aggregate):
    """Integers sum exactly (beyond 64 bits there is no sum, and no wrong number); floats are
    accurate to about 30 digits of the largest value in the window."""

    name = "sum"
    components = ("count", "sum")

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        return pa.float64() if pa.types.is_floating(argument) else pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        total, rest = partials["sum"]
        if total.dtype == np.float64:
            return Lowered(_float_total(total, rest), count > 0)
        if not any_overflown(total, rest):  # nearly always
            return Lowered(total, count > 0)
        lost = has_overflown(total, rest)
        return Lowered(total, (count > 0) & ~lost, lost)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        (count,), (total, rest) = partials
        if not count:
            return None
        if isinstance(total, float):
            return whole_sum(total, rest)
        if has_overflown(total, rest):
            raise NoValue(TOO_LARGE)
        return total


class Avg(Aggregate):
    """The mean; of integers it exists however large their sum is. NULL for an empty window."""

    name = "avg"
    components = ("count", "sum")

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return real_type(argument)

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        total, rest = partials["sum"]
        if total.dtype == np.float64:
            total = _float_total(total, rest)
        elif any_overflown(total, rest):
            short = np.rint((rest - total) / LAP) * LAP
            total = total + short  # in floats: rounded once, as a quotient of 64 bits would be
        return Lowered(total / np.maximum(count, 1), count > 0)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        (count,), (total, rest) = partials
        if not count:
            return None
        if isinstance(total, float):
            return whole_sum(total, rest) / count
        if has_overflown(total, rest):
            total = int(total) + round((rest - total) / LAP) * int(LAP)
        return total / count


def _float_total(high: Array, low: Array) -> Array:
    out = recycled(len(high), np.float64)
    add_rests(high, low, out)
    return out


class Min(Picked):
    """The smallest value in the window; NULL if there is none."""

    name = "min"
    components = ("count", "min")


class Max(Picked):
    """The greatest value in the window; NULL if there is none."""

    name = "max"
    components = ("count", "max")


class First(Picked):
    """The earliest value in the window that is not NULL."""

    name = "first"
    components = ("count", "first")


class Last(Picked):
    """The latest value in the window that is not NULL."""

    name = "last"
    components = ("count", "last")


class ArgMax(Aggregate):
    """The value of the event that is greatest by another one; of several the earliest."""

    name = "arg_max"
    components = ("arg_max",)
    arguments = ("value", "by")
    order: ClassVar[Literal["max", "min"] | None] = "max"

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return kept_type(any_type(argument))

    def lower(self, partials: Partials) -> Lowered:
        value, _, at = partials["arg_max"]
        return Lowered(value, at < NEVER)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        value, _, at = partials[0]
        return value if at < NEVER else None


class ArgMin(ArgMax):
    """The value of the event that is least by another one; of several the earliest."""

    name = "arg_min"
    order = "min"


class _Variance(Aggregate):
    components = ("count", "m2")
    spare = 0  # degrees of freedom taken off the count
    is_root = False

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return real_type(argument)

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        _count, _mean, m2 = partials["m2"]
        variance = m2 / np.maximum(count - self.spare, 1)
        return Lowered(np.sqrt(variance) if self.is_root else variance, count > self.spare)


class VarPop(_Variance):
    """Population variance; NULL for an empty window."""

    name = "var_pop"


class VarSamp(_Variance):
    """Sample variance; NULL for fewer than two values."""

    name = "var_samp"
    spare = 1


class StddevPop(_Variance):
    """Population standard deviation."""

    name = "stddev_pop"
    is_root = True


class StddevSamp(_Variance):
    """Sample standard deviation; NULL for fewer than two values."""

    name = "stddev_samp"
    spare = 1
    is_root = True
