"""Packing for joins: the events of one stream that a task has read become a few rows for each shard of their join key.

| row | data |
|---|---|
| `events <feed>` | events, for the shard of their join key |
| `unpaired <feed>` | times of events whose join key is NULL: these have no partner, but may be late |
| `time <stream>` | none: how far the stream has come, told to every shard by every task |

Statements are packed as for one stream (control.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import LONG_AGO, Ints
from muntin.shard.intake import evaluate
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.spark.job import Route
from muntin.spark.join_job import Feed, JoinJob
from muntin.spark.pack import MOST_EVENTS, EventSorter, PackedRow, admitted, gathered, packed_rows
from muntin.store.saved import pack

EVENTS, UNPAIRED, TIME = (
    "events ",
    "unpaired ",
    "time ",
)  # kinds of packed rows, before the name of feed or stream


def pack_stream(
    name: str, job: JoinJob, batches: Iterable[pa.RecordBatch], origin: int, wall: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows for the shards of all routes that read a stream. Events too far ahead of the clock on the `wall` are left
    out, as those of one stream are (pack.py)."""
    stream = next(each for each in job.streams if each.name == name)
    feeds = [
        _FeedPacker(job, route, feed)
        for route in job.routes
        for feed in job.feeds(route)
        if feed.stream == name
    ]
    events, ahead, turn = 0, 0, 0
    greatest: int | None = None
    for some in gathered(batches):
        given = to_record_batch(job.reading_of(name), some)
        at = to_times(stream, given)
        given, at, left_out = admitted(stream, some, given, at, wall)
        ahead += left_out
        if not len(at):
            continue
        events += len(at)
        greatest = int(at.max()) if greatest is None else max(greatest, int(at.max()))
        for feed in feeds:
            feed.insert(given, at)
            if len(feed) >= MOST_EVENTS:
                for row in feed.take():
                    turn += 1
                    yield packed_rows(origin, turn, [row])
    for feed in feeds:
        for row in feed.take():
            turn += 1
            yield packed_rows(origin, turn, [row])
    shards = [*(each for route in job.routes for each in route.ids), job.ID]
    told: list[PackedRow] = [(each, LONG_AGO, TIME + name, greatest, 0, None) for each in shards]
    told[0] = (*told[0][:4], events, None)
    yield packed_rows(origin, turn + 1, told, ahead)


class _FeedPacker:
    """Events that one task has read and not yet sent on, of one feed."""

    def __init__(self, job: JoinJob, route: Route, feed: Feed):
        self._route, self._feed = route, feed
        columns = job.columns_of(route, feed.stream)
        self._sorter = EventSorter(feed.on, columns, route.shards)
        self._unpaired: list[Ints] = []

    def insert(self, events: pa.RecordBatch, at: Ints) -> None:
        given = dict(zip(events.schema.names, events.columns, strict=True))
        valid = np.ones(len(at), np.bool_)
        for value in self._feed.on:
            column = evaluate(value, given)
            if column.null_count:
                valid &= np.asarray(pc.is_valid(column))
        if not valid.all():
            self._unpaired.append(at[~valid])
            events, at = events.filter(pa.array(valid)), at[valid]
        if len(at):
            self._sorter.insert(events, at)

    def __len__(self) -> int:
        """Events held."""
        return len(self._sorter)

    def take(self) -> Iterator[PackedRow]:
        """Rows for shards; then hold none."""
        if len(self._sorter):
            for bucket, start, data in self._sorter.take(0):
                yield self._route.ids[bucket], start, EVENTS + self._feed.name, None, 0, data
        if self._unpaired:
            at, self._unpaired = np.concatenate(self._unpaired), []
            data = pack({}, {"at": at}).to_pybytes()
            yield self._route.ids[0], int(at.min()), UNPAIRED + self._feed.name, None, 0, data
