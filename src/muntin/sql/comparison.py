"""Comparisons: = <> < <= > >= BETWEEN IN IS LIKE, LEAST and GREATEST.

Only values of one class compare: numbers with numbers, text with text; a mix is refused when the
query is registered. NaN equals itself and is greater than every number, as for MIN and MAX.

A comparison with constants also notes what it says (`Term.says`), of which `conditions.py` makes passing sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.arithmetic import call_text
from muntin.sql.place import misfit
from muntin.sql.term import ATOM, COMPARE, Build, Builder, Compared, Datum, Operation, Term, apply, common
from muntin.sql.type_name import type_name

_TRUE, _FALSE, _UNKNOWN = pa.scalar(True), pa.scalar(False), pa.scalar(None, pa.bool_())


def _may_be_nan(value: Datum) -> bool:
    if not pa.types.is_floating(value.type):
        return False
    return not isinstance(value, pa.Scalar) or value.as_py() != value.as_py()


def less(left: Datum, right: Datum) -> Datum:
    """left < right, with NaN above all numbers."""
    if not _may_be_nan(right):
        return pc.less(left, right)
    if not _may_be_nan(left):
        return pc.invert(pc.less_equal(right, left))
    above_all = pc.and_kleene(pc.is_nan(right), pc.invert(pc.is_nan(left)))
    return pc.or_kleene(pc.less(left, right), above_all)


def equal(left: Datum, right: Datum) -> Datum:
    """left = right, where NaN equals NaN."""
    is_equal = pc.equal(left, right)
    if not (_may_be_nan(left) and _may_be_nan(right)):
        return is_equal
    return pc.or_kleene(is_equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def _greater(left: Datum, right: Datum) -> Datum:
    return less(right, left)


def less_equal(left: Datum, right: Datum) -> Datum:
    return pc.invert(less(right, left))


def _greater_equal(left: Datum, right: Datum) -> Datum:
    return pc.invert(less(left, right))


def _not_equal(left: Datum, right: Datum) -> Datum:
    return pc.invert(equal(left, right))


def _same(left: Datum, right: Datum) -> Datum:
    """IS NOT DISTINCT FROM: equal, or both NULL; never NULL itself."""
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.coalesce(equal(left, right), _FALSE))


def _different(left: Datum, right: Datum) -> Datum:
    return pc.invert(_same(left, right))


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _said(attribute: Term, tree: exp.Expr, symbol: str, constants: Sequence[Term] = ()) -> Compared | None:
    """What a comparison says; None if it does not compare an attribute with constants."""
    if attribute.constant is not None:
        return None
    for each in constants:
        if each.constant is None:
            return None
    return Compared(attribute, tree, symbol, constants)


def _compare(symbol: str) -> Builder:
    def build(node: exp.Binary, build: Build) -> Term:
        left, right = build(node.left), build(node.right)
        sides = common(node, (left, right), are_compared=True)
        tree, word = node.left, symbol
        if left.constant is not None and right.constant is None:  # 3 < x is x > 3
            left, right, tree, word = right, left, node.right, _MIRRORED.get(symbol, symbol)
            sides.reverse()
        sql = f"{left.within(COMPARE + 1)} {word} {right.within(COMPARE + 1)}"
        said = _said(left, tree, word, sides[1:])
        return apply(node, sql, COMPARE, _OPERATIONS[word], sides, says=said)

    return build


def _inside(value: Datum, low: Datum, high: Datum) -> Datum:
    return pc.and_kleene(less_equal(low, value), less_equal(value, high))


def _between(node: exp.Between, build: Build) -> Term:
    terms = [build(node.this), build(node.args["low"]), build(node.args["high"])]
    value, low, high = (term.within(COMPARE + 1) for term in terms)
    sides = common(node, terms, are_compared=True)
    said = _said(terms[0], node.this, "BETWEEN", sides[1:])
    return apply(node, f"{value} BETWEEN {low} AND {high}", COMPARE, _inside, sides, says=said)


def _among(value: Datum, *choices: Datum) -> Datum:
    """value IN (choices): true if one is equal, else NULL if one is NULL."""
    if not all(isinstance(choice, pa.Scalar) for choice in choices) or isinstance(value, pa.Scalar):
        found = equal(value, choices[0])
        for choice in choices[1:]:
            found = pc.or_kleene(found, equal(value, choice))
        return found
    known = [choice.as_py() for choice in choices if choice.is_valid]
    if 0.0 in known and pa.types.is_floating(value.type):
        known += [0.0, -0.0]  # Arrow looks values up by their bits
    found = pc.is_in(value, pa.array(known, value.type))
    if not all(choice.is_valid for choice in choices):
        found = pc.if_else(found, _TRUE, _UNKNOWN)
    return pc.if_else(pc.is_valid(value), found, _UNKNOWN)


def _in(node: exp.In, build: Build) -> Term:
    if not node.expressions:
        raise misfit(node, "IN takes a list of values: x IN (1, 2, 3)")
    terms = [build(node.this), *map(build, node.expressions)]
    sql = f"{terms[0].within(COMPARE + 1)} IN ({', '.join(term.sql for term in terms[1:])})"
    sides = common(node, terms, are_compared=True)
    return apply(node, sql, COMPARE, _among, sides, says=_said(terms[0], node.this, "IN", sides[1:]))


def _is_truth(value: Datum, wanted: bool) -> Datum:
    return pc.coalesce(pc.equal(value, wanted), _FALSE)


def _is(node: exp.Is, build: Build) -> Term:
    term = build(node.this)
    negated = "NOT " if node.args.get("negate") else ""
    if isinstance(node.expression, exp.Null):
        sql = f"{term.within(COMPARE + 1)} IS {negated}NULL"
        said = _said(term, node.this, f"IS {negated}NULL")
        return apply(node, sql, COMPARE, pc.is_valid if negated else pc.is_null, [term], says=said)
    if not isinstance(node.expression, exp.Boolean):
        raise misfit(node, "IS takes NULL, TRUE or FALSE")
    if term.kind != "boolean":
        raise misfit(node, f"IS TRUE and IS FALSE take a condition, not {type_name(term.type)}")
    wanted = bool(node.expression.this)
    symbol = f"IS {str(wanted).upper()}"
    sql, said = f"{term.within(COMPARE + 1)} {symbol}", _said(term, node.this, symbol)
    return apply(node, sql, COMPARE, _is_truth, [term], wanted, says=said)


def _matches(value: Datum, pattern: str, ignore_case: bool, negate: bool) -> Datum:
    found = pc.match_like(value, pattern, ignore_case=ignore_case)
    return pc.invert(found) if negate else found


def _like(node: exp.Like | exp.ILike, build: Build, escape: str = "") -> Term:
    term, pattern = build(node.this), build(node.expression)
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    if pattern.known is None or pattern.kind != "text":
        raise misfit(node.expression, f"{word} takes a pattern in quotes, such as 'A%'")
    if term.kind != "text":
        raise misfit(node.this, f"{word} takes text, and {term.sql} is {type_name(term.type)}")
    negated = bool(node.args.get("negate"))
    sql = f"{term.within(COMPARE + 1)} {'NOT ' if negated else ''}{word} {pattern.sql}"
    arrow_pattern = _arrow_pattern(node, pattern.known, escape)
    sql += f" ESCAPE '{escape}'" if escape else ""
    return apply(node, sql, COMPARE, _matches, [term], arrow_pattern, word == "ILIKE", negated)


def _arrow_pattern(node: exp.Expr, pattern: str, escape: str) -> str:
    """The pattern as Arrow reads it, where the backslash always escapes."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise misfit(node, "the pattern ends in its escape character")
            parts.append("\\" + escaped if escaped in "%_\\" else escaped)
        else:
            parts.append("\\\\" if character == "\\" else character)
    return "".join(parts)


