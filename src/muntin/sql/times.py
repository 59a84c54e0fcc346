"""Times: INTERVAL, EXTRACT and DATE_TRUNC, in UTC."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.errors import nearest
from muntin.sql.place import misfit
from muntin.sql.term import ATOM, Build, Builder, Datum, Term, apply, convert, literal
from muntin.sql.type_name import type_name
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


TIMES: dict[type[exp.Expr], Builder] = {
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.DateTrunc: _truncate,
    exp.TimestampTrunc: _truncate,
}
