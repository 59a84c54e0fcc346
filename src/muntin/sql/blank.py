"""A blank: an expression with holes in the place of some numbers and strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from muntin.expression import Expression
from muntin.sql.call import is_call
from muntin.sql.expression_parser import Over
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.place import Misfit, Span, place
from muntin.sql.shape import Value
from muntin.sql.syntax import SelectSyntax

# Nodes that compute with the values of their operands, whatever these are.
_OPERATORS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.And, exp.Or, exp.Not, exp.Paren,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg,
)  # fmt: skip


class Blank(NamedTuple):
    """What is filled in is compiled like any expression, so the result is the one that parsing gives."""

    expression: Expression  # as one text has it
    tree: exp.Expr
    hole_of: dict[int, int]  # by the id of a literal in the tree
    scope: Scope
    condition_of: str | None

    def fill(self, values: Sequence[Value]) -> Expression:
        """The expression with these values; a `Misfit` if it has none, or one of another type."""
        made = compile_expression(self._copy(self.tree, values), self.scope, self.condition_of)
        if made.type != self.expression.type:
            raise Misfit("the type depends on the value", None)
        return made

    def _copy(self, node: exp.Expr, values: Sequence[Value]) -> exp.Expr:
        hole = self.hole_of.get(id(node))
        if hole is not None:
            return exp.Literal(this=str(values[hole]), is_string=isinstance(values[hole], str))
        return type(node)(**{name: self._copy_part(part, values) for name, part in node.args.items()})

    def _copy_part(self, part: Any, values: Sequence[Value]) -> Any:
        if isinstance(part, list):
            return [self._copy_part(each, values) for each in part]
        return self._copy(part, values) if isinstance(part, exp.Expr) else part


def literals(tree: exp.Expr) -> Iterator[exp.Literal]:
    """All literals of a tree."""
    yield from tree.find_all(exp.Literal)


def operands(select: SelectSyntax) -> set[Span]:
    """Where the literals of a SELECT stand that are nothing but operands, of an operator or in the argument or
    filter of an aggregate; not yet bound."""
    trees = [*(item.tree for item in select.items), select.where, *select.keys, select.having]
    return {span for tree in trees if tree is not None for span in _operands(tree)}


def _operands(node: exp.Expr) -> Iterator[Span]:
    if isinstance(node, exp.Literal):
        span = place(node)
        if span is not None:
            yield span
    elif isinstance(node, _OPERATORS):
        for child in node.iter_expressions():
            yield from _operands(child)
    elif isinstance(node, Over):
        yield from _operands(node.this)
        if node.args.get("filter") is not None:
            yield from _operands(node.args["filter"])
    elif (
        isinstance(node, exp.Anonymous)
        and node.expressions
        and (is_call(node) or node.name.upper() == "APPROX")
    ):
        yield from _operands(node.expressions[0])
