"""Negation at work: the events of one stream whose values no event of another has, at each update instant.

At an instant, an event of the left window is a result if its values are not among those of the right window;
results that are new enter, and values that came on the right end theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.operator.clock import Clock
from muntin.operator.prepare import evaluate
from muntin.view.input import AT, NUMBER
from muntin.view.operator import Turn, ViewOperator
from muntin.view_query import NegationQuery, place_of


class Negation(ViewOperator):
    """Both windows of a negation; `clocks` are those of its streams."""

    query: NegationQuery

    def __init__(self, query: NegationQuery, clocks: Sequence[Clock]):
        left = pa.schema([(output.name, output.expression.type) for output in query.outputs])
        right = pa.schema([(name, value.type) for name, value in query.on])
        super().__init__(query, [left, right], clocks)
        self._results = np.zeros(0, np.int64)  # numbers of the left events that are results

    def _kept(self, side: int, given: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        if side == 0:
            where, values = self.query.where, [(each.name, each.expression) for each in self.query.outputs]
        else:
            where, values = self.query.right_where, list(self.query.on)
        passing = None if where is None else evaluate(where, given)
        return {name: evaluate(value, given) for name, value in values}, passing

    def _turn(self, instant: int) -> Turn:
        left, right = self.inputs
        for each in self.inputs:
            each.turn(instant)
        names = [name for name, _ in self.query.on]
        rows, others = left.rows, right.rows
        number = rows[NUMBER].to_numpy()
        is_blocked = is_among([rows[name] for name in names], [others[name] for name in names])
        was = np.isin(number, self._results)
        self._results = number[~is_blocked]
        entering = rows.filter(pa.array(~is_blocked & ~was))
        place = entering[NUMBER] if self.query.by_count else pc.add(entering[AT], 1)
        entering = entering.drop_columns([AT, NUMBER]).append_column(place_of(0), place)
        ended = rows.filter(pa.array(was & is_blocked)).select(names)
        ended = ended.group_by(names).aggregate([]) if ended.num_rows else ended
        return Turn(instant, entering, ended, (left.seen,))

    def _continue_from(self, counts: Sequence[int]) -> None:
        before = self.inputs[0].seen
        super()._continue_from(counts)
        self._results = self._results + (self.inputs[0].seen - before)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        description, arrays = super().snapshot()
        return description, {**arrays, "results": pa.array(self._results)}

    def restore(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        super().restore(description, arrays)
        self._results = np.asarray(arrays["results"].to_numpy())


def is_among(rows: Sequence[pa.ChunkedArray], others: Sequence[pa.ChunkedArray]) -> Any:
    """Whether each row equals one of the others in all columns, as a NumPy array; NULL equals nothing."""
    row: Any = np.zeros(len(rows[0]), np.int64)
    other: Any = np.zeros(len(others[0]), np.int64)
    is_missing: Any = np.zeros(len(row), bool)
    for ours, theirs in zip(rows, others, strict=True):
        distinct = pc.unique(theirs)
        found = _places(ours, distinct)
        is_missing |= found < 0
        row = row * (len(distinct) + 1) + found + 1
        other = other * (len(distinct) + 1) + _places(theirs, distinct) + 1
    return np.isin(row, other) & ~is_missing


def _places(values: pa.ChunkedArray, distinct: pa.Array) -> Any:
    return np.asarray(pc.fill_null(pc.index_in(values, distinct, skip_nulls=True), -1)).astype(np.int64)
