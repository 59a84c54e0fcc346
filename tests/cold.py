"""A query read cold: by the parser, from its text alone, with no template and no expression of an earlier text.

`told` is what a query says, to compare it with another reading of its text.
"""

from __future__ import annotations

import pyarrow as pa

from muntin.expression import Expression
from muntin.join_query import AnyQuery
from muntin.query import Query
from muntin.sql.parse import _query, _read_select
from muntin.sql.place import pointing_into
from muntin.sql.sources import Sources
from muntin.stream import Stream


class _Apart(Stream):
    """Equals no other stream, so that nothing compiled for another one is found."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def read_cold(text: str, streams: Sources) -> AnyQuery:
    """The query of a text, or its `SqlError`."""
    apart = {
        name: _Apart(each.name, each.schema, each.time, each.delay) if isinstance(each, Stream) else each
        for name, each in streams.items()
    }
    with pointing_into(text):
        return _query(_read_select(text), apart)


def told(query: AnyQuery) -> list[object]:
    """All that a query says, with the types that equality leaves out (1 is 1.0 and TRUE)."""
    if not isinstance(query, Query):
        return [repr(each) for each in (query.text, query.where, query.outputs, query.emits_changes)]
    parts = [(key.name, *_shown(key.expression)) for key in query.keys]
    calls = [
        (call.function, *_shown(call.argument), call.window, *_shown(call.filter), repr(call.parameters))
        for call in query.calls
    ]
    outputs = [(output.name, *_shown(output.expression)) for output in query.outputs]
    return [query.text, query.stream.name, parts, _shown(query.where), query.window, calls, outputs,
            _shown(query.having), query.hint, query.tolerance, query.emits_changes]  # fmt: skip


def _shown(expression: Expression | None) -> tuple[object, ...]:
    if expression is None:
        return (None,)
    band = expression.band
    limits = None if band is None else (band.attribute.sql, band.low, band.high)
    told = str(expression.condition) if expression.type == pa.bool_() else None
    return expression.sql, str(expression.type), expression.columns, expression.is_column, limits, told
