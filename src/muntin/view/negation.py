"""Negation at work: the events of one stream whose values no event of another has, at each update instant.

At an instant, an event of the left window is a result if its values are not among those of the right window. Values
that are present on the right end the results that have them; when they are gone, left events with them are results
again. So an update costs what came and went on either side, and the left events whose values are concerned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.shard.clock import Clock
from muntin.shard.intake import evaluate
from muntin.view.operator import KeyedRows, PresentValues, Turn, ViewInput, ViewOperator
from muntin.view_query import NegationQuery, place_of


class Negation(ViewOperator):
    """Both windows of a negation; `clocks` are those of its streams."""

    query: NegationQuery

    def __init__(self, query: NegationQuery, clocks: Sequence[Clock]):
        left = pa.schema([(output.name, output.expression.type) for output in query.outputs])
        right = pa.schema([(name, value.type) for name, value in query.on])
        super().__init__(query, [left, right], clocks)
        self._on = [name for name, _ in query.on]
        self._by_value = KeyedRows(right.types)  # events of the left
        self._present = PresentValues(right.types)  # on the right

    def _kept(self, side: int, given: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        if side == 0:
            where, values = self.query.where, [(each.name, each.expression) for each in self.query.outputs]
        else:
            where, values = self.query.right_where, list(self.query.on)
        passing = None if where is None else evaluate(where, given)
        return {name: evaluate(value, given) for name, value in values}, passing

    def _turn(self, instant: int) -> Turn:
        left, right = self.inputs
        begin = left.turn(instant)
        right.turn(instant)
        came, went = self._follow()
        begin = max(begin, left.log.first)
        new = np.arange(begin, left.log.end)
        _, again = self._by_value.find(went, begin)
        places, _ = self._by_value.find(came, begin)
        allowed = new[~self._present.have(self._values(left, new))]
        entering = np.concatenate([np.sort(again), allowed])
        columns = {name: left.log.take(name, entering) for name in left.log.columns}
        place = left.number_of(entering) if self.query.by_count else left.at_of(entering) + 1
        over = pa.array(np.unique(places))
        ended = {name: values.take(over) for name, values in zip(self._on, came, strict=True)}
        return Turn(
            instant, pa.table({**columns, place_of(0): pa.array(place)}), pa.table(ended), (left.seen,)
        )

    def _follow(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """Have what the logs have; the values that are present on the right now, and those that are no more."""
        left, right = self.inputs
        self._by_value.follow(left.log, partial(self._values, left))
        return self._present.follow(right.log, partial(self._values, right))

    def _values(self, of: ViewInput, numbers: Ints) -> list[pa.Array]:
        return [of.log.take(name, numbers) for name in self._on]

    def restore(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        super().restore(description, arrays)
        self._follow()
