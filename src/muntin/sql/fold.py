"""What a SELECT makes of rows that are there at one instant: a row each, or aggregates of them.

With aggregates, GROUP BY or DISTINCT, what is left of the SELECT is an ordinary query over a stream of these
rows that lasts for one look-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from muntin.expression import Expression
from muntin.join_query import PAIR_NUMBER, PAIR_TIME
from muntin.query import Call, Output, Query
from muntin.sql.bind import bind_over
from muntin.sql.call import calls_in
from muntin.sql.expression_parser import Over
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.naming import Names, default_name
from muntin.sql.place import misfit
from muntin.sql.syntax import SelectSyntax
from muntin.stream import Stream
from muntin.window import Window

_NOW = Window("time", 1)  # of the stream of rows, which are all given the instant they are looked at


def is_folded(select: SelectSyntax) -> bool:
    """Whether it has aggregates, or keys."""
    has_calls = any(any(calls_in(item.tree)) for item in select.items)
    return has_calls or bool(select.keys) or select.distinct is not None or select.having is not None


def bind_outputs(select: SelectSyntax, rows: Scope) -> tuple[Output, ...]:
    """The SELECT items over single rows."""
    names = Names()
    named = {at: names.take(item.alias) for at, item in enumerate(select.items) if item.alias}
    found = []
    for at, item in enumerate(select.items):
        wanted = default_name(item.tree, at + 1)
        expression = compile_expression(item.tree, rows)
        found.append(Output(named.get(at) or names.take_default(wanted), expression))
    return tuple(found)


class _Rows(Stream):
    """Rows that are folded when they are asked for, and of any types."""

    is_kept = False


def bind_fold(select: SelectSyntax, rows: Scope, name: str, over_refusal: str) -> Query:
    """The query over the stream of rows; its last output says which row of a key was the first."""
    for node in _nodes(select):
        if isinstance(node, Over) and node.args.get("window") is not None:
            raise misfit(node, over_refusal)
    types = {**rows.types, PAIR_TIME: pa.int64(), PAIR_NUMBER: pa.int64()}
    stream = _Rows(name, pa.schema(list(types.items())), PAIR_TIME)
    plain = replace(select, window=_NOW, where=None, changes=None, join=None, order=None)
    query = bind_over(plain, stream, rows)
    number = compile_expression(exp.column(PAIR_NUMBER, quoted=True), Scope(types, stream.name))
    first = f"${len(query.calls)}"
    position = compile_expression(exp.column(first), Scope({first: pa.int64()}, "the answer"))
    read = columns_read(None, (), query)
    schema = pa.schema([(column, types[column]) for column in [*sorted(read), PAIR_TIME, PAIR_NUMBER]])
    return replace(
        query,
        stream=replace(stream, schema=schema),
        calls=(*query.calls, Call("min", number, _NOW)),
        outputs=(*query.outputs, Output(PAIR_NUMBER, position)),
    )


def columns_read(where: Expression | None, outputs: tuple[Output, ...], fold: Query | None) -> set[str]:
    """The columns of rows that an answer needs."""
    if fold is None:
        expressions = [output.expression for output in outputs]
    else:
        expressions = [key.expression for key in fold.keys]
        expressions += [
            each for call in fold.calls for each in (call.argument, call.filter) if each is not None
        ]
    if where is not None:
        expressions.append(where)
    return {column for each in expressions for column in each.columns} - {PAIR_NUMBER}


def _nodes(select: SelectSyntax) -> Iterator[exp.Expr]:
    for tree in [*(item.tree for item in select.items), select.having]:
        if tree is not None:
            yield from tree.walk()
