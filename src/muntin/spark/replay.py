"""Replay: tables of events and of requests, shard by shard, from the beginning of time to its end.

As engine/replay.py does it, with rows that tasks have packed: some are taken in, then the requests are answered that
lie before all others, and what no later one can reach is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from muntin.spark.answers import EMITTED_SCHEMA, emitted_rows
from muntin.spark.asking import ASKED, REQUESTS
from muntin.spark.job import Job
from muntin.spark.request_shard import RequestShard

_HELD = 1 << 24  # bytes of rows taken in together
_GIVEN = 1 << 16  # answers given out together


def run_requests(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers of the shards whose rows come here, shard by shard and in order of `start`.

    State is bounded by the windows, not by the table: when some rows have been taken in, every request is answered
    that lies before the next one starts, and what later ones do not need is forgotten. No event of a table is late.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, some in groupby(rows, key=lambda row: row["shard"]):
        if number == Job.ID:
            continue  # a table has no state
        route, bucket = job.route_of(number)
        shard = RequestShard(job, route, bucket)
        shard.register(route.queries)
        for answers in _gathered(_replay(shard, some)):
            overflows = sum(shard.take_overflows().values())
            told: dict[str, Any] = {"greatest": None, "state_bytes": 0, "overflows": overflows}
            for row in emitted_rows(job, number, answers, [], **told):
                yield pa.record_batch([[cell] for cell in row], schema=EMITTED_SCHEMA)


def _replay(shard: RequestShard, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, pa.Table]]:
    held: list[tuple[str, bytes]] = []
    size = 0
    for row in rows:
        if row["kind"] in ("counted", ASKED) or row["data"] is None:
            continue
        if size > _HELD:
            shard.insert(held)
            held, size = [], 0
            yield shard.pass_by(row["start"])
            shard.forget_before(row["start"])
        held.append((row["kind"], row["data"]))
        size += 0 if row["kind"] == REQUESTS else len(row["data"])
    shard.insert(held)
    if (last := shard.last_instant) is not None:
        yield shard.pass_by(last)


def _gathered(answers: Iterable[dict[str, pa.Table]]) -> Iterator[dict[str, pa.Table]]:
    """The same in larger parts: each has a fixed cost on its way."""
    held: dict[str, list[pa.Table]] = {}
    size = 0
    for some in answers:
        for tag, table in some.items():
            held.setdefault(tag, []).append(table)
            size += table.num_rows
        if size >= _GIVEN:
            yield {tag: pa.concat_tables(parts) for tag, parts in held.items()}
            held, size = {}, 0
    if held:
        yield {tag: pa.concat_tables(parts) for tag, parts in held.items()}
