"""What look-ups and joins over tables cost by step, in one process without a JVM."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import lookup_at, spark_joins, spark_lookup_at

TASKS = 4  # that read a table
SHARDS = 2
REQUESTS = 100  # events for each request
WINDOWS = [15, 30, 45, 60]  # seconds, of joins
_ROWS = 32_768  # of a batch that Spark sends to Python


def measure_tables(events: int) -> dict[str, float]:
    """CPU seconds per million events: to pack them, and to take them in and answer."""
    steps: dict[str, float] = {}
    for what, measure in (("look-ups", _lookups), ("joins", _joins)):
        measure(events // 4)  # kernels are loaded
        packing, answering, sent = measure(events)
        steps |= {
            f"{what}: pack": packing * 1e6 / events, f"{what}: answer": answering * 1e6 / events,
            f"{what}: bytes": sent * 1e6 / events,
        }  # fmt: skip
    return steps


def _lookups(events: int) -> tuple[float, float, int]:
    from muntin.spark.asking import pack_requests, plan_lookups
    from muntin.spark.pack import pack_events
    from muntin.spark.replay import run_requests
    from muntin.stream import Stream

    history, asked = lookup_at.make_events(events), lookup_at.make_requests(events // REQUESTS)
    features = lookup_at.features(spark_lookup_at.EXTREMES, spark_lookup_at.WINDOWS)
    stream = Stream("p", history.schema, "ts", 0)
    job = replace(plan_lookups(stream, features, asked.schema, shards=SHARDS, zone=None), is_table=True)
    history = history.select(job.reading.schema.names)

    def pack() -> list[pa.RecordBatch]:
        packed = [
            row for origin, some in enumerate(_tasks(history)) for row in pack_events(job, some, origin)
        ]
        return [*packed, *pack_requests(job, asked.to_batches(), TASKS)]

    return _timed(pack, lambda rows: run_requests(job, rows), events // REQUESTS)


def _joins(events: int) -> tuple[float, float, int]:
    from muntin.spark.join_flow import run_join_table
    from muntin.spark.join_job import plan_joins
    from muntin.spark.join_pack import pack_stream
    from muntin.stream import Stream

    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64())])
    streams = [Stream(name, schema, "ts", 1_000_000) for name in "ab"]
    zones = {"a.ts": None, "b.ts": None}
    job = plan_joins(streams, spark_joins.queries(WINDOWS), shards=SHARDS, zones=zones)
    tables = {name: _side(seed, events // 2) for seed, name in enumerate("ab")}

    def pack() -> list[pa.RecordBatch]:
        tasks = [(name, some) for name, table in tables.items() for some in _tasks(table)]
        return [
            row for origin, (name, some) in enumerate(tasks) for row in pack_stream(name, job, some, origin)
        ]

    return _timed(pack, lambda rows: run_join_table(job, rows), None)


def _side(seed: int, events: int) -> pa.Table:
    at, k, v = spark_joins.columns_of(np.random.default_rng(seed), events)
    return pa.table({"ts": pa.array(at, pa.timestamp("us")), "k": k, "v": v})


def _tasks(table: pa.Table) -> list[list[pa.RecordBatch]]:
    edges = [table.num_rows * each // TASKS for each in range(TASKS + 1)]
    return [table.slice(lo, hi - lo).to_batches(max_chunksize=_ROWS) for lo, hi in itertools.pairwise(edges)]


def _timed(
    pack: Callable[[], list[pa.RecordBatch]],
    run: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    answers: int | None,
) -> tuple[float, float, int]:
    """CPU seconds to pack and to answer, and bytes between; the rows are sorted as Spark's shuffle does it."""
    began = time.process_time()
    packed: Any = pa.Table.from_batches(pack())
    packing = time.process_time() - began
    order = [(name, "ascending") for name in ("shard", "start", "origin", "turn")]
    rows = packed.sort_by(order).to_batches(max_chunksize=100)
    began = time.process_time()
    found = sum(each["answers"][0].as_py() or 0 for each in run(rows))
    answering = time.process_time() - began
    assert found == answers if answers is not None else found
    return packing, answering, int(packed.nbytes)
