"""Comparisons: = <> < <= > >= BETWEEN IN IS LIKE, LEAST and GREATEST.

Only values of one class compare: numbers with numbers, text with text; a mix is refused when the
query is registered. NaN equals itself and is greater than every number, as for MIN and MAX.

A comparison of an attribute with a constant is also a *band* (`band.py`): what it lets pass is a stretch of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.band import GREATEST, LEAST, narrowed, sort_key
from muntin.sql.arithmetic import call_text
from muntin.sql.place import misfit
from muntin.sql.term import ATOM, COMPARE, Build, Builder, Datum, Operation, Term, apply, common
from muntin.sql.type_name import type_name

_DAY = 86_400_000_000
Ends = tuple[int, int]


class TermBand(NamedTuple):
    """Low and high end as sort keys of the attribute; `tree` is the attribute's."""

    attribute: Term
    tree: exp.Expr
    low: int
    high: int


def compared(tree: exp.Expr, attribute: Term, symbol: str, constant: Term) -> TermBand | None:
    """The band of `attribute symbol constant`; the constant has been converted to their common type."""
    ends = _ENDS.get(symbol)
    value = _number(constant)
    key_of = _keys_as(attribute.type, constant.type)
    if ends is None or value is None or key_of is None:
        return None
    low, high = ends(value)
    if key_of is not _itself:
        low, high = _first_from(key_of, low), _first_from(key_of, high + 1) - 1
    return TermBand(attribute, tree, *narrowed(low, high))


def between(tree: exp.Expr, attribute: Term, low: Term, high: Term) -> TermBand | None:
    """The band of `attribute BETWEEN low AND high`."""
    return conjunction([compared(tree, attribute, ">=", low), compared(tree, attribute, "<=", high)])


def conjunction(bands: Sequence[TermBand | None]) -> TermBand | None:
    """The band that all of them make up, if all are bands of one attribute."""
    found = [band for band in bands if band is not None]
    if len(found) < len(bands) or len({band.attribute.sql for band in found}) != 1:
        return None
    ends = narrowed(max(band.low for band in found), min(band.high for band in found))
    return TermBand(found[0].attribute, found[0].tree, *ends)


def _number(constant: Term) -> int | None:
    """The sort key of a constant; None if it is no number or time, or NULL."""
    value = constant.constant
    if value is None or not value.is_valid or not _has_keys(constant.type):
        return None
    if pa.types.is_temporal(value.type):
        return int(value.value)
    return sort_key(value.as_py())


def _has_keys(kind: pa.DataType) -> bool:
    """Whether values of a type are kept in a way that their sort keys can be told."""
    is_ = pa.types
    if is_.is_integer(kind):
        return not is_.is_uint64(kind)
    return bool(is_.is_floating(kind) or is_.is_timestamp(kind) or is_.is_date32(kind))


_ENDS: dict[str, Callable[[int], Ends]] = {
    "=": lambda key: (key, key),
    "<": lambda key: (LEAST, key - 1),
    "<=": lambda key: (LEAST, key),
    ">": lambda key: (key + 1, GREATEST),
    ">=": lambda key: (key, GREATEST),
}


def _itself(key: int) -> int:
    return key


def _rounded(key: int) -> int:
    """Of an integer compared as a DOUBLE, which rounds large ones."""
    return sort_key(float(key))


def _midnight(key: int) -> int:
    """Of a date compared as a timestamp."""
    return key * _DAY


def _keys_as(attribute: pa.DataType, common: pa.DataType) -> Callable[[int], int] | None:
    """From the attribute's sort keys to those of the type in which it is compared; ascending."""
    is_ = pa.types
    if not _has_keys(attribute):
        return None
    if attribute == common or (is_.is_floating(attribute) and is_.is_floating(common)):
        return _itself
    if is_.is_integer(attribute):
        return _itself if is_.is_integer(common) else _rounded
    if is_.is_date32(attribute) and common == pa.timestamp("us"):
        return _midnight
    return None


def _first_from(key_of: Callable[[int], int], bound: int) -> int:
    """The least key whose image is `bound` or more; one past the greatest if there is none."""
    low, high = LEAST, GREATEST + 1
    while low < high:
        middle = (low + high) // 2
        if key_of(middle) < bound:
            low = middle + 1
        else:
            high = middle
    return low


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


def _compare(symbol: str) -> Builder:
    def build(node: exp.Binary, build: Build) -> Term:
        left, right = build(node.left), build(node.right)
        sides = common(node, (left, right))
        tree, word = node.left, symbol
        if left.constant is not None and right.constant is None:  # 3 < x is x > 3
            left, right, tree, word = right, left, node.right, _MIRRORED.get(symbol, symbol)
            sides.reverse()
        sql = f"{left.within(COMPARE + 1)} {word} {right.within(COMPARE + 1)}"
        term = apply(node, sql, COMPARE, _OPERATIONS[word], sides)
        is_one_sided = left.constant is None and right.constant is not None
        return replace(term, band=compared(tree, left, word, sides[1])) if is_one_sided else term

    return build


def _inside(value: Datum, low: Datum, high: Datum) -> Datum:
    return pc.and_kleene(less_equal(low, value), less_equal(value, high))


def _between(node: exp.Between, build: Build) -> Term:
    terms = [build(node.this), build(node.args["low"]), build(node.args["high"])]
    value, low, high = (term.within(COMPARE + 1) for term in terms)
    sides = common(node, terms)
    term = apply(node, f"{value} BETWEEN {low} AND {high}", COMPARE, _inside, sides)
    is_attribute = [side.constant is None for side in sides] == [True, False, False]
    return replace(term, band=between(node.this, terms[0], *sides[1:])) if is_attribute else term


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
    return apply(node, sql, COMPARE, _among, common(node, terms))


def _is_truth(value: Datum, wanted: bool) -> Datum:
    return pc.coalesce(pc.equal(value, wanted), _FALSE)


def _is(node: exp.Is, build: Build) -> Term:
    term = build(node.this)
    negated = "NOT " if node.args.get("negate") else ""
    if isinstance(node.expression, exp.Null):
        sql = f"{term.within(COMPARE + 1)} IS {negated}NULL"
        return apply(node, sql, COMPARE, pc.is_valid if negated else pc.is_null, [term])
    if not isinstance(node.expression, exp.Boolean):
        raise misfit(node, "IS takes NULL, TRUE or FALSE")
    if term.kind != "boolean":
        raise misfit(node, f"IS TRUE and IS FALSE take a condition, not {type_name(term.type)}")
    wanted = bool(node.expression.this)
    sql = f"{term.within(COMPARE + 1)} IS {str(wanted).upper()}"
    return apply(node, sql, COMPARE, _is_truth, [term], wanted)


def _matches(value: Datum, pattern: str, ignore_case: bool, negate: bool) -> Datum:
    found = pc.match_like(value, pattern, ignore_case=ignore_case)
    return pc.invert(found) if negate else found


def _like(node: exp.Like | exp.ILike, build: Build, escape: str = "") -> Term:
    term, pattern = build(node.this), build(node.expression)
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    if pattern.constant is None or pattern.kind != "text":
        raise misfit(node.expression, f"{word} takes a pattern in quotes, such as 'A%'")
    if term.kind != "text":
        raise misfit(node.this, f"{word} takes text, and {term.sql} is {type_name(term.type)}")
    negated = bool(node.args.get("negate"))
    sql = f"{term.within(COMPARE + 1)} {'NOT ' if negated else ''}{word} {pattern.sql}"
    arrow_pattern = _arrow_pattern(node, pattern.constant.as_py(), escape)
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
