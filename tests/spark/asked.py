"""Requests and events on the shards of a job in this process, without a JVM: as tables, and as micro-batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from shards import Shards

import muntin
from answers import is_close
from casefile import Push
from muntin.spark import ledger, pack, replay
from muntin.spark.asking import pack_requests, plan_lookups
from muntin.spark.job import Job
from muntin.spark.pack import PACKED, pack_events
from muntin.spark.replay import run_requests
from muntin.spark.wide_rows import widen
from muntin.stream import Stream
from queries import random_question
from requests_at import keyed_question, random_requests
from runtimes import as_table
from scenario import SeededDice, random_case

Tasks = Sequence[Iterable[pa.RecordBatch]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Some rows are many."""
    for module, name, value in (
        (pack, "_MOST_CELLS", 8), (pack, "MOST_EVENTS", 6), (pack, "_AT_ONCE", 4), (replay, "_HELD", 2_000),
        (replay, "_GIVEN", 5), (ledger, "_FEW", 3),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without a value
        yield


class AskedShards(Shards):
    """Streams of events and of requests; `options` are those of `plan_lookups`, with the `schema` of the requests."""

    def configure(self, queries: str | Mapping[str, str]) -> None:
        options = {name: value for name, value in self.options.items() if name != "schema"}
        self.job: Job = plan_lookups(self.stream, queries, self.options["schema"], **options)

    def ask(self, events: Tasks, requests: Tasks) -> pa.Table:
        """One micro-batch: the requests that are answered now."""
        return self.answered(self.packed(events) + packed_requests(self.job, requests))

    def answered(self, packed: Sequence[pa.RecordBatch]) -> pa.Table:
        return _table(self.job, [self.emitted(packed)])

    def deliver(self, packed: Sequence[pa.RecordBatch]) -> dict[str, pa.Table]:
        return {"": self.answered(packed)}


def packed_requests(job: Job, tasks: Tasks) -> list[pa.RecordBatch]:
    return [batch for origin, some in enumerate(tasks) for batch in pack_requests(job, some, origin)]


def answered_table(job: Job, events: Tasks, requests: Tasks) -> pa.Table:
    """What tables of events and requests give, read by tasks: all rows."""
    job = replace(job, is_table=True)
    packed = [batch for origin, some in enumerate(events) for batch in pack_events(job, some, origin)]
    rows = pa.Table.from_batches([*packed, *packed_requests(job, requests)], PACKED)
    rows = rows.sort_by([(name, "ascending") for name in ("shard", "start", "origin", "turn")])
    return _table(job, list(run_requests(job, rows.to_batches(max_chunksize=3))), is_sorted=True)


def _table(job: Job, emitted: Sequence[pa.RecordBatch], is_sorted: bool = False) -> pa.Table:
    assert job.asking is not None
    if is_sorted and emitted:
        emitted = pa.Table.from_batches(emitted).sort_by("query").to_batches()
    wide = [pa.Table.from_batches([each]) for each in widen(job, emitted, is_sorted)]
    return pa.concat_tables([job.asking.wide.empty_table(), *wide])


def in_tasks(table: pa.Table, many: int) -> list[list[pa.RecordBatch]]:
    """Rows that follow one another in each of some tasks."""
    edges = [table.num_rows * place // many for place in range(many + 1)]
    return [table.slice(lo, hi - lo).to_batches() for lo, hi in pairwise(edges)]


def scattered(table: pa.Table, many: int, seed: int) -> list[list[pa.RecordBatch]]:
    """Rows in any order, in some tasks."""
    return in_tasks(table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows))), many)


def stream_of(create: str) -> Stream:
    """The stream that a statement declares."""
    engine = muntin.Engine()
    engine.execute(create)
    (stream,) = engine.streams.values()
    return stream


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """In order of their labels, which are numbers."""
    return table.sort_by("label").to_pylist()


class Scene:
    """A random stream in order within its delay, queries, requests, and what the embedded engine answers."""

    def __init__(self, seed: int, is_distinct: bool = False):
        self.dice = dice = SeededDice(seed)
        case = random_case(dice, f"scene {seed}", 40, 4, keyed_question if seed % 3 else random_question)
        self.create = case.streams[0]
        self.stream = stream_of(self.create)
        self.queries = {each.name: each.sql for each in case.steps[:4] if hasattr(each, "sql")}
        batches = [each.batch for each in case.steps if isinstance(each, Push)]
        empty = self.stream.schema.empty_table()
        tables = [as_table(each, self.stream).select(empty.schema.names) for each in batches]
        self.events = pa.concat_tables([empty, *tables])
        at = np.asarray(self.events["ts"].cast(pa.int64()))
        if len(at):
            kept = at >= np.maximum.accumulate(at) - self.stream.delay
            if is_distinct:
                first = np.zeros(len(at), np.bool_)
                first[np.unique(at, return_index=True)[1]] = True
                kept &= first
            self.events = self.events.filter(pa.array(kept))
        self.times = self.events["ts"].cast(pa.int64()).to_pylist() or [0]
        self.requests = random_requests(dice, self.times, dice.pick((1, 12, 40)))
        self.fold = dice.chance(70)
        self.shards = dice.whole(1, 5)

    def expected(self) -> list[dict[str, Any]]:
        engine_rows = muntin.lookup_at(self.events, self.queries, self.requests, stream=self.create)
        return rows_of(engine_rows)

    def options(self) -> dict[str, Any]:
        return {"fold": self.fold, "shards": self.shards, "zone": None}


def compare(expected: dict[str, Any], got: dict[str, Any], told: Any) -> None:
    assert list(got) == list(expected)
    for name, value in expected.items():
        assert is_close(value, got[name]), f"{name}: {got[name]} instead of {value}\n{got}\n{told}"


def cut(table: pa.Table, many: int) -> list[pa.Table]:
    edges = [table.num_rows * place // many for place in range(many + 1)]
    return [table.slice(lo, hi - lo) for lo, hi in pairwise(edges)]


# Made by hand: a small stream of whole microseconds.

CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, j BIGINT, v BIGINT) TIMESTAMP BY ts DELAY 2 MICROSECONDS"
SUMS = "SELECT k, SUM(v) AS total, COUNT(*) AS many FROM s [RANGE 4 MICROSECONDS] GROUP BY k"
MANY = {
    "sums": SUMS,
    "whole": "SELECT COUNT(*) AS many FROM s [RANGE 6 MICROSECONDS SLIDE 3 MICROSECONDS]",
    "named": "SELECT k AS who, LAST(v) AS v FROM s [ROWS 1] GROUP BY k",
}


def batch(**columns: Any) -> pa.Table:
    kinds = {"ts": pa.timestamp("us"), "at": pa.timestamp("us"), "k": pa.string(), "who": pa.string()}
    return pa.table({name: pa.array(some, kinds.get(name, pa.int64())) for name, some in columns.items()})


def some_events(*at: int, key: str = "a") -> pa.Table:
    return batch(ts=at, k=[key] * len(at), j=at, v=[1] * len(at))


def requests(*at: int, key: str | None = "a", first: int = 0) -> pa.Table:
    return batch(k=[key] * len(at), who=[key] * len(at), at=at, label=range(first, first + len(at)))


def asked_shards(queries: Any, delay: int = 0, **options: Any) -> AskedShards:
    return AskedShards(stream_of(CREATE), queries, schema=requests().schema, delay=delay, **options)


def ask(shards: AskedShards, events: pa.Table | None, given: pa.Table | None) -> list[dict[str, Any]]:
    tasks = [[] if each is None else [each.to_batches()] for each in (events, given)]
    return rows_of(shards.ask(*tasks))
