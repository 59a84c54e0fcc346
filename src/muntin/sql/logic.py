"""Conditions and choices: AND OR NOT in three values, CASE, COALESCE, NULLIF."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.expression import Columns
from muntin.sql.arithmetic import call_text
from muntin.sql.comparison import equal
from muntin.sql.place import misfit
from muntin.sql.term import (
    AND,
    ATOM,
    NOT,
    OR,
    Build,
    Builder,
    Connected,
    Datum,
    Negated,
    Operation,
    Term,
    apply,
    common,
    convert,
)
from muntin.sql.type_name import type_name

_FALSE = pa.scalar(False)
NEEDED_BY = "needed by"  # in the meta of a condition: the aggregate that it is written in


def truth(node: exp.Expr, term: Term, where: str) -> Term:
    """The term as a condition; `where` names what needs one."""
    if term.kind not in ("boolean", "null"):
        where = node.unnest().meta.get(NEEDED_BY, where)
        raise misfit(node, f"{where} needs a condition, and {term.sql} is {type_name(term.type)}")
    return convert(term, pa.bool_())


def _connect(word: str, strength: int, operation: Operation) -> Builder:
    def build(node: exp.Connector, build: Build) -> Term:
        nodes = _operands(node, type(node))
        terms = [truth(part, build(part), word) for part in nodes]
        sql = f" {word} ".join(term.within(strength) for term in terms)
        return apply(node, sql, strength, operation, terms, says=Connected(word, terms, nodes))

    return build


def _operands(node: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """a, b, c of `a AND b AND c`, which the parser reads as a balanced tree."""
    if type(node) is not kind:
        return [node]
    return [*_operands(node.left, kind), *_operands(node.right, kind)]


def _all_of(*conditions: Datum) -> Datum:
    return reduce(pc.and_kleene, conditions)


def _any_of(*conditions: Datum) -> Datum:
    return reduce(pc.or_kleene, conditions)


def _not(node: exp.Not, build: Build) -> Term:
    term = truth(node.this, build(node.this), "NOT")
    return apply(node, f"NOT {term.within(NOT)}", NOT, pc.invert, [term], says=Negated(term, node.this))


def _choose(*values: Datum) -> Datum:
    """values: condition, value, condition, value, …, default; the first true condition decides."""
    chosen = values[-1]
    for at in range(len(values) - 3, -1, -2):
        chosen = pc.if_else(pc.coalesce(values[at], _FALSE), values[at + 1], chosen)
    return chosen


def _case(node: exp.Case, build: Build) -> Term:
    branches: list[exp.If] = node.args["ifs"]
    default = node.args.get("default") or exp.Null()
    values = common(node, [*(build(branch.args["true"]) for branch in branches), build(default)])
    sql = "CASE"
    if node.this:
        subject = build(node.this)
        sql += f" {subject.sql}"
        choices = [build(branch.this) for branch in branches]
        conditions = [
            apply(node, "", ATOM, equal, common(node, (subject, choice), are_compared=True))
            for choice in choices
        ]
        texts = [choice.sql for choice in choices]
    else:
        conditions = [truth(branch.this, build(branch.this), "WHEN") for branch in branches]
        texts = [condition.sql for condition in conditions]
    sql += "".join(f" WHEN {text} THEN {value.sql}" for text, value in zip(texts, values, strict=False))
    sql += f" ELSE {values[-1].sql} END"
    terms = [term for pair in zip(conditions, values, strict=False) for term in pair] + values[-1:]
    eager = apply(node, sql, ATOM, _choose, terms)
    return eager if eager.constant is not None else _guarded(eager, terms)


def _guarded(eager: Term, terms: list[Term]) -> Term:
    """The same CASE, but a branch that fails is tried again on just the rows that take it.

    All branches at once is what Arrow is fast at; yet CASE must shield its branches, as in
    `CASE WHEN x < 1000 THEN x * x END`, where other rows would overflow.
    """

    def run(columns: Columns) -> Datum:
        try:
            return eager.run(columns)
        except pa.ArrowInvalid:
            return _by_rows(terms, eager.type, columns)

    return Term(eager.sql, eager.strength, eager.type, run, eager.columns)


def _by_rows(terms: list[Term], kind: pa.DataType, columns: Columns) -> pa.Array:
    rows = len(next(iter(columns.values())))
    chosen = pa.nulls(rows, kind)
    left = pa.repeat(True, rows)
    for condition, value in [*zip(terms[:-1:2], terms[1:-1:2], strict=True), (None, terms[-1])]:
        taken = left
        if condition is not None:
            inside = {name: values.filter(left) for name, values in columns.items()}
            holds = as_array(condition.run(inside), sum_true(left))
            taken = pc.replace_with_mask(left, left, pc.coalesce(holds, _FALSE))
        inside = {name: values.filter(taken) for name, values in columns.items()}
        picked = as_array(value.run(inside), sum_true(taken))
        chosen = pc.replace_with_mask(chosen, taken, picked)
        left = pc.and_not(left, taken)
    return chosen


def sum_true(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


def as_array(value: Datum, rows: int) -> pa.Array:
    """The value in every row, if it is one value."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _coalesce(node: exp.Coalesce, build: Build) -> Term:
    terms = [build(node.this), *map(build, node.expressions)]
    return apply(node, call_text("COALESCE", terms), ATOM, pc.coalesce, common(node, terms))


def _unless_equal(left: Datum, right: Datum) -> Datum:
    return pc.if_else(pc.coalesce(equal(left, right), _FALSE), pa.scalar(None, left.type), left)


def _nullif(node: exp.Nullif, build: Build) -> Term:
    terms = [build(node.this), build(node.expression)]
    return apply(node, call_text("NULLIF", terms), ATOM, _unless_equal, common(node, terms))


LOGIC: dict[type[exp.Expr], Builder] = {
    exp.And: _connect("AND", AND, _all_of),
    exp.Or: _connect("OR", OR, _any_of),
    exp.Not: _not,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
}


# Conjuncts: the conditions that AND joins to one, whatever the parentheses around them.


def conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Each condition by itself, from left to right."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from conjuncts(tree.left)
        yield from conjuncts(tree.right)
    else:
        yield tree
