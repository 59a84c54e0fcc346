"""From CREATE MATERIALIZED VIEW to a `ViewQuery`, and from a SELECT that reads a view to a `ViewSelect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.errors import damaged, nearest
from muntin.query import Output, Query
from muntin.sql.bind_join import bind_join, refuse_left
from muntin.sql.bind_negation import bind_negation, bind_not_exists, not_exists
from muntin.sql.bind_session import refuse_joined_sessions
from muntin.sql.bind_stream_view import bind_stream_view
from muntin.sql.bind_wide_join import bind_wide_join, is_wide
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.fold import bind_fold, bind_outputs, is_folded
from muntin.sql.logic import conjuncts
from muntin.sql.naming import default_name
from muntin.sql.place import Misfit
from muntin.sql.sources import Sources, find_source
from muntin.sql.syntax import (
    CreateViewSyntax,
    Item,
    JoinSyntax,
    Name,
    OrderSyntax,
    SelectSyntax,
    SourceSyntax,
)
from muntin.stream import Stream
from muntin.view_query import LEFT_TIME, RIGHT_TIME, ViewQuery, ViewSource
from muntin.view_select import KnownView, ViewSelect
from muntin.window import Window

_NO_OVER = "OVER is not for views: aggregates are of the results the view holds"


def bind_view(syntax: CreateViewSyntax, streams: Sources) -> ViewQuery:
    """The view a statement declares, or a `Misfit`."""
    source = _source(syntax, streams)
    view = ViewQuery(syntax.name.text, syntax.text, source, (), _index_text(syntax))
    return replace(view, key=_key(syntax, view.known))


def _source(syntax: CreateViewSyntax, streams: Sources) -> ViewSource:
    select = syntax.select
    if select.order is not None:
        raise Misfit(
            f"a materialized view is ordered by its key; {select.order.word} stands where you read it",
            select.order.place,
        )
    if syntax.negated is not None:
        return bind_negation(syntax, syntax.negated, streams)
    if select.join is None and (found := not_exists(select)) is not None:
        rest, negated = found
        return bind_not_exists(replace(syntax, select=rest), negated, streams)
    if select.changes is not None:
        raise Misfit("a materialized view follows changes by itself; leave out EMIT CHANGES", select.changes)
    if select.join is None:
        return bind_stream_view(syntax, streams)
    refuse_left(select.join)
    refuse_joined_sessions(select)
    if is_folded(select):
        raise Misfit("a materialized view of a join keeps pairs; aggregate when you read it", select.start)
    if is_wide(select):
        return bind_wide_join(syntax, streams)
    windowed = _with_slide(syntax, select, select.join)
    assert windowed.join is not None
    times = [
        _time_of(source, streams, name)
        for source, name in ((windowed.source, LEFT_TIME), (windowed.join.source, RIGHT_TIME))
    ]
    followed = replace(windowed, items=(*select.items, *times), changes=select.start)
    return replace(bind_join(followed, windowed.join, streams), text=syntax.text)


def _index_text(syntax: CreateViewSyntax) -> str | None:
    return None if syntax.indexing is None else syntax.indexing.text


def _with_slide(syntax: CreateViewSyntax, select: SelectSyntax, join: JoinSyntax) -> SelectSyntax:
    """The SELECT with EVERY as the slide of both windows."""
    slides = {
        source.window.slide
        for source in (select.source, join.source)
        if source.window and source.window.slide
    }
    if syntax.every is None:
        if not slides:
            raise syntax.name.misfit(
                "say how often the view is updated: add EVERY 1 MINUTE, or a SLIDE to a window"
            )
        return select
    if slides - {syntax.every}:
        raise syntax.name.misfit("EVERY and SLIDE disagree; leave one of them out")

    def sliding(window: Window | None) -> Window | None:
        return None if window is None else replace(window, slide=syntax.every or 0)

    source = replace(join.source, window=sliding(join.source.window))
    return replace(select, window=sliding(select.window), join=replace(join, source=source))


def _time_of(source: SourceSyntax, streams: Sources, name: str) -> Item:
    stream = find_source(source.stream, streams)
    time = stream.time if isinstance(stream, Stream) else ""  # if it is unknown, the join says so
    tree = exp.column(
        exp.to_identifier(time, quoted=True), table=exp.to_identifier(source.name.text, quoted=True)
    )
    return Item(tree, Name(name, True, source.name.span))


def _key(syntax: CreateViewSyntax, known: KnownView) -> tuple[str, ...]:
    """The columns after KEY; without it, the first of the SELECT."""
    names = known.columns.names
    found = []
    for name in syntax.key:
        matching = [each for each in names if each == name.text or (
            not name.is_quoted and each.casefold() == name.text.casefold())]  # fmt: skip
        if len(matching) != 1:
            raise name.misfit(f"the view has no column '{name.text}'{nearest(name.text, names)}")
        found.append(matching[0])
    key = tuple(found) or (names[0],)
    for name in key:
        if pa.types.is_nested(known.columns.field(name).type):
            raise Misfit(
                f"'{name}' is a list, which has no order; name another column: KEY (…)", syntax.select.start
            )
    return key


def find_view(name: Name, views: Mapping[str, KnownView]) -> KnownView | None:
    """The view of that name, if there is one; unquoted names match in any case."""
    if name.text in views:
        return views[name.text]
    matching = [known for known in views if known.casefold() == name.text.casefold()]
    return views[matching[0]] if len(matching) == 1 and not name.is_quoted else None


def bind_view_select(select: SelectSyntax, view: KnownView) -> ViewSelect:
    """What a SELECT reads of a view, or a `Misfit`."""
    if view.damage is not None:
        raise damaged(view.name, view.damage)
    if select.changes is not None:
        raise Misfit(
            "a view is read as of its last update; EMIT CHANGES is for standing queries", select.changes
        )
    if select.hint is not None:
        raise Misfit("SYNOPSIS is not for views; leave the hint out", select.start)
    alias = select.alias.text if select.alias else view.name
    qualifiers = (view.name.casefold(), alias.casefold())
    rows = Scope({each.name: each.type for each in view.columns}, f"view '{view.name}'", qualifiers)
    where = None
    if select.where is not None:
        forbid_calls(select.where, "WHERE", "use HAVING to compare aggregates")
        where = compile_expression(select.where, rows, "WHERE")
    fold = bind_fold(select, rows, f"view {view.name}", _NO_OVER) if is_folded(select) else None
    outputs = bind_outputs(select, rows) if fold is None else fold.outputs[:-1]
    bounds = key_bounds(select.where, rows, view.key)
    order = () if select.order is None else answer_order(select, select.order, answer_names(outputs, fold))
    limit = None if select.order is None else select.order.limit
    return ViewSelect(view, select.text, where, outputs, fold, *bounds, cut_to(select, view), order, limit)


def answer_names(outputs: tuple[Output, ...], fold: Query | None) -> list[str]:
    """Of the columns of the answer."""
    return [*(key.name for key in (fold.keys if fold is not None else ())), *(each.name for each in outputs)]


def answer_order(select: SelectSyntax, order: OrderSyntax, names: list[str]) -> tuple[tuple[str, bool], ...]:
    """Columns of the answer that ORDER BY names, by their name or as they are written after SELECT."""
    found = []
    for tree, descends in order.by:
        tree = tree.unnest()
        matching = [item.alias.text if item.alias else default_name(item.tree, at + 1)
                 for at, item in enumerate(select.items) if item.tree.unnest() == tree]  # fmt: skip
        wanted = tree.name if isinstance(tree, exp.Column) and not tree.table else "".join(matching[:1])
        same = [
            name for name in names if name.casefold() in (wanted.casefold(), *map(str.casefold, matching))
        ]
        if not same:
            raise Misfit(
                f"ORDER BY names columns of the answer; '{tree.sql()}' is none{nearest(wanted, names)}",
                order.place,
            )
        found.append((same[0], descends))
    return tuple(found)


def cut_to(select: SelectSyntax, view: KnownView) -> tuple[int, ...] | None:
    """`FROM v [RANGE 5 MINUTES]`: the same join over windows of at most that size."""
    window = select.window
    if window is None:
        return None
    if window.is_time == view.by_count or window.to or window.slide or window.since or window.is_session:
        example = "[ROWS 10]" if view.by_count else "[RANGE 5 MINUTES]"
        raise select.stream.misfit(
            f"the windows of a view can be made smaller, as in {select.stream.text} {example}, not {window}"
        )
    if not view.sizes:
        raise select.stream.misfit(
            f"view '{view.name}' answers for its own windows only: those of a negation, or of aggregates, cannot be cut"
        )
    if window.size > max(view.sizes):
        raise select.stream.misfit(
            f"the windows of view '{view.name}' are shorter than {window}; what they have lost is gone"
        )
    return tuple(min(size, window.size) for size in view.sizes)


# Key bounds: what WHERE says of a view's key, so that results outside need not be read.
#
# Only conjuncts that compare a key column with a constant are used, and only as far as the constant is a
# value of the column's type; WHERE is applied to whatever is read, so leaving one out costs time and
# nothing else.

_MIRRORED = {exp.EQ: exp.EQ, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


class KeyBounds(NamedTuple):
    """Values of the first key columns, and the ends (included; None is open) of the next one."""

    equal: tuple[Any, ...]
    low: Any
    high: Any


def key_bounds(where: exp.Expr | None, scope: Scope, key: tuple[str, ...]) -> KeyBounds:
    """What all conjuncts of WHERE allow."""
    found: dict[str, list[tuple[type, Any]]] = {name: [] for name in key}
    for tree in conjuncts(where) if where is not None else ():
        for name, kind, value in _compared(tree, scope):
            if name in found:
                found[name].append((kind, value))
    equal: list[Any] = []
    for name in key:
        same = [value for kind, value in found[name] if kind is exp.EQ]
        if not same:
            lows = [value for kind, value in found[name] if kind in (exp.GT, exp.GTE)]
            highs = [value for kind, value in found[name] if kind in (exp.LT, exp.LTE)]
            return KeyBounds(tuple(equal), max(lows, default=None), min(highs, default=None))
        equal.append(same[0])
    return KeyBounds(tuple(equal), None, None)


def _compared(tree: exp.Expr, scope: Scope) -> Iterator[tuple[str, type, Any]]:
    """Columns, comparisons and constants of one condition."""
    parts: list[tuple[exp.Expr, type, exp.Expr]]
    if isinstance(tree, exp.Between):
        parts = [(tree.this, exp.GTE, tree.args["low"]), (tree.this, exp.LTE, tree.args["high"])]
    elif isinstance(tree, exp.Binary) and type(tree) in _MIRRORED:
        parts = [(tree.left, type(tree), tree.right), (tree.right, _MIRRORED[type(tree)], tree.left)]
    else:
        return
    for column, kind, constant in parts:
        if isinstance(column, exp.Column):
            name = scope.resolve(column)
            value = _constant(constant, scope.types[name])
            if value is not None:
                yield name, kind, value


def _constant(tree: exp.Expr, wanted: pa.DataType) -> Any:
    """The value of a constant expression, if it is one that the column can have."""
    try:
        expression = compile_expression(tree, Scope({}, "a constant"))
        value = expression.evaluate({"#": pa.array([0])})
        value = value.cast(wanted) if value.type != wanted else value
        is_same = pc.equal(value.cast(expression.type), expression.evaluate({"#": pa.array([0])}))
    except (Misfit, pa.ArrowException):
        return None
    return value[0].as_py() if is_same[0].as_py() else None
