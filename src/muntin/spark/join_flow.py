"""Several DataFrames, one for each stream of some joins: what of each is read, and how its events are packed.

Of tables, shards take the events in order of time: whenever enough of them are held, those before the start of the next
row are taken in, and every window that ends by then is emitted. So state is bounded by the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.argument import shown, text_of
from muntin.errors import MuntinError, nearest
from muntin.shard.emit.portion import Answers
from muntin.spark.answers import EMITTED_SCHEMA, emitted_rows
from muntin.spark.job import Job
from muntin.spark.join_job import JoinJob, plan_joins
from muntin.spark.join_pack import TIME, UNPAIRED, pack_stream
from muntin.spark.join_shard import JoinShard
from muntin.spark.pack import CLOCK, read_batch
from muntin.spark.stream_of import quoted, stream_of, zones_of


def plan_frames(
    frames: Mapping[str, DataFrame], queries: Mapping[str, str], *, time: Any, delay: Any, ahead: Any, shards: int,
    flush: bool, is_controlled: bool, **others: Any,
) -> JoinJob:  # fmt: skip
    """The job of some joins over DataFrames by the names of their streams. `time`, `delay` and `ahead` are one for all
    streams, or one for each by name. Other arguments are for one stream, and refused."""
    for word in (word for word, given in others.items() if given):
        raise MuntinError(f"{word} is for queries over one stream, not for joins of several; leave it out")
    names = list(frames)
    for name, frame in frames.items():
        text_of("each name of df", name)
        if not hasattr(frame, "isStreaming"):
            raise MuntinError(f"df has a DataFrame for each stream, but {shown(frame)} for '{name}'")
    if not names:
        raise MuntinError("df has no stream: give {name: DataFrame}")
    if len({frame.isStreaming for frame in frames.values()}) > 1:
        raise MuntinError("either all DataFrames are streaming or none is")
    times, delays, aheads = (
        _by_stream(*each, names) for each in (("time", time), ("delay", delay), ("ahead", ahead))
    )
    streams, zones = [], dict[str, str | None]()
    for name, frame in frames.items():
        for word, given in (("delay", delays[name]), ("ahead", aheads[name])):
            if given is not None and not isinstance(given, timedelta):
                raise MuntinError(
                    f"{word} is a timedelta, or one for each stream by name, not {shown(given)}"
                )
        column = text_of(f"time of stream '{name}'", times[name])
        streams.append(stream_of(frame, name, column, delays[name], aheads[name]))
        zones |= {f"{name}.{each}": zone for each, zone in zones_of(frame).items()}
    return plan_joins(streams, queries, shards=shards, flush=flush, zones=zones, is_controlled=is_controlled)


def span_of(word: str, given: Any) -> timedelta | None:
    """A timedelta that may be left out."""
    if given is not None and not isinstance(given, timedelta):
        raise MuntinError(f"{word} is a timedelta, not {shown(given)}")
    return given


def _by_stream(word: str, given: Any, streams: list[str]) -> dict[str, Any]:
    """An argument that is one for all streams, or one for each by name."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(streams, given)
    for name in given:
        if name not in streams:
            raise MuntinError(
                f"{word} is given for '{name}', which is no stream{nearest(str(name), streams)}"
            )
    return {name: given.get(name) for name in streams}


def inputs_of(job: JoinJob, frames: Mapping[str, DataFrame]) -> Iterator[tuple[DataFrame, Any]]:
    """The columns that a job reads of each DataFrame, and how tasks pack them."""
    for name, frame in frames.items():
        stream = job.reading_of(name)
        # by their place: names may differ in case alone, or have dots in them
        by_place = frame.toDF(*(str(place) for place in range(len(frame.columns))))
        chosen = [F.col(quoted(str(frame.columns.index(each)))) for each in stream.schema.names]
        clock = [] if stream.ahead is None else [F.current_timestamp()]
        names = [*stream.schema.names, *([] if stream.ahead is None else [CLOCK])]
        yield by_place.select(*chosen, *clock), partial(_pack_columns, name, names)


