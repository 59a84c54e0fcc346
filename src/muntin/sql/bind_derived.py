"""From CREATE STREAM … AS SELECT and … FROM QUERY to derived streams; and from a query over a selection to one over the
stream that it selects from.

A query over a selection is bound to the columns of the selection first, so that its names, types and errors are those
of its text. Then each of its expressions over events is written anew, with the expressions of the selection in place of
its columns. What comes of it is the query that a user would have written by hand: the two share all state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from muntin.derived import TIME, Selection, WindowStream, schema_of_windows
from muntin.errors import nearest
from muntin.expression import Expression, both
from muntin.fixed_point import MOST_DIGITS, is_decimal, is_kept
from muntin.join_query import AnyQuery, JoinQuery
from muntin.query import Call, Key, Query
from muntin.sql.bind import row_scope, scope_of
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import compile_expression, compile_typed
from muntin.sql.place import Misfit, misfit
from muntin.sql.sources import Sources, find_stream
from muntin.sql.syntax import Item, Name, SelectionSyntax, SelectSyntax
from muntin.stream import Stream
from muntin.table_query import TableQuery
from muntin.view_select import StandingQuery

_WINDOWS = "REGISTER QUERY has windows, and CREATE STREAM name FROM QUERY a stream of them"


def bind_selection(syntax: SelectionSyntax, sources: Sources) -> Selection:
    """The stream that a SELECT of events declares, or a `Misfit`."""
    select = syntax.select
    _refuse_clauses(select)
    source = find_stream(select.stream, sources)
    scope = scope_of(select, source)
    columns: dict[str, Expression] = {}
    time = None
    for name, item in _columns(select, source):
        if name.casefold() in {each.casefold() for each in columns}:
            raise misfit(item.tree, f"two columns are called '{name}'; give one another name with AS")
        forbid_calls(item.tree, "the SELECT of a stream", f"its events are single ones; {_WINDOWS}")
        columns[name] = compile_typed(item.tree, scope)
        if not columns[name].columns:
            raise misfit(item.tree, "a column of a stream is computed from an event, and is no constant")
        if (why := _not_in_streams(columns[name].type)) is not None:
            raise misfit(item.tree, f"'{name}' {why}")
        if columns[name].is_column and columns[name].columns == (source.time,):
            time = time or name
    if time is None:
        raise Misfit(f"the SELECT of a stream has its time: add the column {source.time}", select.start)
    where = None
    if select.where is not None:
        forbid_calls(select.where, "WHERE", f"its events are single ones; {_WINDOWS}")
        where = compile_expression(select.where, scope, "WHERE")
    schema = pa.schema([pa.field(name, each.type) for name, each in columns.items()])
    made, base = tuple(columns.values()), source
    if isinstance(source, Selection):
        made, base = tuple(_over_base(each, source) for each in made), source.base
        where = both(source.where, None if where is None else _over_base(where, source, "WHERE"))
    return Selection(
        syntax.name.text, schema, time, source.delay, source.ahead, text=syntax.text, source=source.name,
        base=base, where=where, columns=made,
    )  # fmt: skip


def _refuse_clauses(select: SelectSyntax) -> None:
    """A stream of events has no windows, and no keys."""
    if select.window is not None:
        raise select.stream.misfit(
            f"a stream that is made of another has no window: its queries have them; {_WINDOWS}"
        )
    if select.join is not None:
        raise Misfit("a stream is made of one other; queries join it with tables", select.join.place)
    for clause, at in (
        ("GROUP BY", select.keys[0] if select.keys else None),
        ("HAVING", select.having),
    ):
        if at is not None:
            raise misfit(at, f"{clause} is for queries; {_WINDOWS}")
    for words, span in (
        ("DISTINCT", select.distinct),
        ("EMIT CHANGES", select.changes),
        ("ORDER BY and LIMIT", select.order.place if select.order else None),
        ("A SYNOPSIS hint", select.start if select.hint else None),
    ):
        if span is not None:
            raise Misfit(f"{words} is for queries; {_WINDOWS}", span)


def _columns(select: SelectSyntax, source: Stream) -> list[tuple[str, Item]]:
    """The items of a SELECT with their names; `*` is all columns of the source."""
    found: list[tuple[str, Item]] = []
    for item in select.items:
        tree = item.tree.unnest()
        if isinstance(tree, exp.Star):
            found += [
                (name, Item(exp.column(exp.to_identifier(name, quoted=True)), None))
                for name in source.schema.names
            ]
        elif item.alias is not None:
            found.append((item.alias.text, item))
        elif isinstance(tree, exp.Column):
            found.append((scope_of(select, source).resolve(tree), item))
        else:
            raise misfit(item.tree, "give the column a name with AS")
    return found


def bind_window_stream(name: Name, of: Name, query: AnyQuery | None, known: Collection[str]) -> WindowStream:
    """The stream of a query's closed windows, or a `Misfit`."""
    if query is None and of.text in known:
        raise of.misfit(f"'{of.text}' is a materialised view, not a query")
    if query is None:
        raise of.misfit(f"there is no query '{of.text}'{nearest(of.text, known)}")
    if (why := not_a_source(query)) is not None:
        raise of.misfit(f"query '{of.text}' {why}")
    schema = schema_of_windows(query)
    if len(schema.get_all_field_indices(TIME)) > 1:
        raise of.misfit(
            f"the stream has its time as '{TIME}', and so has an answer of query '{of.text}': give that column another "
            "name with AS"
        )
    for field in schema:
        if (why := _not_in_streams(field.type)) is not None:
            raise of.misfit(f"answer '{field.name}' of query '{of.text}' {why}")
    return WindowStream(name.text, schema, TIME, query=of.text)


