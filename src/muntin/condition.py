"""A condition: what WHERE or FILTER lets pass, in one form for all the ways to write it.

`5 < x AND s = 'a'`, `s IN ('a') AND x > 5` and `NOT (x <= 5 OR s <> 'a')` are one condition: `x` lies in a set of
numbers, and `s` in a set of texts. Each such set is a *passing set* of its *attribute*. What cannot be said by passing
sets (LIKE, comparisons of two columns, OR over several attributes) is its *rest*, an ordinary predicate.

A condition tells where a predicate is TRUE; FALSE and NULL are both "does not pass". It says nothing of errors: where
`x + 1 > 3 OR TRUE` is evaluated, `x + 1` may exceed 64 bits, and yet the condition lets everything pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.band import Band
from muntin.expression import Columns, Expression
from muntin.passing import Passing, PassingKeys, passing_text

ConditionPart = tuple[Expression, Passing]


@dataclass(frozen=True)
class Condition:
    """All parts must hold: each says which values of an expression pass. Parts are ordered by the expression's text,
    at most one for each expression, and none lets everything pass. Make conditions with `condition_of`.

    Equal conditions pass the same events. The reverse is true of what passing sets can say; two rests may
    differ in their texts and still mean the same.
    """

    parts: tuple[ConditionPart, ...]
    is_never: bool = False  # whether no event can pass; such a condition has no parts

    @cached_property
    def attributes(self) -> tuple[ConditionPart, ...]:
        """Each attribute with its passing set, ordered by the attribute's text."""
        return tuple(part for part in self.parts if is_attribute(part[0]))

    @cached_property
    def rest(self) -> Expression | None:
        """The predicate that must hold beside the passing sets, its operands in the order of their texts; None: nothing
        else must hold."""
        others = tuple(part for part in self.parts if not is_attribute(part[0]))
        if not others:
            return None
        if len(others) == 1 and _is_true(others[0]):
            return others[0][0]
        return _conjunction(Condition(others))

    @property
    def is_always(self) -> bool:
        """Whether every event passes."""
        return not self.parts and not self.is_never

    @property
    def band(self) -> Band | None:
        """The condition as a band, if it is one: a range of numbers or times of one attribute, and nothing else."""
        if len(self.parts) != 1 or not is_attribute(self.parts[0][0]):
            return None
        attribute, passing = self.parts[0]
        ends = None if pa.types.is_boolean(attribute.type) else passing.band
        return None if ends is None else Band(attribute, *ends)

    def of(self, attribute: Expression) -> Passing | None:
        """The passing set of an attribute; None if the condition does not restrict it."""
        return next((passing for each, passing in self.attributes if each == attribute), None)

    def __and__(self, other: Condition) -> Condition:
        """What passes both."""
        return NEVER if self.is_never or other.is_never else condition_of((*self.parts, *other.parts))

    def __str__(self) -> str:
        """Canonical text: equal for equal conditions.

        >>> str(ALWAYS), str(NEVER)
        ('TRUE', 'FALSE')
        """
        if not self.parts:
            return "FALSE" if self.is_never else "TRUE"
        texts = [part_text(part) for part in self.parts]
        return texts[0] if len(texts) == 1 else " AND ".join(map(in_parentheses, texts))


ALWAYS, NEVER = Condition(()), Condition((), is_never=True)


def condition_of(parts: Iterable[ConditionPart]) -> Condition:
    """The condition that all of these parts make up, in canonical form.

    >>> x = Expression("x", pa.int64(), ("x",), lambda columns: columns["x"], exp.column("x"))
    >>> above, below, one = (PassingKeys.between(*ends, x.type) for ends in ((6, 9), (-3, 6), (1, 1)))
    >>> str(condition_of([(x, above), (x, below)])), str(condition_of([(x, above), (x, one)]))
    ('x = 6', 'FALSE')
    >>> condition_of([(x, above), (x, below)]).of(x).points()
    (6,)
    """
    found: dict[Expression, Passing] = {}
    for expression, passing in parts:
        known = found.get(expression)
        passing = passing if known is None else known & passing
        if passing.is_empty:
            return NEVER
        found[expression] = passing
    kept = [part for part in found.items() if not part[1].is_everything]
    if len(kept) > 1:
        kept.sort(key=_text_of)
    return Condition(tuple(kept)) if kept else ALWAYS


def _text_of(part: ConditionPart) -> str:
    return part[0].sql


def is_attribute(expression: Expression) -> bool:
    """Whether passing sets of an expression are of use. A predicate, such as `a < b`, belongs to the rest."""
    return not pa.types.is_boolean(expression.type) or expression.is_column


def in_parentheses(text: str) -> str:
    """An operand of AND as it must be written; an OR over several attributes has its own parentheses."""
    return f"({text})" if " OR " in text and not text.endswith(") IS TRUE") else text


# Parts that are predicates. Their passing sets are of FALSE (0), TRUE (1) and NULL.

_PREDICATES = {
    ((1, 1), False): "{}",
    ((0, 0), False): "NOT ({})",
    ((0, 1), False): "({}) IS NOT NULL",
    ((1, 1), True): "NOT (({}) IS FALSE)",
    ((0, 0), True): "NOT (({}) IS TRUE)",
}


def part_text(part: ConditionPart) -> str:
    """A part as SQL."""
    expression, passing = part
    if is_attribute(expression):
        return passing_text(expression.sql, expression.type, passing)
    assert isinstance(passing, PassingKeys)
    if not passing.ranges:
        return f"({expression.sql}) IS NULL"
    return _PREDICATES[passing.ranges[0], passing.has_null].format(expression.sql)


def _is_true(part: ConditionPart) -> bool:
    passing = part[1]
    return isinstance(passing, PassingKeys) and passing.ranges == ((1, 1),) and not passing.has_null


def _conjunction(condition: Condition) -> Expression:
    """The predicate of a condition all of whose parts are predicates."""
    parts = condition.parts

    def evaluate(columns: Columns) -> pa.Array:
        return reduce(pc.and_kleene, [_evaluate(part, columns) for part in parts])

    columns = tuple(sorted({name for part in parts for name in part[0].columns}))
    return Expression(
        str(condition), pa.bool_(), columns, evaluate, lambda: _tree(parts), understand=lambda: condition
    )


def _evaluate(part: ConditionPart, columns: Columns) -> pa.Array:
    value = part[0].evaluate(columns)
    if _is_true(part):
        return value
    passing = part[1]
    assert isinstance(passing, PassingKeys)
    if passing.ranges == ((0, 0),) and not passing.has_null:
        return pc.invert(value)
    passes = [any(low <= key <= high for low, high in passing.ranges) for key in (0, 1)]
    known = pc.if_else(value, passes[1], passes[0])
    return pc.coalesce(known, pa.scalar(passing.has_null))


def _tree(parts: tuple[ConditionPart, ...]) -> exp.Expression:
    trees = [_part_tree(*part) for part in parts]
    return reduce(lambda left, right: exp.And(this=left, expression=right), trees)


def _part_tree(expression: Expression, passing: Passing) -> exp.Expression:
    tree = exp.paren(expression.tree.copy())
    assert isinstance(passing, PassingKeys)
    if not passing.ranges:
        return exp.Is(this=tree, expression=exp.Null())
    (low, high), has_null = passing.ranges[0], passing.has_null
    if low != high:
        return exp.Not(this=exp.Is(this=tree, expression=exp.Null()))
    if has_null:  # what passes is all but one truth value
        return exp.Not(this=exp.Is(this=tree, expression=exp.Boolean(this=not low)))
    return tree if low else exp.Not(this=tree)
