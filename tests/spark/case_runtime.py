"""A case on Spark's shards (shards.py): every step that Spark has, and look-ups into the state it keeps.

Spark emits when a micro-batch ends, not when it is asked to, so answers are held until the case asks. What
the case pushes is cut where an event is late by those before it: on Spark time moves between micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from shards import Shards

from muntin.spark.job import key_query
from muntin.spark.ranked import is_ranked, lookup_ranked
from muntin.sql import parse_query
from muntin.stream import Stream
from reference import declared, microseconds
from runtimes import Batch, Row, as_table


class SparkShards:
    """`muntin.spark`, but for the JVM."""

    is_ordered = False

    def __init__(self) -> None:
        self.streams: dict[str, _Running] = {}
        self.stream_of: dict[str, str] = {}

    def create(self, sql: str) -> None:
        stream = declared(sql)
        self.streams[stream.name] = _Running(stream)

    def register(self, name: str, sql: str) -> None:
        stream = next(each for each in self.streams.values() if each.owns(sql))
        self.stream_of[name] = stream.stream.name
        stream.register(name, sql)

    def push(self, stream: str, batch: Batch) -> None:
        running = self.streams[stream]
        running.held.append(as_table(batch, running.stream))

    def lookup(self, name: str, keys: Sequence[Any] | None, at: int | None) -> list[Row]:
        return self.streams[self.stream_of[name]].lookup(name, keys, at)

    def advance(self, until: int | None) -> dict[str, list[Row]]:
        return {name: rows for each in self.streams.values() for name, rows in each.advance(until).items()}

    def drop(self, name: str) -> None:
        self.streams[self.stream_of.pop(name)].drop(name)

    def checkpoint(self) -> None:
        for each in self.streams.values():
            each.settle()
            if each.shards:
                each.shards.restart()

    def late(self, stream: str) -> int:
        self.streams[stream].settle()
        shards = self.streams[stream].shards
        return shards.late if shards else 0


# the routes of every case: what a job cannot add later must be there from the start
_KEYS = ("", "k", "k, n % 2", "a, b", "b, a", "symbol", "amount", "SPLIT_PART(path, '/', 2)")


class _Running:
    def __init__(self, stream: Stream):
        self.stream = stream
        self.queries: dict[str, str] = {}
        self.held: list[pa.Table] = []
        self.emitted: dict[str, list[Row]] = {}
        self.greatest: int | None = None
        self.watermark: int | None = None
        self.shards: Shards | None = None

    def owns(self, sql: str) -> bool:
        try:
            parse_query(sql, {self.stream.name: self.stream})
        except Exception:
            return False
        return True

    def register(self, name: str, sql: str) -> None:
        self.settle()
        self.queries[name] = sql
        self._configure()

    def drop(self, name: str) -> None:
        self.settle()
        del self.queries[name]
        self._configure()

    def _configure(self) -> None:
        if self.shards is None:
            keys = [each for each in _KEYS if self.owns(key_query(self.stream, each))]
            self.shards = Shards(self.stream, self.queries, keys=keys, shards=2)
        else:
            self.shards.restart(self.queries)

    def settle(self) -> None:
        """Send what is held, cut before every event that is late."""
        if not self.held:
            return
        if self.shards is None:
            self._configure()
        assert self.shards is not None
        events = pa.concat_tables(self.held).combine_chunks()
        self.held = []
        at = np.asarray(events[self.stream.time].cast(pa.int64()))
        begin = 0
        for end in range(1, len(at) + 1):
            self.greatest = (
                int(at[end - 1]) if self.greatest is None else max(self.greatest, int(at[end - 1]))
            )
            self.watermark = max(self.greatest - self.stream.delay, self.watermark or -(2**62))
            if end == len(at) or at[end] < self.watermark:
                self._keep(self.shards.send([events.slice(begin, end - begin).to_batches()]))
                begin = end

    def _keep(self, answers: dict[str, pa.Table]) -> None:
        for name, table in answers.items():
            query = parse_query(self.queries[name], {self.stream.name: self.stream})
            if not query.slide and not query.moves_by_events:
                self.emitted[name] = []  # an answer as of an instant takes the place of the one before
            self.emitted.setdefault(name, []).extend(table.to_pylist())

    def advance(self, until: int | None) -> dict[str, list[Row]]:
        self.settle()
        if until is not None and self.shards and until > (self.watermark or -(2**62)):
            self.watermark = until
            self._keep(self.shards.promise(until + self.stream.delay))
        due: dict[str, list[Row]] = {}
        for name, rows in self.emitted.items():
            due[name] = [row for row in rows if until is None or ended(row, until)]
            self.emitted[name] = [row for row in rows if row not in due[name]]
        return due

    def lookup(self, name: str, keys: Sequence[Any] | None, at: int | None) -> list[Row]:
        self.settle()
        assert self.shards is not None
        query = parse_query(self.queries[name], {self.stream.name: self.stream})
        instant = at if at is not None or self.greatest is None else self.greatest + 1
        route = ", ".join(map(str, query.key_expressions))
        found: list[Row] = []
        shards = self.shards.of_route(route)
        if not shards:  # no micro-batch yet
            self._keep(self.shards.send([[]]))
            shards = self.shards.of_route(route)
        for each in shards:
            each.check()
        if is_ranked(query):
            asked = None if keys is None else list(keys)
            return lookup_ranked([each.shard for each in shards], query, name, asked, instant).to_pylist()
        for each in shards:
            found += each._shard.lookup(name, None if keys is None else list(keys), instant).to_pylist()
        return found


def ended(row: Row, until: int) -> bool:
    return row["window_end"] is None or microseconds(row["window_end"]) <= until
