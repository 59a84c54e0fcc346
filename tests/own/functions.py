"""Functions as users write them, in a module of their own, as executors of Spark must find them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import muntin


@muntin.aggregate("TOTAL", takes=int, returns=int, version=3)
class Total:
    """What SUM is, of few enough integers: so that answers can be compared."""

    identity = 0

    def lift(x: Any) -> Any:
        return x

    def combine(left: Any, right: Any) -> Any:
        return left + right

    def subtract(whole: Any, part: Any) -> Any:
        return whole - part

    def lower(state: Any) -> Any:
        return state


@muntin.aggregate("MEANPOS", takes=float, returns=float)
class MeanOfPositives:
    """The mean, or NULL if a value is below 0: floats, integers and truths."""

    identity = (0.0, 0, False)

    def lift(x: Any) -> Any:
        return x, 1, x < 0

    def combine(left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] + right[1], left[2] or right[2]

    def lower(state: Any) -> Any:
        return None if state[2] else state[0] / state[1]


@muntin.function("DOUBLED", takes=[float], returns=float)
def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2.0)
