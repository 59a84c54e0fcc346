"""The stateful step of joins: as for one stream (processor.py), but each stream has a time of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.described import WHOLE, Each
from muntin.spark.answer_table import Refusal
from muntin.spark.job import Job, Route
from muntin.spark.join_job import JoinJob
from muntin.spark.join_pack import TIME
from muntin.spark.join_shard import JoinShard
from muntin.spark.ledger import Head, Ledger, columns_in
from muntin.spark.processor import ShardProcessor


def processor_of(job: Job, ledger: Ledger) -> ShardProcessor:
    """Spark's side of the shards of a job."""
    return JoinProcessor(job, ledger) if isinstance(job, JoinJob) else ShardProcessor(job, ledger)


class JoinProcessor(ShardProcessor):
    """Spark's side of a shard of joins."""

    _ENTRY: Mapping[str, Any] = {
        "steps": [[str]],
        "reached": Each(WHOLE),  # by stream: its greatest event time
        "delays": Each(WHOLE),  # a replay must skip what was emitted by these, not by later ones
        "kinds": [str],
    }

    def __init__(self, job: JoinJob, ledger: Ledger):
        super().__init__(job, ledger)
        self._joins = job

    def _make(self, head: Head, route: Route) -> JoinShard:
        return JoinShard(self._joins, route, columns_in(head, self._joins, route))

    def _entry(
        self, head: Head, shard: Any, route: Route, rows: Sequence[dict[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any], list[Refusal]]:
        data = [row for row in rows if row["data"] is not None]
        steps = self._reconfigure(head, shard.queries, route)
        told, refusals = self._carry_out(head, route, data)
        steps += told
        reached = dict(head.reached)
        # how far a stream had come before it was set back does not count any more
        reached |= {step[2]: int(step[1]) for step in steps if step[0] == "rewind"}
        for row in rows:
            if row["greatest"] is not None and row["kind"].startswith(TIME):
                stream = row["kind"].removeprefix(TIME)
                reached[stream] = max(reached.get(stream, row["greatest"]), row["greatest"])
        packed = [(row["kind"], row["data"]) for row in data if row["kind"] != "statement"]
        description = {
            "steps": steps,
            "reached": reached,
            "delays": self._joins.delays,
            "kinds": [kind for kind, _ in packed],
        }
        arrays = {str(i): np.frombuffer(each, np.uint8) for i, (_, each) in enumerate(packed)}
        return description, arrays, refusals

    def _counts(self, route: Route) -> bool:
        return True  # of the streams that no route before it reads (`JoinJob.counted`)

    def _watermarks(self, head: Head) -> dict[str, int | None]:
        return {
            name: head.reached[name] - delay if name in head.reached else None
            for name, delay in self._joins.delays.items()
        }

    def _prepare(
        self, shard: Any, description: dict[str, Any], packed: list[tuple[str, bytes]], is_replay: bool
    ) -> list[tuple[str, bytes]]:
        return packed

    def _pass_time(
        self, shard: Any, head: Head, description: dict[str, Any], is_replay: bool
    ) -> Iterator[Mapping[str, pa.Table]]:
        head.reached = description["reached"]
        head.greatest = max(head.reached.values(), default=None)
        if not is_replay:
            return iter(shard.advance(head.reached))
        shard.skip(head.reached, description["delays"])
        return iter([{}])
