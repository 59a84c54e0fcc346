"""A blank: an expression with holes in the place of some numbers and strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from muntin.expression import Expression
from muntin.sql.call import is_call
from muntin.sql.expression_parser import Over
from muntin.sql.expressions import Scope, compile_expression, fill_expression, literal_term, term_of
from muntin.sql.place import Misfit, Span, place
from muntin.sql.shape import Value
from muntin.sql.syntax import SelectSyntax
from muntin.sql.term import Term

# Nodes that compute with the values of their operands, whatever these are.
_OPERATORS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.And, exp.Or, exp.Not, exp.Paren,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg,
)  # fmt: skip


class Blank:
    """What is filled in is compiled like any expression, so the result is the one that parsing gives. Terms of the
    parts without a hole are made once."""

    def __init__(
        self,
        expression: Expression,
        tree: exp.Expr,
        hole_of: dict[int, int],
        scope: Scope,
        condition_of: str | None,
    ):
        self._type = expression.type
        self._tree = tree
        self._hole_of = hole_of  # by the id of a literal in the tree
        self._scope = scope
        self._condition_of = condition_of
        self._with_holes = {
            id(node) for node in tree.walk() if any(id(each) in hole_of for each in literals(node))
        }
        self._terms: dict[int, Term] = {}  # of parts without a hole, by the id of the node

    def fill(self, values: Sequence[Value]) -> Expression:
        """The expression with these values; a `Misfit` if it has none, or one of another type."""

        def given(node: exp.Expr) -> Term | None:
            number = self._hole_of.get(id(node))
            if number is not None:
                return literal_term(_literal(values[number]))
            if id(node) in self._with_holes:
                return None
            if id(node) not in self._terms:
                self._terms[id(node)] = term_of(node, self._scope)
            return self._terms[id(node)]

        written = partial(self._copy, self._tree, values)
        made = fill_expression(self._tree, self._scope, self._condition_of, given, written)
        if made is None:
            made = compile_expression(written(), self._scope, self._condition_of)
        if made.type != self._type:
            raise Misfit("the type depends on the value", None)
        return made

    def _copy(self, node: exp.Expr, values: Sequence[Value]) -> exp.Expr:
        number = self._hole_of.get(id(node))
        if number is not None:
            return _literal(values[number])
        return type(node)(**{name: self._copy_part(part, values) for name, part in node.args.items()})

    def _copy_part(self, part: Any, values: Sequence[Value]) -> Any:
        if isinstance(part, list):
            return [self._copy_part(each, values) for each in part]
        return self._copy(part, values) if isinstance(part, exp.Expr) else part


def _literal(value: Value) -> exp.Literal:
    return exp.Literal(this=str(value), is_string=isinstance(value, str))


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
