"""From a parsed SELECT to a `Query`: names looked up, types checked, aggregates taken out.

SELECT and HAVING become expressions over the answers of the query's calls: each different
aggregate call is replaced by a column `$0`, `$1`, … and equal calls share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from muntin.aggregates import AGGREGATES
from muntin.aggregates.approximate import ERROR
from muntin.expression import Expression
from muntin.query import CHANGE, Call, Key, Output, Query, Top
from muntin.sql.bind_distinct import check_distinct, distinct_values
from muntin.sql.bind_session import check_in_session
from muntin.sql.bind_top import check_order, top_of
from muntin.sql.call import bind_call, calls_in, forbid_calls, is_call, parts_of
from muntin.sql.composed import expanded
from muntin.sql.expressions import Scope, compile_expression, compile_kept, constant_number, with_meanings
from muntin.sql.naming import Names, default_name, is_reserved
from muntin.sql.own_call import OWN, unknown
from muntin.sql.place import Misfit, mark, misfit, place
from muntin.sql.sources import Sources, find_stream
from muntin.sql.syntax import Item, SelectSyntax
from muntin.stream import Stream
from muntin.window import Window


def bind_select(select: SelectSyntax, streams: Sources) -> Query:
    """The query a SELECT means over one of these streams, or a `Misfit`."""
    stream = find_stream(select.stream, streams)
    return bind_over(select, stream, scope_of(select, stream))


def bind_over(select: SelectSyntax, stream: Stream, rows: Scope) -> Query:
    """The query a SELECT means over a stream whose columns are called as in `rows`."""
    return SelectBinder(select, stream, rows).query()


def bind_apart(select: SelectSyntax, stream: Stream) -> tuple[Query, Scope]:
    """The same query, its expressions compiled from its own text alone and none taken over from others;
    and the scope of its answers."""
    rows = scope_of(select, stream)
    binder = SelectBinder(select, stream, Scope(rows.types, rows.owner, rows.qualifiers))
    return binder.query(), binder.answer_scope()


def scope_of(select: SelectSyntax, stream: Stream) -> Scope:
    """The names that WHERE, GROUP BY and arguments of aggregates may use."""
    return row_scope(stream, select.alias.text if select.alias else None)


@lru_cache(maxsize=256)
def row_scope(stream: Stream, alias: str | None = None) -> Scope:
    """The columns of a stream; one scope per stream, so that equal expressions are compiled once."""
    types = {field.name: field.type for field in stream.schema}
    qualifiers = tuple(name.casefold() for name in (stream.name, alias) if name)
    return Scope(types, f"stream '{stream.name}'", qualifiers, left_out=stream.left_out)


class SelectBinder:
    """Binds one SELECT over `rows`, clause by clause."""

    def __init__(self, select: SelectSyntax, stream: Stream, rows: Scope):
        self.select = select
        self.stream = stream
        self.rows = rows
        self.names = Names()
        self.calls: dict[Call, int] = {}
        self.call_nodes: list[exp.Expr] = []  # where each call stands first
        self.keys: dict[str, Key] = {}  # by the canonical text of the expression
        self.has_computed_key = False
        self.tolerance: float | None = None
        self.key_items: set[int] = set()  # positions of the SELECT items that are keys
        self.aliases: dict[str, exp.Expr] = {}  # SELECT items by folded alias, calls taken out

    def query(self) -> Query:
        select = self.select
        where = self._where()
        self._bind_keys(select.keys or distinct_values(select, self.rows))
        check_distinct(select, self.keys.values(), len(self.key_items))
        outputs = self._outputs()
        having = self._having()
        top = self._top()
        calls = tuple(self.calls)
        if not calls and not self.keys:
            raise Misfit(
                "the query has no aggregate; write for example LAST(price) or COUNT(*)", select.start
            )
        self._check_windows(calls)
        query = Query(select.text, self.stream, tuple(self.keys.values()), where, select.window, calls,
                      outputs, having, select.hint, self.tolerance, select.changes is not None, top=top)  # fmt: skip
        self.check_changes(query, outputs, having)
        return query

    def check_changes(self, query: Query, outputs: tuple[Output, ...], having: Expression | None) -> None:
        """EMIT CHANGES must have something that can change, at instants that are the same for all keys."""
        if self.select.changes is None:
            return
        if not self.keys and having is None:
            raise Misfit(
                "EMIT CHANGES needs GROUP BY or HAVING: this query always has an answer", self.select.changes
            )
        if self.tolerance is not None:
            raise Misfit(
                "EMIT CHANGES needs to know exactly who is in; leave out APPROX", self.select.changes
            )
        if query.window is not None and query.window.closes_by_events and not query.window.is_session:
            raise Misfit(
                "EMIT CHANGES follows time; a query over [ROWS … SLIDE] moves by events", self.select.changes
            )
        names = [key.name for key in self.keys.values()] + [output.name for output in outputs]
        for name in names:
            if name.casefold() == CHANGE:
                raise Misfit(
                    f"EMIT CHANGES adds a column '{CHANGE}'; give yours another name with AS",
                    self.select.changes,
                )

    def _where(self) -> Expression | None:
        if self.select.where is None:
            return None
        forbid_calls(self.select.where, "WHERE", "use HAVING to compare aggregates")
        return compile_expression(self.select.where, self.rows, "WHERE")

    # Keys

    def _bind_keys(self, trees: tuple[exp.Expr, ...]) -> None:
        for tree in trees:
            meant = self._aliased(tree) or tree
            forbid_calls(meant, "GROUP BY", "a key is computed from one event")
            expression = compile_kept(meant, self.rows)
            if not expression.columns:
                raise misfit(tree, "GROUP BY takes columns or expressions of them, not a constant")
            if expression.sql in self.keys:
                raise misfit(tree, f"{expression} stands twice in GROUP BY")
            self.keys[expression.sql] = Key(self._key_name(expression, meant), expression)
            self.has_computed_key |= not expression.is_column

    def _aliased(self, tree: exp.Expr) -> exp.Expr | None:
        """The SELECT item a GROUP BY name refers to, unless it is a column of the stream."""
        if not isinstance(tree, exp.Column) or tree.table:
            return None
        if self.rows.find(tree.name, bool(tree.this.quoted)):
            return None
        fold = tree.name.casefold()
        return next(
            (i.tree.copy() for i in self.select.items if i.alias and i.alias.text.casefold() == fold), None
        )

    def _key_name(self, expression: Expression, tree: exp.Expr) -> str:
        for position, item in enumerate(self.select.items):
            if position not in self.key_items and self._is_same(item, expression):
                self.key_items.add(position)
                if item.alias:
                    return self.names.take(item.alias)
                break
        is_column = isinstance(tree.unnest(), exp.Column)  # also if more digits than are kept are cut off
        name = self.rows.short(expression.columns[0]) if is_column else f"key_{len(self.keys) + 1}"
        if is_reserved(name):
            raise misfit(tree, f"'{name}' is a column of every answer; give the key another name with AS")
        return self.names.take_default(name)

    def _is_same(self, item: Item, expression: Expression) -> bool:
        if expression.is_column and not isinstance(item.tree.unnest(), exp.Column):
            return False
        return self._row_text(item.tree) == expression.sql

    def _row_text(self, tree: exp.Expr) -> str | None:
        """The canonical text of a tree over the stream's columns; None if it has no such meaning."""
        if any(calls_in(tree)):
            return None
        try:
            return compile_kept(tree.copy(), self.rows).sql
        except Misfit:
            return None

    # Answers

    def _outputs(self) -> tuple[Output, ...]:
        items = [
            (position, item)
            for position, item in enumerate(self.select.items)
            if position not in self.key_items
        ]
        named = {position: self.names.take(item.alias) for position, item in items if item.alias}
        trees = []
        for position, item in items:
            wanted = default_name(item.tree, position + 1)
            tree = self._over_answers(item.tree)
            if item.alias:
                self.aliases.setdefault(item.alias.text.casefold(), tree)
            trees.append((named.get(position) or self.names.take_default(wanted), tree))
            trees += self._errors(trees[-1][0], tree)
        scope = self.answer_scope()
        return tuple(Output(name, self._compile_answer(tree, scope)) for name, tree in trees)

    def _errors(self, name: str, tree: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """A column with the error of each approximate aggregate that an item reads."""
        calls = list(self.calls)
        found: list[tuple[str, exp.Expr]] = []
        for column in tree.find_all(exp.Column):
            call = calls[int(column.name[1:])] if column.name.startswith("$") else None
            if call is None or f"{call.function}{ERROR}" not in AGGREGATES:
                continue
            error = replace(call, function=f"{call.function}{ERROR}")
            if error not in self.calls:
                self.calls[error] = len(self.calls)
                self.call_nodes.append(column)
            found.append(
                (self.names.take_default(f"{name}{ERROR}"), answer_column(f"${self.calls[error]}", column))
            )
        return found

    def _having(self) -> Expression | None:
        condition = self.select.having
        if condition is None:
            return None
        if isinstance(condition, exp.Anonymous) and condition.name.upper() == "APPROX":
            condition, self.tolerance = _approximate(condition)
        tree = self._over_answers(condition, aliases_too=True)
        return self._compile_answer(tree, self.answer_scope(), "HAVING")

    def _top(self) -> Top | None:
        order = self.select.order
        if order is None:
            return None
        limit = check_order(self.select, order, self.keys.values(), self.tolerance is not None)
        trees = [self._over_answers(tree.copy(), aliases_too=True) for tree, _ in order.by]
        scope = self.answer_scope()
        return top_of(order, limit, [self._compile_answer(tree, scope) for tree in trees])

    def _compile_answer(self, tree: exp.Expr, scope: Scope, condition_of: str | None = None) -> Expression:
        try:
            return compile_expression(tree, scope, condition_of)
        except Misfit as fault:  # `$0` means nothing to the user: show the call
            meant = {f"${number}": str(call) for call, number in self.calls.items()}
            raise Misfit(with_meanings(fault.message, meant), fault.span) from None

    def answer_scope(self) -> Scope:
        """The names that SELECT and HAVING may use: keys, and answers of calls."""
        types = {key.name: key.expression.type for key in self.keys.values()}
        for call, number in self.calls.items():
            types[f"${number}"] = AGGREGATES[call.function].answer_type(
                call.argument.type if call.argument else None
            )
        meanings = {f"${number}": _shown(call) for call, number in self.calls.items()}
        return Scope(types, "the answer", meanings=meanings)

    def _over_answers(self, node: exp.Expr, aliases_too: bool = False) -> exp.Expr:
        """The tree with calls, keys and aliases replaced by columns of the answer; in SELECT, aliases of items before
        it that no column has as a name."""
        if (composed := expanded(node)) is not None:
            return self._over_answers(composed, aliases_too)
        if is_call(node):
            call = self._call(node)
            if (made_of := parts_of(call)) is None:
                return self._answer_of(call, node)
            function, parts = made_of
            assert call.argument is not None
            scale = exp.Literal.number(call.argument.type.scale)
            return function(expressions=[*(self._answer_of(part, node) for part in parts), scale])
        if isinstance(node, exp.Anonymous) and node.name.lower() not in OWN:
            raise unknown(node)
        if isinstance(node, exp.Column):
            return self._key_or_alias(node, aliases_too)
        if self.has_computed_key and (key := self.keys.get(self._row_text(node) or "")):
            return answer_column(key.name, node)
        for name, part in list(node.args.items()):
            if isinstance(part, exp.Expr):
                node.set(name, self._over_answers(part, aliases_too))
            elif isinstance(part, list):
                node.set(
                    name, [self._over_answers(p, aliases_too) if isinstance(p, exp.Expr) else p for p in part]
                )
        return node

    def _answer_of(self, call: Call, node: exp.Expr) -> exp.Expr:
        """The column that a call is answered in."""
        if call not in self.calls:
            self.calls[call] = len(self.calls)
            self.call_nodes.append(node)
        return answer_column(f"${self.calls[call]}", node)

    def _call(self, node: exp.Expr) -> Call:
        return bind_call(node, self.rows, self.select.window)

    def _key_or_alias(self, node: exp.Column, aliases_too: bool) -> exp.Expr:
        """What a name means in an answer: a key's column, else an alias."""
        is_quoted = isinstance(node.this, exp.Identifier) and bool(node.this.quoted)
        column = None if node.table else self.rows.find(node.name, is_quoted)
        if column is None and node.table:
            column = self.rows.resolve(node)
        for key in self.keys.values():
            if key.expression.is_column and key.expression.columns == (column,):
                return answer_column(key.name, node)
        fold = node.name.casefold()
        if not node.table and (aliases_too or column is None):
            for key in self.keys.values():
                if key.name == node.name or (not is_quoted and key.name.casefold() == fold):
                    return answer_column(key.name, node)
        if not node.table and (aliases_too or column is None) and fold in self.aliases:
            return exp.Paren(this=self.aliases[fold].copy())
        name = self.rows.resolve(node)
        if not self.keys and not any(any(calls_in(item.tree)) for item in self.select.items):
            raise misfit(node, f"a query gives values of a window, not its events; write SELECT DISTINCT {name} "
                               f"for the different ones, or LAST({name}) for the most recent")  # fmt: skip
        raise misfit(node, f"'{name}' is neither a key nor inside an aggregate; write LAST({name}) "
                           "or add it to GROUP BY")  # fmt: skip

    # Windows

    def _check_windows(self, calls: tuple[Call, ...]) -> None:
        window = self.select.window
        if window is None and not calls:
            raise self.select.stream.misfit("the query needs a window: FROM stream [RANGE 5 MINUTES]")
        for number, (call, node) in enumerate(zip(calls, self.call_nodes, strict=True)):
            if window is None and (other := at_odds(call.window, calls[:number])) is not None:
                raise misfit(node, f"the OVER windows {other} and {call.window} disagree on when to answer; give both "
                                   "a SLIDE, and one OFFSET if it is the same, or a window after FROM")  # fmt: skip
            if window is not None and window.is_session:
                check_in_session(call, node, window)
            if window is not None and window.closes_by_events and call.window.is_time:
                raise misfit(node, f"a query over {window} moves by events; it cannot use the time window "
                                   f"{call.window}")  # fmt: skip


def _shown(call: Call) -> str:
    """A call in an error. Constants inside are left out: a template serves texts with others."""
    if call.argument is None:
        return f"{call.function.upper()}(*)"
    return f"{call.function.upper()}({call.argument.sql if call.argument.is_column else '…'})"


def _approximate(node: exp.Anonymous) -> tuple[exp.Expr, float]:
    """The condition of `APPROX(condition, tolerance)`, and by what factor it may be missed."""
    if len(node.expressions) != 2:
        raise misfit(node, "APPROX takes a condition and a tolerance: HAVING APPROX(COUNT(*) > 100, 0.25)")
    condition, tolerance = node.expressions
    number = constant_number(tolerance)
    if number is None or not 0 < number <= 1:
        raise misfit(tolerance, "the tolerance of APPROX is a number above 0 and up to 1, such as 0.25")
    return condition, number


def at_odds(window: Window, calls: Iterable[Call]) -> Window | None:
    """The window of a call that leaves it open, beside another, whose instants a query has without a window after FROM:
    only one of them has a SLIDE, or one SLIDE has two OFFSETs. Those that count events have no instants."""
    own = window.pace
    for call in calls:
        other = call.window.pace
        is_open = not own.every or not other.every or own.every == other.every
        if window.is_time and call.window.is_time and own != other and is_open:
            return call.window
    return None


def answer_column(name: str, instead_of: exp.Expr) -> exp.Column:
    """A column of the answer, in the place of what it is computed from."""
    node = exp.column(name, quoted=True)
    if found := place(instead_of):
        mark(node, *found)
    return node
