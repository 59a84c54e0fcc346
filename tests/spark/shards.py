"""All shards of a job in this process: packing, state and answers as on Spark, without a JVM.

`TwsTester` holds the state; losing an attempt, or a worker's memory, is a call.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from muntin.arrays import LONG_AGO
from muntin.shard.record_batch import to_record_batch
from muntin.spark.answers import EMITTED_SCHEMA, unpack_answers
from muntin.spark.changes import pack_changes
from muntin.spark.control import pack_statements
from muntin.spark.job import Job
from muntin.spark.ledger import Head, parse_head
from muntin.spark.loaded_tables import pack_loads
from muntin.spark.pack import PACKED, pack_events
from muntin.spark.plan_job import plan_job
from muntin.spark.processor import CACHE, stateful_step
from muntin.spark.shard import SparkShard
from muntin.stream import Stream
from muntin.tables.keyed_rows import keyed_rows


class Shards:
    """`options` are those of `plan_job`."""

    def __init__(self, stream: Stream, queries: Mapping[str, str], **options: Any):
        self.stream = stream
        self.options = {"zone": None, **options}
        self.late = self.ahead = self.overflows = self.bad = 0
        self.refused: list[str] = []
        self.batch = 0  # micro-batches so far
        self.reports: list[str] = []
        self.configure(queries)
        self.tester = TwsTester(stateful_step(self.job))

    def configure(self, queries: Mapping[str, str]) -> None:
        """The job as it is planned when the query starts, or starts again."""
        self.job: Job = plan_job(self.stream, queries, **self.options)

    def restart(self, queries: Mapping[str, str] | None = None, is_warm: bool = False) -> None:
        """Go on from the state alone, perhaps with other queries; or with workers that live on, as in one session."""
        if not is_warm:
            CACHE.clear()
        if queries is not None:
            self.configure(queries)
        self.tester.processor = stateful_step(self.job)
        self.tester.processor.init(self.tester.handle)

    def send(self, tasks: Sequence[Iterable[pa.RecordBatch]], wall: int | None = None) -> dict[str, pa.Table]:
        """One micro-batch, read by several tasks; the answers by query."""
        return self.deliver(self.packed(tasks, wall))

    def packed(
        self, tasks: Sequence[Iterable[pa.RecordBatch]], wall: int | None = None
    ) -> list[pa.RecordBatch]:
        """What tasks make of events, for `deliver`."""
        return [
            batch
            for origin, some in enumerate(tasks)
            for batch in pack_events(self.job, some, origin, wall, self.batch)
        ]

    def tell(self, *statements: str) -> dict[str, pa.Table]:
        """A micro-batch of statements alone; refusals are kept in `refused`."""
        return self.tell_in_tasks([pa.record_batch({"statement": list(statements)})])

    def tell_in_tasks(self, tasks: Sequence[pa.RecordBatch]) -> dict[str, pa.Table]:
        """The same, read by several tasks; columns after the first tell the place of each statement."""
        return self.deliver(self.packed_statements(tasks))

    def packed_statements(self, tasks: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """What tasks make of statements, for `deliver`."""
        return [
            each for origin, batch in enumerate(tasks) for each in pack_statements(self.job, [batch], origin)
        ]

    def load(self, loaded: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """A micro-batch with all rows of tables."""
        rows = {
            name: keyed_rows(self.job.table(name), to_record_batch(self.job.table(name), table))
            for name, table in loaded.items()
        }
        return self.deliver(list(pack_loads(self.job, rows)))

    def change(
        self, name: str, tasks: Sequence[pa.RecordBatch], has_deleted: bool = True
    ) -> list[pa.RecordBatch]:
        """Changes of a table as tasks pack them, for `deliver`; columns after the last tell whether a row goes, and its
        place."""
        packed = (
            pack_changes(name, has_deleted, self.job, [batch], origin) for origin, batch in enumerate(tasks)
        )
        return [batch for some in packed for batch in some]

    def promise(self, greatest: int) -> dict[str, pa.Table]:
        """A micro-batch that brings nothing but time."""
        rows = [
            (each, LONG_AGO, 0, 1, "time", greatest, 0, None, 0, None, 0, None)
            for route in self.job.routes
            for each in route.ids
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        return self.deliver([pa.record_batch(columns, schema=PACKED)])

    def emitted(self, packed: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """What shards give out in a micro-batch of packed rows."""
        by_shard: dict[int, list[Row]] = {}
        for row in (row for batch in packed for row in batch.to_pylist()):
            by_shard.setdefault(row["shard"], []).append(Row(**row))
        emitted = [row for shard, rows in by_shard.items() for row in self.tester.test(shard, rows)]
        self.late += sum(row["late"] for row in emitted)
        self.overflows += sum(row["overflows"] for row in emitted)
        self.ahead += sum(row["ahead"] for row in emitted)
        self.bad += sum(row["bad"] for row in emitted)
        self.reports += [row["report"] for row in emitted if row["report"] is not None]
        return pa.RecordBatch.from_pylist([row.asDict() for row in emitted], schema=EMITTED_SCHEMA)

    def deliver(self, packed: Sequence[pa.RecordBatch]) -> dict[str, pa.Table]:
        answers = [pa.Table.from_batches([each]) for each in unpack_answers(self.job, [self.emitted(packed)])]
        table = pa.concat_tables(answers) if answers else self.job.answer_table.schema.empty_table()
        self.refused += [
            json.loads(row["rest"])["refused"] for row in table.to_pylist() if row["query"] is None
        ]
        self.last = table
        self.batch += 1
        return split(self.job, table)

    def lose_attempt(self, tasks: Sequence[Iterable[pa.RecordBatch]]) -> None:
        """A micro-batch whose state and answers are thrown away, though workers have seen it."""
        self.lose(self.packed(tasks))

    def lose(self, packed: Sequence[pa.RecordBatch]) -> None:
        """The same, of rows that are packed."""
        handle, before_it = self.tester.handle, (self.late, self.bad, list(self.refused), self.batch)
        kept = [
            {name: copy.deepcopy(each.state) for name, each in states.items()} for states in _states(handle)
        ]
        try:
            self.deliver(packed)
        finally:  # also if it fails
            for states, before in zip(_states(handle), kept, strict=True):
                for name, each in states.items():
                    each.state = before.get(name, {})
            self.late, self.bad, self.refused, self.batch = before_it

    def head(self, shard: int) -> Head | None:
        found = self.tester.peekValueState("head", shard)
        return None if found is None else parse_head(found[0])

    def of_route(self, route: str) -> list[SparkShard]:
        """Every shard of a route, rebuilt from its state."""
        found = []
        step: Any = stateful_step(self.job)
        step.init(self.tester.handle)
        CACHE.clear()
        for each in self.job.routes:
            for shard in each.ids if each.name == route else ():
                if head := self.head(shard):
                    self.tester.handle.setGroupingKey(shard)
                    found.append(step.processor()._find(head, each))
        return found


def split(job: Job, answers: pa.Table) -> dict[str, pa.Table]:
    """The table of all answers, by query, with the columns that each has embedded."""
    tables = {}
    for name, places in job.answer_table.places.items():
        mine = answers.filter(pa.compute.equal(answers["query"], name))
        if mine.num_rows:
            tables[name] = mine.select(list(places.values())).rename_columns(list(places))
    return tables


def _states(handle: Any) -> list[dict[str, Any]]:
    return [handle.value_states, handle.list_states, handle.map_states]
