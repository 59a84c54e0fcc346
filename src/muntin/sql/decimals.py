"""Decimals: what is computed of them exactly, and where they become something else.

+ - * of decimals and integers are exact; so are comparisons with constants, however many digits these have. `/` and
whatever needs a DOUBLE takes the one nearest to the decimal. SUM is put together from the parts of an integer sum: the
total modulo 2**64 and its shadow say what the exact total is (`component/sum.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.component.sum import LAP
from muntin.decimal_text import check_texts
from muntin.fixed_point import HALVES, WIDEST, halves_of, is_decimal, wide_decimals
from muntin.sql.function_nodes import DecimalMean, DecimalSum

Datum = Any
Operation = Callable[..., Datum]  # as in `term.py`, which imports this
Halves = npt.NDArray[Any]

_WIDE = 76  # digits of Arrow's widest
_EXACT = 2**53  # integers up to there are all DOUBLEs
_EXACTLY = Context(prec=_WIDE, Emax=MAX_EMAX)
_OF_CONSTANTS = {"+": _EXACTLY.add, "-": _EXACTLY.subtract, "*": _EXACTLY.multiply}


def folded(symbol: str, left: Decimal | None, right: Decimal | None) -> Decimal | None:
    """The exact value of an operation on two constants; None if there is none."""
    operation = _OF_CONSTANTS.get(symbol)
    return None if operation is None or left is None or right is None else operation(left, right)


# Arithmetic: results of up to 38 digits, by way of 76 where that many are needed.


def add(left: Datum, right: Datum) -> Datum:
    return _cut(pc.add, left, right) if is_decimal(left.type) else pc.add_checked(left, right)


def subtract(left: Datum, right: Datum) -> Datum:
    return _cut(pc.subtract, left, right) if is_decimal(left.type) else pc.subtract_checked(left, right)


def multiply(left: Datum, right: Datum) -> Datum:
    if not is_decimal(left.type):
        return pc.multiply_checked(left, right)
    if left.type.precision + right.type.precision >= _WIDE:
        raise pa.ArrowInvalid(f"a product of more than {_WIDE} digits; CAST a factor to a DECIMAL of fewer")
    made = _cut(pc.multiply, left, right)
    # Arrow has room for one digit that no product needs
    digits = min(left.type.precision + right.type.precision, WIDEST)
    return made if made.type.precision == digits else pc.cast(made, pa.decimal128(digits, made.type.scale))


def _cut(operation: Operation, left: Datum, right: Datum) -> Datum:
    try:
        return operation(left, right)
    except pa.ArrowInvalid:  # the type would have more than 38 digits
        wide = [pc.cast(each, pa.decimal256(each.type.precision, each.type.scale)) for each in (left, right)]
    made = operation(*wide)
    if made.type.scale > WIDEST:
        raise pa.ArrowInvalid(
            f"a DECIMAL has at most {WIDEST} digits, and this {made.type.scale} after the point"
        )
    return pc.cast(made, pa.decimal128(WIDEST, made.type.scale))


def rounded(value: Datum, scale: int, how: str = "half_towards_infinity") -> Datum:
    """A decimal with at most so many digits after the point, and room for one more before it."""
    if scale >= value.type.scale:
        return value
    whole, kept = value.type.precision - value.type.scale, max(scale, 0)
    kind = pa.decimal128(min(whole + 1 + kept, WIDEST), kept)
    if -scale > whole:  # beyond the first digit: Arrow has no place to round at
        return pc.if_else(pc.is_valid(value), pa.scalar(Decimal(0), kind), pa.scalar(None, kind))
    wide = pc.cast(value, pa.decimal256(value.type.precision + 1, value.type.scale))
    return pc.cast(pc.round(wide, ndigits=scale, round_mode=how), kind)


def floor(value: Datum) -> Datum:
    return rounded(value, 0, "down")


def ceiling(value: Datum) -> Datum:
    return rounded(value, 0, "up")


# Conversions


def from_text(text: Datum, kind: pa.DataType) -> Datum:
    """What a text says, rounded as decimals are."""
    check_texts(text)
    return narrowed(pc.cast(text, pa.decimal256(_WIDE, WIDEST)), kind)


def narrowed(value: Datum, kind: pa.DataType) -> Datum:
    """A decimal as another type has it: rounded half away from zero; an error if it does not fit."""
    if value.type.scale > kind.scale:
        wide = pc.cast(value, pa.decimal256(min(value.type.precision + 1, _WIDE), value.type.scale))
        value = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
    return pc.cast(value, kind)


def to_text(value: Datum, kind: pa.DataType) -> Datum:
    """All digits, without an exponent."""
    written = pc.cast(value, pa.string())
    if isinstance(written, pa.Scalar):
        return pa.scalar(_plain(written.as_py()), kind)
    if pc.any(pc.match_substring(written, "E")).as_py():  # Arrow's way for 0.00000001
        written = pa.array(map(_plain, written.to_pylist()), pa.string())
    return pc.cast(written, kind)


def _plain(written: str | None) -> str | None:
    return None if written is None else f"{Decimal(written):f}"


def to_real(value: Datum, kind: pa.DataType) -> Datum:
    """The DOUBLE nearest to each; Arrow's own cast is off by one in the last place of one in ten."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(None if not value.is_valid else float(value.as_py()), kind)
    mask = np.asarray(value.is_null()) if value.null_count else None
    real = pa.array(_quotients(_halves(value), value.type.scale, None), pa.float64(), mask=mask)
    return pc.cast(real, kind)


