"""From a parsed SELECT with a JOIN to a `JoinQuery`.

ON is taken apart: equalities between the two streams are what pairs are found by, everything else is a
condition on pairs, like WHERE. With aggregates, GROUP BY or DISTINCT, what is left of the SELECT is an
ordinary query over the stream of pairs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from muntin.errors import nearest
from muntin.expression import Expression, both
from muntin.join_query import LEAVES_AT, JoinQuery, JoinSide
from muntin.query import CHANGE
from muntin.sql.bind import row_scope
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import Scope, compile_equal, compile_expression, quoted
from muntin.sql.fold import bind_fold, bind_outputs, columns_read, is_folded
from muntin.sql.logic import conjuncts
from muntin.sql.place import Misfit, misfit
from muntin.sql.sources import Source, Sources, find_pushed, refuse_own_times
from muntin.sql.syntax import JoinSyntax, Name, SelectSyntax
from muntin.sql.vocabulary import LEFT_REFUSAL
from muntin.stream import Stream
from muntin.window import Window

# The names of a join: columns of its streams, each called by its own name or as `t.price`.


@lru_cache(maxsize=256)
def pair_scope(names: tuple[str, ...], streams: tuple[Source, ...], shared: frozenset[str]) -> PairScope:
    """One scope for all joins that call their streams the same, so that equal expressions are compiled once."""
    return PairScope(names, streams, shared)


class PairScope(Scope):
    """Columns of pairs, or of what more than two inputs make; a bare name means the one input that has it.

    `names` are what the query calls the streams; `shared` columns are equal on all sides (USING), so that
    a bare name means any.
    """

    def __init__(self, names: tuple[str, ...], streams: tuple[Source, ...], shared: frozenset[str]):
        self._kind = "stream" if all(isinstance(each, Stream) for each in streams) else "input"
        self.names = names
        self.shared = shared
        self._place = {
            f"{name}.{field.name}": (side, field.name)
            for side, (name, stream) in enumerate(zip(self.names, streams, strict=True))
            for field in stream.schema
        }
        types = {
            name: streams[side].schema.field(column).type for name, (side, column) in self._place.items()
        }
        super().__init__(types, " JOIN ".join(self.names))
        self._sides = tuple(
            Scope(
                {field.name: field.type for field in stream.schema},
                stream.label,
                left_out=stream.left_out,
            )
            for stream in streams
        )
        self._side_of = {name: side for side, name in enumerate(self.names)}
        # a stream keeps its own name beside an alias, where that is clear
        for side, stream in enumerate(streams):
            if sum(each.name == stream.name for each in streams) == 1:
                self._side_of.setdefault(stream.name, side)
        self._side_by_fold = {name.casefold(): side for name, side in self._side_of.items()}

    def text(self, name: str) -> str:
        side, column = self.split(name)
        return f"{quoted(self.names[side])}.{quoted(column)}"

    def short(self, name: str) -> str:
        return self.split(name)[1]

    def split(self, name: str) -> tuple[int, str]:
        """The side (0 is left) and the column of a name."""
        return self._place[name]

    def find(self, name: str, is_quoted: bool) -> str | None:
        if name in self.types:
            return name
        found = [
            (side, column) for side, each in enumerate(self._sides) if (column := each.find(name, is_quoted))
        ]
        if not found or (len(found) > 1 and found[0][1] not in self.shared):
            return None
        side, column = found[0]
        return f"{self.names[side]}.{column}"

    def resolve(self, node: exp.Column) -> str:
        if not isinstance(node.this, exp.Identifier):
            return super().resolve(node)
        is_quoted = bool(node.this.quoted)
        if node.table:
            side = self._side(node)
            column = self._sides[side].find(node.name, is_quoted)
            if column is None:
                hint = self._sides[side].hint(node.name)
                raise misfit(node, f"'{node.table}' has no column '{node.name}'{hint}")
            return f"{self.names[side]}.{column}"
        name = self.find(node.name, is_quoted)
        if name is not None:
            return name
        having = [
            n for n, each in zip(self.names, self._sides, strict=True) if each.find(node.name, is_quoted)
        ]
        if having:
            some = "both" if len(self.names) == 2 else "several"
            written = " or ".join(f"{name}.{node.name}" for name in having)
            raise misfit(node, f"'{node.name}' is in {some} {self._kind}s; write {written}")
        known = [column for each in self._sides for column in each.types]
        none = "neither" if len(self.names) == 2 else "no"
        raise misfit(node, f"{none} {self._kind} has a column '{node.name}'{nearest(node.name, known)}")

    def _side(self, node: exp.Column) -> int:
        table = node.args["table"]
        sides = self._side_of if table.args.get("quoted") else self._side_by_fold
        side = sides.get(node.table if table.args.get("quoted") else node.table.casefold())
        if side is None or node.args.get("db"):
            raise misfit(node, f"unknown qualifier '{node.table}'{nearest(node.table, self.names)}")
        return side

    def sides_in(self, tree: exp.Expr) -> set[int]:
        """The sides whose columns a tree reads."""
        return {self.split(self.resolve(node))[0] for node in tree.find_all(exp.Column)}


_NO_OVER = "OVER is not for joins: aggregates are of the pairs in the windows after FROM"


def bind_join(select: SelectSyntax, join: JoinSyntax, streams: Sources) -> JoinQuery:
    """The join query a SELECT means over these streams, or a `Misfit`."""
    refuse_left(join)
    if join.further:
        raise Misfit(
            "a query joins two streams; join more of them in a CREATE MATERIALIZED VIEW, or push the answers of this "
            "join as a stream",
            join.further[0].place,
        )
    sources = select.source, join.source
    left, right = (find_pushed(source.stream, streams) for source in sources)
    names = [source.name.text.casefold() for source in sources]
    if names[0] == names[1]:
        raise join.source.name.misfit(
            f"both sides are called '{join.source.name.text}'; give them different names with AS"
        )
    for source in sources:
        if "." in source.name.text:  # columns of pairs are called name.column
            raise source.name.misfit(f"give '{source.name.text}' a name without a dot with AS")
    windows = _windows(select, join)
    scopes = (row_scope(left, sources[0].name.text), row_scope(right, sources[1].name.text))
    used = [(_column(name, scopes[0]), _column(name, scopes[1])) for name in join.using]
    pairs = pair_scope(
        (sources[0].name.text, sources[1].name.text), (left, right), frozenset(column for column, _ in used)
    )
    on, beyond = _equalities(join, used, pairs, scopes)
    where = both(beyond, _condition(select.where, pairs, "WHERE"))
    if select.hint is not None:
        raise Misfit(f"SYNOPSIS({select.hint}) is not for joins; leave the hint out", select.start)
    fold = None
    if is_folded(select):
        fold = bind_fold(select, pairs, f"{pairs.names[0]} JOIN {pairs.names[1]}", _NO_OVER)
    outputs = bind_outputs(select, pairs) if fold is None else fold.outputs[:-1]
    read = columns_read(where, outputs, fold)
    sides = [
        JoinSide(pairs.names[side], stream, windows[side], _columns_of(side, read, pairs))
        for side, stream in enumerate((left, right))
    ]
    query = JoinQuery(select.text, sides[0], sides[1], on, where, outputs, fold, select.changes is not None)
    check_changes(select, query)
    return query


def refuse_left(join: JoinSyntax) -> None:
    """A fault if one of the joins with streams is a LEFT JOIN."""
    for each in (join, *join.further):
        if each.left is not None:
            raise Misfit(LEFT_REFUSAL, each.left)


def _windows(select: SelectSyntax, join: JoinSyntax) -> tuple[Window, Window]:
    """The windows of both sides, with the slide that one of them has or both."""
    found = []
    for source in (select.source, join.source):
        refuse_own_times(source)
        if source.window is None:
            raise source.stream.misfit(
                f"both streams of a join need a window: {source.stream.text} [RANGE 5 MINUTES]"
            )
        if not source.window.is_time:
            raise source.stream.misfit(
                f"a join takes time windows, such as {source.stream.text} [RANGE 5 MINUTES], "
                f"not {source.window}, which only a CREATE MATERIALIZED VIEW joins"
            )
        found.append(source.window)
    slides = {window.slide for window in found if window.slide}
    if len(slides) > 1:
        raise join.source.stream.misfit(
            f"the windows {found[0]} and {found[1]} disagree on SLIDE; give both the same, or only one of them"
        )
    slide = slides.pop() if slides else 0
    return replace(found[0], slide=slide), replace(found[1], slide=slide)


# What pairs agree on


def _equalities(
    join: JoinSyntax, used: list[tuple[str, str]], pairs: PairScope, scopes: tuple[Scope, Scope]
) -> tuple[tuple[tuple[Expression, Expression], ...], Expression | None]:
    """What pairs are found by, and the condition that is left of ON."""
    found: list[tuple[Expression, Expression]] = []
    beyond: Expression | None = None
    for name, columns in zip(join.using, used, strict=True):
        trees = [exp.column(column, quoted=True) for column in columns]
        try:
            left, right = compile_equal(trees[0], list(zip(trees, scopes, strict=True)))
        except Misfit as fault:
            raise name.misfit(fault.message) from None
        found.append((left, right))
    for tree in conjuncts(join.on) if join.on is not None else ():
        forbid_calls(tree, "ON", "use HAVING to compare aggregates")
        if (equal := equality(tree, pairs, scopes)) is not None:
            found.append(equal)
        else:
            beyond = both(beyond, compile_expression(tree, pairs, "ON"))
    if not found:
        left_name, right_name = pairs.names
        raise Misfit(
            "a join needs an equality between its streams, such as "
            f"ON {left_name}.column = {right_name}.column; other conditions may stand beside it",
            join.place,
        )
    return tuple(sorted(set(found), key=str)), beyond


def _column(name: Name, scope: Scope) -> str:
    column = scope.find(name.text, name.is_quoted)
    if column is None:
        raise name.misfit(f"{scope.owner} has no column '{name.text}'{nearest(name.text, scope.types)}")
    return column


def equality(
    tree: exp.Expr, pairs: PairScope, scopes: tuple[Scope, Scope]
) -> tuple[Expression, Expression] | None:
    """The values that must be equal, if that is what a condition says of the two streams."""
    if not isinstance(tree, exp.EQ):
        return None
    sides = [pairs.sides_in(part) for part in (tree.left, tree.right)]
    if sides == [{0}, {1}]:
        parts = [(tree.left, scopes[0]), (tree.right, scopes[1])]
    elif sides == [{1}, {0}]:
        parts = [(tree.right, scopes[0]), (tree.left, scopes[1])]
    else:
        return None
    left, right = compile_equal(tree, [(unqualified(part, pairs), scope) for part, scope in parts])
    return left, right


def unqualified(tree: exp.Expr, pairs: PairScope) -> exp.Expr:
    """The tree over the columns of its one stream, whatever the query calls that."""
    tree = tree.copy()
    for node in list(tree.find_all(exp.Column)):
        node.this.set("this", pairs.short(pairs.resolve(node)))
        node.this.set("quoted", True)
        node.set("table", None)
    return tree


def _condition(tree: exp.Expr | None, pairs: PairScope, clause: str) -> Expression | None:
    if tree is None:
        return None
    forbid_calls(tree, clause, "use HAVING to compare aggregates")
    return compile_expression(tree, pairs, clause)


# What is made of pairs


def _columns_of(side: int, read: set[str], pairs: PairScope) -> tuple[str, ...]:
    return tuple(sorted(column for of, column in map(pairs.split, read) if of == side))


def check_changes(select: SelectSyntax, query: JoinQuery) -> None:
    if select.changes is None:
        return
    if query.fold is not None:
        raise Misfit(
            "EMIT CHANGES of a join gives the pairs that come and go; leave out aggregates, GROUP BY and DISTINCT",
            select.changes,
        )
    for output in query.outputs:
        if output.name.casefold() in (CHANGE, LEAVES_AT):
            raise Misfit(
                f"EMIT CHANGES adds a column '{output.name}'; give yours another name with AS", select.changes
            )
