"""From a SELECT that stands over a materialised view to what answers it.

| view | SELECT | is |
|---|---|---|
| events of one stream over [RANGE] | with aggregates, GROUP BY or DISTINCT | the query written out over the stream |
| pairs of two streams | any | the join written out, over windows that may be smaller |
| all others, and single events | any | a `StandingQuery`: a SELECT from the archive at each update |

What is written out shares state with all other queries over these streams; nothing is read from disk. Either way the
answer at an instant of the view is what a SELECT would give then.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from muntin.derived import Selection
from muntin.expression import Expression, both
from muntin.join_query import PAIR_NUMBER, PAIR_TIME, AnyQuery, JoinQuery, JoinSide
from muntin.query import CHANGE, Key, Output, Query
from muntin.sql.bind import bind_over
from muntin.sql.bind_join import PairScope, check_changes, pair_scope
from muntin.sql.bind_view import bind_view_select, cut_to
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.fold import columns_read, is_folded
from muntin.sql.place import Misfit
from muntin.sql.syntax import SelectSyntax
from muntin.view_query import HIDDEN, SelectionQuery, ViewQuery
from muntin.view_select import StandingQuery, ViewSelect
from muntin.window import span

_TIME = f"{HIDDEN}at"  # of the events of a selection, which its readers do not see


def bind_standing(select: SelectSyntax, view: ViewQuery) -> AnyQuery:
    """The standing query that a SELECT from a view means, or a `Misfit`."""
    if select.join is not None:
        raise Misfit(f"view '{view.name}' is read alone; join the streams that it reads", select.join.place)
    slide, select = _slide(select, view)
    source = view.source
    if isinstance(source, SelectionQuery) and not source.by_count and is_folded(select):
        return _over_stream(select, view, source, slide)
    if select.order is not None:
        raise Misfit(
            f"{select.order.word} of a standing query ranks the keys of one stream, or of a view that selects its "
            "events; a SELECT without REGISTER QUERY sorts any view",
            select.order.place,
        )
    changes = select.changes
    bound = bind_view_select(replace(select, changes=None), view.known)
    if isinstance(source, JoinQuery):
        return _over_pairs(replace(select, changes=changes), bound, view, source, slide)
    if changes is not None and CHANGE in {name.casefold() for name in bound.emission_schema().names}:
        raise Misfit(f"EMIT CHANGES adds a column '{CHANGE}'; give yours another name with AS", changes)
    streams = dict.fromkeys(side.stream for side in source.sides)
    return StandingQuery(select.text, bound, tuple(streams), slide, changes is not None)


def _slide(select: SelectSyntax, view: ViewQuery) -> tuple[int, SelectSyntax]:
    """How often it is answered, and the SELECT without that."""
    window = select.window
    if window is None or not window.slide or not window.is_time:
        return view.every, select
    if window.slide % view.every:
        raise select.stream.misfit(
            f"view '{view.name}' is updated every {span(view.every)}: SLIDE is a multiple of that"
        )
    return window.slide, replace(select, window=replace(window, slide=0))


# Events of one stream: as with CREATE STREAM … AS SELECT, the expressions of the view in the place of its columns.


def _over_stream(select: SelectSyntax, view: ViewQuery, source: SelectionQuery, slide: int) -> Query:
    stream, own = source.side.stream, source.side.window
    sizes = cut_to(select, view.known)
    moving = replace(own, size=own.size if sizes is None else sizes[0], slide=slide)
    time = compile_expression(
        exp.column(stream.time, quoted=True),
        Scope({stream.time: stream.column(stream.time).type}, stream.label),
    )
    columns = {**{each.name: each.expression for each in source.outputs}, _TIME: time}
    schema = pa.schema([pa.field(name, each.type) for name, each in columns.items()])
    selection = Selection(
        view.name, schema, _TIME, stream.delay, stream.ahead, text=view.text, source=stream.name, base=stream,
        where=source.where, columns=tuple(columns.values()),
    )  # fmt: skip
    query = bind_over(replace(select, window=moving), selection, _rows(select, view))
    for call in query.calls:
        if not call.window.is_time or call.window.since or call.window.size > own.size:
            raise select.stream.misfit(
                f"view '{view.name}' holds the events of {own}, and {call.window} is no part of that; windows over it "
                "are RANGE, and no longer"
            )
    return query


def _rows(select: SelectSyntax, view: ViewQuery) -> Scope:
    """The names of a view's columns."""
    alias = select.alias.text if select.alias else view.name
    types = {each.name: each.type for each in view.known.columns}
    return Scope(types, f"view '{view.name}'", (view.name.casefold(), alias.casefold()))


# Pairs of two streams: the join of the view, with what the SELECT asks of its results asked of pairs.


def _over_pairs(
    select: SelectSyntax, bound: ViewSelect, view: ViewQuery, source: JoinQuery, slide: int
) -> JoinQuery:
    pairs = pair_scope(
        (source.left.name, source.right.name), (source.left.stream, source.right.stream), frozenset()
    )
    meant = {output.name: output.expression for output in source.outputs}

    def over(expression: Expression, condition_of: str | None = None) -> Expression:
        if set(expression.columns) <= {PAIR_NUMBER}:
            return expression
        return _written_out(expression, meant, pairs, condition_of)

    where = both(source.where, None if bound.where is None else over(bound.where, "WHERE"))
    fold, outputs = (
        None,
        tuple(Output(each.name, over(each.expression)) for each in bound.outputs if bound.fold is None),
    )
    if bound.fold is not None:
        keys = tuple(Key(each.name, over(each.expression)) for each in bound.fold.keys)
        calls = tuple(
            replace(
                each,
                argument=None if each.argument is None else over(each.argument),
                filter=None if each.filter is None else over(each.filter, "FILTER"),
            )
            for each in bound.fold.calls
        )
        fold = replace(bound.fold, keys=keys, calls=calls)
        types = {**pairs.types, PAIR_TIME: pa.int64(), PAIR_NUMBER: pa.int64()}
        read = [*sorted(columns_read(None, (), fold)), PAIR_TIME, PAIR_NUMBER]
        schema = pa.schema([(name, types[name]) for name in read])
        fold = replace(fold, stream=replace(fold.stream, schema=schema))
        outputs = fold.outputs[:-1]
    read_of: tuple[list[str], list[str]] = [], []
    for side, column in map(pairs.split, columns_read(where, outputs, fold)):
        read_of[side].append(column)
    sizes = bound.sizes or view.known.sizes
    sides = [
        _cut(select, side, size, slide, tuple(sorted(columns)))
        for side, size, columns in zip(source.sides, sizes, read_of, strict=True)
    ]
    query = JoinQuery(
        select.text, sides[0], sides[1], source.on, where, outputs, fold, select.changes is not None,
        named=view.name,
    )  # fmt: skip
    check_changes(select, query)
    return query


def _cut(select: SelectSyntax, side: JoinSide, size: int, slide: int, columns: tuple[str, ...]) -> JoinSide:
    if size <= side.window.to:
        raise select.stream.misfit(f"nothing is left of {side} if it is cut to {span(size)}")
    return replace(side, window=replace(side.window, size=size, slide=slide), columns=columns)


def _written_out(
    expression: Expression, meant: dict[str, Expression], pairs: PairScope, condition_of: str | None
) -> Expression:
    """An expression over the columns of a view, over those of pairs."""

    def instead(node: exp.Expr) -> exp.Expr:
        return exp.Paren(this=meant[node.name].tree.copy()) if isinstance(node, exp.Column) else node

    return compile_expression(expression.tree.transform(instead), pairs, condition_of)