def _pack_columns(
    stream: str, names: list[str], job: JoinJob, batches: Iterable[pa.RecordBatch], origin: int
) -> Iterator[pa.RecordBatch]:
    return pack_stream(stream, job, (batch.rename_columns(names) for batch in batches), origin)


# bytes of rows taken in together
_HELD = 1 << 23


def run_join_table(job: JoinJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers of the shards whose rows come here, shard by shard and in order of `start`."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, some in groupby(rows, key=lambda row: row["shard"]):
        if number == Job.ID:
            continue  # a table has no state
        route, _ = job.route_of(number)
        schema = pa.schema([job.stream.schema.field(name) for name in route.columns])
        run = _TableRun(job, JoinShard(job, route, schema))
        run.shard.register(route.queries)
        for answers in run.answers(some):
            told: dict[str, Any] = {
                "events": run.events,
                "overflows": sum(run.shard.take_overflows().values()),
                "state_bytes": run.state_bytes,
            }
            greatest = max(run.reached.values(), default=None)
            for row in emitted_rows(job, number, answers, [], **told, greatest=greatest):
                yield pa.record_batch([[cell] for cell in row], schema=EMITTED_SCHEMA)
            run.events = run.state_bytes = 0


class _TableRun:
    """One shard, and the events of its table that are not taken in yet."""

    def __init__(self, job: JoinJob, shard: JoinShard):
        self.shard = shard
        self.reached: dict[str, int] = {}
        self.events = self.state_bytes = 0
        self._job = job
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._bytes, self._most = 0, _HELD

    def answers(self, rows: Iterable[dict[str, Any]]) -> Iterator[Answers]:
        """Rows that only tell the time come first, so that the end is known before the beginning."""
        # a query without SLIDE answers once, as of the end: there must be no instant in between
        goes_on = all(query.slide for query in self.shard.parsed_queries.values())
        for row in rows:
            self.events += row["events"]
            word, name = row["kind"].split(" ", 1)
            if word + " " == TIME:
                if row["greatest"] is not None:
                    self.reached[name] = max(self.reached.get(name, row["greatest"]), row["greatest"])
                continue
            if word + " " == UNPAIRED:
                self.shard.insert([(row["kind"], row["data"])])
                continue
            if goes_on and self._bytes > self._most:
                yield from filter(None, self._go_on(row["start"]))
            self._held.setdefault(name, []).append(read_batch(row["data"]))
            self._bytes += len(row["data"])
        self._take_in(None)
        self.state_bytes = self.shard.nbytes()
        if self._job.delays.keys() & self.reached.keys():
            yield from self.shard.advance(self.reached)
            if self._job.flush:
                yield from self.shard.flush(max(self.reached.values()))
        else:
            yield Answers()

    def _go_on(self, start: int) -> Iterator[Answers]:
        """Nothing will come any more that lies before `start`."""
        self._take_in(start)
        # what is left was read in vain: wait until there is as much again
        self._bytes = sum(batch.nbytes for some in self._held.values() for batch in some)
        self._most = max(_HELD, 2 * self._bytes)
        if set(self.reached) >= {self.shard.stream_of(feed) for feed in self.shard.clocks}:
            ends = [
                self.reached[name] - delay for name, delay in self._job.delays.items() if name in self.reached
            ]
            yield from self.shard.advance_to(min(start, *ends))

    def _take_in(self, start: int | None) -> None:
        """Take in held events up to an instant, None for all: so they come in order of time."""
        for feed in self.shard.clocks:  # the left side first
            if not (some := self._held.pop(feed, [])):
                continue
            events = pa.concat_batches(some)
            if start is not None:
                early = pc.less(self.shard.times_of(feed, events), start)
                if (later := events.filter(pc.invert(early))).num_rows:
                    self._held[feed] = [later]
                events = events.filter(early)
            if events.num_rows:
                self.shard.take_in(feed, events)