def _escape(node: exp.Escape, build: Build) -> Term:
    character = node.expression.name
    if not isinstance(node.this, exp.Like | exp.ILike) or len(character) != 1:
        raise misfit(node, "ESCAPE takes one character, after LIKE")
    return _like(node.this, build, character)


def _pick(lesser: bool, *values: Datum) -> Datum:
    """The least or greatest value, skipping NULL."""
    best = values[0]
    for value in values[1:]:
        is_better = less(value, best) if lesser else less(best, value)
        best = pc.if_else(pc.coalesce(is_better, pc.is_null(best)), value, best)
    return best


def _least_of(*values: Datum) -> Datum:
    return _pick(True, *values)


def _greatest_of(*values: Datum) -> Datum:
    return _pick(False, *values)


def _extreme(name: str, operation: Operation) -> Builder:
    def build(node: exp.Least | exp.Greatest, build: Build) -> Term:
        terms: Sequence[Term] = [build(node.this), *map(build, node.expressions)]
        return apply(node, call_text(name, terms), ATOM, operation, common(node, terms))

    return build


_OPERATIONS: dict[str, Operation] = {
    "=": equal,
    "<>": _not_equal,
    "<": less,
    "<=": less_equal,
    ">": _greater,
    ">=": _greater_equal,
    "IS NOT DISTINCT FROM": _same,
    "IS DISTINCT FROM": _different,
}

COMPARISON: dict[type[exp.Expr], Builder] = {
    exp.EQ: _compare("="),
    exp.NEQ: _compare("<>"),
    exp.LT: _compare("<"),
    exp.LTE: _compare("<="),
    exp.GT: _compare(">"),
    exp.GTE: _compare(">="),
    exp.NullSafeEQ: _compare("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _compare("IS DISTINCT FROM"),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Least: _extreme("LEAST", _least_of),
    exp.Greatest: _extreme("GREATEST", _greatest_of),
}
