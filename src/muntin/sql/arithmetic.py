"""Numbers: + - * / // %, operations on bits, and the numeric functions.

Integers compute in 64 bits and an overflow is an error; decimals compute exactly, in up to 38 digits (`decimals.py`);
everything else computes in DOUBLE, and so does `/`. What
has no value is NULL: x / 0, x % 0, the root of a negative number, the logarithm of zero or less.
`//` and operations on bits are for integers alone.
Times and intervals add and subtract too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.fixed_point import is_decimal
from muntin.sql.decimals import add, ceiling, floor, folded, multiply, rounded, subtract
from muntin.sql.function_nodes import Log, Xor
from muntin.sql.place import misfit
from muntin.sql.term import (
    ADD,
    ATOM,
    BITS,
    MULTIPLY,
    SIGN,
    Build,
    Builder,
    Datum,
    Operation,
    Term,
    apply,
    are_decimals,
    as_decimals,
    common,
    convert,
    exact_value,
    literal,
)
from muntin.sql.type_name import type_name

_INSTANT, _SPAN = pa.timestamp("us"), pa.duration("us")
_MOST_DIGITS = 18
_WHOLE = 2.0**52  # floats from here on are whole numbers
_LARGEST = 2**63 - 1
_WIDEST_SHIFT = 62  # of Arrow's kernels, which leave a number as it is that is to be shifted further


def is_real(term: Term) -> bool:
    return not pa.types.is_integer(term.type) and term.kind == "number"


def numbers(node: exp.Expr, terms: Sequence[Term], real: bool = False) -> list[Term]:
    """The terms as BIGINT, as decimals if one of them is, or as DOUBLE if one of them is (or `real` asks for it)."""
    for term in terms:
        if term.kind not in ("number", "null"):
            raise misfit(node, f"{term.sql} is {type_name(term.type)}; a number is needed here")
    if not real and are_decimals(terms):
        return as_decimals(node, terms)
    kind = pa.float64() if real or any(map(is_real, terms)) else pa.int64()
    return [convert(term, kind) for term in terms]


def _or_null(condition: Datum, value: Datum) -> Datum:
    """`value` where `condition` is true, else NULL."""
    return pc.if_else(condition, value, pa.scalar(None, value.type))


def _divide(left: Datum, right: Datum) -> Datum:
    return pc.divide(left, _or_null(pc.not_equal(right, 0), right))


def _whole_quotient(left: Datum, right: Datum) -> Datum:
    return pc.divide_checked(left, _or_null(pc.not_equal(right, 0), right))


def _remainder(left: Datum, right: Datum) -> Datum:
    if is_decimal(left.type):
        raise pa.ArrowInvalid("% is not for DECIMAL; write CAST(x AS BIGINT) or CAST(x AS DOUBLE)")
    divisor = _or_null(pc.not_equal(right, 0), right)
    if pa.types.is_floating(divisor.type):
        return _real_remainder(left, divisor)
    # x % -1 is 0 like x % 1, but the smallest integer over -1 would overflow on the way
    divisor = pc.if_else(pc.equal(divisor, -1), pa.scalar(1, divisor.type), divisor)
    return pc.subtract(left, pc.multiply(divisor, pc.divide(left, divisor)))


def _real_remainder(left: Datum, divisor: Datum) -> Datum:
    """By NumPy: only the newest versions of Arrow have it."""
    with np.errstate(invalid="ignore"):
        rest = np.fmod(_as_numpy(left), _as_numpy(divisor))
    value = pa.array(rest) if rest.ndim else pa.scalar(float(rest))
    return _or_null(pc.and_(pc.is_valid(left), pc.is_valid(divisor)), value)


def _as_numpy(value: Datum) -> npt.NDArray[np.float64]:
    """NaN where it is NULL."""
    if isinstance(value, pa.Scalar):
        return np.array(value.as_py() if value.is_valid else np.nan, np.float64)
    return value.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _binary(symbol: str, strength: int, operation: Operation, real: bool = False) -> Builder:
    def build(node: exp.Binary, build: Build) -> Term:
        left, right = build(node.left), build(node.right)
        sql = f"{left.within(strength)} {symbol} {right.within(strength + 1)}"
        if {"time", "span"} & {left.kind, right.kind}:
            return _with_time(node, sql, symbol, left, right)
        made = apply(node, sql, strength, operation, numbers(node, (left, right), real))
        if pa.types.is_floating(made.type) and made.constant is not None:
            exact = folded(symbol, exact_value(left), exact_value(right))
            return made if exact is None else replace(made, exact=exact)
        return made

    return build


def _of_integers(symbol: str, strength: int, operation: Operation) -> Builder:
    def build(node: exp.Binary, build: Build) -> Term:
        left, right = build(node.left), build(node.right)
        sql = f"{left.within(strength)} {symbol} {right.within(strength + 1)}"
        return apply(node, sql, strength, operation, _integers(node, (left, right), symbol))

    return build


def _integers(node: exp.Expr, terms: Sequence[Term], symbol: str) -> list[Term]:
    for term in terms:
        if is_real(term):
            hint = "; write FLOOR(a / b)" if symbol == "//" else ""
            raise misfit(node, f"{symbol} is for integers; {term.sql} is {type_name(term.type)}{hint}")
    return numbers(node, terms)


def _shifted_left(value: Datum, by: Datum) -> Datum:
    """A bit that is lost is an error, as in DuckDB, and so is the sign."""
    if pc.any(pc.or_(pc.less(value, 0), pc.less(by, 0))).as_py():
        raise pa.ArrowInvalid("<< takes no negative numbers")
    is_wide = pc.greater(by, _WIDEST_SHIFT)
    shift = pc.if_else(is_wide, pa.scalar(0, by.type), by)
    shifted = pc.shift_left(value, shift)
    is_lost = pc.or_(
        pc.and_(is_wide, pc.not_equal(value, 0)), pc.not_equal(pc.shift_right(shifted, shift), value)
    )
    if pc.any(is_lost).as_py():
        raise pa.ArrowInvalid("overflow")
    return shifted


def _shifted_right(value: Datum, by: Datum) -> Datum:
    """By all 64 bits or more, and by less than none, 0."""
    is_wide = pc.greater(by, _WIDEST_SHIFT)
    shifted = pc.shift_right(
        value,
        pc.if_else(is_wide, pa.scalar(_WIDEST_SHIFT, by.type), pc.max_element_wise(by, 0, skip_nulls=False)),
    )
    shifted = pc.if_else(is_wide, pc.shift_right(shifted, 1), shifted)
    is_inside = pc.and_(pc.greater_equal(by, 0), pc.less_equal(by, _WIDEST_SHIFT + 1))
    return pc.if_else(is_inside, shifted, pc.bit_wise_and(value, 0))  # NULL where the value is


def _xor(node: Xor, build: Build) -> Term:
    terms = [build(node.this), build(node.expression)]
    return apply(node, call_text("XOR", terms), ATOM, pc.bit_wise_xor, _integers(node, terms, "XOR"))


def _bits_inverted(node: exp.BitwiseNot, build: Build) -> Term:
    term = build(node.this)
    return apply(node, f"~{term.within(ATOM)}", BITS, pc.bit_wise_not, _integers(node, [term], "~"))


def _with_time(node: exp.Expr, sql: str, symbol: str, left: Term, right: Term) -> Term:
    """Times move by intervals; the difference of two times is an interval."""
    kinds = (left.kind, symbol, right.kind)
    if kinds in (("span", "*", "number"), ("number", "*", "span")):
        span, number = (left, right) if left.kind == "span" else (right, left)
        if not is_real(number):
            terms = (convert(span, _SPAN), convert(number, pa.int64()))
            return apply(node, sql, MULTIPLY, pc.multiply_checked, terms)
    elif kinds in (("span", "+", "span"), ("span", "-", "span"), ("time", "-", "time")):
        operation = pc.add_checked if symbol == "+" else pc.subtract_checked
        return apply(
            node, sql, ADD, operation, [in_microseconds(term) for term in common(node, (left, right))]
        )
    elif kinds in (("time", "+", "span"), ("time", "-", "span"), ("span", "+", "time")):
        operation = pc.add_checked if symbol == "+" else pc.subtract_checked
        return apply(node, sql, ADD, operation, [in_microseconds(left), in_microseconds(right)])
    types = f"{type_name(left.type)} {symbol} {type_name(right.type)}"
    raise misfit(
        node, f"{types} has no meaning; a TIMESTAMP moves by an INTERVAL, such as ts + INTERVAL '5 minutes'"
    )


def in_microseconds(term: Term) -> Term:
    zone = term.type.tz if pa.types.is_timestamp(term.type) else None
    return convert(term, _SPAN if term.kind == "span" else pa.timestamp("us", tz=zone))


def _negate(node: exp.Neg, build: Build) -> Term:
    if isinstance(node.this, exp.Literal) and node.this.name == str(_LARGEST + 1):
        return literal(f"-{node.this.name}", pa.scalar(-_LARGEST - 1, pa.int64()), SIGN)
    term = build(node.this)
    sql = f"-{term.within(ATOM)}"
    if term.kind == "span":
        return apply(node, sql, SIGN, pc.negate_checked, [in_microseconds(term)])
    made = apply(node, sql, SIGN, pc.negate_checked, numbers(node, [term]))
    return made if term.exact is None else replace(made, exact=term.exact.copy_negate())


def call_text(name: str, terms: Sequence[Term]) -> str:
    return f"{name}({', '.join(term.sql for term in terms)})"


def _function(name: str, operation: Operation, real: bool = False) -> Builder:
    def build(node: exp.Func, build: Build) -> Term:
        arguments = [node.this, *([node.expression] if node.args.get("expression") else [])]
        terms = [build(argument) for argument in arguments]
        return apply(node, call_text(name, terms), ATOM, operation, numbers(node, terms, real))

    return build


def _square_root(value: Datum) -> Datum:
    return pc.sqrt(_or_null(pc.invert(pc.less(value, 0)), value))


def _logarithm(value: Datum) -> Datum:
    return pc.ln(_or_null(pc.invert(pc.less_equal(value, 0)), value))


def _decimal_logarithm(value: Datum) -> Datum:
    return pc.log10(_or_null(pc.invert(pc.less_equal(value, 0)), value))


def _logarithm_to(base: Datum, value: Datum) -> Datum:
    return _divide(_logarithm(value), _logarithm(base))


def _log(node: Log, build: Build) -> Term:
    terms = [build(node.this), *([build(node.expression)] if node.args.get("expression") else [])]
    operation = _decimal_logarithm if len(terms) == 1 else _logarithm_to
    return apply(node, call_text("LOG", terms), ATOM, operation, numbers(node, terms, real=True))


def _sign(value: Datum) -> Datum:
    if is_decimal(value.type):
        return pc.sign(value)
    signs = pc.cast(pc.sign(value), value.type)
    if not pa.types.is_floating(value.type):
        return signs
    return pc.if_else(pc.is_nan(value), pa.scalar(0.0, value.type), signs)


def _floor(value: Datum) -> Datum:
    if is_decimal(value.type):
        return floor(value)
    return value if pa.types.is_integer(value.type) else pc.floor(value)


def _ceiling(value: Datum) -> Datum:
    if is_decimal(value.type):
        return ceiling(value)
    return value if pa.types.is_integer(value.type) else pc.ceil(value)


def _rounded(value: Datum, digits: int) -> Datum:
    if is_decimal(value.type):
        return rounded(value, digits)
    if pa.types.is_integer(value.type) and digits >= 0:
        return value
    if pa.types.is_floating(value.type):
        return _rounded_float(value, digits)
    return pc.round(value, ndigits=digits, round_mode="half_towards_infinity")


def _rounded_float(value: Datum, digits: int) -> Datum:
    """As DuckDB: what is scaled by a power of ten is rounded, and scaled back.

    A number that has no such digits is left as it is, since Arrow would overflow; and Arrow, which adds a half, takes
    the greatest number below a half for a half.
    """
    power = pa.scalar(10.0 ** abs(digits), value.type)
    scale, scale_back = (pc.multiply, pc.divide) if digits >= 0 else (pc.divide, pc.multiply)
    scaled = scale(value, power)
    size, nothing = pc.abs(scaled), pa.scalar(0.0, value.type)
    has_digits = pc.less(size, pa.scalar(_WHOLE, value.type))
    is_below = pc.less(size, pa.scalar(0.5, value.type))
    whole = pc.round(pc.if_else(has_digits, scaled, nothing), round_mode="half_towards_infinity")
    made = scale_back(pc.if_else(is_below, nothing, whole), power)
    return pc.if_else(has_digits, made, value)


def _round(node: exp.Round, build: Build) -> Term:
    term = build(node.this)
    digits = 0
    sql = f"ROUND({term.sql})"
    if node.args.get("decimals"):
        to = build(node.args["decimals"])
        if to.known is None or not pa.types.is_integer(to.type) or abs(to.known) > _MOST_DIGITS:
            raise misfit(node.args["decimals"], f"ROUND takes a whole number of digits up to {_MOST_DIGITS}")
        digits, sql = to.known, f"ROUND({term.sql}, {to.sql})"
    return apply(node, sql, ATOM, _rounded, numbers(node, [term]), digits)


ARITHMETIC: dict[type[exp.Expr], Builder] = {
    exp.Add: _binary("+", ADD, add),
    exp.Sub: _binary("-", ADD, subtract),
    exp.Mul: _binary("*", MULTIPLY, multiply),
    exp.Div: _binary("/", MULTIPLY, _divide, real=True),
    exp.IntDiv: _of_integers("//", MULTIPLY, _whole_quotient),
    exp.Mod: _binary("%", MULTIPLY, _remainder),
    exp.BitwiseAnd: _of_integers("&", BITS, pc.bit_wise_and),
    exp.BitwiseOr: _of_integers("|", BITS, pc.bit_wise_or),
    exp.BitwiseLeftShift: _of_integers("<<", BITS, _shifted_left),
    exp.BitwiseRightShift: _of_integers(">>", BITS, _shifted_right),
    exp.BitwiseNot: _bits_inverted,
    Xor: _xor,
    exp.Neg: _negate,
    exp.Abs: _function("ABS", pc.abs_checked),
    exp.Ceil: _function("CEIL", _ceiling),
    exp.Exp: _function("EXP", pc.exp, real=True),
    exp.Floor: _function("FLOOR", _floor),
    exp.Ln: _function("LN", _logarithm, real=True),
    Log: _log,
    exp.Pow: _function("POWER", pc.power, real=True),
    exp.Round: _round,
    exp.Sign: _function("SIGN", _sign),
    exp.Sqrt: _function("SQRT", _square_root, real=True),
}
