"""A table at once: the shards of a batch DataFrame, each fed in order of time and emptied as it goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from muntin.spark.answers import EMITTED_SCHEMA, emitted_rows
from muntin.spark.job import Job
from muntin.spark.shard import SparkShard

# bytes of rows taken in together: a thousand queries are cheaper to answer at several instants at once
_HELD = 1 << 23


def run_table(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers of the shards whose rows come here, shard by shard and in order of `start`.

    State is bounded by the windows, not by the table: when some rows of data have been taken in, every window
    that ends before the next one starts is emitted.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    for shard, some in groupby(rows, key=lambda row: row["shard"]):
        if shard == Job.ID:
            continue  # a table has no state
        route, _ = job.route_of(shard)
        operator = SparkShard(job, route)
        operator.register(route.queries)
        told: dict[str, Any] = {"events": 0, "late": 0, "greatest": None, "state_bytes": 0}
        for answers in _run_shard(job, operator, some, told):
            told["overflows"] = operator.take_overflows()
            for row in emitted_rows(job, shard, answers, [], **told):
                yield pa.record_batch([[cell] for cell in row], schema=EMITTED_SCHEMA)
            told["events"] = told["state_bytes"] = 0


def _run_shard(
    job: Job, operator: SparkShard, rows: Iterable[dict[str, Any]], told: dict[str, Any]
) -> Iterator[dict[str, pa.Table]]:
    """Rows that only tell the time come first, so that the end is known before the beginning."""
    # a query without SLIDE answers once, as of the end: there must be no instant in between
    goes_on = all(query.slide or query.moves_by_rows for query in operator.parsed_queries.values())
    greatest: int | None = None
    held: list[tuple[str, bytes]] = []
    size = 0
    for row in rows:
        told["events"] += row["events"]
        if row["kind"] == "counted":
            continue  # no event of a table is late
        if row["data"] is None:
            seen = row["greatest"]
            greatest = greatest if seen is None else seen if greatest is None else max(greatest, seen)
            continue
        assert greatest is not None
        if size > _HELD:
            operator.insert(held)
            held, size = [], 0
            if goes_on:
                yield from filter(None, operator.advance_to(min(row["start"], greatest - job.stream.delay)))
        held.append((row["kind"], row["data"]))
        size += len(row["data"])
    operator.insert(held)
    told["greatest"], told["state_bytes"] = greatest, operator.nbytes()
    if greatest is None:
        return
    yield from operator.advance(greatest)
    if job.flush:
        yield from operator.flush(greatest)
