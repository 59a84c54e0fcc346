"""Negation at work: the events of one stream whose values no event of another has, at each update instant.

Both windows are in memory. At an instant, an event of the left window is a result if its values are not among
those of the right window; results that are new enter, and values that came on the right end theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine.admitted import Admitted
from muntin.engine.clock import Clock
from muntin.engine.prepare import evaluate
from muntin.expression import Expression
from muntin.synopsis.contract import LONG_AGO
from muntin.view_query import NegationQuery

AT, WAS = "#at", "#was"  # the time of an event, and whether it was a result at the last instant


class Turn(NamedTuple):
    """What changes at an instant."""

    instant: int
    entering: pa.Table  # outputs and time of the results that are new
    ended: pa.Table  # values whose results have ended before their time


class Negation:
    """Both windows of a negation; `clocks` are those of its streams."""

    def __init__(self, query: NegationQuery, clocks: tuple[Clock, Clock]):
        self.query = query
        self._clocks = clocks
        outputs = [pa.field(output.name, output.expression.type) for output in query.outputs]
        self.left = pa.schema([*outputs, (AT, pa.int64()), (WAS, pa.bool_())]).empty_table()
        values = [pa.field(name, value.type) for name, value in query.on]
        self.right = pa.schema([*values, (AT, pa.int64())]).empty_table()
        self.reached: int | None = None
        first, second = (LONG_AGO if clock.now is None else clock.now for clock in clocks)
        self.known_from = (first, second)  # all events from these times on are known

    def prepare(self, stream: str, admitted: Admitted) -> tuple[pa.Table | None, pa.Table | None]:
        """What a batch adds to either window; whatever can fail does so here."""
        given = dict(zip(admitted.events.schema.names, admitted.events.columns, strict=True))
        left, right = (side.stream.name == stream for side in self.query.sides)
        outputs = [(output.name, output.expression) for output in self.query.outputs]
        return (
            self._evaluated(given, admitted.at, outputs, self.query.where, self.left.schema)
            if left
            else None,
            self._evaluated(given, admitted.at, self.query.on, self.query.right_where, self.right.schema)
            if right
            else None,
        )

    def insert(self, prepared: tuple[pa.Table | None, pa.Table | None]) -> None:
        """Take in what was prepared."""
        left, right = prepared
        self.left = self.left if left is None else pa.concat_tables([self.left, left])
        self.right = self.right if right is None else pa.concat_tables([self.right, right])

    @property
    def watermark(self) -> int | None:
        """The smaller one of the streams': before it no more events are expected."""
        left, right = (clock.watermark for clock in self._clocks)
        return None if left is None or right is None else min(left, right)

    def advance(self, until: int | None, through: int | None) -> Turn | None:
        """Go to the last update instant up to `until` (by default the watermark); None if that is no step.

        What was a result at `through`, an instant between, is not new any more.
        """
        target = self.watermark if until is None else until
        if target is None or not (self.left.num_rows or self.right.num_rows or self.reached is not None):
            return None
        instant = target - target % self.query.slide
        if self.reached is not None and instant <= self.reached:
            return None
        if through is not None and through < instant and (self.reached is None or through > self.reached):
            self._turn(through)
        return self._turn(instant)

    def _turn(self, instant: int) -> Turn:
        sizes = [side.window.size for side in self.query.sides]
        names = [name for name, _ in self.query.on]
        self.left = self.left.filter(pc.field(AT) >= instant - sizes[0]).combine_chunks()
        self.right = self.right.filter(pc.field(AT) >= instant - sizes[1]).combine_chunks()
        there = self.right.filter(pc.field(AT) < instant)
        is_seen = self.left[AT].to_numpy() < instant
        is_blocked = is_among([self.left[name] for name in names], [there[name] for name in names])
        was = np.asarray(self.left[WAS].to_numpy(), bool)
        is_result = is_seen & ~is_blocked
        entering = self.left.filter(pa.array(is_result & ~was)).drop_columns([WAS])
        ended = self.left.filter(pa.array(was & is_blocked)).select(names)
        place = self.left.column_names.index(WAS)
        self.left = self.left.set_column(place, self.left.schema.field(WAS), pa.array(is_result))
        self.reached = instant
        return Turn(instant, entering, ended.group_by(names).aggregate([]) if ended.num_rows else ended)

    def _evaluated(
        self,
        given: dict[str, pa.Array],
        at: Any,
        wanted: Sequence[tuple[str, Expression]],
        where: Expression | None,
        schema: pa.Schema,
    ) -> pa.Table:
        columns: dict[str, Any] = {name: evaluate(value, given) for name, value in wanted}
        columns[AT] = pa.array(at)
        if WAS in schema.names:
            columns[WAS] = pa.array(np.zeros(len(at), bool))
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        return table if where is None else table.filter(pc.fill_null(evaluate(where, given), False))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A description that JSON can hold, and named arrays."""
        arrays = {
            f"{side}/{name}": table[name].combine_chunks()
            for side, table in (("left", self.left), ("right", self.right))
            for name in table.column_names
        }
        return {"reached": self.reached, "known_from": self.known_from}, arrays

    def restore(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        """State from a snapshot."""
        for side in ("left", "right"):
            schema = getattr(self, side).schema
            columns = [arrays[f"{side}/{name}"] for name in schema.names]
            setattr(self, side, pa.table(columns, schema=schema))
        self.reached = description["reached"]
        first, second = description["known_from"]
        self.known_from = (first, second)


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
