"""CAST and TRY_CAST, with TIMESTAMP '…' and DATE '…'.

A number becomes an integer by rounding to the nearest, ties to even. What CAST cannot convert is
an error of the push that brought it; TRY_CAST makes it NULL. Numbers and times become text the way
Arrow writes them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.place import misfit
from muntin.sql.term import ATOM, Build, Builder, Datum, Term, apply, kind_of
from muntin.sql.type_name import arrow_type, type_name

# Which classes of values convert to which.
_CONVERTS = {
    "number": {"number", "boolean", "text"},
    "boolean": {"number", "boolean", "text"},
    "text": {"number", "boolean", "text", "time"},
    "time": {"time", "text"},
    "span": {"span"},
    "null": {"number", "boolean", "text", "time"},
}
_INTEGER = r"^\s*[+-]?\d{1,37}\s*$"
_REAL = r"(?i)^\s*[+-]?(\d+(\.\d*)?(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|nan|inf|infinity)\s*$"
_TRUTH = r"(?i)^(true|false|0|1)$"
_TIME = r"^\d{4}-\d\d-\d\d([ T]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?Z?)?$"


def _cast(value: Datum, kind: pa.DataType) -> Datum:
    if pa.types.is_integer(kind) and pa.types.is_floating(value.type):
        value = pc.round(value)
    if pa.types.is_date(kind) and pa.types.is_timestamp(value.type):
        value = pc.floor_temporal(value, unit="day")
    if kind_of(value.type) == "text" and kind_of(kind) in ("number", "time"):
        value = pc.utf8_trim_whitespace(value)
        if kind_of(kind) == "number":
            value = pc.replace_substring_regex(value, r"^\+", "")
    is_inexact = pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
    return pc.cast(value, kind, safe=not is_inexact)


def _try_cast(value: Datum, kind: pa.DataType) -> Datum:
    """As `_cast`, with NULL for what it would fail at: fits are marked first, then converted."""
    try:
        return _cast(value, kind)
    except pa.ArrowInvalid:
        fits = _fits(value, kind)
    return _cast(pc.if_else(pc.coalesce(fits, pa.scalar(False)), value, pa.scalar(None, value.type)), kind)


def _fits(value: Datum, kind: pa.DataType) -> Datum:
    if kind_of(value.type) == "number":
        return _in_bounds(value, kind)
    if pa.types.is_integer(kind):
        digits = pc.if_else(pc.match_substring_regex(value, _INTEGER), value, pa.scalar(None, value.type))
        return _in_bounds(_cast(digits, pa.decimal128(38, 0)), kind)
    if pa.types.is_boolean(kind):
        return pc.match_substring_regex(value, _TRUTH)
    if kind_of(kind) == "number":
        return pc.match_substring_regex(value, _REAL)
    return _is_time(value)


def _in_bounds(value: Datum, kind: pa.DataType) -> Datum:
    bits = kind.bit_width
    low, high = (0, 2**bits) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if pa.types.is_floating(value.type):
        rounded = pc.round(value)
        return pc.and_(pc.greater_equal(rounded, float(low)), pc.less(rounded, float(high)))
    wide = pc.cast(value, pa.decimal128(38, 0))
    above = pc.greater_equal(wide, pa.scalar(low, pa.decimal128(38, 0)))
    return pc.and_(above, pc.less(wide, pa.scalar(high, pa.decimal128(38, 0))))


def _is_time(value: Datum) -> Datum:
    shaped = pc.if_else(pc.match_substring_regex(value, _TIME), value, pa.scalar(None, value.type))
    day = pc.utf8_slice_codeunits(shaped, 0, 10)
    # the 30th of February is read as the 1st of March: only a day that reads back as itself is one
    read = pc.strptime(day, format="%Y-%m-%d", unit="s", error_is_null=True)
    return pc.equal(pc.strftime(read, format="%Y-%m-%d"), day)


def _build(node: exp.Cast | exp.TryCast, build: Build) -> Term:
    term, kind = build(node.this), arrow_type(node.args["to"])
    if kind_of(kind) not in _CONVERTS.get(term.kind, ()):
        raise misfit(node, f"{term.sql} is {type_name(term.type)}; it cannot become {type_name(kind)}")
    word, operation = ("TRY_CAST", _try_cast) if isinstance(node, exp.TryCast) else ("CAST", _cast)
    return apply(node, f"{word}({term.sql} AS {type_name(kind)})", ATOM, operation, [term], kind)


CASTS: dict[type[exp.Expr], Builder] = {exp.Cast: _build, exp.TryCast: _build}
