"""One answer of one un-keyed query as plain numbers: what a look-up costs without arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from muntin.aggregate import AGGREGATES, Aggregate
from muntin.engine.shard import Shard
from muntin.expression import Expression
from muntin.plan.manager import Placed
from muntin.query import Call
from muntin.synopsis import RunSynopsis
from muntin.synopsis.contract import Need
from muntin.synopsis.runs import Run
from muntin.synopsis.track import Track
from muntin.window import Window

_INSTANT = pa.timestamp("us")


class Place(NamedTuple):
    """A window of a synopsis, located once for all calls that look at it."""

    synopsis: RunSynopsis
    window: Window


class Part(NamedTuple):
    """One component of a call: where it is looked up, and since when it has been kept."""

    place: int
    need: Need
    track: Track
    known_since: int


class Reading(NamedTuple):
    """How one call is read."""

    aggregate: Aggregate
    parts: tuple[Part, ...]


class PointReader:
    """Reads a query at one instant; made once per query and kept until the plan changes."""

    def __init__(self, shard: Shard, name: str):
        query, placement = shard.registrations[name].query, shard.manager.placements[name]
        self.query = query
        self.schema = query.answer_schema()
        self._clock = shard.clock
        self._slide = query.slide
        self._places: list[Place] = []
        self._readings = [
            Reading(AGGREGATES[call.function], tuple(self._part(shard, placed) for placed in parts))
            for call, parts in zip(query.calls, placement.calls, strict=True)
        ]
        self._presence = self._part(shard, placement.presence[0])
        self._is_call = [_call_of(output.expression) for output in query.outputs]
        self._types = [_answer_type(call) for call in query.calls]

    @staticmethod
    def serves(shard: Shard, name: str) -> bool:
        """Whether a query can be read this way: time windows, no keys, no HAVING, numbers only."""
        query, placement = shard.registrations[name].query, shard.manager.placements[name]
        return (
            not query.keys
            and query.having is None
            and query.window is not None
            and all(demand.window.is_time for _, demand in placement.all())
            and all(isinstance(shard.synopses[number], RunSynopsis) for number, _ in placement.all())
            and all(_is_plain(output.expression.type) for output in query.outputs)
            and all(call.argument is None or _is_plain(call.argument.type) for call in query.calls)
        )

    def value(self, at: int | None) -> Any:
        """The first output."""
        instant = self._instant(at)
        call = self._is_call[0] if self._is_call else None
        if instant is None or call is None:
            return self.table(at).column(0)[0].as_py()
        runs: dict[int, Run] = {}
        return self._read(self._readings[call], instant, runs)

    def table(self, at: int | None) -> pa.Table:
        """All outputs, as `lookup` gives them."""
        instant = self._instant(at)
        runs: dict[int, Run] = {}
        is_started = instant is not None
        values = [self._read(reading, instant or 0, runs) for reading in self._readings]
        arrays = [pa.array([value], kind) for value, kind in zip(values, self._types, strict=True)]
        columns = {f"${i}": array for i, array in enumerate(arrays)}
        outputs = [
            arrays[call] if call is not None else output.expression.evaluate(columns)
            for call, output in zip(self._is_call, self.query.outputs, strict=True)
        ]
        run = self._run(self._presence.place, instant or 0, runs)
        bounds = [pa.array([side if is_started else None], _INSTANT) for side in (run.start, run.end)]
        complete = pa.array([self._is_complete(runs)])
        return pa.Table.from_arrays([*outputs, *bounds, complete], schema=self.schema)

    @property
    def begins_with_a_call(self) -> bool:
        return bool(self._is_call) and self._is_call[0] is not None

    def first_call(self) -> tuple[Aggregate, tuple[tuple[RunSynopsis, Part], ...], Window]:
        """How the first output is read: its aggregate, where its parts are, and its window."""
        reading = self._readings[self._is_call[0] or 0]
        places = [self._places[part.place] for part in reading.parts]
        parts = tuple((place.synopsis, part) for place, part in zip(places, reading.parts, strict=True))
        return reading.aggregate, parts, places[0].window

    def _instant(self, at: int | None) -> int | None:
        instant = self._clock.now if at is None else at
        return instant - instant % self._slide if instant is not None and self._slide else instant

    def _read(self, reading: Reading, instant: int, runs: dict[int, Run]) -> Any:
        partials = []
        for place, need, track, _ in reading.parts:
            run = self._run(place, instant, runs)
            partials.append(track.point(need, run.lo, run.hi))
        return reading.aggregate.lower_one(*partials)

    def _run(self, place: int, instant: int, runs: dict[int, Run]) -> Run:
        if place not in runs:
            synopsis, window = self._places[place]
            runs[place] = synopsis.locate_one(window, window.settle(instant))
        return runs[place]

    def _is_complete(self, runs: dict[int, Run]) -> bool:
        parts = [self._presence, *(part for reading in self._readings for part in reading.parts)]
        return all(
            run.end <= run.start or run.start >= max(part.known_since, part.track.store.forgotten_before)
            for part in parts
            for run in [runs[part.place]]
        )

    def _part(self, shard: Shard, placed: Placed) -> Part:
        number, demand = placed
        synopsis = shard.synopses[number]
        assert isinstance(synopsis, RunSynopsis)
        place = Place(synopsis, demand.window)
        if place not in self._places:
            self._places.append(place)
        known_since = synopsis.known_since(demand.window, [demand.need])[demand.need]
        return Part(self._places.index(place), demand.need, synopsis.track_of(demand.need), known_since)


def reader_of(shard: Shard, name: str) -> PointReader | None:
    """The reader of a query, if it can be read so; kept until the plan changes."""
    if name not in shard.readers:
        shard.readers[name] = PointReader(shard, name) if PointReader.serves(shard, name) else None
    reader: PointReader | None = shard.readers[name]
    return reader


def _call_of(output: Expression) -> int | None:
    """Which call an output is nothing but the answer of."""
    return int(output.sql.strip('"')[1:]) if output.is_column else None


def _answer_type(call: Call) -> pa.DataType:
    return AGGREGATES[call.function].answer_type(None if call.argument is None else call.argument.type)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_float64(kind))
