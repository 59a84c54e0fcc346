"""WideJoin: a join of any number of inputs, over windows by time or by count, at the update instants of a view.

What enters at an instant has at least one event that is new. For each input in turn: its new events are matched
with what stayed of the inputs before it, and with all of those after it, so that nothing is found twice. Each
input is found by the values that it is joined by, so that an update costs what is new and what it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.shard.clock import Clock
from muntin.shard.intake import evaluate
from muntin.store.codes import with_one_of_equals
from muntin.view.operator import AT, KeyedRows, Turn, ViewOperator
from muntin.view_query import WideJoinQuery, place_of

# Join order: from the events of one input to all that they match, one input after the other.


class Step(NamedTuple):
    """One more input: its events whose `own` values equal those that are `sought`."""

    side: int
    sought: tuple[Expression, ...]  # values of events that have been matched before
    own: tuple[Expression, ...]


def join_order(query: WideJoinQuery, start: int) -> tuple[Step, ...] | None:
    """The steps from an input to all others, each by as many equalities as there can be.

    None if an equality fits in no step: it compares an input with values made of several others, and one of
    those comes after it.
    """
    equalities = [
        ({side_of(query, column) for column in before.columns}, side, before, own)
        for side, some in enumerate(query.on, 1)
        for before, own in some
    ]
    known, steps = {start}, []

    def usable(side: int) -> list[tuple[Expression, Expression]]:
        """What an input can be found by, and its own value."""
        ahead = [(before, own) for read, of, before, own in equalities if of == side and read <= known]
        back = [(own, before) for read, of, before, own in equalities if read == {side} and of in known]
        return ahead + back

    while len(known) < len(query.sides):
        side = max(
            (each for each in range(len(query.sides)) if each not in known), key=lambda n: len(usable(n))
        )
        if not usable(side):
            return None
        sought, own = zip(*usable(side), strict=True)
        steps.append(Step(side, sought, own))
        known.add(side)
    is_whole = sum(len(step.own) for step in steps) == len(equalities)
    return tuple(steps) if is_whole else None


def side_of(query: WideJoinQuery, column: str) -> int:
    """The input that a column `t.price` is of."""
    name = column.partition(".")[0]
    return next(number for number, side in enumerate(query.sides) if side.name == name)


# Matching rows: which rows of two tables agree on some values, all at once.


def match_rows(left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, Any]:
    """Numbers of the rows of each pair that is equal in all columns; NULL equals nothing, NaN itself.

    O((rows + others) log others + pairs).

    >>> match_rows([pa.array([1, 2, None, 2])], [pa.array([2, 3, None, 1])])
    (array([0, 1, 3]), array([3, 0, 0]))
    """
    rows = len(left[0])
    code, is_missing = np.zeros(rows + len(right[0]), np.int64), np.zeros(rows + len(right[0]), bool)
    for ours, theirs in zip(left, right, strict=True):
        encoded = _encoded(ours, theirs)
        is_missing |= encoded < 0
        code = code * (encoded.max(initial=0) + 1) + encoded
        code = np.unique(code, return_inverse=True)[1]  # so that columns may be many
    code[is_missing] = -1
    ours, theirs = code[:rows], code[rows:]
    in_order = np.argsort(theirs, kind="stable")
    first = np.searchsorted(theirs[in_order], ours, "left")
    many = np.searchsorted(theirs[in_order], ours, "right") - first
    many[ours < 0] = 0
    at_left = np.repeat(np.arange(rows), many)
    nth = np.arange(len(at_left)) - np.repeat(np.cumsum(many) - many, many)
    return at_left, in_order[np.repeat(first, many) + nth]


def _encoded(ours: Any, theirs: Any) -> Any:
    """A number for each value of both, the same for equal ones; -1 for NULL."""
    parts = [chunk for each in (ours, theirs) for chunk in getattr(each, "chunks", [each])]
    values = with_one_of_equals(pa.chunked_array(parts, type=ours.type))
    indices = values.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1)).astype(np.int64)


Rows = dict[int, Ints]  # numbers of events, by input: one of each makes a row


class WideJoin(ViewOperator):
    """All windows of a wide join; `clocks` are those of its streams."""

    query: WideJoinQuery

    def __init__(self, query: WideJoinQuery, clocks: Sequence[Clock]):
        schemas = [
            pa.schema([(f"{side.name}.{name}", side.stream.schema.field(name).type) for name in side.columns])
            for side in query.sides
        ]
        super().__init__(query, schemas, clocks)
        self._orders = [join_order(query, side) for side in range(len(query.sides))]
        self._keyed = {
            (step.side, step.own): KeyedRows([value.type for value in step.own])
            for order in self._orders
            for step in order or ()
        }

    def _kept(self, side: int, given: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        of = self.query.sides[side]
        return {f"{of.name}.{name}": given[name] for name in of.columns}, None

    def _turn(self, instant: int) -> Turn:
        begin = [each.turn(instant) for each in self.inputs]
        for (side, own), keyed in self._keyed.items():
            keyed.follow(self.inputs[side].log, partial(self._own_values, side, own))
        found = [self._matched(side, begin) for side in range(len(self.inputs))]
        rows = {side: np.concatenate([each[side] for each in found]) for side in range(len(self.inputs))}
        return Turn(instant, self._results(rows), None, tuple(each.seen for each in self.inputs))

    def _matched(self, start: int, begin: Sequence[int]) -> Rows:
        """All rows with a new event of an input, and none that is new of those before it."""
        ends = [
            new if side < start else each.log.end
            for side, (each, new) in enumerate(zip(self.inputs, begin, strict=True))
        ]
        firsts = [each.log.first for each in self.inputs]
        firsts[start] = max(firsts[start], begin[start])
        order = self._orders[start]
        if order is None:
            return self._matched_whole(firsts, ends)
        rows: Rows = {start: np.arange(firsts[start], ends[start])}
        for step in order:
            sought = [self._value(value, rows) for value in step.sought]
            at, found = self._keyed[step.side, step.own].find(sought, ends[step.side])
            rows = {side: each[at] for side, each in rows.items()} | {step.side: found}
        return rows

    def _matched_whole(self, firsts: Sequence[int], ends: Sequence[int]) -> Rows:
        """The rows of some events of each input, found by looking at all of these."""
        chosen = [np.arange(first, end) for first, end in zip(firsts, ends, strict=True)]
        rows = {0: chosen[0]}
        for side, equalities in enumerate(self.query.on, 1):
            before = [self._value(value, rows) for value, _ in equalities]
            own = self._own_values(side, [value for _, value in equalities], chosen[side])
            at, at_own = match_rows(before, own)
            rows = {each: numbers[at] for each, numbers in rows.items()} | {side: chosen[side][at_own]}
        return rows

    def _results(self, rows: Rows) -> pa.Table:
        """What is kept of the results with these rows of the inputs, if WHERE lets them pass."""
        if self.query.where is not None and len(rows[0]):
            passing = np.flatnonzero(np.asarray(self._value(self.query.where, rows).fill_null(False)))
            rows = {side: each[passing] for side, each in rows.items()}
        columns: dict[str, Any] = {
            output.name: self._value(output.expression, rows) for output in self.query.outputs
        }
        for side, each in enumerate(self.inputs):
            place = each.number_of(rows[side]) if self.query.by_count else each.at_of(rows[side]) + 1
            columns[place_of(side)] = pa.array(place)
        return pa.table(columns)

    def _own_values(self, side: int, expressions: Sequence[Expression], numbers: Ints) -> list[pa.Array]:
        return [self._own_value(side, each, numbers) for each in expressions]

    def _own_value(self, side: int, expression: Expression, numbers: Ints) -> pa.Array:
        return self._value(expression, {side: numbers})

    def _value(self, expression: Expression, rows: Rows) -> pa.Array:
        """The value of an expression for rows."""
        given = {}
        for name in expression.columns:
            side = side_of(self.query, name)
            given[name] = self.inputs[side].log.take(name, rows[side])
        if not given:  # a constant, which is as long as what it stands beside
            given[AT] = pa.array(next(iter(rows.values())))
        return evaluate(expression, given)
