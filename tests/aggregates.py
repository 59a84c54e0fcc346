"""The aggregates of the oracle: exact arithmetic over a plain list of values without NULL.

Floats are summed as fractions and rounded once. Each answer carries its *slack*: how far a careful
implementation in doubles may lie from it, beside a relative error of 1e-9 (see `answers.is_close`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

EPSILON = 2.0**-52
# Functions of the user's own, by name: the type of their answers, and what they are of values, of which there is one.
OWN: dict[str, tuple[pa.DataType, Callable[[list[Any]], Any]]] = {}


@dataclass(frozen=True)
class Measured:
    """The answer of one aggregate, and the slack it allows."""

    value: Any
    slack: float = 0.0
    exists: bool = True


NOTHING = Measured(None)


def answer_type(function: str, argument: pa.DataType | None) -> pa.DataType:
    if function in ("count", "count_distinct"):
        return pa.int64()
    assert argument is not None
    if function in OWN:
        return OWN[function][0]
    if function == "sum":
        return pa.float64() if pa.types.is_floating(argument) else pa.int64()
    if function == "approx_frequent":
        bounds = [(name, pa.int64()) for name in ("estimate", "lower", "upper")]
        item = argument.field(0).type if pa.types.is_struct(argument) else argument
        return pa.list_(pa.struct([("item", item), *bounds]))
    if function == "approx_count_distinct_error":
        return pa.float64()
    if function.startswith("approx_count"):
        return pa.int64()
    if function == "sum:0" and pa.types.is_decimal(argument):
        return pa.int64()
    if function in ("arg_max", "arg_min"):
        return argument.field(0).type
    if function in ("min", "max", "first", "last", "quantile", "mode", "approx_quantile"):
        return argument
    return pa.float64()


def aggregate(function: str, values: list[Any], kind: pa.DataType, parameters: tuple[float, ...]) -> Measured:
    """The answer over `values`, in stream order and without NULL."""
    if function == "count":
        return Measured(len(values))
    if function == "count_distinct":
        return Measured(len({_nan_is_one(value) for value in values}))
    if function == "quantile":
        return _quantile(values, parameters[0])
    if function == "mode":
        return _mode(values)
    if function.startswith("approx_count_distinct"):
        return _registers(function, values, parameters)
    if function.startswith("approx"):
        if pa.types.is_decimal(kind) and function.startswith(
            "approx_count"
        ):  # the item is kept as an integer
            parameters = (Decimal(int(parameters[0])).scaleb(-kind.scale), *parameters[1:])
        return _exactly(function, values, parameters)
    if not values:
        return NOTHING
    if function in OWN:
        return Measured(OWN[function][1](values))
    if function == "first":
        return Measured(values[0])
    if function == "last":
        return Measured(values[-1])
    if function == "min":
        return Measured(min(values, key=_nan_is_greatest))
    if function == "max":
        return Measured(max(values, key=_nan_is_greatest))
    if function == "arg_max":  # of equals both take the first
        return Measured(max(values, key=lambda pair: _nan_is_greatest(pair["max"]))["value"])
    if function == "arg_min":
        return Measured(min(values, key=lambda pair: _nan_is_greatest(pair["min"]))["value"])
    if function == "sum":
        return _sum(values) if pa.types.is_floating(kind) else _sum_of_integers(values)
    if function == "avg":
        return _avg(values)
    if function in (
        "sum:0",
        "sum:1",
    ):  # what COVAR_POP and its like are made of: a sum, and what its rounding lost
        if pa.types.is_decimal(kind):
            return _part_of_decimal_sum(values, kind.scale, function == "sum:1")
        return _part_of_sum(values, function == "sum:1")
    if function == "m2:2":
        spread = _spread("var_pop", values)
        return Measured(spread.value * len(values), spread.slack * len(values))
    return _spread(function, values)


def _exactly(function: str, values: list[Any], parameters: tuple[Any, ...]) -> Measured:
    """What a sketch answers that still has every value as it came."""
    if function == "approx_quantile":
        return _quantile(values, parameters[0])
    if function == "approx_quantile_error":
        return Measured(0.0) if any(value == value for value in values) else NOTHING
    if function == "approx_count":
        return Measured(sum(value == parameters[0] for value in values))
    if function == "approx_count_error":
        return Measured(0)
    often: dict[Any, int] = {}
    for value in values:  # pairs are of an item and its weight
        item, weight = (value["value"], value["max"]) if isinstance(value, dict) else (value, 1)
        often[item] = often.get(item, 0) + weight
    least = Fraction(str(parameters[0])) * sum(often.values())
    frequent = [item for item, count in often.items() if count > least]
    names = ("item", "estimate", "lower", "upper")
    rows = [(item, *[often[item]] * 3) for item in sorted(frequent, key=lambda item: -often[item])]
    return Measured([dict(zip(names, row, strict=True)) for row in rows])


def _registers(function: str, hashes: list[int], parameters: tuple[Any, ...]) -> Measured:
    """HyperLogLog over hashes of 64 bits, with Ertl's estimator, from its formula."""
    eps = parameters[0] if parameters else 0.02
    bits = next(bits for bits in range(4, 64) if 1.04 / math.sqrt(2**bits) <= eps)
    registers: dict[int, int] = {}  # of 2**bits, those that are not empty
    for each in hashes:
        written = f"{each % 2**64:064b}"
        rank = len(written[bits:].split("1")[0]) + 1
        register = int(written[:bits], 2)
        registers[register] = max(registers.get(register, 0), min(rank, 44))
    empty = Fraction(2**bits - len(registers), 2**bits)
    if empty == 1:
        return Measured(0 if function == "approx_count_distinct" else 0.0)
    filled = math.fsum(2.0**-rank for rank in registers.values())
    series = math.fsum([float(empty), *(float(empty) ** 2**k * 2.0 ** (k - 1) for k in range(1, 60))])
    estimate = 4.0**bits / (2 * math.log(2)) / (filled + 2**bits * series)
    error = estimate * 1.04 / 2 ** (bits / 2)
    return Measured(round(estimate)) if function == "approx_count_distinct" else Measured(error)


