"""Conditions of a join with tables: ON and WHERE taken apart.

Equalities between the stream and a table are what rows are found by. What reads the stream alone filters events, what
reads one table alone filters its rows; what is left of WHERE filters joined rows. All else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from muntin.expression import Expression, both
from muntin.sql.bind import row_scope
from muntin.sql.bind_join import PairScope, pair_scope, unqualified
from muntin.sql.bind_table import table_scope
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import compile_expression
from muntin.sql.logic import conjuncts
from muntin.sql.place import Misfit, misfit
from muntin.sql.sources import Sources, find_source, find_stream
from muntin.sql.syntax import JoinSyntax, SelectSyntax, SourceSyntax
from muntin.sql.term import kind_of
from muntin.sql.type_name import type_name
from muntin.stream import Stream
from muntin.table import Table


def inputs_of(select: SelectSyntax) -> list[SourceSyntax]:
    """The streams and tables after FROM."""
    return [select.source, *(join.source for join in joins_of(select))]


def joins_of(select: SelectSyntax) -> tuple[JoinSyntax, ...]:
    """What stands after JOIN, one by one."""
    return () if select.join is None else (select.join, *select.join.further)


@dataclass
class Side:
    """A table of the join, as far as it is known."""

    number: int  # among the inputs
    source: SourceSyntax
    table: Table
    join: JoinSyntax  # that says how it is joined
    is_optional: bool
    on: list[tuple[int, str]] = field(default_factory=list)
    where: Expression | None = None

    @property
    def name(self) -> str:
        return self.source.name.text


class Inputs:
    """The stream and the tables of one SELECT, and what its conditions say of them."""

    def __init__(self, select: SelectSyntax, sources: Sources):
        given = inputs_of(select)
        found = [_found(each, sources) for each in given]
        self.at = _stream_of(given, found)  # the number of the stream among the inputs
        stream = found[self.at]
        assert isinstance(stream, Stream)
        self.stream, self.source = stream, given[self.at]
        _check_names(given)
        shared = {name.text.casefold() for join in joins_of(select) for name in join.using}
        used = frozenset(name for each in found for name in each.schema.names if name.casefold() in shared)
        self.pairs: PairScope = pair_scope(tuple(each.name.text for each in given), tuple(found), used)
        self.events = row_scope(stream, self.source.name.text)
        self.is_table_first = self.at > 0 and joins_of(select)[self.at - 1].left is not None
        self.sides = list(_sides(select, given, found, self.at))
        self.keys: dict[Expression, int] = {}  # what the source is keyed by, numbered
        self.where: Expression | None = None  # of the stream

    @property
    def stream_name(self) -> str:
        return self.pairs.names[self.at]

    def key(self, expression: Expression) -> int:
        """The number of a key of the source."""
        return self.keys.setdefault(expression, len(self.keys))

    def _inputs_in(self, tree: exp.Expr) -> set[int]:
        return self.pairs.sides_in(tree)

    def bind_on(self, side: Side) -> None:
        """Find what rows of a table are found by, and the conditions beside."""
        for name in side.join.using:
            event = self.events.find(name.text, name.is_quoted)
            row = table_scope(side.table).find(name.text, name.is_quoted)
            if event is None or row is None:
                owner = self.stream.label if event is None else side.table.label
                raise name.misfit(f"{owner} has no column '{name.text}', which USING compares")
            trees = exp.column(event, quoted=True), exp.column(row, quoted=True)
            try:
                self._equal(side, trees[0], compile_expression(trees[0], self.events), row)
            except Misfit as fault:
                raise name.misfit(fault.message) from None
        for tree in conjuncts(side.join.on) if side.join.on is not None else ():
            forbid_calls(tree, "ON", "use HAVING to compare aggregates")
            self._bind_condition_of_on(side, tree)
        if not side.on:
            key = " AND ".join(f"{self.stream_name}.{each} = {side.name}.{each}" for each in side.table.key)
            raise Misfit(
                f"a join with a table needs an equality with the stream, such as ON {key}", side.join.place
            )

    def _bind_condition_of_on(self, side: Side, tree: exp.Expr) -> None:
        read = self._inputs_in(tree)
        if read == {self.at, side.number}:
            self._bind_equality(side, tree)
        elif read == {self.at}:
            if side.is_optional:
                raise misfit(tree, "in ON of a LEFT JOIN a condition of the stream alone has no effect on its events; "
                                   "write it in WHERE")  # fmt: skip
            self._filter_events(tree, "ON")
        elif read == {side.number}:
            if self.is_table_first:
                raise misfit(
                    tree,
                    f"every row of '{side.name}' answers, whatever ON says of it alone; write it in WHERE",
                )
            self._filter_rows(side, tree, "ON")
        elif not read:
            raise misfit(
                tree, f"ON compares '{self.stream_name}' with '{side.name}'; leave out what reads neither"
            )
        else:
            raise misfit(tree, "ON compares a table with the stream, not with another table; load the columns of both "
                               "into one table")  # fmt: skip

    def _bind_equality(self, side: Side, tree: exp.Expr) -> None:
        if not isinstance(tree, exp.EQ):
            equal = f"ON {self.stream_name}.column = {side.name}.column"
            raise misfit(tree, f"stream and table are compared by equality: {equal}; HAVING compares aggregates with "
                               "columns of the table")  # fmt: skip
        parts = [tree.left.unnest(), tree.right.unnest()]
        reads = [self._inputs_in(part) for part in parts]
        if reads == [{side.number}, {self.at}]:
            parts.reverse()
        elif reads != [{self.at}, {side.number}]:
            raise misfit(tree, "one side of an equality in ON reads the stream, the other one the table")
        event, row = parts
        if not isinstance(row, exp.Column):
            raise misfit(
                row, f"ON compares with a column of '{side.name}' as it is; load the value that is meant"
            )
        expression = compile_expression(unqualified(event, self.pairs), self.events)
        self._equal(side, tree, expression, self.pairs.short(self.pairs.resolve(row)))

    def _equal(self, side: Side, node: exp.Expr, event: Expression, column: str) -> None:
        kind = side.table.column(column).type
        integers = pa.types.is_integer(event.type) and pa.types.is_integer(kind)
        texts = kind_of(event.type) == kind_of(kind) == "text"
        if event.type != kind and not integers and not texts:
            raise misfit(node, f"ON compares values of one type, and {event} is {type_name(event.type)}, "
                               f"'{column}' of {side.table.label} {type_name(kind)}; declare both alike, or CAST the "
                               "stream's")  # fmt: skip
        side.on.append((self.key(event), column))

    def _filter_events(self, tree: exp.Expr, clause: str) -> None:
        condition = compile_expression(unqualified(tree, self.pairs), self.events, clause)
        self.where = both(self.where, condition)

    def _filter_rows(self, side: Side, tree: exp.Expr, clause: str) -> None:
        condition = compile_expression(unqualified(tree, self.pairs), table_scope(side.table), clause)
        side.where = both(side.where, condition)

    def bind_where(self, where: exp.Expr | None) -> Expression | None:
        """What WHERE says of joined rows beyond events and rows of one table."""
        joined: Expression | None = None
        if where is None:
            return None
        forbid_calls(where, "WHERE", "use HAVING to compare aggregates")
        by_number = {side.number: side for side in self.sides}
        for tree in conjuncts(where):
            read = self._inputs_in(tree)
            if not read and self.is_table_first:
                self._filter_rows(self.sides[0], tree, "WHERE")
            elif read <= {self.at}:
                if self.is_table_first:
                    raise misfit(tree, "in WHERE a condition of the stream would take away the rows without events; "
                                       "write it in ON, or in FILTER (WHERE …) of an aggregate")  # fmt: skip
                self._filter_events(tree, "WHERE")
            elif self.at in read:
                raise misfit(tree, "a condition of WHERE reads the stream or tables, not both; equalities stand in ON, "
                                   "and HAVING compares keys and aggregates with columns of tables")  # fmt: skip
            elif len(read) == 1 and not by_number[next(iter(read))].is_optional:
                self._filter_rows(by_number[read.pop()], tree, "WHERE")
            else:
                joined = both(joined, compile_expression(tree, self.pairs, "WHERE"))
        return joined


def _stream_of(inputs: list[SourceSyntax], found: list[Stream | Table]) -> int:
    """The number of the one stream."""
    streams = [number for number, each in enumerate(found) if isinstance(each, Stream)]
    if not streams:
        raise inputs[1].stream.misfit(
            "a query joins a stream with tables; tables alone are not joined: load the columns of both into one"
        )
    if len(streams) > 1:
        raise inputs[streams[1]].stream.misfit(
            "a query joins one stream with tables, or two streams; push the answers of one join as a stream"
        )
    return streams[0]


def _check_names(inputs: list[SourceSyntax]) -> None:
    for number, source in enumerate(inputs):
        if source.name.text.casefold() in {each.name.text.casefold() for each in inputs[:number]}:
            raise source.name.misfit(
                f"two inputs are called '{source.name.text}'; give one another name with AS"
            )
        if "." in source.name.text:  # columns are called name.column
            raise source.name.misfit(f"give '{source.name.text}' a name without a dot with AS")


def _sides(
    select: SelectSyntax, inputs: list[SourceSyntax], found: list[Stream | Table], at: int
) -> Iterator[Side]:
    """The tables, each with the JOIN that says how it meets the stream."""
    joins = joins_of(select)
    for number, (source, table) in enumerate(zip(inputs, found, strict=True)):
        if not isinstance(table, Table):
            continue
        if number and number < at:
            raise joins[number - 1].source.stream.misfit(
                "a table joins the stream; name the stream first, or right after the first table"
            )
        # of a table before the stream, the JOIN of the stream
        join = joins[max(number, 1) - 1]
        yield Side(number, source, table, join, join.left is not None and number > at)


def _found(source: SourceSyntax, sources: Sources) -> Stream | Table:
    known = find_source(source.stream, sources)
    if not isinstance(known, Table):
        return find_stream(source.stream, sources)
    if source.window is not None:
        raise source.stream.misfit(f"'{source.stream.text}' is a table, and has no window; leave it out")
    return known
