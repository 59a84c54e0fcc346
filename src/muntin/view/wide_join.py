"""WideJoin: a join of any number of inputs, over windows by time or by count, at the update instants of a view.

What enters at an instant has at least one event that is new. For each input in turn: its new events are matched
with what stayed of the inputs before it, and with all of those after it, so that nothing is found twice. Each
input is found by the values that it is joined by, so that an update costs what is new and what it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.shard.clock import Clock
from muntin.shard.intake import evaluate
from muntin.view.input import AT
from muntin.view.join_order import join_order, side_of
from muntin.view.keyed_rows import KeyedRows
from muntin.view.match_rows import match_rows
from muntin.view.operator import Turn, ViewOperator
from muntin.view_query import WideJoinQuery, place_of

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
