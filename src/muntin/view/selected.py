"""Selected events at work: the events of one stream that pass WHERE, while they are in their window.

An event is a result from the first update instant after it on, until it leaves the window, which is known when it
comes: an update costs what came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from muntin.shard.clock import Clock
from muntin.shard.intake import evaluate
from muntin.view.operator import Turn, ViewOperator
from muntin.view_query import SelectionQuery, place_of


class Selected(ViewOperator):
    """The window of a selection; `clocks` is that of its stream."""

    query: SelectionQuery

    def __init__(self, query: SelectionQuery, clocks: Sequence[Clock]):
        schema = pa.schema([(output.name, output.expression.type) for output in query.outputs])
        super().__init__(query, [schema], clocks)

    def _kept(self, side: int, given: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        passing = None if self.query.where is None else evaluate(self.query.where, given)
        return {each.name: evaluate(each.expression, given) for each in self.query.outputs}, passing

    def _turn(self, instant: int) -> Turn:
        (events,) = self.inputs
        begin = events.turn(instant)
        new = np.arange(max(begin, events.log.first), events.log.end)
        columns = {name: events.log.take(name, new) for name in events.log.columns}
        place = events.number_of(new) if self.query.by_count else events.at_of(new) + 1
        return Turn(instant, pa.table({**columns, place_of(0): pa.array(place)}), None, (events.seen,))
