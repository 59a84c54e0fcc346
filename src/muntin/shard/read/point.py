"""One answer of one un-keyed query as plain numbers: what a look-up costs without arrays.

Whatever depends on the plan alone is settled when the reader is made: which window of which store, which
structures, how a number becomes an answer. What is left is one search in time and one question to each
structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates import AGGREGATES, Aggregate
from muntin.answer import is_plain
from muntin.arrays import LONG_AGO
from muntin.plan.placement import Placed
from muntin.query import Query
from muntin.shard.read.reading import answer_type, call_of
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.store.sequence import Located
from muntin.store.sequence import Sequence as Elements
from muntin.structure.runs import RunSynopsis
from muntin.structure.track import Track
from muntin.window import Window

# A table of one row, made for one query: the same types and columns again and again.

_INSTANT = pa.timestamp("us")
_FORMATS = {pa.int64(): "q", pa.float64(): "d"}
_NO_INSTANT = pa.array([None], _INSTANT)
_COMPLETE = {is_complete: pa.array([is_complete]) for is_complete in (True, False)}


class SingleRow:
    """Packs the answers of all calls, and the bounds of the window, into one buffer of 8 bytes each.

    Arrow arrays made from Python values cost 5 us apiece, views of a buffer 2.
    """

    def __init__(self, query: Query, call_of: Sequence[int | None]):
        """`call_of` says which call each output is nothing but the answer of; None: an expression."""
        self._query = query
        self._schema = query.answer_schema()
        self._call_of = call_of
        self._types = [answer_type(call) for call in query.calls]
        self._pack = Struct("=" + "".join(_FORMATS[kind] for kind in self._types) + "qq").pack
        self._null = [pa.array([None], kind) for kind in self._types]
        self._is_plain = all(call is not None for call in call_of)

    def table(self, values: Sequence[Any], start: int | None, end: int | None, is_complete: bool,
              keys: Sequence[pa.Array] = ()) -> pa.Table:  # fmt: skip
        """The row with these keys and answers of the calls, None for NULL."""
        packed = self._pack(*[0 if value is None else value for value in values], start or 0, end or 0)
        buffers = [None, pa.py_buffer(packed)]
        calls = [
            null if value is None else pa.Array.from_buffers(kind, 1, buffers, 0, number)
            for number, (value, kind, null) in enumerate(zip(values, self._types, self._null, strict=True))
        ]
        many = len(values)
        bounds = [
            _NO_INSTANT if side is None else pa.Array.from_buffers(_INSTANT, 1, buffers, 0, many + number)
            for number, side in enumerate((start, end))
        ]
        return pa.Table.from_arrays(
            [*keys, *self._outputs(calls), *bounds, _COMPLETE[is_complete]], schema=self._schema
        )

    def _outputs(self, calls: Sequence[pa.Array]) -> list[pa.Array]:
        columns = {} if self._is_plain else {f"${number}": array for number, array in enumerate(calls)}
        return [
            output.expression.evaluate(columns) if call is None else calls[call]
            for call, output in zip(self._call_of, self._query.outputs, strict=True)
        ]


class PointPlace:
    """A window of a store, located once for all calls that look at it."""

    def __init__(self, store: Elements, window: Window):
        self.store = store
        self.window = window
        self.synopses: list[RunSynopsis] = []  # who answers for it
        self._size = 0 if window.since else window.size  # 0: it depends on the instant
        self._to, (self._slide, self._offset) = window.to, window.pace

    def locate(self, instant: int) -> Located:
        """Where the window lies that is looked up at an instant; refused if a synopsis has forgotten it."""
        if self._slide:
            instant -= (instant - self._offset) % self._slide
        located = self.store.locate_one(self.window.start(instant), instant - self._to)
        if not located.is_whole:
            for synopsis in self.synopses:
                synopsis.refuse_forgotten(located, instant)
        return located

    def run(self, instant: int) -> tuple[int, int]:
        """The run that the window is at an instant; for those who need not know how much of it is there."""
        if self._slide:
            instant -= (instant - self._offset) % self._slide
        start = instant - self._size if self._size else self.window.start(instant)
        if start < self.store.forgotten_before:  # rare
            return self.locate(instant)[:2]
        return self.store.run(start, instant - self._to)


class RowsPlace(PointPlace):
    """A ROWS window, which ends at the last event before the instant."""

    def locate(self, instant: int) -> Located:
        """Where the window lies that is looked up at an instant, with the times of its first and last event."""
        kept, store = self._kept(instant), self.store
        if kept is None:
            return self._asked(instant)
        lo, hi = kept
        if lo == hi:
            return Located(lo, hi, 0, 0, True)
        first, last = (
            store.edges(each, each + 1)[0].item() for each in (lo - store.dropped, hi - 1 - store.dropped)
        )
        return Located(lo, hi, first, last + 1, True)

    def run(self, instant: int) -> tuple[int, int]:
        return self._kept(instant) or self._asked(instant)[:2]

    def _kept(self, instant: int) -> tuple[int, int] | None:
        """The run that the window is; None if not all of it is kept for certain."""
        store, window = self.store, self.window
        count = self._count(instant)
        lo, hi = count - window.size, count - window.to
        if store.began_at == LONG_AGO and not store.dropped:  # the stream may be younger than the window
            return max(0, lo), max(0, hi)
        knows_count = store.knows_count or not window.slide
        return (lo, hi) if lo >= store.dropped and knows_count else None

    def _asked(self, instant: int) -> Located:
        """What the synopsis says, which knows what was lost, and may refuse."""
        count = np.array([self._count(instant)])
        found = self.synopses[0].locate_counts(self.window, count, np.array([instant]))
        return Located(*(each.item() for each in found))

    def _count(self, instant: int) -> int:
        return int(self.window.settle_count(self.store.run(LONG_AGO, instant)[1]))


class PointPart(NamedTuple):
    """One component of a call."""

    synopsis: RunSynopsis
    need: Need
    track: Track
    known_since: int


class PointCall:
    """How one call is read: where its window is, and a question for each of its components."""

    def __init__(self, aggregate: Aggregate, place: PointPlace, parts: Sequence[PointPart]):
        self.aggregate = aggregate
        self.place = place
        self.parts = tuple(parts)
        self.known_since = max(part.known_since for part in parts)
        self._lower = aggregate.lower_one
        self._points = [part.track.point_of(part.need) for part in parts]

    def answer(self, lo: int, hi: int) -> Any:
        """The answer over a run; None for NULL."""
        return self._lower(*[point(lo, hi) for point in self._points])


class PointReader:
    """Reads a query at one instant; made once per query and kept until the plan changes."""

    def __init__(self, state: State, name: str):
        query, placement = state.registrations[name].query, state.manager.placements[name]
        self.query = query
        self._clock, self._history = state.clock, state.registrations[name].history
        self._slide, self._offset = query.pace
        self._places: dict[tuple[int, Window], PointPlace] = {}
        self._readings = [
            self._reading(state, AGGREGATES[call.function], parts)
            for call, parts in zip(query.calls, placement.calls, strict=True)
        ]
        self._presence = self._reading(state, AGGREGATES["count"], placement.presence)
        found = [call_of(output.expression) for output in query.outputs]
        is_call = [each if isinstance(each, int) else None for each in found]
        # the first output, if it is nothing but the answer of a call
        self.first = self._readings[is_call[0]] if is_call and is_call[0] is not None else None
        self.is_by_time = all(window.is_time for _, window in self._places)
        self._row = SingleRow(query, is_call)

    @staticmethod
    def serves(state: State, name: str) -> bool:
        """Whether a query can be read this way: no sessions, no keys, no HAVING, numbers only."""
        query, placement = state.registrations[name].query, state.manager.placements[name]
        return (
            not query.keys
            and query.having is None
            and query.window is not None
            and not any(demand.window.is_session for _, demand in placement.all())
            and all(isinstance(state.synopses[number], RunSynopsis) for number, _ in placement.all())
            and all(_are_together(state, parts) for parts in placement.calls)
            and all(is_plain(output.expression.type) for output in query.outputs)
            and all(call.argument is None or is_plain(call.argument.type) for call in query.calls)
        )

    def value(self, at: int | None) -> Any:
        """The first output."""
        instant = self._instant(at)
        if instant is None or self.first is None:
            return self.table(at).column(0)[0].as_py()
        return self.first.answer(*self.first.place.run(instant))

    def table(self, at: int | None) -> pa.Table:
        """All outputs, as `lookup` gives them."""
        instant = self._instant(at)
        found = {place: place.locate(instant or 0) for place in self._places.values()}
        values = [reading.answer(*found[reading.place][:2]) for reading in self._readings]
        complete = all(
            found[reading.place].is_complete(reading.known_since)
            for reading in (self._presence, *self._readings)
        )
        window = found[self._presence.place]
        is_known = instant is not None and (self._presence.place.window.is_time or window.end > window.start)
        start, end = (window.start, window.end) if is_known else (None, None)
        return self._row.table(values, start, end, complete)

    def _instant(self, at: int | None) -> int | None:
        instant = self._clock.now if at is None else at
        if instant is None and self._history is not None:
            instant = self._history.end
        if instant is not None and self._slide:
            instant -= (instant - self._offset) % self._slide
        return instant

    def _reading(self, state: State, aggregate: Aggregate, placed: Sequence[Placed]) -> PointCall:
        parts = [_part(state, each) for each in placed]
        store, window = parts[0].synopsis.store, placed[0][1].window
        place = self._places.get((id(store), window))
        if place is None:
            place = (PointPlace if window.is_time else RowsPlace)(store, window)
            self._places[id(store), window] = place
        place.synopses += [part.synopsis for part in parts if part.synopsis not in place.synopses]
        return PointCall(aggregate, place, parts)


def reader_of(state: State, name: str) -> PointReader | None:
    """The reader of a query, if it can be read so; kept until the plan changes."""
    try:
        reader: PointReader | None = state.prepared.readers[name]
    except KeyError:
        reader = state.prepared.readers[name] = (
            PointReader(state, name) if PointReader.serves(state, name) else None
        )
    return reader


def _part(state: State, placed: Placed) -> PointPart:
    number, demand = placed
    synopsis = state.synopses[number]
    assert isinstance(synopsis, RunSynopsis)
    known_since = synopsis.known_since(demand.window, demand.need)
    return PointPart(synopsis, demand.need, synopsis.track_of(demand.need), known_since)


def _are_together(state: State, parts: Sequence[Placed]) -> bool:
    """Whether the components of a call are kept in one store, so that one search finds the window."""
    return len({id(state.synopses[number].store) for number, _ in parts}) == 1
