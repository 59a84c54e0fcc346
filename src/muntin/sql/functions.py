"""Functions of times, and CAST.

Times: INTERVAL, EXTRACT, DATE_TRUNC and TIME_BUCKET, in UTC. CAST and TRY_CAST, with TIMESTAMP '…' and DATE '…': a
DOUBLE becomes an integer or a DECIMAL by rounding to the nearest, ties to even; of a DECIMAL or a text, ties away from
zero, as in DuckDB. What CAST cannot convert is an error of the push
that brought it; TRY_CAST makes it NULL. Numbers and times become text the way Arrow writes them.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.errors import nearest
from muntin.fixed_point import WIDEST, is_decimal
from muntin.sql.arithmetic import call_text, in_microseconds
from muntin.sql.decimal_type import digits_of, type_of
from muntin.sql.decimals import from_text, narrowed, rounded, to_real, to_text
from muntin.sql.function_nodes import TimeBucket
from muntin.sql.place import misfit
from muntin.sql.term import ATOM, Build, Builder, Datum, Term, apply, convert, kind_of, literal
from muntin.sql.type_name import arrow_type, type_name
from muntin.sql.window_clause import duration_of
from muntin.window import span

_FIELDS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "dow",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
)
_GRAINS = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
)
_SUNDAY = 7


def _interval(node: exp.Interval, build: Build) -> Term:
    amount, unit = node.this, node.args.get("unit")
    if not isinstance(amount, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        raise misfit(node, "INTERVAL takes a constant: INTERVAL '5 minutes' or INTERVAL 5 MINUTES")
    try:
        length = duration_of(f"{amount.name} {unit.name}" if unit else amount.name)
    except ValueError as error:
        raise misfit(node, str(error)) from None
    return literal(f"INTERVAL '{span(length)}'", pa.scalar(length, pa.duration("us")))


def _field(value: Datum, field: str) -> Datum:
    if field == "dow":
        found = pc.day_of_week(value, count_from_zero=True, week_start=_SUNDAY)
    elif field == "week":
        found = pc.iso_week(value)
    elif field in ("millisecond", "microsecond"):  # of the minute, as in SQL
        instant = pc.cast(value, pa.timestamp("us", getattr(value.type, "tz", None)), safe=False)
        into_minute = pc.subtract(instant, pc.floor_temporal(instant, unit="minute"))
        found = pc.divide(pc.cast(into_minute, pa.int64()), 1_000 if field == "millisecond" else 1)
    else:
        found = getattr(pc, field)(value)
    return pc.cast(found, pa.int64())


def _time(node: exp.Expr, build: Build) -> Term:
    term = build(node)
    if term.kind != "time":
        raise misfit(node, f"{term.sql} is {type_name(term.type)}; a TIMESTAMP or DATE is needed here")
    return term


def _extract(node: exp.Extract, build: Build) -> Term:
    field = node.this.name.lower()
    if field not in _FIELDS:
        raise misfit(node, f"EXTRACT does not know '{field}'{nearest(field, _FIELDS)}")
    term = _time(node.expression, build)
    return apply(node, f"EXTRACT({field.upper()} FROM {term.sql})", ATOM, _field, [term], field)


def _floored(value: Datum, grain: str) -> Datum:
    return pc.floor_temporal(value, unit=grain)


def _truncate(node: exp.Expr, build: Build) -> Term:
    grain = node.args["unit"].name.lower()
    if grain not in _GRAINS:
        raise misfit(node, f"DATE_TRUNC does not know '{grain}'{nearest(grain, _GRAINS)}")
    term = _time(node.this, build)
    if pa.types.is_date(term.type):
        term = convert(term, pa.timestamp("us"))
    return apply(node, f"DATE_TRUNC('{grain}', {term.sql})", ATOM, _floored, [term], grain)


# Monday, so that buckets of weeks begin on one, as DATE_TRUNC's do.
_ORIGIN = pa.scalar(datetime(2000, 1, 3), pa.timestamp("us"))


def _bucketed(value: Datum, width: int, origin: int) -> Datum:
    """`origin` is where some bucket begins, in microseconds."""
    into = pc.subtract_checked(pc.cast(value, pa.int64()), origin % width)
    rest = pc.subtract(into, pc.multiply(pc.divide(into, width), width))
    rest = pc.if_else(pc.less(rest, 0), pc.add(rest, width), rest)
    return pc.subtract_checked(value, pc.cast(rest, pa.duration("us")))


def _bucket(node: TimeBucket, build: Build) -> Term:
    width, term = build(node.this), _time(node.expression, build)
    if (
        width.constant is None
        or not width.constant.is_valid
        or width.kind != "span"
        or width.constant.value <= 0
    ):
        raise misfit(node.this, "TIME_BUCKET takes a constant length above 0, such as INTERVAL '5 minutes'")
    terms, origin = [width, term], _ORIGIN
    if (given := node.args.get("origin")) is not None:
        since = build(given)
        if since.constant is None or not since.constant.is_valid or since.kind not in ("span", "time"):
            raise misfit(
                given,
                "TIME_BUCKET takes a constant TIMESTAMP to begin at, or an INTERVAL to shift buckets by",
            )
        terms.append(since)
        shift = in_microseconds(since).constant
        origin = pc.add(_ORIGIN, shift) if since.kind == "span" else shift
    sql = call_text("TIME_BUCKET", terms)
    made = apply(node, sql, ATOM, _bucketed, [in_microseconds(term)], width.constant.value, origin.value)
    return apply(node, sql, ATOM, _cast, [made], term.type) if pa.types.is_date(term.type) else made


TIMES: dict[type[exp.Expr], Builder] = {
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.DateTrunc: _truncate,
    exp.TimestampTrunc: _truncate,
    TimeBucket: _bucket,
}


# Which classes of values convert to which.
_CONVERTS = {
    "number": {"number", "boolean", "text"},
    "boolean": {"number", "boolean", "text"},
    "text": {"number", "boolean", "text", "time"},
    "time": {"time", "text"},
    "span": {"span"},
    "null": {"number", "boolean", "text", "time"},
}
_TZ = pa.timestamp("us", "UTC")
_INTEGER = r"^[+-]?\d{1,37}$"
_REAL = r"(?i)^[+-]?(\d+(\.\d*)?(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|nan|inf|infinity)$"
_DECIMAL = r"^[+-]?(\d{1,37}(\.\d{0,37})?|\.\d{1,37})$"
_TRUTH = r"(?i)^(true|false|0|1)$"
_TIME = r"^\d{4}-\d\d-\d\d([ T]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,9})?)?Z?)?)?$"
_ZONED = _TIME.replace("Z?", r"(Z|[+-]\d\d(:?\d\d)?)?")
# Rare ways to write a number that Arrow reads, too: so few that each may be tried alone.
_ODD = r"(?i)^[+-]?(0x[0-9a-f]+|0\d{37,}|nan\(.*|[\d.]+e[+-]?\d+)$"


def _cast(value: Datum, kind: pa.DataType) -> Datum:
    if is_decimal(value.type):
        return _cast_decimal(value, kind)
    if pa.types.is_integer(kind) and pa.types.is_floating(value.type):
        value = pc.round(value)
    if pa.types.is_date(kind) and pa.types.is_timestamp(value.type):
        value = pc.floor_temporal(value, unit="day")
    if kind_of(value.type) == "text" and kind_of(kind) in ("number", "time"):
        value = _plain(value, kind)
        if is_decimal(kind):
            return from_text(value, kind)
        if kind_of(kind) == "time" and kind not in (pa.timestamp("us"), pa.timestamp("ns"), _TZ):
            return _cast(pc.cast(value, pa.timestamp("us")), kind)
    if is_decimal(kind) and pa.types.is_boolean(value.type):
        value = pc.cast(value, pa.int8())
    if is_decimal(kind) and pa.types.is_integer(value.type):
        value = pc.cast(value, type_of(digits_of(value.type)))
    is_inexact = pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
    return pc.cast(value, kind, safe=not is_inexact)


def _plain(value: Datum, kind: pa.DataType) -> Datum:
    """Texts as Arrow reads them: without spaces around, the plus of a number, and the Z of a time in UTC."""
    value = pc.utf8_trim_whitespace(value)
    if kind == _TZ:
        value = pc.replace_substring_regex(value, r"^(\d+-\d+-\d+)$", r"\1T00:00")
        return pc.replace_substring_regex(value, r"^(\S+[ T][\d:.]+)$", r"\1Z")
    if kind_of(kind) == "time":
        return pc.replace_substring_regex(value, r"(:\d\d(\.\d+)?)Z$", r"\1")
    value = pc.replace_substring_regex(value, r"^\+([^+-])", r"\1")
    if pa.types.is_unsigned_integer(kind):
        value = pc.replace_substring_regex(value, r"^-(0+)$", r"\1")
    return value


def _cast_decimal(value: Datum, kind: pa.DataType) -> Datum:
    if pa.types.is_floating(kind):
        return to_real(value, kind)
    if is_decimal(kind):
        return narrowed(value, kind)
    if pa.types.is_integer(kind):
        return pc.cast(rounded(value, 0), kind)
    if pa.types.is_boolean(kind):
        return pc.not_equal(value, pa.scalar(0, value.type))
    return to_text(value, kind)


def _try_cast(value: Datum, kind: pa.DataType) -> Datum:
    """As `_cast`, with NULL for what it would fail at, whatever else is in the batch.

    What fits by its looks is converted in bulk, and so are most batches. `_fits` may be wrong about a value that is
    written oddly, so what fails is looked for, and what looks odd is tried.
    """
    try:
        return _cast(value, kind)
    except pa.ArrowInvalid:
        if isinstance(value, pa.Scalar):
            return pa.scalar(None, kind)
    fits = pc.coalesce(_fits(value, kind), pa.scalar(False))
    nothing = pa.scalar(None, value.type)
    made = _convertible(pc.if_else(fits, value, nothing), kind)
    if kind_of(value.type) != "text" or kind_of(kind) != "number":
        return made
    odd = pc.and_not(pc.match_substring_regex(pc.utf8_trim_whitespace(value), _ODD), fits)
    if not pc.any(odd).as_py():
        return made
    return pc.coalesce(made, _convertible(pc.if_else(odd, value, nothing), kind))


def _convertible(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """As `_cast`, with NULL for what it fails at: that is found by halving."""
    try:
        return _cast(value, kind)
    except pa.ArrowInvalid:
        if len(value) == 1:
            return pa.nulls(1, kind)
    middle = len(value) // 2
    return pa.concat_arrays([_convertible(value[:middle], kind), _convertible(value[middle:], kind)])


def _fits(value: Datum, kind: pa.DataType) -> Datum:
    if is_decimal(kind):
        return _fits_decimal(value, kind)
    if is_decimal(value.type):
        value = rounded(value, 0)
    if kind_of(value.type) == "number":
        return _in_bounds(value, kind)
    value = _plain(value, kind) if kind_of(kind) == "time" else pc.utf8_trim_whitespace(value)
    if pa.types.is_integer(kind):
        digits = pc.if_else(pc.match_substring_regex(value, _INTEGER), value, pa.scalar(None, value.type))
        return _in_bounds(_cast(digits, pa.decimal128(38, 0)), kind)
    if pa.types.is_boolean(kind):
        return pc.match_substring_regex(value, _TRUTH)
    if kind_of(kind) == "number":
        return pc.match_substring_regex(value, _REAL)
    return _is_time(value, _ZONED if kind == _TZ else _TIME)


def _fits_decimal(value: Datum, kind: pa.DataType) -> Datum:
    """Whether it has no more digits before the point than a type has; rounding may take one."""
    if kind_of(value.type) == "text":
        shaped = pc.match_substring_regex(pc.utf8_trim_whitespace(value), _DECIMAL)
        value = pc.if_else(shaped, value, pa.scalar(None, value.type))
        value = _cast(value, pa.decimal256(76, WIDEST))
    if pa.types.is_floating(value.type):
        bound = 10.0 ** (kind.precision - kind.scale)
        near = pc.less(pc.abs(value), 2 * bound)  # what is greater would overflow in rounding
        value = pc.if_else(near, value, pa.scalar(0.0, value.type))
        return pc.and_(near, pc.less(pc.abs(pc.round(value, ndigits=kind.scale)), bound))
    if pa.types.is_integer(value.type):
        value = pc.cast(value, type_of(digits_of(value.type)))
    wide = narrowed(value, pa.decimal256(76, kind.scale))
    bound = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
    return pc.less(pc.abs(wide), bound)


def _in_bounds(value: Datum, kind: pa.DataType) -> Datum:
    bits = kind.bit_width
    low, high = (0, 2**bits) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if pa.types.is_floating(value.type):
        rounded = pc.round(value)
        return pc.and_(pc.greater_equal(rounded, float(low)), pc.less(rounded, float(high)))
    wide = pc.cast(value, pa.decimal128(38, 0))
    above = pc.greater_equal(wide, pa.scalar(low, pa.decimal128(38, 0)))
    return pc.and_(above, pc.less(wide, pa.scalar(high, pa.decimal128(38, 0))))


def _is_time(value: Datum, pattern: str) -> Datum:
    shaped = pc.if_else(pc.match_substring_regex(value, pattern), value, pa.scalar(None, value.type))
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
