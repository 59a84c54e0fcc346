"""Backfill: the state of new queries, filled from history beside the running stream, then joined to it.

    history     ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒|            up to the seam, in batches, while the stream goes on
    the stream  ████████████████████████|████|████    what is pushed meanwhile is held, then filled in
                                     the seam    joined

The queries live in a state of their own until all is there, so nothing of them is seen before, and nothing is
left if the history turns out to be bad. History that comes in order of time is forgotten as it goes: what is in
memory is what the windows need at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Ints
from muntin.errors import MuntinError
from muntin.kernels.times import ascends
from muntin.plan import Request
from muntin.shard.intake import prepare
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.shard.registration import History
from muntin.shard.state import State
from muntin.stream import Stream

_ANY_DELAY = 2**61  # no event of a history is late


class Backfill:
    """Queries to be joined to a shard. `seam` and `owed_from` are of the moment that they are registered at."""

    def __init__(self, of: State, queries: Mapping[str, Request]):
        self.stream = of.stream
        stream = replace(of.stream, delay=_ANY_DELAY, ahead=None)
        self.state = State(
            stream, 0, adaptive=False, sketch_bytes=of.sketch_bytes, has_lanes=False,
            is_planned_by_demand=of.manager.is_by_demand, crew=of.crew,
        )  # fmt: skip
        self.state.register(queries)
        self.requests = queries
        self.seam: int | None = of.clock.now  # None: the stream has seen no event
        self.owed_from: int | None = of.clock.watermark
        self.held: list[pa.RecordBatch] = []  # pushed since
        self.history: History | None = None  # what there was of it

    @property
    def names(self) -> Iterable[str]:
        """Of the queries."""
        return self.state.registrations

    @property
    def narrow(self) -> Stream:
        """The stream with no other columns than the queries read, and the time."""
        stream = self.state.stream
        read = {stream.time, *(name for each in self.state.wanted.expressions for name in each.columns)}
        return replace(stream, schema=pa.schema([each for each in stream.schema if each.name in read]))

    def fill(self, history: Iterable[pa.RecordBatch]) -> None:
        """Take in the history, as far as it lies before the seam; O(batch) at a time if it is in order."""
        stream = self.narrow
        for batch in history:
            events = to_record_batch(stream, batch)
            at = to_times(stream, events)
            in_order = bool(ascends(at))
            if self.seam is not None and len(at) and _greatest(at, in_order) >= self.seam:
                kept = at < self.seam
                events, at = events.filter(pa.array(kept)), at[kept]
            if not len(at):
                continue
            start, end = int(at[0] if in_order else at.min()), _greatest(at, in_order) + 1
            self._refuse_disorder(start)
            old = self.history or History(start, end)
            self.history = History(min(start, old.start), max(end, old.end))
            self._insert(events, at, in_order)
            self._forget()

    def take_held(self) -> list[pa.RecordBatch]:
        """What was pushed since this was last asked for; the stream must not go on meanwhile."""
        held, self.held = self.held, []
        return held

    def catch_up(self, live: Iterable[pa.RecordBatch]) -> None:
        """Take in batches that the stream has accepted since the seam."""
        for events in live:
            at = to_times(self.state.stream, events)
            self._insert(events, at, bool(ascends(at)))

    def finish(self) -> None:
        """All of the history is there: what lies before it is not known."""
        known_from = self.seam if self.history is None else self.history.start
        if known_from is None:
            return
        for store in self.state.stores.values():
            store.began_at, store.knows_count = known_from, False

    @property
    def emitted_to(self) -> int | None:
        """Windows up to here are not owed: those that had closed at the seam."""
        if self.seam is not None or self.history is None:
            return self.owed_from
        return self.history.end if self.owed_from is None else max(self.history.end, self.owed_from)

    def _insert(self, events: pa.RecordBatch, at: Ints, in_order: bool) -> None:
        state = self.state
        prepared = prepare(events, at, in_order, state.wanted, state.texts, state.keys, state.crew)
        state.clock.observe(at, in_order, 0)
        state.meter.time_insertion(state.stores, prepared, state.crew)
        state.meter.time_following(state.synopses, len(at))

    def _refuse_disorder(self, earliest: int) -> None:
        """An event so far out of order that no window can hold it any more is left out; where events are counted,
        that would be wrong. On stairs it may lie where granules are too coarse for it."""
        for place, store in self.state.stores.items():
            groups = self.state.manager.stores[place].groups.values()
            is_lost = earliest < store.forgotten_before and any(each.needs.reach("rows") for each in groups)
            if is_lost or not store.can_place(earliest):
                kind = "ROWS windows" if is_lost else "long and short windows together"
                raise MuntinError(
                    f"the history is out of order by more than its {kind} can bear, at "
                    f"{np.datetime64(earliest, 'us')}: sort it by time"
                )

    def _forget(self) -> None:
        """Let go of what no window needs from the latest event on, or from the windows that are owed."""
        latest = self.state.clock.greatest
        if latest is None:
            return
        if self.owed_from is None:  # the stream has not begun: it may begin before the history ends
            self.state.forget_before(latest, settled=LONG_AGO)
        else:
            self.state.forget_before(min(latest, self.owed_from))


def _greatest(at: Ints, in_order: bool) -> int:
    return int(at[-1] if in_order else at.max())
