"""A table from its beginning to its end: rows of a shard in order of time, and the answers of each window once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from muntin.spark.answer_table import Refusal
from muntin.spark.answers import EMITTED_SCHEMA, emitted_rows
from muntin.spark.bad_events import BAD, from_bytes
from muntin.spark.job import Job, Route, source_of
from muntin.spark.loaded_tables import LOAD
from muntin.spark.pack import read_batch
from muntin.spark.shard import SparkShard

# bytes of rows taken in together: a thousand queries are cheaper to answer at several instants at once
_HELD = 1 << 23


def run_table(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers of the shards whose rows come here, shard by shard and in order of `start`.

    State is bounded by the windows, not by the table: when some rows of data have been taken in, every window
    that ends before the next one starts is emitted.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, some in groupby(rows, key=lambda row: row["shard"]):
        if number == Job.ID:
            continue  # a table has no state
        route, bucket = job.route_of(number)
        shard = SparkShard(job, route, bucket)
        shard.register(route.queries)
        told: dict[str, Any] = {"events": 0, "late": 0, "bad": 0, "greatest": None, "state_bytes": 0}
        refused: list[Refusal] = []
        for answers in _run_shard(job, route, shard, some, told, refused):
            told["overflows"] = sum(shard.take_overflows().values())
            bad = shard.take_bad()
            told["bad"] += bad.events
            _warn_of_bad(route, told["bad"])
            for row in emitted_rows(job, number, answers, [*refused, *bad.told], **told):
                yield pa.record_batch([[cell] for cell in row], schema=EMITTED_SCHEMA)
            told["events"] = told["state_bytes"] = told["bad"] = 0
            refused.clear()


def _warn_of_bad(route: Route, count: int) -> None:
    if count:
        warnings.warn(
            f"{count:,} bad events are left out of the queries by '{route.keys}'",
            RuntimeWarning,
            stacklevel=2,
        )


def _run_shard(
    job: Job, route: Route, shard: SparkShard, rows: Iterable[dict[str, Any]], told: dict[str, Any],
    refused: list[Refusal],
) -> Iterator[dict[str, pa.Table]]:  # fmt: skip
    """Rows that only tell the time come first, so that the end is known before the beginning."""
    # a query without SLIDE answers once, as of the end: there must be no instant in between
    queries = map(source_of, shard.parsed_queries.values())
    goes_on = all(query.slide or query.moves_by_events for query in queries)
    greatest: int | None = None
    held: list[tuple[str, bytes]] = []
    size = 0
    for row in rows:
        told["events"] += row["events"]
        told["bad"] += row["bad"]
        if row["kind"] == BAD:
            refused += from_bytes(row["data"])
            continue
        if row["kind"] == "counted":
            continue  # no event of a table is late
        if row["kind"].startswith(LOAD):
            shard.tables.load(row["kind"].removeprefix(LOAD), read_batch(row["data"]))
            continue
        if row["least"] is not None and route.held:
            shard.begin(row["least"])
        if row["data"] is None:
            seen = row["greatest"]
            greatest = greatest if seen is None else seen if greatest is None else max(greatest, seen)
            continue
        assert greatest is not None
        if size > _HELD:
            shard.insert(held)
            held, size = [], 0
            if goes_on:
                yield from filter(None, shard.advance_to(min(row["start"], greatest - job.stream.delay)))
        held.append((row["kind"], row["data"]))
        size += len(row["data"])
    shard.insert(held)
    told["greatest"], told["state_bytes"] = greatest, shard.nbytes()
    if greatest is None:
        if told["bad"]:
            yield {}  # somebody has to tell of them
        return
    yield from shard.advance(greatest)
    if job.flush:
        yield from shard.flush(greatest)