def _halves(value: pa.Array) -> Halves:
    if value.type.bit_width != 128:
        value = pc.cast(value, pa.decimal128(WIDEST, value.type.scale))
    if value.null_count:
        value = value.fill_null(Decimal(0))
    data = value.buffers()[1]
    return (
        np.frombuffer(data, HALVES, value.offset + len(value))[value.offset :]
        if data
        else np.zeros(0, HALVES)
    )


def _quotients(halves: Halves, scale: int, count: npt.NDArray[np.int64] | None) -> npt.NDArray[np.float64]:
    """The DOUBLE nearest to an integer over 10**scale, and over a count if there is one; O(rows)."""
    low, high = halves["low"], halves["high"]
    over = 10**scale
    many = np.ones(len(low), np.int64) if count is None else count
    # a quotient of two integers that are DOUBLEs is rounded once
    is_small = (high == low >> 63) & (low <= _EXACT) & (low >= -_EXACT) & (many <= _EXACT // over)
    found = low / (float(over) * np.where(is_small, many, 1))
    for row in np.flatnonzero(
        ~is_small
    ).tolist():  # as Python's integers, whose quotient is rounded once, too
        whole = (int(high[row]) << 64) + (int(low[row]) & (2**64 - 1))
        found[row] = whole / (over * int(many[row]))
    return np.asarray(found, np.float64)


# SUM and AVG, from the parts of an integer sum.


def _total(total: pa.Array, shadow: pa.Array) -> Halves:
    """The exact total: the part modulo 2**64, and as many laps as the shadow says."""
    halves = halves_of(np.asarray(total.fill_null(0)))
    rest = np.asarray(shadow.fill_null(0.0)) - halves["low"]
    halves["high"] += np.rint(rest / LAP).astype(np.int64)
    return halves


def _wide_sum(total: Datum, shadow: Datum, scale: int) -> Datum:
    mask = np.asarray(total.is_null()) if total.null_count else None
    return wide_decimals(_total(total, shadow), mask, pa.decimal128(WIDEST, scale))


def _mean(total: Datum, shadow: Datum, count: Datum, scale: int) -> Datum:
    mask = np.asarray(total.is_null()) if total.null_count else None
    many = np.maximum(np.asarray(count.fill_null(1)), 1)
    return pa.array(_quotients(_total(total, shadow), scale, many), pa.float64(), mask=mask)


OPERATIONS: dict[type[exp.Expr], Operation] = {DecimalSum: _wide_sum, DecimalMean: _mean}