def _not_in_streams(kind: pa.DataType) -> str | None:
    """Why no column of a stream has a type that answers may have."""
    if pa.types.is_nested(kind):
        return "is a list, and no column of a stream is one; have a query without it"
    if is_decimal(kind) and not is_kept(kind):
        return (
            f"has {kind.precision} digits, and a column of a stream at most {MOST_DIGITS}: write "
            f"CAST(… AS DECIMAL({MOST_DIGITS}, {min(kind.scale, MOST_DIGITS)}))"
        )
    return None


def not_a_source(query: AnyQuery) -> str | None:
    """Why no stream can have the closed windows of a query; None if one can."""
    if isinstance(query, JoinQuery):
        return "joins two streams, whose windows are not made a stream of"
    if isinstance(query, StandingQuery):
        return "reads a view as of its updates, which are not made a stream of"
    if query.emits_changes:
        return "emits changes instead of windows; register it without EMIT CHANGES under another name"
    if isinstance(query, Query) and query.window is not None and query.window.is_session:
        return "closes its sessions one by one, at no common instants; give it a time window with SLIDE"
    if not query.slide:
        return "closes no window by time; give its window a SLIDE, such as [RANGE 1 HOUR SLIDE 1 HOUR]"
    return None


def unfolded(query: AnyQuery) -> AnyQuery:
    """A query over a selection as one over the stream at its bottom; others as they are."""
    selection = query.streams[0]
    if isinstance(query, JoinQuery | StandingQuery) or not isinstance(selection, Selection):
        return query
    if isinstance(query, TableQuery):
        return replace(query, source=_over_base_of(query.source, selection))
    return _over_base_of(query, selection)


def _over_base_of(query: Query, selection: Selection) -> Query:
    try:
        where = None if query.where is None else _over_base(query.where, selection, "WHERE")
        return replace(
            query,
            stream=selection.base,
            keys=tuple(Key(key.name, _over_base(key.expression, selection)) for key in query.keys),
            where=both(selection.where, where),
            calls=tuple(_call_over_base(call, selection) for call in query.calls),
            named=selection.name,
        )
    except Misfit as fault:  # its place is one in the text of the selection
        raise Misfit(f"in the place of columns of stream '{selection.name}': {fault.message}", None) from None


def _call_over_base(call: Call, selection: Selection) -> Call:
    return replace(
        call,
        argument=None if call.argument is None else _over_base(call.argument, selection),
        filter=None if call.filter is None else _over_base(call.filter, selection, "FILTER"),
    )


def _over_base(expression: Expression, selection: Selection, condition_of: str | None = None) -> Expression:
    """An expression over the columns of a selection, over those of the stream at its bottom."""
    meant: Mapping[str, Expression] = dict(zip(selection.schema.names, selection.columns, strict=True))

    def instead(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return exp.Paren(this=meant[node.name].tree.copy())

    return compile_expression(expression.tree.transform(instead), row_scope(selection.base), condition_of)
