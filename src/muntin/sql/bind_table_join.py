"""From a SELECT that joins a stream with tables to a `TableQuery`.

ON and WHERE are taken apart first (`table_conditions.py`). What GROUP BY determines (`determined.py`) then says whether
events would count twice, whether keys are merged, and which columns of tables an answer has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import COMPONENTS
from muntin.answer import is_plain
from muntin.expression import Expression
from muntin.query import Call, Key, Output, Query
from muntin.sql.bind import SelectBinder, answer_column
from muntin.sql.bind_join import PairScope, unqualified
from muntin.sql.call import bind_call
from muntin.sql.determined import Determined
from muntin.sql.expressions import Scope, compile_expression, compile_kept, quoted
from muntin.sql.place import Misfit, misfit, place
from muntin.sql.sources import Sources, find_source
from muntin.sql.syntax import SelectSyntax
from muntin.sql.table_conditions import Inputs, Side, inputs_of
from muntin.sql.term import kind_of
from muntin.sql.type_name import type_name
from muntin.table import SPAN, Table
from muntin.table_query import RowSpan, RowThreshold, TableQuery, TableSide


def joins_table(select: SelectSyntax, sources: Sources) -> bool:
    """Whether one of the inputs of a SELECT with JOIN is a table."""
    return any(isinstance(find_source(each.stream, sources), Table) for each in inputs_of(select))


def on_columns(select: SelectSyntax, sources: Sources) -> list[tuple[str, tuple[str, ...]]]:
    """The tables of a SELECT, each with its columns that ON compares with the stream."""
    inputs = Inputs(select, sources)
    for side in inputs.sides:
        inputs.bind_on(side)
    return [(side.table.name, tuple(dict.fromkeys(column for _, column in side.on))) for side in inputs.sides]


def refuse_spans(select: SelectSyntax) -> None:
    """A fault if a SELECT that joins no table has a window whose length is a column of one."""
    for each in inputs_of(select):
        if each.span is not None:
            raise misfit(each.span.column, "the length of a window is a column of a table that is joined; write JOIN "
                                           "table ON …, or a length such as 5 MINUTES")  # fmt: skip


def bind_table_join(select: SelectSyntax, sources: Sources) -> TableQuery:
    """The query a SELECT means that joins a stream with tables, or a `Misfit`."""
    return _TableBinder(select, Inputs(select, sources)).table_query()


class _TableBinder(SelectBinder):
    def __init__(self, select: SelectSyntax, inputs: Inputs):
        source = inputs.source
        window = source.window
        if window is not None and source.span is not None:
            window = replace(window, step=source.span.step)
        plain = replace(select, stream=source.stream, alias=source.alias, window=window, span=source.span)
        super().__init__(plain, inputs.stream, inputs.pairs)
        self.inputs, self.pairs, self.at, self.sides = inputs, inputs.pairs, inputs.at, inputs.sides
        self.determined = Determined((), {})

    def table_query(self) -> TableQuery:
        select = self.select
        self._refuse()
        for side in self.sides:
            self.inputs.bind_on(side)
        joined_where = self.inputs.bind_where(select.where)
        self._bind_keys(select.keys)
        self._own_keys()
        for key in self.keys.values():
            if key.name in self.pairs.types:
                raise Misfit(f"give the key '{key.name}' a name without a dot with AS", select.start)
        self._check_multiplication()
        span = self._span()
        outputs, having = self._outputs(), self._having()
        calls = tuple(self.calls)
        if not calls and not self.keys:
            raise Misfit(
                "the query has no aggregate; write for example LAST(price) or COUNT(*)", select.start
            )
        self._check_windows(calls)
        merges = not self.determined.has_keys(range(len(self.inputs.keys)))
        if merges:
            self._check_merging(calls)
        source = self._source(calls)
        self.check_changes(source, outputs, having)
        expressions = [
            *(key.expression for key in self.keys.values()),
            *(each.expression for each in outputs),
        ]
        read = {
            name for each in (*expressions, having, joined_where) if each is not None for name in each.columns
        }
        sides = tuple(self._side(side, read, span) for side in self.sides)
        return TableQuery(
            select.text, source, sides, tuple(self.keys.values()), joined_where, outputs, having, span, merges,
            self.inputs.is_table_first, select.changes is not None, self._threshold(having),
        )  # fmt: skip

    def _refuse(self) -> None:
        select = self.select
        if select.distinct is not None:
            raise Misfit(
                "DISTINCT is not for joins with tables; list the columns in GROUP BY", select.distinct
            )
        if select.window is not None and not select.window.is_time and select.window.slide:
            raise select.stream.misfit(
                f"a query over {select.window} moves by events, and a table by time; leave out SLIDE"
            )
        if self.inputs.is_table_first and len(self.sides) > 1:
            raise Misfit(
                "a table before LEFT JOIN is the only one: its rows answer where no event is to join others; "
                "begin with the stream, or load the columns of both into one table",
                self.sides[1].join.place,
            )

    # GROUP BY

    def _own_keys(self) -> None:
        """Keys of the stream become keys of the source, and what GROUP BY determines is found."""
        grouped: list[int] = []
        columns: list[tuple[int, str]] = []
        trees = dict(zip(self.keys, self.select.keys, strict=True))
        for text, key in list(self.keys.items()):
            read = {self.pairs.split(column)[0] for column in key.expression.columns}
            if self.at in read:
                if len(read) > 1:
                    raise misfit(
                        trees[text], "a key of GROUP BY reads the stream or a table, not both; list two keys"
                    )
                if self.inputs.is_table_first:
                    raise misfit(trees[text], "without events there is no such key; GROUP BY columns of "
                                              f"'{self.sides[0].name}', such as its primary key")  # fmt: skip
                grouped.append(self._stream_key(text, key, trees[text]))
            elif len(read) > 1:
                raise misfit(trees[text], "a key of GROUP BY reads one table; list a key for each")
            elif key.expression.is_column:
                columns.append(self.pairs.split(key.expression.columns[0]))
        self.determined = Determined.by(grouped, columns, [
            (side.number, side.table.key, tuple(side.on), side.is_optional) for side in self.sides
        ])  # fmt: skip

    def _stream_key(self, text: str, key: Key, tree: exp.Expr) -> int:
        """The number of the source's key that a key of GROUP BY is."""
        meant = self._aliased(tree) or tree
        expression = compile_kept(unqualified(meant, self.pairs), self.inputs.events)
        number = self.inputs.key(expression)
        name = self._source_name(expression, number)
        scope = Scope({name: expression.type}, "the answer")
        self.keys[text] = Key(key.name, compile_expression(exp.column(name, quoted=True), scope))
        return number

    def _source_name(self, expression: Expression, number: int) -> str:
        return f"{self.inputs.stream_name}.{expression.columns[0] if expression.is_column else f'#{number}'}"

    def _check_multiplication(self) -> None:
        for side in self.sides:
            covered = {column for _, column in side.on}
            if covered.issuperset(side.table.key) or self.determined.has_row(side.number):
                continue
            key = ", ".join(f"{side.name}.{column}" for column in side.table.key)
            raise Misfit(
                f"an event may join several rows of '{side.name}', and would count for each: compare the whole primary "
                f"key in ON, or add it to GROUP BY: {key}",
                side.join.place,
            )

    def _check_merging(self, calls: tuple[Call, ...]) -> None:
        """Several keys of ON make one group: their partials must merge."""
        merged = f"GROUP BY merges what is kept for each {' and '.join(map(str, self.inputs.keys))}"
        instead = "add the stream's columns of ON to GROUP BY"
        for call, node in zip(calls, self.call_nodes, strict=True):
            components = AGGREGATES[call.function].components
            is_text = call.argument is not None and kind_of(call.argument.type) == "text"
            # which of two events of the same time came first is known for each key alone, and so is the order of texts
            if not all(each in COMPONENTS and not COMPONENTS[each].keeps_a_value for each in components) or (
                is_text and any(COMPONENTS[each].compares_values for each in components)
            ):
                raise misfit(node, f"{merged}, and {call.function.upper()} cannot be merged; {instead}")
        windows = [(call.window, place(node)) for call, node in zip(calls, self.call_nodes, strict=True)]
        if self.select.window is not None:
            windows.append((self.select.window, self.select.stream.span))
        for window, where in windows:
            if not window.is_time:
                raise Misfit(
                    f"{merged}, and {window} counts the events of each; write a time window, or {instead}",
                    where,
                )

    # SELECT and HAVING

    def _call(self, node: exp.Expr) -> Call:
        for column in node.find_all(exp.Column):
            name = self.pairs.resolve(column)
            if self.pairs.split(name)[0] != self.at:
                name = self.pairs.text(name)
                raise misfit(column, f"'{name}' is a column of a table, and aggregates read the stream alone; compute "
                                     f"with it outside, as in SUM(x) * {name}, or compare it in HAVING")  # fmt: skip
        call = bind_call(unqualified(node, self.pairs), self.inputs.events, self.select.window)
        if self.inputs.is_table_first and (call.argument is None or not call.argument.columns):
            raise misfit(node, f"{call.function.upper()} would count a row of '{self.sides[0].name}' without events as "
                               f"one; write COUNT({self.inputs.stream_name}.{quoted(self.stream.time)})")  # fmt: skip
        return call

    def _having(self) -> Expression | None:
        having = super()._having()
        if self.tolerance is not None:
            assert self.select.having is not None
            raise misfit(self.select.having, "APPROX is not for joins with tables; write the condition alone")
        return having

    def _threshold(self, having: Expression | None) -> RowThreshold | None:
        """What HAVING is, if it compares one call with something that is no call."""
        if having is None:
            return None
        tree = having.tree.unnest()
        if not isinstance(tree, exp.GT | exp.GTE | exp.LT | exp.LTE):
            return None
        for call, other, is_left in ((tree.this, tree.expression, True), (tree.expression, tree.this, False)):
            call = call.unnest()
            if not isinstance(call, exp.Column) or not call.name.startswith("$"):
                continue
            bound = self._compile_answer(other, self.answer_scope())
            kind = self.answer_scope().types[call.name]
            if (
                bound.type == kind
                and is_plain(kind)
                and not any(name.startswith("$") for name in bound.columns)
            ):
                is_above = isinstance(tree, exp.GT | exp.GTE) == is_left
                is_inclusive = isinstance(tree, exp.GTE | exp.LTE)
                return RowThreshold(int(call.name[1:]), bound, is_above, is_inclusive)
        return None

    def _key_or_alias(self, node: exp.Column, aliases_too: bool) -> exp.Expr:
        is_quoted = isinstance(node.this, exp.Identifier) and bool(node.this.quoted)
        name = self.pairs.resolve(node) if node.table else self.pairs.find(node.name, is_quoted)
        if name is None or self.pairs.split(name)[0] == self.at or self._is_key(name):
            return super()._key_or_alias(node, aliases_too)
        if aliases_too and not node.table and node.name.casefold() in self.aliases:
            return super()._key_or_alias(node, aliases_too)
        side, column = self.pairs.split(name)
        if self.determined.has_column(side, column):
            return answer_column(name, node)
        table = next(each for each in self.sides if each.number == side)
        key = ", ".join(f"{table.name}.{each}" for each in table.table.key)
        raise misfit(node, f"'{self.pairs.text(name)}' may differ from row to row of an answer's group; add it to "
                           f"GROUP BY, or the primary key {key}")  # fmt: skip

    def _is_key(self, name: str) -> bool:
        return any(
            key.expression.columns == (name,) and key.expression.is_column for key in self.keys.values()
        )

    def answer_scope(self) -> Scope:
        """The names that SELECT and HAVING may use: keys, answers of calls, and columns of rows that are determined."""
        plain = super().answer_scope()
        columns = {
            name: kind
            for name, kind in self.pairs.types.items()
            if self.pairs.split(name)[0] != self.at and self.determined.has_column(*self.pairs.split(name))
        }
        return _Answers({**columns, **plain.types}, plain.owner, plain.meanings, self.pairs)

    # What becomes of it

    def _span(self) -> RowSpan | None:
        span = self.select.span
        if span is None or self.select.window is None:
            return None
        assert isinstance(span.column, exp.Column)
        name = self.pairs.resolve(span.column)
        number, column = self.pairs.split(name)
        if number == self.at:
            raise misfit(span.column, "the length of a window is a column of a table, not of the stream")
        if self.pairs.types[name] != SPAN:
            raise misfit(span.column, f"the length of a window is an INTERVAL, and '{self.pairs.text(name)}' is "
                                      f"{type_name(self.pairs.types[name])}")  # fmt: skip
        if not self.determined.has_row(number):
            raise misfit(span.column, "rows of one group would have windows of different lengths; add the primary key "
                                      f"of '{self.pairs.names[number]}' to GROUP BY")  # fmt: skip
        side = next(place for place, each in enumerate(self.sides) if each.number == number)
        if self.sides[side].is_optional:
            raise misfit(
                span.column, "an event without a row would have no window; write JOIN instead of LEFT JOIN"
            )
        return RowSpan(side, column, self.select.window.size, span.step)

    def _source(self, calls: tuple[Call, ...]) -> Query:
        keys = [Key(self._source_name(each, number), each) for each, number in self.inputs.keys.items()]
        types = {
            f"${number}": AGGREGATES[call.function].answer_type(call.argument.type if call.argument else None)
            for number, call in enumerate(calls)
        }
        scope = Scope(types, "the answer")
        outputs = tuple(
            Output(name, compile_expression(exp.column(name, quoted=True), scope)) for name in types
        )
        select = self.select
        return Query(select.text, self.stream, tuple(keys), self.inputs.where, select.window, calls, outputs,
                     hint=select.hint, is_joined=True)  # fmt: skip

    def _side(self, side: Side, read: Iterable[str], span: RowSpan | None) -> TableSide:
        own = {name: self.pairs.split(name) for name in read if name in self.pairs.types}
        columns = {column for number, column in own.values() if number == side.number}
        if span is not None and self.sides[span.side] is side:
            columns.add(span.column)
        return TableSide(
            side.name, side.table, tuple(side.on), side.where, side.is_optional, tuple(sorted(columns))
        )


class _Answers(Scope):
    """Names of an answer: columns of tables are written as the query calls them."""

    def __init__(
        self, types: dict[str, pa.DataType], owner: str, meanings: Mapping[str, str], pairs: PairScope
    ):
        super().__init__(types, owner, meanings=meanings)
        self._pairs = pairs

    def text(self, name: str) -> str:
        return self._pairs.text(name) if name in self._pairs.types else super().text(name)
