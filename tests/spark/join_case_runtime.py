"""A case with joins on Spark's shards (join_shards.py), as case_runtime.py runs those over one stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from case_runtime import ended
from join_shards import JoinShards

from muntin.spark.join_answers import is_part, whole_join
from muntin.sql import parse_query
from muntin.stream import Stream
from reference import declared
from runtimes import Batch, Row, as_table


class SparkJoins:
    """`muntin.spark`, but for the JVM. All queries must be there before the first event is."""

    is_ordered = False

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.queries: dict[str, str] = {}
        self.held: list[tuple[str, pa.Table]] = []
        self.greatest: dict[str, int] = {}
        self.watermark: dict[str, int] = {}
        self.emitted: dict[str, list[Row]] = {}
        self.shards: JoinShards | None = None

    def create(self, sql: str) -> None:
        stream = declared(sql)
        self.streams[stream.name] = stream

    def register(self, name: str, sql: str) -> None:
        self.queries[name] = sql
        self._restart()

    def drop(self, name: str) -> None:
        del self.queries[name]
        self._restart()

    def _restart(self) -> None:
        self.settle()
        if self.shards is not None:
            self.shards.restart(self.queries)

    def checkpoint(self) -> None:
        self._restart()

    def push(self, stream: str, batch: Batch) -> None:
        self.held.append((stream, as_table(batch, self.streams[stream])))

    def settle(self) -> None:
        """Send what is held, cut before every event that is late."""
        if not self.held:
            return
        self.shards = self.shards or JoinShards(list(self.streams.values()), self.queries, shards=2)
        held, self.held = self.held, []
        for name, events in held:
            at = np.asarray(events[self.streams[name].time].combine_chunks().cast(pa.int64()))
            begin = 0
            for end in range(1, len(at) + 1):
                self.greatest[name] = max(self.greatest.get(name, int(at[end - 1])), int(at[end - 1]))
                reached = self.greatest[name] - self.streams[name].delay
                self.watermark[name] = max(self.watermark.get(name, reached), reached)
                if end == len(at) or at[end] < self.watermark[name]:
                    piece = events.slice(begin, end - begin).to_batches()
                    self._keep(self.shards.send([(name, piece)]))
                    begin = end

    def _keep(self, answers: dict[str, pa.Table]) -> None:
        for name, table in answers.items():
            if not parse_query(self.queries[name], self.streams).slide:
                self.emitted[name] = []  # an answer as of an instant takes the place of the one before
            self.emitted.setdefault(name, []).extend(table.to_pylist())

    def advance(self, until: int | None) -> dict[str, list[Row]]:
        self.settle()
        if until is not None and self.shards:
            self.watermark = {name: max(until, self.watermark.get(name, until)) for name in self.streams}
            reached = {name: at + self.streams[name].delay for name, at in self.watermark.items()}
            self._keep(self.shards.promise_all(reached))
        due: dict[str, list[Row]] = {}
        for name, rows in self.emitted.items():
            due[name] = [row for row in rows if until is None or ended(row, until)]
            self.emitted[name] = [row for row in rows if row not in due[name]]
        return due

    def lookup(self, name: str, keys: Sequence[Any] | None, at: int | None) -> list[Row]:
        self.settle()
        assert keys is None
        assert self.shards is not None
        instant = max(self.greatest.values()) + 1 if at is None else at
        route = next(each.name for each in self.shards.job.routes if name in each.queries)
        found = []
        for shard in self.shards.of_route(route):
            shard.check()
            found.append(shard.joins.lookup(name, at=instant))
        table = pa.concat_tables(found)
        return (whole_join(self.shards.job, table) if is_part(table) else table).to_pylist()

    def late(self, stream: str) -> int:
        self.settle()
        return self.shards.late if self.shards else 0
