"""FedOperator: the operator of a view, fed by micro-batches.

It is the embedded engine's, with the rule of lateness that holds on Spark: an event is late if it lies before the
smallest watermark of the view's streams, as the micro-batches before left it. What it keeps is a function of what it
was fed, however often it has turned meanwhile: a snapshot, what micro-batches brought since, and the instant of the
last update make it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive import Definition
from muntin.arrays import LONG_AGO
from muntin.described import WHOLE, Each, Maybe, check_shape
from muntin.errors import CheckpointError, SchemaError
from muntin.shard.clock import CLOCK, Clock
from muntin.shard.intake import Admitted
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.spark.view_ledger import Kept, Packed
from muntin.store.saved import Saved, refusing
from muntin.stream import Stream
from muntin.view.materialized_view import Brought, brought_by
from muntin.view.operator import Prepared
from muntin.view.views import operator_of
from muntin.view_query import NegationQuery, ViewQuery

_SHAPE = {"clocks": Each(CLOCK), "watermark": Maybe(WHOLE), "columns": [Each(str)]}


def inputs_of(query: ViewQuery) -> dict[str, Stream]:
    """The streams of a view by name, with the columns that it reads."""
    read: dict[str, set[str]] = {name: set() for name in query.streams}
    source = query.source
    for number, side in enumerate(source.sides):
        names = read[side.stream.name]
        names |= {side.stream.time, *side.columns}
        if isinstance(source, NegationQuery):
            ours = [*(each.expression for each in source.outputs), source.where]
            theirs = [*(value for _, value in source.on), source.right_where]
            names |= {name for each in (theirs if number else ours) if each for name in each.columns}
    streams = {side.stream.name: side.stream for side in source.sides}
    return {
        name: Stream(name, pa.schema([each for each in stream.schema if each.name in read[name]]),
                     stream.time, stream.delay)
        for name, stream in streams.items()
    }  # fmt: skip


class FedOperator:
    """`watermark` is the smallest of the view's streams: before it no event is taken in."""

    def __init__(self, query: ViewQuery):
        self._query = query
        self._streams = inputs_of(query)
        self._clocks = {name: Clock(stream.delay) for name, stream in self._streams.items()}
        operator = operator_of(query, [self._clocks[side.stream.name] for side in query.source.sides])
        assert operator is not None, "Spark's join finds the results of this view"
        self._operator = operator
        self.watermark: int | None = None

    @property
    def late_events(self) -> int:
        """How many events of all streams were late so far."""
        return sum(clock.late_events for clock in self._clocks.values())

    def take(self, events: Mapping[str, pa.Table]) -> Packed:
        """Take in the events of a micro-batch, by stream; what has to be kept to do so again."""
        prepared: Prepared = [None] * len(self._operator.inputs)
        for name, stream in self._streams.items():
            for number, added in enumerate(self._operator.prepare(name, self._admit(stream, events[name]))):
                prepared[number] = prepared[number] if added is None else added
        self._operator.insert(prepared)
        marks = [clock.watermark for clock in self._clocks.values()]
        if None not in marks:
            least = min(mark for mark in marks if mark is not None)
            self.watermark = least if self.watermark is None else max(self.watermark, least)
        arrays = {
            f"{number}/{name}": table[name].combine_chunks()
            for number, table in enumerate(prepared)
            if table is not None
            for name in table.column_names
        }
        return self._described(), arrays

    def advance(self, definition: Definition) -> Brought | None:
        """Go to the last update instant up to the watermark; None if that is no step."""
        turn = self._operator.advance(self.watermark, None)
        return None if turn is None else brought_by(turn, self._query, definition)

    @property
    def reached(self) -> int | None:
        """The instant that it has come to."""
        return self._operator.reached

    @property
    def known_from(self) -> int:
        """All events from this time on were taken in."""
        return max(self._operator.known_from, default=LONG_AGO)

    def snapshot(self) -> Packed:
        description, arrays = self._operator.snapshot()
        return {**self._described(), "operator": description}, arrays

    @classmethod
    def restore(cls, query: ViewQuery, kept: Kept, now: int | None) -> FedOperator:
        """The one that a ledger tells of; the last update of the archive was `now`."""
        made = cls(query)
        with refusing(f"the state of view '{query.name}'"):
            if kept.base is not None:
                description, arrays = kept.base
                made._restore_described(description)
                writable = {
                    name: each.copy() if isinstance(each, np.ndarray) else each
                    for name, each in arrays.items()
                }
                made._operator.restore(description["operator"], writable)
            for description, arrays in kept.entries:
                made._restore_described(description)
                made._operator.insert(made._inserted(Saved(arrays)))
            if now is not None:
                made._operator.advance(now, None)  # what it brings is in the archive
        return made

    def _admit(self, stream: Stream, events: pa.Table) -> Admitted:
        batch = to_record_batch(stream, events)
        try:
            at = to_times(stream, batch)
        except SchemaError as error:
            raise SchemaError(f"stream '{stream.name}': {error}") from None
        late = 0
        if self.watermark is not None and (is_late := at < self.watermark).any():
            late = int(is_late.sum())
            batch, at = batch.filter(pa.array(~is_late)), at[~is_late]
        self._clocks[stream.name].observe(at, False, late)
        return Admitted(batch, at, False, late)

    def _inserted(self, saved: Saved) -> Prepared:
        """What a micro-batch brought to each input."""
        prepared: Prepared = []
        for number, each in enumerate(self._operator.inputs):
            columns, rows = [], None
            for field in each.coming.schema:
                columns.append(saved.under(f"{number}/").column(field.name, {field.type}, rows))
                rows = len(columns[0])
            prepared.append(pa.table(columns, schema=each.coming.schema))
        return prepared

    def _described(self) -> dict[str, Any]:
        clocks = {name: clock.state() for name, clock in self._clocks.items()}
        return {"clocks": clocks, "watermark": self.watermark, "columns": self._columns()}

    def _columns(self) -> list[dict[str, str]]:
        """Of what is kept of each input."""
        return [
            {field.name: str(field.type) for field in each.coming.schema} for each in self._operator.inputs
        ]

    def _restore_described(self, description: dict[str, Any]) -> None:
        check_shape({name: description[name] for name in _SHAPE}, _SHAPE, "the state of a view")
        for held, wanted in zip(description["columns"], self._columns(), strict=True):
            if held != wanted:
                name = next(name for name in {**held, **wanted} if held.get(name) != wanted.get(name))
                raise CheckpointError(
                    f"this checkpoint has '{name}' of view '{self._query.name}' as {held.get(name, 'nothing')}, not as "
                    f"{wanted.get(name, 'nothing')}: CAST the column in its DataFrame, or start from a new checkpoint"
                )
        for name, clock in self._clocks.items():
            clock.restore(description["clocks"][name])
        self.watermark = description["watermark"]
