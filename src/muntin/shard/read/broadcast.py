"""A condition for many constants and many answers at once: constants stand in a column, answers in rows.

NumPy broadcasts the one over the other, so `$0 > "?0" * $1` for thirty members and five thousand keys is a
multiplication and a comparison. What comes out is what `Expression.evaluate` gives: NULL, NaN above all numbers, NULL
for a division by zero. Integers that might overflow, and whatever is not known here, are `Unusual`: Arrow then tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from muntin.arrays import Bools

_LEAST, _GREATEST = -(2**63), 2**63 - 1
Array = npt.NDArray[Any]


class Unusual(Exception):
    """A condition that has to be evaluated otherwise."""


class Numbers(NamedTuple):
    """Integers or doubles: of some members (or one row for all), by key (or one column for all)."""

    value: Array
    valid: Bools | None  # None: nothing is NULL
    low: float  # no value lies beyond these ends; integers if values are
    high: float
    may_be_nan: bool = False

    @property
    def are_whole(self) -> bool:
        return bool(self.value.dtype.kind == "i")

    def as_reals(self) -> Numbers:
        if not self.are_whole:
            return self
        return Numbers(self.value.astype(np.float64), self.valid, float(self.low), float(self.high))


class Truth(NamedTuple):
    """Where a condition holds, and where it is not NULL; `known` is None if it is NULL nowhere."""

    holds: Bools
    known: Bools | None


def numbers_of(value: Array, valid: Bools | None) -> Numbers:
    """Answers or constants, with their ends."""
    if valid is not None and valid.all():
        valid = None
    if not value.size:
        return Numbers(value, valid, 0, 0)
    low, high = value.min(), value.max()
    if value.dtype.kind == "i":
        return Numbers(value, valid, int(low), int(high))
    if math.isnan(low):  # one of them is
        return Numbers(value, valid, -math.inf, math.inf, True)
    return Numbers(value, valid, float(low), float(high))


def holds(condition: exp.Expr, columns: Mapping[str, Numbers]) -> Bools:
    """Where a condition is true."""
    with np.errstate(all="ignore"):
        found = _evaluated(condition, columns)
    if not isinstance(found, Truth):
        raise Unusual
    return found.holds if found.known is None else found.holds & found.known


# What nodes may have beside their class; one that has more says something else.
_BINARY = {"this", "expression"}
_PARTS: dict[Any, set[str]] = {
    exp.Between: {"this", "low", "high"}, exp.In: {"this", "expressions"}, exp.Is: {*_BINARY, "negate"},
}  # fmt: skip


def _evaluated(node: Any, columns: Mapping[str, Numbers]) -> Numbers | Truth:
    kind = type(node)
    if not _PARTS.get(kind, _BINARY).issuperset(name for name, part in node.args.items() if part):
        raise Unusual
    if kind is exp.Column:
        if node.name not in columns:
            raise Unusual
        return columns[node.name]
    if kind is exp.Paren:
        return _evaluated(node.this, columns)
    if kind is exp.Between:
        value, low, high = (_number(node.args[each], columns) for each in ("this", "low", "high"))
        return _and(_not(_less(value, low)), _not(_less(high, value)))
    if kind is exp.In and node.expressions:
        value, *choices = (_number(each, columns) for each in (node.this, *node.expressions))
        found = _equal(value, choices[0])
        for each in choices[1:]:
            found = _or(found, _equal(value, each))
        return found
    if kind is exp.Is and isinstance(node.expression, exp.Null):
        valid = _number(node.this, columns).valid
        is_null = Truth(np.zeros((1, 1), np.bool_) if valid is None else ~valid, None)
        return _not(is_null) if node.args.get("negate") else is_null
    if kind is exp.Not:
        return _not(_truth(node.this, columns))
    if kind is exp.Neg:
        zero = np.zeros((1, 1), np.int64)
        return _arithmetic(exp.Sub, Numbers(zero, None, 0, 0), _number(node.this, columns))
    if kind in _CONNECTORS:
        return _CONNECTORS[kind](_truth(node.left, columns), _truth(node.right, columns))
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](_number(node.left, columns), _number(node.right, columns))
    if kind is exp.Div:
        return _divided(_number(node.left, columns), _number(node.right, columns))
    if kind in _ARITHMETIC:
        return _arithmetic(kind, _number(node.left, columns), _number(node.right, columns))
    raise Unusual


def _number(node: exp.Expr, columns: Mapping[str, Numbers]) -> Numbers:
    found = _evaluated(node, columns)
    if not isinstance(found, Numbers):
        raise Unusual
    return found


def _truth(node: exp.Expr, columns: Mapping[str, Numbers]) -> Truth:
    found = _evaluated(node, columns)
    if not isinstance(found, Truth):
        raise Unusual
    return found


_ARITHMETIC: dict[Any, Callable[[Any, Any], Any]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
}


def _arithmetic(kind: Any, left: Numbers, right: Numbers) -> Numbers:
    operation, valid = _ARITHMETIC[kind], _both(left.valid, right.valid)
    if not (left.are_whole and right.are_whole):
        left, right = left.as_reals(), right.as_reals()
    ends = [_end(kind, one, other) for one in (left.low, left.high) for other in (right.low, right.high)]
    if left.are_whole:
        if min(ends) < _LEAST or max(ends) > _GREATEST:
            raise Unusual
        return Numbers(operation(left.value, right.value), valid, min(ends), max(ends))
    value = operation(left.value, right.value)
    if not all(map(math.isfinite, (left.low, left.high, right.low, right.high))):
        return Numbers(value, valid, -math.inf, math.inf, True)  # infinity less infinity is no number
    return Numbers(value, valid, min(ends), max(ends))


def _end(kind: Any, one: float, other: float) -> float:
    return one + other if kind is exp.Add else one - other if kind is exp.Sub else one * other


def _divided(left: Numbers, right: Numbers) -> Numbers:
    valid, divisor = _both(left.valid, right.valid), right.as_reals()
    is_none = divisor.value == 0
    if is_none.any():
        valid = _both(valid, ~is_none)
    left = left.as_reals()
    value = left.value / divisor.value
    are_finite = all(map(math.isfinite, (left.low, left.high, right.low, right.high)))
    if are_finite and right.are_whole:  # by 1 or more
        most = max(abs(left.low), abs(left.high))
        return Numbers(np.where(is_none, 0.0, value) if is_none.any() else value, valid, -most, most)
    return Numbers(value, valid, -math.inf, math.inf, not are_finite or bool(is_none.any()))


def _less(left: Numbers, right: Numbers) -> Truth:
    """left < right, with NaN above all numbers."""
    valid = _both(left.valid, right.valid)
    if not (left.are_whole and right.are_whole):
        left, right = left.as_reals(), right.as_reals()
    found = left.value < right.value
    if right.may_be_nan:
        found = found | (np.isnan(right.value) & ~np.isnan(left.value))
    return Truth(found, valid)


def _equal(left: Numbers, right: Numbers) -> Truth:
    """left = right, where NaN equals NaN."""
    valid = _both(left.valid, right.valid)
    if not (left.are_whole and right.are_whole):
        left, right = left.as_reals(), right.as_reals()
    found = left.value == right.value
    if left.may_be_nan and right.may_be_nan:
        found = found | (np.isnan(left.value) & np.isnan(right.value))
    return Truth(found, valid)


def _not(one: Truth) -> Truth:
    return Truth(~one.holds, one.known)


def _and(one: Truth, other: Truth) -> Truth:
    """FALSE AND NULL is FALSE."""
    found = one.holds & other.holds
    if one.known is None and other.known is None:
        return Truth(found, None)
    return Truth(found, _known(one, other, _is_false(one), _is_false(other)))


def _or(one: Truth, other: Truth) -> Truth:
    """TRUE OR NULL is TRUE."""
    if one.known is None and other.known is None:
        return Truth(one.holds | other.holds, None)
    true, also = _is_true(one), _is_true(other)
    return Truth(true | also, _known(one, other, true, also))


def _known(one: Truth, other: Truth, decides: Bools, also: Bools) -> Bools:
    """Where two are known, or one decides for both."""
    both = _both(one.known, other.known)
    assert both is not None
    known: Bools = both | decides | also
    return known


def _is_true(one: Truth) -> Bools:
    return one.holds if one.known is None else one.holds & one.known


def _is_false(one: Truth) -> Bools:
    return ~one.holds if one.known is None else ~one.holds & one.known


def _both(one: Bools | None, other: Bools | None) -> Bools | None:
    """What is in both of two sets, None being everything."""
    if one is None or other is None:
        return other if one is None else one
    both: Bools = one & other
    return both


_CONNECTORS: dict[Any, Callable[[Truth, Truth], Truth]] = {exp.And: _and, exp.Or: _or}
_COMPARISONS: dict[Any, Callable[[Numbers, Numbers], Truth]] = {
    exp.LT: _less,
    exp.GT: lambda left, right: _less(right, left),
    exp.GTE: lambda left, right: _not(_less(left, right)),
    exp.LTE: lambda left, right: _not(_less(right, left)),
    exp.EQ: _equal,
    exp.NEQ: lambda left, right: _not(_equal(left, right)),
}
