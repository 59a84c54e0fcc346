"""What each step of the Spark pipeline costs in CPU time, and what that means for more cores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result
from benchmarks.spark_steps import measure_spark
from benchmarks.spark_table_steps import REQUESTS, WINDOWS, measure_tables
from benchmarks.spark_workload import KEYS, RATE, SLIDE, queries

QUERIES = 1_000
SHARDS = 2
BATCH = 1_000_000  # events of a micro-batch
CORES = (2, 8, 32, 100)
SPAN = 5.0  # seconds of events in a micro-batch, on more cores
COLUMNS = [
    Column("what", "step, or cores"), Column("cost", "CPU seconds", ".4f"), Column("per", "per"),
    Column("rate", "events per second", ",.0f"), Column("limit", "what takes longest"),
    Column("next", "and next"),
]  # fmt: skip
NOTES = f"""\
Each step alone: {KEYS:,} keys, {RATE:,} events a second of event time, {QUERIES:,} queries with thresholds by the
minute, {SHARDS} shards, micro-batches of {BATCH:,} events. Reading is Spark's Parquet source up to a Python task that
throws the events away, in CPU of JVM and workers; a micro-batch and a partition are measured by streams of very few
events; all other steps run in one process without a JVM. *Look-ups* are 20 features over a table, with a request for
{REQUESTS} events; *joins* are {len(WINDOWS)} windows over two tables; all their events travel, since neither windows
without SLIDE nor pairs can be folded. Below, by arithmetic: the rate at which a micro-batch of
{SPAN:.0f} seconds' worth of events takes {SPAN:.0f} seconds if tasks read, fold and pack on all cores, then one
shard per core takes cells in and answers, and the driver adds its own work. The rate is that of a cluster whose
network and disks keep up."""


def run(quick: bool) -> Result:
    """Measure the steps, then compute what cores make of them."""
    costs = _measure(20 if quick else 30, 50 if quick else QUERIES)
    costs |= measure_spark(1 if quick else 8)
    costs |= measure_tables(200_000 if quick else 5_000_000)
    rows: list[dict[str, Any]] = [
        {"what": "read, and send to Python", "cost": costs["read"], "per": "million events"},
        {"what": "pack and fold", "cost": costs["pack"], "per": "million events"},
        {"what": "bytes that travel", "cost": None, "per": f"{costs['bytes']:,.0f} bytes per million events"},
        {"what": "take in cells", "cost": costs["merge"], "per": "million cells"},
        {"what": "answer", "cost": costs["answer"], "per": "thousand queries, shard and instant"},
        {"what": "restore", "cost": costs["restore"], "per": "shard"},
        {"what": "a micro-batch", "cost": costs["driver"], "per": "by the clock, with one partition"},
        {"what": "a partition", "cost": costs["partition"], "per": "micro-batch"},
    ]
    for what in ("look-ups", "joins"):
        rows += [
            {"what": f"{what}: pack events", "cost": costs[f"{what}: pack"], "per": "million events"},
            {"what": f"{what}: bytes that travel", "cost": None,
             "per": f"{costs[f'{what}: bytes']:,.0f} bytes per million events"},
            {"what": f"{what}: take in and answer", "cost": costs[f"{what}: answer"], "per": "million events"},
        ]  # fmt: skip
    return Result(
        "spark_costs", "What the steps on Spark cost", " ".join(NOTES.split()), COLUMNS,
        rows + [_scaled(cores, costs) for cores in CORES], {"queries": QUERIES, "shards": SHARDS},
    )  # fmt: skip


def _measure(turns: int, count: int) -> dict[str, float]:
    from muntin.spark.pack import pack_events
    from muntin.spark.plan_job import plan_job
    from muntin.spark.shard import SparkShard
    from muntin.stream import Stream

    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("x", pa.float64())])
    job = plan_job(Stream("t", schema, "ts", 1_000_000), queries(count), shards=SHARDS)
    (route,) = job.routes
    shards = {each: SparkShard(job, route, bucket) for bucket, each in enumerate(route.ids)}
    for shard in shards.values():
        shard.register(route.queries)
    spent: dict[str, list[float]] = {"pack": [], "merge": [], "answer": []}
    cells = bytes_sent = 0
    for turn in range(turns):
        events = _events(turn)
        began = time.process_time()
        packed = [
            row for batch in pack_events(job, events.to_batches(131_072), 0) for row in batch.to_pylist()
        ]
        spent["pack"].append(time.process_time() - began)
        bytes_sent = sum(len(row["data"]) for row in packed if row["data"])
        cells = 0
        for number, shard in shards.items():
            data = [(row["kind"], row["data"]) for row in packed if row["shard"] == number and row["data"]]
            began = time.process_time()
            shard.insert(data)
            spent["merge"].append(time.process_time() - began)
            before, greatest = _instants(turn), (turn + 1) * BATCH * 1_000_000 // RATE
            began = time.process_time()
            for _ in shard.advance(greatest):
                pass
            if _instants(turn + 1) > before and turn > turns // 2:
                spent["answer"].append(time.process_time() - began)
            cells += _cells(data)
    snapshot = next(iter(shards.values())).snapshot()
    fresh = SparkShard(job, route, 0)
    began = time.process_time()
    fresh.restore(snapshot)
    late = turns // 3
    merged = float(np.median(spent["merge"][late:])) * SHARDS
    return {
        "pack": float(np.median(spent["pack"][late:])) * 1e6 / BATCH,
        "bytes": bytes_sent * 1e6 / BATCH,
        "merge": merged * 1e6 / cells,
        "answer": float(np.median(spent["answer"])) * 1_000 / count,
        "restore": time.process_time() - began,
    }


def _instants(turn: int) -> int:
    """Windows that have closed after so many micro-batches."""
    return (turn * BATCH * 1_000_000 // RATE - 1_000_000) // (SLIDE * 1_000_000)


def _cells(data: list[tuple[str, bytes]]) -> int:
    from muntin.store.saved import unpack

    return sum(len(unpack(each)[1]["0 at"]) for kind, each in data if kind == "cells")


def _events(turn: int) -> pa.Table:
    random = np.random.default_rng(turn)
    at = (turn * BATCH + np.arange(BATCH)) * (1_000_000 // RATE)
    names = pa.array([f"SYM{number:05}" for number in range(KEYS)])
    return pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us")),
            "k": names.take(pa.array(random.integers(0, KEYS, BATCH))),
            "x": random.exponential(size=BATCH),
        }
    )


def _scaled(cores: int, costs: Mapping[str, float]) -> dict[str, Any]:
    """The rate at which a micro-batch of some seconds of events takes as long, and the steps that take most of it."""
    cells = cores * KEYS  # each task sends a cell per key and slice
    taken = {
        "taking in cells": cells / 1e6 * costs["merge"] / cores,
        "answers": costs["answer"] * QUERIES / 1_000 * SPAN / SLIDE,
        "partitions": costs["partition"],  # one per core, side by side
        "the driver": costs["driver"],
    }
    left = max(SPAN - sum(taken.values()), 0.0)
    work = (costs["read"] + costs["pack"]) / 1e6
    taken |= {
        "reading": left * costs["read"] / 1e6 / work,
        "packing": left * costs["pack"] / 1e6 / work,
    }
    first, second = sorted(taken, key=taken.__getitem__, reverse=True)[:2]
    return {
        "what": f"{cores} cores", "rate": cores * left / SPAN / work,
        "limit": f"{first}, {taken[first] / SPAN:.0%}", "next": f"{second}, {taken[second] / SPAN:.0%}",
    }  # fmt: skip
