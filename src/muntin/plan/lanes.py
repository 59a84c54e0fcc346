"""Which queries can read lanes: those whose WHERE compares attributes with constants, over windows that slices serve.

`WHERE category = 'fuel' AND country IN ('FR', 'DE') AND amount > 5` has the attributes `category` and `country`, two
lanes, and the rest `amount > 5`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pyarrow as pa
from sqlglot import exp

from muntin.condition import condition_of
from muntin.expression import Columns, Expression
from muntin.lane import Asked, Lane, Laned, can_be
from muntin.passing import Passing, passing_text
from muntin.plan import choices
from muntin.plan.demand import Demands, laned_demands_of
from muntin.plan.synopses import is_on_slices
from muntin.query import Query
from muntin.store.needs import count

_BY_ARRIVAL = frozenset({"first", "last"})  # components that choose among events of the same time
_MOST_LANES = 64  # of one query: more are better found by evaluating its WHERE


def laned_of(query: Query) -> tuple[Laned, Demands] | None:
    """The lanes that a query could read, and what it would ask of their store; None if it must have its own."""
    if query.where is None or query.hint is not None or query.tolerance is not None:
        return None
    condition = query.where.condition
    attributes, choices, others = [], [], []
    for attribute, passing in condition.attributes:
        points = passing.points(_MOST_LANES)
        if points is None or not (points or passing.has_null):
            others.append((attribute, passing))
        else:
            attributes.append(attribute)
            found = [each for each in points if can_be(each, attribute.type)]
            choices.append([*found, None] if passing.has_null else found)
    if not attributes:
        return None
    lanes = tuple(product(*choices))
    if not 0 < len(lanes) <= _MOST_LANES:
        return None
    rest = [_within(*each) for each in others] + ([condition.rest] if condition.rest is not None else [])
    asked = Asked(tuple(attributes), tuple(rest), query.key_expressions)
    demands = laned_demands_of(query, asked)
    if not all(map(is_on_slices, demands.all())):
        return None
    if len(lanes) > 1 and any(demand.need.component in _BY_ARRIVAL for demand in demands.all()):
        return None  # which of two events of the same time came first, two lanes do not tell
    return Laned(asked, lanes), demands


def _within(attribute: Expression, passing: Passing) -> Expression:
    """The predicate that an attribute lies in a passing set."""

    def evaluate(columns: Columns) -> pa.Array:
        return pa.array(passing.passes(attribute.evaluate(columns)))

    condition = condition_of([(attribute, passing)])
    text = passing_text(attribute.sql, attribute.type, passing)
    return Expression(
        text, pa.bool_(), attribute.columns, evaluate, _not_written, understand=lambda: condition
    )


def _not_written() -> exp.Expression:
    raise AssertionError("this predicate is for muntin's own shards")


# How many queries read each lane, or could: the more there are, the better is one store for all of them.


class LaneCounts:
    """Of all queries of a stream."""

    def __init__(self) -> None:
        self.read: dict[Asked, dict[Lane, int]] = {}  # by store: how many queries read each lane
        self._known: dict[Asked, dict[Lane, int]] = {}  # how many read each, or could
        self._expected: dict[Asked, set[Lane]] = {}  # of queries that are being registered

    def expect(self, coming: Iterable[Laned]) -> None:
        """These are being registered together."""
        self._expected = {}
        for asked, lanes in coming:
            self._expected.setdefault(asked, set()).update(lanes)

    def are_many(self, laned: Laned) -> bool:
        """Whether the lanes of a query and those of its like are worth one store; or there is such a store."""
        asked, lanes = laned
        if asked in self.read:
            return True
        known = self._known.get(asked, {}).keys() | self._expected.get(asked, set()) | set(lanes)
        return len(known) >= (choices.MANY_LANES_PER_KEY if asked.keys else choices.MANY_LANES)

    def count(self, laned: Laned, is_read: bool, step: int) -> None:
        """A query more or less that reads lanes, or could."""
        for counts in (self._known, self.read) if is_read else (self._known,):
            of_store = counts.setdefault(laned.asked, {})
            for lane in laned.lanes:
                count(of_store, lane, step)
            if not of_store:
                del counts[laned.asked]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaneCounts) and (self.read, self._known) == (other.read, other._known)

    __hash__ = None  # type: ignore[assignment]
