"""From `SELECT … FROM a [RANGE …] WHERE NOT EXISTS (SELECT 1 FROM b […] WHERE b.k = a.k)` to a `NegationQuery`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from muntin.expression import Expression, both
from muntin.query import Output
from muntin.sql.bind_join import equality, unqualified
from muntin.sql.bind_negation import every_of, negated_sides
from muntin.sql.call import forbid_calls
from muntin.sql.conjuncts import conjuncts
from muntin.sql.expressions import compile_expression
from muntin.sql.fold import bind_outputs
from muntin.sql.pair_scope import pair_scope
from muntin.sql.place import Misfit
from muntin.sql.syntax import CreateViewSyntax, SelectSyntax, WindowedSelect
from muntin.stream import Stream
from muntin.view_query import HIDDEN, NegationQuery


def not_exists(select: SelectSyntax) -> tuple[SelectSyntax, SelectSyntax] | None:
    """The SELECT without its NOT EXISTS, and the SELECT in there; None if it has none."""
    if select.where is None:
        return None
    trees = list(conjuncts(select.where))
    found = [each for tree in trees if (each := _negated(tree)) is not None]
    if len(found) > 1:
        raise Misfit("a view has one NOT EXISTS; make two views, or one stream of both", found[1].start)
    if not found:
        return None
    rest = [tree for tree in trees if _negated(tree) is None]
    return replace(select, where=exp.and_(*rest) if rest else None), found[0]


def _negated(tree: exp.Expr) -> SelectSyntax | None:
    tree = tree.unnest()
    if not isinstance(tree, exp.Not) or not isinstance(tree.this.unnest(), exp.Exists):
        return None
    inner = tree.this.unnest().this
    return inner.args["select"] if isinstance(inner, WindowedSelect) else None


def bind_not_exists(
    syntax: CreateViewSyntax, negated: SelectSyntax, streams: Mapping[str, Stream]
) -> NegationQuery:
    """The negation a view keeps, or a `Misfit`; `syntax` is without the NOT EXISTS."""
    (left, rows), (right, others) = negated_sides(syntax, negated, streams)
    if left.name.casefold() == right.name.casefold():
        raise negated.stream.misfit(f"both streams are called '{right.name}'; give one another name with AS")
    pairs = pair_scope((left.name, right.name), (left.stream, right.stream), frozenset())
    outputs = list(bind_outputs(syntax.select, rows))
    on: list[tuple[str, Expression]] = []
    right_where: Expression | None = None
    for tree in conjuncts(negated.where) if negated.where is not None else ():
        forbid_calls(tree, "WHERE", "a view keeps events; aggregate when you read it")
        if pairs.sides_in(tree) <= {1}:
            condition = compile_expression(unqualified(tree, pairs), others, "WHERE")
            right_where = both(right_where, condition)
            continue
        equal = equality(tree, pairs, (rows, others))
        if equal is None:
            raise Misfit(
                f"NOT EXISTS compares the streams by equality, as in {right.name}.column = {left.name}.column; "
                "other conditions read one stream: that of NOT EXISTS in it, the other outside",
                negated.start,
            )
        on.append((_output_of(equal[0], outputs), equal[1]))
    if not on:
        raise Misfit(
            f"NOT EXISTS needs an equality such as {right.name}.column = {left.name}.column", negated.start
        )
    where = None
    if syntax.select.where is not None:
        forbid_calls(syntax.select.where, "WHERE", "a view keeps events; aggregate when you read it")
        where = compile_expression(syntax.select.where, rows, "WHERE")
    every = every_of(syntax, (syntax.select.window, negated.window))
    return NegationQuery(left, right, tuple(outputs), where, tuple(on), right_where, every)


def _output_of(value: Expression, outputs: list[Output]) -> str:
    """The output that is the value; one that readers do not see is added if there is none."""
    for output in outputs:
        if output.expression == value and output.expression.type == value.type:
            return output.name
    outputs.append(Output(f"{HIDDEN}on_{len(outputs)}", value))
    return outputs[-1].name
