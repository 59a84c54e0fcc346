"""A shard of a join route at work: events of both streams in, answers out, around the same `JoinOperator` as in the
embedded engine.

It has a clock for each feed. The runtime tells it how far each whole stream has come; what lies before that watermark
when it arrives is late. The events of a micro-batch are taken in together, in order of time: so an event that came
before another one is later than that by the stream's delay at most, as embedded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.described import COUNT, Each, check_shape
from muntin.join.operator import JoinOperator
from muntin.join_query import JoinQuery
from muntin.kernels.times import ascends
from muntin.shard.clock import CLOCK, Clock
from muntin.shard.emit.portion import Answers, flush, portions
from muntin.shard.intake import Admitted
from muntin.shard.record_batch import to_times
from muntin.spark.bad_events import FAIL
from muntin.spark.job import NO_LIMIT, Route
from muntin.spark.join_job import JoinJob, as_fed, is_merged
from muntin.spark.join_pack import EVENTS, UNPAIRED
from muntin.spark.pack import read_batch
from muntin.spark.stateful_shard import BadSoFar
from muntin.sql import shared_templates
from muntin.store.saved import pack, refusing, unpack
from muntin.stream import Stream

_PORTION_ROWS = 500_000  # of answers that a worker holds at once
_CLOCKS = Each({**CLOCK, "delay": COUNT})
Reached = Mapping[str, int]  # by stream: its greatest event time


class JoinShard:
    """One shard of a join route."""

    def __init__(self, job: JoinJob, route: Route, columns: pa.Schema | None = None):
        self._job, self._route = job, route
        schema = job.stream.schema if columns is None else columns
        self._streams = {each.name: _with_columns(each, schema) for each in job.streams}
        self._stream_of = {feed.name: feed.stream for feed in job.feeds(route)}
        self._counted = job.counted(route)
        # a clock's own delay is the longest that the stream ever had: it says how far events may be out of order
        self.clocks = {feed: Clock(0) for feed in self._stream_of}
        self.joins = JoinOperator(self.clocks.__getitem__, NO_LIMIT, _PORTION_ROWS)
        place = (job.fingerprint, route.name, str(schema))
        self._parsed = _PARSED.setdefault(place, Parsed())
        self._told_overflows: dict[str, int] = {}
        self.bad_events = FAIL

    # -- queries -----------------------------------------------------------------------------------

    @property
    def queries(self) -> dict[str, str]:
        """Texts of the queries at work, by name."""
        return {name: each.query.text for name, each in self.joins.registrations.items()}

    @property
    def parsed_queries(self) -> dict[str, JoinQuery]:
        return {name: each.query for name, each in self.joins.registrations.items()}

    def register(self, queries: Mapping[str, str]) -> None:
        """Add queries, all or none; they answer from what is there."""
        self.joins.register({name: self._parse(text) for name, text in queries.items()})

    def drop(self, name: str) -> None:
        gone = self.joins.registrations[name]
        self._told_overflows.pop(name, None)
        self._parsed.pop(gone.query.text, None)
        self.joins.drop(name)

    def _parse(self, text: str) -> JoinQuery:
        if text not in self._parsed:
            query = self._job.read(text, self._parsed.templates, self._streams)
            is_part = self._route.shards > 1 and is_merged(query)
            self._parsed[text] = replace(as_fed(query), is_part=is_part)
        return self._parsed[text]

    # -- events ------------------------------------------------------------------------------------

    def insert(self, packed: Iterable[tuple[str, bytes]]) -> int:
        """Take in rows of data, those of each feed as one batch; how many of their events were late."""
        late = 0
        events: dict[str, list[pa.RecordBatch]] = {}
        for kind, data in packed:
            word, feed = kind.split(" ", 1)
            if word + " " == UNPAIRED:
                late += self._note_unpaired(feed, unpack(data)[1]["at"])
            else:
                assert word + " " == EVENTS
                events.setdefault(feed, []).append(self._with_all_columns(feed, read_batch(data)))
        for feed in self._stream_of:  # the left side first, as embedded
            if feed in events:
                late += self.take_in(feed, pa.concat_batches(events[feed]))
        return late

    def take_in(self, feed: str, events: pa.RecordBatch) -> int:
        """Take in a batch of one feed; how many of its events were late."""
        clock = self.clocks[feed]
        at = self.times_of(feed, events)
        kept = at >= clock.promised
        late = len(at) - int(np.count_nonzero(kept))
        if late:
            events, at = events.filter(pa.array(kept)), at[kept]
        in_order = bool(ascends(at))
        clock.observe(at, in_order, late)
        if len(at) and self.joins.reads(feed):
            admitted = Admitted(events, at, in_order, late)
            self.joins.insert(feed, self.joins.prepare(feed, admitted))
        return late if feed in self._counted else 0

    def stream_of(self, feed: str) -> str:
        """The name of a feed's stream."""
        return self._stream_of[feed]

    def times_of(self, feed: str, events: pa.RecordBatch) -> Ints:
        """Event times in microseconds."""
        return to_times(self._streams[self._stream_of[feed]], events)

    def _note_unpaired(self, feed: str, at: Ints) -> int:
        """Events without a join key have no partner, but a time."""
        clock = self.clocks[feed]
        kept = at[at >= clock.promised]
        if len(kept):
            least = int(kept.min())
            clock.first = least if clock.first is None else min(clock.first, least)
        return len(at) - len(kept) if feed in self._counted else 0

    def _with_all_columns(self, feed: str, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events logged when fewer columns were read: no query of that time misses the others."""
        schema = self._streams[self._stream_of[feed]].schema
        missing = [field for field in schema if field.name not in events.schema.names]
        for field in missing:
            events = events.append_column(field, pa.nulls(events.num_rows, field.type))
        return events.select(schema.names)

    # -- time --------------------------------------------------------------------------------------

    def advance(self, reached: Reached) -> Iterator[Answers]:
        """The answers that are final now that the streams have come so far, portion by portion."""
        self._see(reached, self._job.delays)
        yield from portions(self.joins)

    def skip(self, reached: Reached, delays: Mapping[str, int]) -> None:
        """As `advance`, when the answers have been given out already, by a job whose delays may have been others."""
        self._see(reached, delays)
        self.joins.skip()
        self.take_overflows()  # they were told of by whoever gave the answers out

    def advance_to(self, instant: int) -> Iterator[Answers]:
        """The answers of windows that end up to an instant before which nothing will come any more."""
        for clock in self.clocks.values():
            clock.promise(instant)
        yield from portions(self.joins)

    def _see(self, reached: Reached, delays: Mapping[str, int]) -> None:
        for feed, clock in self.clocks.items():
            stream = self._stream_of[feed]
            delay = delays[stream]
            clock.delay = max(clock.delay, delay)
            if stream in reached:
                greatest = reached[stream]
                clock.greatest = greatest if clock.greatest is None else max(clock.greatest, greatest)
                clock.promise(greatest - delay)

    def rewind(self, to: int, stream: str | None = None) -> None:
        """Have a stream start again at an instant that it has passed, and with it its joins."""
        feeds = [feed for feed, of in self._stream_of.items() if of == stream]
        for feed in feeds:
            self.clocks[feed].rewind(to)
        if feeds:  # every query of the route reads them all
            self._told_overflows = {}
            self.joins.start_again(feeds[0])

    def flush(self, last: int) -> Iterable[Answers]:
        """The answers of windows still open that hold an event, `last` being the latest of all."""
        return flush(self.joins, self.parsed_queries, last)

    def take_overflows(self) -> dict[str, int]:
        """How many rows of each query have been left out since the last time, since a value of them does not exist."""
        now = {name: each.overflows for name, each in self.joins.registrations.items() if each.overflows}
        before, self._told_overflows = self._told_overflows, now
        told = {name: count - before.get(name, 0) for name, count in now.items()}
        return {name: count for name, count in told.items() if count > 0}

    def take_came(self) -> dict[str, int]:
        """Events are not counted by route: tasks tell of them."""
        return {}

    def take_bad(self) -> BadSoFar:
        """Joins fail where an event is bad."""
        return BadSoFar(0, [])

    # -- upkeep ------------------------------------------------------------------------------------

    def snapshot(self) -> pa.Buffer:
        """All state, as bytes."""
        description, arrays = self.joins.snapshot()
        clocks = {feed: {**clock.state(), "delay": clock.delay} for feed, clock in self.clocks.items()}
        return pack({"joins": description, "clocks": clocks}, arrays)

    def restore(self, packed: bytes) -> None:
        """State from a snapshot, into a shard without queries."""
        with refusing("the state in this checkpoint"):
            description, arrays = unpack(packed)
            check_shape(description["clocks"], _CLOCKS, "the clocks of joins")
            for feed, state in description["clocks"].items():
                self.clocks[feed].delay = state.pop("delay")
                self.clocks[feed].restore(state)
            texts = {name: each["text"] for name, each in description["joins"]["registrations"].items()}
            owned = {
                name: array.copy() if isinstance(array, np.ndarray) else array
                for name, array in arrays.items()
            }
            queries = {name: self._parse(text) for name, text in texts.items()}
            self.joins.restore(description["joins"], owned, queries)
        self.take_overflows()

    def nbytes(self) -> int:
        return self.joins.nbytes()

    def check(self) -> None:
        """Assert every invariant of the state."""
        self.joins.check()


class Parsed(dict[str, JoinQuery]):
    """Queries by text that the shards of a route in one process share; gone with the last of these shards."""

    def __init__(self) -> None:
        self.templates = shared_templates()


# by job, route and columns
_PARSED: WeakValueDictionary[tuple[str, str, str], Parsed] = WeakValueDictionary()


def _with_columns(stream: Stream, schema: pa.Schema) -> Stream:
    """A stream with the columns that a route has of it, called after both."""
    prefix = f"{stream.name}."
    own: list[Any] = [
        pa.field(field.name.removeprefix(prefix), field.type)
        for field in schema
        if field.name.startswith(prefix)
    ]
    return replace(stream, schema=pa.schema(own)) if own else stream
