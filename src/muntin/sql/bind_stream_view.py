"""From the SELECT of a view that reads one stream to what it keeps: events, different values, or groups.

| SELECT | keeps |
|---|---|
| `SELECT a, b FROM s [RANGE 1 HOUR] WHERE …` | a `SelectionQuery`: the events that pass |
| `SELECT DISTINCT a, b …` | a `GroupedQuery`: the different values, with the time of the latest event of each |
| aggregates, GROUP BY, HAVING | a `GroupedQuery`: what the query answers |

The last two are ordinary queries, which move with the view and share state with all others.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from muntin.join_query import JoinSide
from muntin.query import Call, Output, Query
from muntin.sql.bind import bind_over, row_scope
from muntin.sql.bind_negation import every_of
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.fold import bind_outputs, columns_read, is_folded
from muntin.sql.place import Misfit
from muntin.sql.sources import Sources, find_pushed, refuse_own_times
from muntin.sql.syntax import CreateViewSyntax, SelectSyntax, WindowedSelect
from muntin.stream import Stream
from muntin.view_query import GroupedQuery, SelectionQuery, place_of
from muntin.window import Window


def bind_stream_view(syntax: CreateViewSyntax, streams: Sources) -> SelectionQuery | GroupedQuery:
    """What a view keeps of one stream, or a `Misfit`."""
    select = syntax.select
    if select.where is not None and select.where.find(WindowedSelect):
        raise Misfit("NOT EXISTS stands alone in WHERE, or beside AND", select.start)
    stream = find_pushed(select.stream, streams)
    window = _window(select)
    every = every_of(syntax, (window,))
    rows = row_scope(stream, select.alias.text if select.alias else None)
    if is_folded(select):
        return _grouped(syntax, stream, window, every, rows)
    where = None
    if select.where is not None:
        forbid_calls(select.where, "WHERE", "use HAVING to compare aggregates")
        where = compile_expression(select.where, rows, "WHERE")
    outputs = bind_outputs(select, rows)
    side = _side(select, stream, window, columns_read(where, outputs, None))
    return SelectionQuery(side, outputs, where, every)


def _window(select: SelectSyntax) -> Window:
    refuse_own_times(select.source)
    window = select.window
    if window is None or window.to or window.is_session or (window.slide and not window.is_time):
        name = select.stream.text
        raise select.stream.misfit(
            f"a view of one stream needs a window that ends now, such as {name} [RANGE 1 HOUR] or {name} [ROWS 100]"
        )
    return window


def _grouped(
    syntax: CreateViewSyntax, stream: Stream, window: Window, every: int, rows: Scope
) -> GroupedQuery:
    select = syntax.select
    if not window.is_time:
        raise select.stream.misfit(
            f"a view of aggregates or DISTINCT follows time: write {select.stream.text} [RANGE 1 HOUR], not {window}"
        )
    is_distinct = select.distinct is not None and not select.keys
    moving = replace(window, slide=every)
    query = bind_over(replace(select, window=moving, text=syntax.text), stream, rows)
    if query.tolerance is not None:
        raise Misfit("a view keeps exactly those who are in; leave out APPROX in HAVING", select.start)
    if is_distinct and query.keys:
        query = _with_latest(query, stream, rows)
    read = columns_read(query.where, (), query)
    return GroupedQuery(_side(select, stream, moving, read), query)


def _with_latest(query: Query, stream: Stream, rows: Scope) -> Query:
    """The query with the time of the latest event of each key."""
    assert query.window is not None
    time = compile_expression(exp.column(stream.time, quoted=True), rows)
    number = f"${len(query.calls)}"
    value = compile_expression(exp.column(number, quoted=True), Scope({number: time.type}, "the answer"))
    return replace(
        query,
        calls=(*query.calls, Call("max", time, query.window)),
        outputs=(*query.outputs, Output(place_of(0), value)),
    )


def _side(select: SelectSyntax, stream: Stream, window: Window, read: set[str]) -> JoinSide:
    name = select.alias.text if select.alias else stream.name
    return JoinSide(name, stream, Window(window.unit, window.size), tuple(sorted(read)))
