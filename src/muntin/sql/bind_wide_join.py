"""From the JOINs of a view, of any number of streams over windows by time or by count, to a `WideJoinQuery`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from muntin.errors import nearest
from muntin.expression import Expression, both
from muntin.join_query import JoinSide
from muntin.sql.bind_join import PairScope, pair_scope
from muntin.sql.bind_negation import every_of
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import compile_equal, compile_expression
from muntin.sql.fold import bind_outputs, columns_read
from muntin.sql.logic import conjuncts
from muntin.sql.place import Misfit
from muntin.sql.sources import Sources, find_pushed, refuse_own_times
from muntin.sql.syntax import CreateViewSyntax, JoinSyntax, SelectSyntax, SourceSyntax
from muntin.stream import Stream
from muntin.view_query import Equality, WideJoinQuery
from muntin.window import Window


def is_wide(select: SelectSyntax) -> bool:
    """Whether a join has more than two inputs, or windows by count."""
    assert select.join is not None
    windows = [source.window for source in _sources(select)]
    return bool(select.join.further) or any(window is not None and not window.is_time for window in windows)


def bind_wide_join(syntax: CreateViewSyntax, streams: Sources) -> WideJoinQuery:
    """The join a view keeps, or a `Misfit`."""
    select = syntax.select
    sources, joins = _sources(select), _joins(select)
    found = tuple(find_pushed(source.stream, streams) for source in sources)
    names = tuple(source.name.text for source in sources)
    for number, source in enumerate(sources):
        if source.name.text.casefold() in {name.casefold() for name in names[:number]}:
            raise source.name.misfit(
                f"two inputs are called '{source.name.text}'; give one another name with AS"
            )
        if "." in source.name.text:  # columns are called name.column
            raise source.name.misfit(f"give '{source.name.text}' a name without a dot with AS")
    windows, every = _windows(sources), every_of(syntax, tuple(source.window for source in sources))
    shared = {name.text.casefold() for join in joins for name in join.using}
    used = frozenset(name for stream in found for name in stream.schema.names if name.casefold() in shared)
    rows = pair_scope(names, found, used)
    on, where = [], None
    for side, join in enumerate(joins, 1):
        equalities, beyond = _equalities(side, join, rows, found)
        on.append(equalities)
        where = both(where, beyond)
    if select.where is not None:
        forbid_calls(select.where, "WHERE", "a view keeps results; aggregate when you read it")
        where = both(where, compile_expression(select.where, rows, "WHERE"))
    outputs = bind_outputs(select, rows)
    read = columns_read(where, outputs, None)
    read |= {column for some in on for pair in some for each in pair for column in each.columns}
    sides = tuple(
        JoinSide(name, stream, window, tuple(sorted(c for of, c in map(rows.split, read) if of == side)))
        for side, (name, stream, window) in enumerate(zip(names, found, windows, strict=True))
    )
    return WideJoinQuery(sides, tuple(on), where, outputs, every)


def _joins(select: SelectSyntax) -> tuple[JoinSyntax, ...]:
    assert select.join is not None
    return (select.join, *select.join.further)


def _sources(select: SelectSyntax) -> list[SourceSyntax]:
    return [select.source, *(join.source for join in _joins(select))]


def _windows(sources: Sequence[SourceSyntax]) -> list[Window]:
    """The windows, all by time or all by count, as they are without their slide."""
    found: list[Window] = []
    for source in sources:
        refuse_own_times(source)
        window = source.window
        if window is None:
            raise source.stream.misfit(
                f"each stream of a join needs a window: {source.stream.text} [RANGE 5 MINUTES] or [ROWS 100]"
            )
        if window.to:
            raise source.stream.misfit(
                f"with windows by count, or more than two inputs, windows end now; {window} ends in the past"
            )
        if found and found[0].is_time != window.is_time:
            raise source.stream.misfit(
                f"the windows {found[0]} and {window} do not mix: give all inputs RANGE, or all ROWS"
            )
        if window.slide and not window.is_time:
            raise source.stream.misfit(
                f"a view follows time: instead of the SLIDE of {window}, write EVERY 1 MINUTE"
            )
        found.append(Window(window.unit, window.size))
    return found


def _equalities(
    side: int, join: JoinSyntax, rows: PairScope, streams: Sequence[Stream]
) -> tuple[tuple[Equality, ...], Expression | None]:
    """What a side is matched by with those before it, and the condition that is left of ON."""
    found: list[Equality] = []
    beyond: Expression | None = None
    trees = [*_used(side, join, rows, streams), *(conjuncts(join.on) if join.on is not None else ())]
    for tree in trees:
        forbid_calls(tree, "ON", "aggregate when you read the view")
        if max(rows.sides_in(tree), default=0) > side:
            later = rows.names[max(rows.sides_in(tree))]
            raise Misfit(f"ON reads '{later}', which is joined later; write the condition there", join.place)
        if (equality := _equality(side, tree, rows)) is not None:
            found.append(equality)
        else:
            beyond = both(beyond, compile_expression(tree, rows, "ON"))
    if not found:
        raise Misfit(
            "a join needs an equality with a stream before it, such as "
            f"ON {rows.names[0]}.column = {rows.names[side]}.column; other conditions may stand beside it",
            join.place,
        )
    return tuple(sorted(set(found), key=str)), beyond


def _equality(side: int, tree: exp.Expr, rows: PairScope) -> Equality | None:
    if not isinstance(tree, exp.EQ):
        return None
    left, right = rows.sides_in(tree.left), rows.sides_in(tree.right)
    if right == {side} and left and side not in left:
        parts = [tree.left, tree.right]
    elif left == {side} and right and side not in right:
        parts = [tree.right, tree.left]
    else:
        return None
    before, own = compile_equal(tree, [(part, rows) for part in parts])
    return before, own


def _used(side: int, join: JoinSyntax, rows: PairScope, streams: Sequence[Stream]) -> list[exp.Expr]:
    """USING as equalities with the first stream that has the column."""
    trees: list[exp.Expr] = []
    for name in join.using:
        of = [
            (number, column)
            for number, stream in enumerate(streams[: side + 1])
            for column in stream.schema.names
            if column == name.text or (not name.is_quoted and column.casefold() == name.text.casefold())
        ]
        if not of or of[0][0] == side or of[-1][0] != side:
            raise name.misfit(f"'{name.text}' is not a column on both sides{nearest(name.text, rows.types)}")
        trees.append(exp.EQ(this=_column(of[0], rows), expression=_column(of[-1], rows)))
    return trees


def _column(place: tuple[int, str], rows: PairScope) -> exp.Expr:
    side, column = place
    return exp.column(
        exp.to_identifier(column, quoted=True), table=exp.to_identifier(rows.names[side], quoted=True)
    )
