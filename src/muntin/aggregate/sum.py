"""SUM and AVG: of what is in the window, without a trace of what has left it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Array, Lowered, Partials, is_number, real_type
from muntin.component.sum import LAP, has_overflown, whole_sum
from muntin.errors import NoValue
from muntin.kernels.sum import add_rests, any_overflown

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
    out = np.empty_like(high)
    add_rests(high, low, out)
    return out