def _sum_of_integers(values: list[int]) -> Measured:
    total = sum(values)
    return Measured(total) if -(2**63) <= total < 2**63 else Measured(None, exists=False)


def _sum(values: list[float]) -> Measured:
    """NaN if there is a NaN or both infinities; else the infinity; else exact, rounded once."""
    wild = [value for value in values if not math.isfinite(value)]
    if wild:
        return Measured(wild[0] if len(set(wild)) == 1 and not math.isnan(wild[0]) else math.nan)
    return Measured(_rounded(_exact_sum(values)), 1e-20 * math.fsum(map(abs, values)))


def _part_of_sum(values: list[float], is_rest: bool) -> Measured:
    if not all(map(math.isfinite, values)):
        return Measured(0.0 if is_rest else _sum(values).value)
    exact = _exact_sum(values)
    return Measured(_rounded(exact - Fraction(_rounded(exact))) if is_rest else _rounded(exact))


def _part_of_decimal_sum(values: list[Decimal], scale: int, is_shadow: bool) -> Measured:
    """The total in units of the last digit: modulo 2**64, and as a float."""
    total = sum(int(value.scaleb(scale)) for value in values)
    return Measured(float(total) if is_shadow else (total + 2**63) % 2**64 - 2**63)


def _whole(values: list[Any]) -> tuple[list[int], int]:
    """Whole numbers and one more: finite values are the numbers divided by it. Sums of fractions, which are
    reduced one by one, take ten times as long."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = math.lcm(*(denominator for _, denominator in ratios))
    return [numerator * (unit // denominator) for numerator, denominator in ratios], unit


def _exact_sum(values: list[Any]) -> Fraction:
    whole, unit = _whole(values)
    return Fraction(sum(whole), unit)


def _avg(values: list[Any]) -> Measured:
    total = _sum([float(value) for value in values])
    mean = _exact_mean(values)
    return total if mean is None else Measured(_rounded(mean), total.slack / len(values))


def _exact_mean(values: list[Any]) -> Fraction | None:
    """None if a value is not finite."""
    if not all(math.isfinite(value) for value in values):
        return None
    return _exact_sum(values) / len(values)


def _spread(function: str, values: list[Any]) -> Measured:
    """Variances and their roots. A value that is not finite makes them NaN.

    The mean of n doubles is known to some n ulps of the values, which costs a variance the mixed
    and the square term below (Chan, Golub & LeVeque 1983, as bounds for the updating algorithm).
    """
    spare = 1 if function.endswith("samp") else 0
    n = len(values)
    if n <= spare:
        return NOTHING
    if not all(math.isfinite(value) for value in values):
        return Measured(math.nan)
    whole, unit = _whole(values)
    squares = sum(value * value for value in whole)
    # exactly, the sum of (x - mean)^2 is that of x^2 less the square of the sum by n
    variance = _rounded(Fraction(n * squares - sum(whole) ** 2, unit * unit * n * (n - spare)))
    square = _rounded(Fraction(squares, unit * unit * (n - spare)))
    error = 4 * n * EPSILON
    if math.isinf(square):  # squares beyond the doubles: infinity or anything is as good as the exact answer
        return Measured(variance if function.startswith("var") else math.sqrt(variance), math.inf)
    slack = error * math.sqrt(variance) * math.sqrt(square) + error**2 * square
    if function.startswith("var"):
        return Measured(variance, slack)
    root = math.sqrt(variance)
    return Measured(root, slack / root if root > math.sqrt(slack) else math.sqrt(slack))


def _quantile(values: list[Any], phi: float) -> Measured:
    """The value of rank ceil(phi * n), phi being the decimal that was written."""
    ordered = sorted(value for value in values if value == value)
    if not ordered:
        return NOTHING
    return Measured(ordered[math.ceil(Fraction(str(phi)) * len(ordered)) - 1])


def _mode(values: list[Any]) -> Measured:
    """The most frequent value, of several the least, without NaN."""
    ordered = sorted(value for value in values if value == value)
    if not ordered:
        return NOTHING
    return Measured(max(ordered, key=ordered.count))  # the first of several


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _nan_is_one(value: Any) -> Any:
    return "NaN" if value != value else (value,)


def _nan_is_greatest(value: Any) -> Any:
    return (value != value, 0.0 if value != value else value)
