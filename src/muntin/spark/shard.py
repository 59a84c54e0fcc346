"""A shard at work on Spark: packed rows in, answers out, around the same `Shard` as in the embedded engine.

Its clock calls no event late by itself. The runtime tells it how far the whole stream has come, and what
lies before that when it arrives is late: time moves between micro-batches, not within one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from muntin.described import check_shape
from muntin.errors import MuntinError
from muntin.query import Query
from muntin.shard.emit.portion import Answers, flush, portions
from muntin.shard.shard import Shard
from muntin.spark.bad_events import EMIT, FAIL, INSTEAD, told_of
from muntin.spark.changes import CHANGES
from muntin.spark.fold import count_late
from muntin.spark.held_rows import Owner
from muntin.spark.history import Share, fill
from muntin.spark.job import NO_LIMIT, Job, Route, read_query, source_of
from muntin.spark.pack import read_batch
from muntin.spark.ranked import is_ranked, ranked_share
from muntin.spark.shard_tables import ShardTables
from muntin.spark.shares import dealt_by, has_shares, share_of
from muntin.spark.stateful_shard import BadSoFar
from muntin.sql import shared_templates
from muntin.store.saved import pack, refusing, unpack
from muntin.table_query import TableQuery

_PORTION_ROWS = 500_000  # of answers that a worker holds at once


class SparkShard:
    """One shard of a route, by its place there."""

    BACKLOG = NO_LIMIT  # bytes kept of windows that closed, until they are given out

    def __init__(self, job: Job, route: Route, bucket: int, columns: pa.Schema | None = None):
        self._delay = job.stream.delay
        self._is_spread = bool(route.whole)
        self._place = (bucket, route.shards)
        self._reading = job.stream_of(route)  # of what comes now: the state may have known other columns
        self._stream = job.stream_of(route, columns)
        place = (job.fingerprint, route.name, str(self._stream.schema))
        self._parsed = _PARSED.setdefault(place, Parsed())
        self.tables = ShardTables(job, route, bucket)
        self._shard = Shard(
            self._stream, self.BACKLOG, adaptive=False, portion_rows=_PORTION_ROWS, is_planned_by_demand=True,
            tables=self.tables.rows, owns=Owner(bucket, route.shards) if route.shards > 1 else None,
        )  # fmt: skip
        self.tables.shard = self._shard
        self._told_overflows = 0
        self._overflows_of: dict[str, int] = {}  # by query, told so far
        self._came: Counter[str] = Counter()
        self.bad_events = job.bad_events
        self._keys = route.keys
        self._bad = BadSoFar(0, [])

    @property
    def shard(self) -> Shard:
        """The shard behind it, to be asked."""
        return self._shard

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

    def fill(self, queries: Mapping[str, str], files: Sequence[str]) -> None:
        """Add queries with their history, which is in files; all or none."""
        parsed = {name: self._parse(text) for name, text in queries.items()}
        one = read_query(
            self._stream, next(iter(queries.values()))
        )  # all queries of a route are dealt out alike
        keys = dealt_by(source_of(one)) if self._is_spread else source_of(one).key_expressions
        backfill = self._shard.begin_backfill(
            {name: self._shard.request_of(each) for name, each in parsed.items()}
        )
        try:
            fill(backfill, self._reading, files, Share(keys, *self._place), self._with_all_columns)
            self._shard.join(backfill)
        finally:
            self._shard.end_backfill(backfill)
        clock = self._shard.clock
        if (
            clock.first is None
        ):  # the stream may have begun in other shards: windows are owed here, too, from now on
            clock.first = clock.greatest

    @property
    def awaits_event(self) -> bool:
        """Whether it has a history, and does not know yet that the stream has begun."""
        each_history = (each.history for each in self._shard.registrations.values())
        return self._shard.clock.first is None and any(each is not None for each in each_history)

    def drop(self, name: str) -> None:
        self._parsed.pop(self._shard.registrations[name].query.text, None)
        self._shard.drop(name)
        self._overflows_of.pop(name, None)

    def rewind(self, to: int, stream: str | None = None) -> None:
        """Start again at an instant that the stream has passed; it has no other stream."""
        self._shard.rewind(to)
        self._told_overflows, self._overflows_of = self._shard.overflows, self._count_overflows()

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
                self._came["cells"] += sum(
                    len(chunks[-1][1][f"{i} at"]) for i in range(len(chunks[-1][0]["where"]))
                )
            elif kind == "counted":
                late += count_late(unpack(data), self._shard.clock.promised)
            else:
                events = read_batch(data)
                self._came["events"] += events.num_rows
                late += self._insert_events(self._with_all_columns(events))
            self._came["bytes"] += len(data)
        if chunks:
            self._shard.absorb(chunks)
        return late

    def _insert_events(self, events: pa.RecordBatch) -> int:
        """Take in events, perhaps without some; how many were late."""
        admitted = self._shard.admit(events)
        try:
            return self._shard.take_in(admitted)
        except MuntinError as error:
            if self.bad_events == FAIL:
                raise type(error)(f"{error}; {INSTEAD}") from None
            found = self._shard.find_without_value(admitted)
            if found.sound.all():
                raise
        lost = admitted.events.filter(pa.array(~found.sound))
        told = told_of(lost, found.why(), self._keys) if self.bad_events == EMIT else []
        self._bad = BadSoFar(self._bad.events + lost.num_rows, self._bad.told + told)
        sound = admitted.events.filter(pa.array(found.sound))
        return self._shard.take_in(admitted._replace(events=sound, at=admitted.at[found.sound]))

    def take_bad(self) -> BadSoFar:
        """Events that have been left out since the last time, since they cannot be taken in."""
        taken, self._bad = self._bad, BadSoFar(0, [])
        return taken

    def _with_all_columns(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events logged when fewer columns were read: no query of that time misses the others."""
        for field in self._stream.schema:
            if field.name not in events.schema.names:
                events = events.append_column(field, pa.nulls(events.num_rows, field.type))
        return events

    def take_overflows(self) -> dict[str, int]:
        """How many rows of each query have been left out since the last time, since a value of them does not exist."""
        if self._told_overflows == self._shard.overflows:  # nearly always
            return {}
        self._told_overflows, before = self._shard.overflows, self._overflows_of
        self._overflows_of = self._count_overflows()
        told = {name: count - before.get(name, 0) for name, count in self._overflows_of.items()}
        return {name: count for name, count in told.items() if count}

    def _count_overflows(self) -> dict[str, int]:
        return {name: each.overflows for name, each in self._shard.registrations.items() if each.overflows}

    def take_came(self) -> dict[str, int]:
        """How many events, cells and bytes have come since the last time."""
        came, self._came = dict(self._came), Counter()
        return came

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
        # whoever gave the answers out has told of these
        self.take_overflows()
        self.take_bad()
        self.take_came()

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
        return pack(*self._described())

    def _described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        description, arrays = self._shard.snapshot()
        return description | {"tables": list(self.tables.rows)}, arrays | self.tables.snapshot()

    def restore(self, packed: bytes) -> None:
        """State from a snapshot, into a shard without queries."""
        with refusing("the state in this checkpoint"):
            self._take(*unpack(packed))

    def _take(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        tables = description.pop("tables", [])  # there were none before 0.2
        check_shape(tables, [str], "the names of tables")
        self.tables.restore(tables, arrays)
        queries = {name: self._parse(each["text"]) for name, each in description["registrations"].items()}
        owned = {
            name: array.copy() if isinstance(array, np.ndarray) else array for name, array in arrays.items()
        }
        self._shard.restore(description, owned, queries)
        self._overflows_of = self._count_overflows()

    def explain(self) -> str:
        """The plan of its queries."""
        return self._shard.explain()

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
            query = read_query(self._stream, text, self._parsed.templates, tables)
            if self._is_spread and isinstance(query, Query) and has_shares(query):
                query = share_of(query)
            if self._place[1] > 1 and isinstance(query, Query) and is_ranked(query):
                query = ranked_share(query)
            self._parsed[text] = query
        return self._parsed[text]


class Parsed(dict[str, Query | TableQuery]):
    """Queries by text that the shards of a route in one process share; gone with the last of these shards."""

    def __init__(self) -> None:
        self.templates = shared_templates()


_PARSED: WeakValueDictionary[tuple[str, str, str], Parsed] = (
    WeakValueDictionary()
)  # by job, route and columns
