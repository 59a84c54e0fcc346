"""WideJoin: a join of any number of inputs, over windows by time or by count, at the update instants of a view.

What enters at an instant has at least one event that is new. For each input in turn: its new events are matched
with what stayed of the inputs before it, and with all of those after it, so that nothing is found twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.expression import Expression
from muntin.operator.clock import Clock
from muntin.operator.prepare import evaluate
from muntin.view.input import AT, NUMBER
from muntin.view.match_rows import match_rows
from muntin.view.operator import Turn, ViewOperator
from muntin.view_query import WideJoinQuery, place_of


class WideJoin(ViewOperator):
    """All windows of a wide join; `clocks` are those of its streams."""

    query: WideJoinQuery

    def __init__(self, query: WideJoinQuery, clocks: Sequence[Clock]):
        schemas = [
            pa.schema([(f"{side.name}.{name}", side.stream.schema.field(name).type) for name in side.columns])
            for side in query.sides
        ]
        super().__init__(query, schemas, clocks)

    def _kept(self, side: int, given: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        of = self.query.sides[side]
        return {f"{of.name}.{name}": given[name] for name in of.columns}, None

    def _turn(self, instant: int) -> Turn:
        before = [each.turn(instant) for each in self.inputs]
        number = [each.rows[NUMBER].to_numpy() for each in self.inputs]
        everything = [np.arange(len(each)) for each in number]
        fresh = [np.flatnonzero(each > last) for each, last in zip(number, before, strict=True)]
        stayed = [np.flatnonzero(each <= last) for each, last in zip(number, before, strict=True)]
        found = [
            self._joined([*stayed[:side], new, *everything[side + 1 :]])
            for side, new in enumerate(fresh)
            if len(new)
        ]
        places = [np.concatenate([each[side] for each in found]) if found else stayed[0][:0]
                  for side in range(len(self.inputs))]  # fmt: skip
        return Turn(instant, self._results(places), None, tuple(each.seen for each in self.inputs))

    def _joined(self, chosen: list[Any]) -> list[Any]:
        """Row numbers of each input, for all that matches among the chosen rows."""
        rows = [chosen[0]]
        for side, equalities in enumerate(self.query.on, 1):
            own = [*([None] * side), chosen[side]]
            ours = [self._value(left, rows) for left, _ in equalities]
            theirs = [self._value(right, own) for _, right in equalities]
            at_left, at_right = match_rows(ours, theirs)
            rows = [*(each[at_left] for each in rows), chosen[side][at_right]]
        return rows

    def _results(self, rows: list[Any]) -> pa.Table:
        """What is kept of the results with these rows of the inputs, if WHERE lets them pass."""
        if self.query.where is not None and len(rows[0]):
            passing = np.flatnonzero(np.asarray(self._value(self.query.where, rows).fill_null(False)))
            rows = [each[passing] for each in rows]
        columns = {output.name: self._value(output.expression, rows) for output in self.query.outputs}
        for side, (each, chosen) in enumerate(zip(self.inputs, rows, strict=True)):
            place = each.rows[NUMBER] if self.query.by_count else each.rows[AT]
            columns[place_of(side)] = pa.array(place.to_numpy()[chosen] + (not self.query.by_count))
        return pa.table(columns)

    def _value(self, expression: Expression, rows: Sequence[Any]) -> Any:
        """The value of an expression for combinations of rows."""
        given = {
            name: each.rows[name].combine_chunks().take(pa.array(chosen))
            for each, chosen in zip(self.inputs, rows, strict=False)
            for name in expression.columns
            if name in each.rows.column_names
        }
        if not given:  # a constant, which is as long as what it stands beside
            given[AT] = pa.array(next(each for each in rows if each is not None))
        return evaluate(expression, given)
