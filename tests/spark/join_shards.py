"""All shards of a job of joins in this process, as `Shards` has those of one stream (shards.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from shards import Shards, split

from muntin.arrays import LONG_AGO
from muntin.spark.answers import unpack_answers
from muntin.spark.join_flow import run_join_table
from muntin.spark.join_job import JoinJob, plan_joins
from muntin.spark.join_pack import TIME, pack_stream
from muntin.spark.pack import packed_rows
from muntin.stream import Stream

Tasks = Sequence[tuple[str, Iterable[pa.RecordBatch]]]  # the stream that each one reads, and what it reads


class JoinShards(Shards):
    """`options` are those of `plan_joins`."""

    job: JoinJob

    def __init__(self, streams: Sequence[Stream], queries: Mapping[str, str], **options: Any):
        self.streams = streams
        super().__init__(streams[0], queries, **options)

    def configure(self, queries: Mapping[str, str]) -> None:
        options = {name: given for name, given in self.options.items() if name != "zone"}
        zones = {f"{each.name}.{each.time}": None for each in self.streams}
        self.job = plan_joins(self.streams, queries, zones=zones, **options)

    def packed(self, tasks: Any, wall: int | None = None) -> list[pa.RecordBatch]:
        return [
            batch
            for origin, (stream, some) in enumerate(tasks)
            for batch in pack_stream(stream, self.job, some, origin, wall)
        ]

    def promise_all(self, greatest: Mapping[str, int]) -> dict[str, pa.Table]:
        """A micro-batch that brings nothing but time, by stream."""
        ids = [each for route in self.job.routes for each in route.ids]
        return self.deliver(
            [
                packed_rows(0, turn, [(each, LONG_AGO, TIME + name, at, 0, None) for each in ids])
                for turn, (name, at) in enumerate(greatest.items())
            ]
        )

    def run_as_table(self, tasks: Tasks) -> dict[str, pa.Table]:
        """The answers of a table of all that the tasks read."""
        rows = pa.Table.from_batches(self.packed(tasks)).sort_by(
            [(name, "ascending") for name in ("shard", "start", "origin", "turn")]
        )
        emitted = pa.Table.from_batches(run_join_table(self.job, rows.to_batches()))
        emitted = emitted.sort_by([("query", "ascending"), ("window_end", "ascending")])
        answers = list(unpack_answers(self.job, emitted.to_batches(max_chunksize=3), is_sorted=True))
        return split(self.job, pa.Table.from_batches(answers, self.job.answer_table.schema))
