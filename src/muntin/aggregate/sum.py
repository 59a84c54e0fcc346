"""SUM and AVG: of what is in the window, without a trace of what has left it."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Array, Lowered, Partials, is_number
from muntin.errors import MuntinError
from muntin.kernels.totals import add_rests, is_apart

_FAR = float(2**62)
_TOO_LARGE = "SUM does not fit 64 bits; use SUM(CAST(x AS DOUBLE))"


class Sum(Aggregate):
    """Integers sum exactly (an overflow of 64 bits is an error, not a wrong number); floats are
    accurate to about 30 digits of the largest value in the window."""

    name = "sum"
    components = ("count", "sum")

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        return pa.float64() if pa.types.is_floating(argument) else pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        return Lowered(_total(partials), count > 0)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        (count,), total = partials
        return _one_total(*total) if count else None


class Avg(Aggregate):
    """SUM divided by COUNT; NULL for an empty window."""

    name = "avg"
    components = ("count", "sum")

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        return pa.float64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        return Lowered(_total(partials) / np.maximum(count, 1), count > 0)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        (count,), total = partials
        return _one_total(*total) / count if count else None


def _total(partials: Partials) -> Array:
    total, rest = partials["sum"]  # integers: (total, float shadow); floats: (high, low)
    if total.dtype == np.int64:
        # a wrapped total is 2**64 away from its shadow, a right one at most some rounding errors
        if is_apart(total, rest, _FAR):
            raise MuntinError(_TOO_LARGE)
        return total
    out = np.empty_like(total)
    add_rests(total, rest, out)
    return out


def _one_total(total: Any, rest: Any) -> Any:
    if isinstance(total, float):
        return total + rest if isfinite(total) else total
    if abs(total - rest) > _FAR:
        raise MuntinError(_TOO_LARGE)
    return total
