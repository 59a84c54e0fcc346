"""A shard at work on Spark: packed rows in, answers out, around the same `Shard` as in the embedded engine.

Its clock calls no event late by itself. The runtime tells it how far the whole stream has come, and what
lies before that when it arrives is late: time moves between micro-batches, not within one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from muntin.described import check_shape
from muntin.query import Query
from muntin.shard.emit.portion import Answers, flush, portions
from muntin.shard.shard import Shard
from muntin.spark.changes import CHANGES
from muntin.spark.fold import count_late
from muntin.spark.held_rows import Owner
from muntin.spark.job import NO_LIMIT, Job, Route, read_query
from muntin.spark.pack import read_batch
from muntin.spark.shard_tables import ShardTables
from muntin.sql import shared_templates
from muntin.store.saved import pack, refusing, unpack
from muntin.table_query import TableQuery

_PORTION_ROWS = 500_000  # of answers that a worker holds at once


class SparkShard:
    """One shard of a route, by its place there."""

    def __init__(self, job: Job, route: Route, bucket: int, columns: pa.Schema | None = None):
        self._delay = job.stream.delay
        self._stream = job.stream_of(route, columns)
        place = (job.fingerprint, route.name, str(self._stream.schema))
        self._parsed = _PARSED.setdefault(place, Parsed())
        self.tables = ShardTables(job, route, bucket)
        self._shard = Shard(
            self._stream, NO_LIMIT, adaptive=False, portion_rows=_PORTION_ROWS, is_planned_by_demand=True,
            tables=self.tables.rows, owns=Owner(bucket, route.shards) if route.shards > 1 else None,
        )  # fmt: skip
        self.tables.shard = self._shard
        self._told_overflows = 0

    @property
    def queries(self) -> dict[str, str]:
        """Texts of the queries at work, by name."""
        return {name: each.query.text for name, each in self._shard.registrations.items()}

    @property
    def has_lanes(self) -> bool:
        """Whether queries may share a store by lanes: what is in the log from before there were any was folded by
        the filter of each."""
        return self._shard.has_lanes

    @has_lanes.setter
    def has_lanes(self, has_lanes: bool) -> None:
        self._shard.has_lanes = has_lanes

    def register(self, queries: Mapping[str, str]) -> None:
        """Add queries, all or none; they answer from what is there."""
        self._shard.register(
            {name: self._shard.request_of(self._parse(text)) for name, text in queries.items()}
        )

    def drop(self, name: str) -> None:
        self._parsed.pop(self._shard.registrations[name].query.text, None)
        self._shard.drop(name)

    def rewind(self, to: int) -> None:
        """Start again at an instant that the stream has passed."""
        self._shard.rewind(to)

    def begin(self, least: int) -> None:
        """The stream has an event at `least`, wherever it went: rows of a table answer from then on, in silence too.
        A late event does not count, so nothing is believed that lies before the watermark."""
        clock = self._shard.clock
        if least >= clock.promised:
            clock.first = least if clock.first is None else min(clock.first, least)

    def insert(self, packed: Iterable[tuple[str, bytes]]) -> int:
        """Take in rows of data, in order, as one batch; how many of their events were late. Tables change first."""
        late, chunks = 0, []
        changes: dict[str, list[pa.RecordBatch]] = {}
        rest = []
        for kind, data in packed:
            if kind.startswith(CHANGES):
                changes.setdefault(kind.removeprefix(CHANGES), []).append(read_batch(data))
            else:
                rest.append((kind, data))
        for name, some in changes.items():
            self.tables.change(name, some)
        for kind, data in rest:
            if kind == "cells":
                chunks.append(unpack(data))
            elif kind == "counted":
                late += count_late(unpack(data), self._shard.clock.promised)
            else:
                late += self._shard.insert(self._with_all_columns(read_batch(data)))
        if chunks:
            self._shard.absorb(chunks)
        return late

    def _with_all_columns(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events logged when fewer columns were read: no query of that time misses the others."""
        for field in self._stream.schema:
            if field.name not in events.schema.names:
                events = events.append_column(field, pa.nulls(events.num_rows, field.type))
        return events

    def take_overflows(self) -> int:
        """How many rows have been left out since the last time, since a value of them does not exist."""
        before, self._told_overflows = self._told_overflows, self._shard.overflows
        return self._told_overflows - before

    def advance(self, greatest: int) -> Iterator[Answers]:
        """The answers that are final now that the stream has come as far as `greatest`, portion by portion."""
        self._see(greatest)
        yield from portions(self._shard, greatest - self._delay)

    def advance_to(self, instant: int) -> Iterator[Answers]:
        """The answers of windows that end up to an instant before which nothing will come any more."""
        yield from portions(self._shard, instant)

    def skip(self, greatest: int, delay: int | None) -> None:
        """As `advance`, when the answers have been given out already, by a job whose delay may have been another."""
        self._see(greatest)
        self._shard.skip(greatest - (self._delay if delay is None else delay))
        self.take_overflows()  # they were told of by whoever gave the answers out

    def _see(self, greatest: int) -> None:
        # what a query registered later can know begins where the whole stream is, not where this shard is
        self._shard.settle_plan()
        clock = self._shard.clock
        clock.greatest = greatest if clock.greatest is None else max(clock.greatest, greatest)

    def flush(self, last: int) -> Iterable[dict[str, pa.Table]]:
        """The answers of windows still open that hold an event, `last` being the latest of all."""
        return flush(self._shard, self.parsed_queries, last)

    @property
    def parsed_queries(self) -> dict[str, Query | TableQuery]:
        return {name: each.asked for name, each in self._shard.registrations.items()}

    def snapshot(self) -> pa.Buffer:
        """All state, as bytes."""
        description, arrays = self._shard.snapshot()
        return pack(description | {"tables": list(self.tables.rows)}, arrays | self.tables.snapshot())

    def restore(self, packed: bytes) -> None:
        """State from a snapshot, into a shard without queries."""
        with refusing("the state in this checkpoint"):
            description, arrays = unpack(packed)
            tables = description.pop("tables", [])  # there were none before 0.2
            check_shape(tables, [str], "the names of tables")
            self.tables.restore(tables, arrays)
            queries = {name: self._parse(each["text"]) for name, each in description["registrations"].items()}
            owned = {
                name: array.copy() if isinstance(array, np.ndarray) else array
                for name, array in arrays.items()
            }
            self._shard.restore(description, owned, queries)

    def nbytes(self) -> int:
        return self._shard.nbytes() + self.tables.nbytes()

    def check(self) -> None:
        """Assert every invariant of the state."""
        self._shard.check()
        self.tables.check()

    def _parse(self, text: str) -> Query | TableQuery:
        """Parsed once per process, whatever the number of shards."""
        if text not in self._parsed:
            tables = [each.table for each in self.tables.rows.values()]
            self._parsed[text] = read_query(self._stream, text, self._parsed.templates, tables)
        return self._parsed[text]


class Parsed(dict[str, Query | TableQuery]):
    """Queries by text that the shards of a route in one process share; gone with the last of these shards."""

    def __init__(self) -> None:
        self.templates = shared_templates()


_PARSED: WeakValueDictionary[tuple[str, str, str], Parsed] = (
    WeakValueDictionary()
)  # by job, route and columns
