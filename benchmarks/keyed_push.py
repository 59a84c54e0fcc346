"""Events per second pushed per key: integer and text keys, ten thousand and a million of them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import RUNS, Column, Result, measure_side_by_side
from muntin.kernels.fold import count_cells, fold_ints
from muntin.kernels.slices import append_cells
from muntin.keys.key_dictionary import KeyDictionary

RATE = 50_000  # events per second of event time
BATCH_ROWS = 1_000_000
LONGEST = 150  # seconds
SHUFFLED_KEYS = 1_000  # of the batches in no order
COUNTS = (1, 1_000, 10_000)
KINDS = (("BIGINT", 10_000), ("VARCHAR", 10_000), ("BIGINT", 1_000_000))
CALLS = "SUM(n) AS total, COUNT(*) AS events, MIN(n) AS least, MAX(n) AS greatest"
COLUMNS = [
    Column("kind", "key"), Column("keys", "keys", ",d"), Column("windows", "windows", ",d"),
    Column("engine", "engine, M events per CPU s", ".1f"), Column("ratio", "of 1 window, or in order", ".2f"),
    Column("spread", "spread", ".0%"), Column("kernels", "kernels alone", ".1f"),
    Column("encode", "encoding", ".0f"), Column("assign", "cells", ".0f"), Column("fold", "folding", ".0f"),
    Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip
NOTES = f"""\
SUM, COUNT, MIN and MAX per key over different windows of up to {LONGEST} seconds SLIDE 1 SECOND, in batches of
{BATCH_ROWS:,} events in order, {RATE:,} to a second of event time. Before anything is timed, three times the longest
window is pushed, so that memory is no longer touched for the first time. Engines with 1, 1,000 and 10,000 windows
take turns; the ratio is the median over the rounds. *Kernels
alone* are the same work without the engine: keys to ids, events to cells, folding; and each of them by itself, in
millions of events per CPU second. *In no order* are the same batches shuffled, with a DELAY as long as a batch, in
turns with those in order: with keys they are sorted by time before they are folded. A sample of the answers is
compared with NumPy."""


def run(quick: bool) -> Result:
    """Measure every kind of key."""
    rows = [row for kind, keys in KINDS for row in measure_kind(kind, keys // (50 if quick else 1), quick)]
    rows += measure_order(SHUFFLED_KEYS // (50 if quick else 1), quick)
    return Result("keyed_push", "Pushing events per key", " ".join(NOTES.split()), COLUMNS, rows,
                  {"batch_rows": BATCH_ROWS, "runs": RUNS})  # fmt: skip


def measure_kind(kind: str, keys: int, quick: bool) -> list[dict[str, Any]]:
    """The rows of one kind of key."""
    fill = 1 if quick else 3 * LONGEST * RATE // BATCH_ROWS + 1
    runs = 2 if quick else RUNS
    batches = [make_batch(number, kind, keys) for number in range(fill + runs + 1)]
    engines = [engine_of(kind, count) for count in (COUNTS[:2] if quick else COUNTS)]
    for engine in engines:
        for batch in batches[:fill]:
            engine.push("s", batch)
    kernels = Kernels(batches[fill], keys)
    actions = [lambda run, engine=engine: engine.push("s", batches[fill + run]) for engine in engines]
    timings = measure_side_by_side([*actions, *kernels.actions], runs)
    pushed, alone = timings[: len(engines)], timings[len(engines) :]
    encode, assign, fold = (BATCH_ROWS / timing.cpu_median / 1e6 for timing in alone)
    rows = []
    for engine, timing in zip(engines, pushed, strict=True):
        check_answers(engine, batches, keys)
        rows.append(
            {
                "kind": kind,
                "keys": keys,
                "windows": len(engine.queries),
                "engine": BATCH_ROWS / timing.cpu_median / 1e6,
                "ratio": timing.speed_against(pushed[0]),
                "spread": timing.spread,
                "kernels": 1 / (1 / encode + 1 / assign + 1 / fold),
                "encode": encode,
                "assign": assign,
                "fold": fold,
                "state_bytes": engine.stats()["streams"]["s"]["bytes"],
            }
        )
    return rows


def measure_order(keys: int, quick: bool) -> list[dict[str, Any]]:
    """Batches in order and the same batches shuffled, in turns; the answers are equal."""
    runs, warm_ups = (2, 1) if quick else (2 * RUNS, 3)
    in_order = [make_batch(number, "BIGINT", keys) for number in range(warm_ups + runs)]
    places = pa.array(np.random.default_rng(8).permutation(BATCH_ROWS))
    cases = {"in order": in_order, "in no order": [batch.take(places) for batch in in_order]}
    engines = [engine_of("BIGINT", 1, delay=BATCH_ROWS // RATE) for _ in cases]
    actions = [
        lambda run, engine=engine, batches=batches: engine.push("s", batches[run])
        for engine, batches in zip(engines, cases.values(), strict=True)
    ]
    timings = measure_side_by_side(actions, runs, warm_ups)
    one, other = (engine.lookup("q0").sort_by("k") for engine in engines)
    assert one.equals(other)
    return [
        {
            "kind": f"BIGINT, {order}",
            "keys": keys,
            "windows": 1,
            "engine": BATCH_ROWS / timing.cpu_median / 1e6,
            "ratio": timing.speed_against(timings[0]),
            "spread": timing.spread,
        }
        for order, timing in zip(cases, timings, strict=True)
    ]


def make_batch(number: int, kind: str, keys: int) -> pa.Table:
    random = np.random.default_rng(number)
    at = (np.arange(BATCH_ROWS) + number * BATCH_ROWS) * (1_000_000 // RATE)
    key = pa.array(random.integers(0, keys, BATCH_ROWS))
    if kind == "VARCHAR":
        key = pa.array([f"S{number:06d}" for number in range(keys)]).take(key)
    return pa.table(
        {"ts": pa.array(at).cast(pa.timestamp("us")), "k": key, "n": random.integers(0, 1000, BATCH_ROWS)}
    )


def engine_of(kind: str, count: int, threads: int = 1, delay: int = 0) -> muntin.Engine:
    """An engine with so many different windows, over a stream with a delay of so many seconds."""
    engine = muntin.Engine(backlog_bytes=0, threads=threads)
    late = f" DELAY {delay} SECONDS" if delay else ""
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k {kind}, n BIGINT) TIMESTAMP BY ts{late}")
    pairs = [(size, to) for size in range(1, LONGEST + 1) for to in range(size)]
    chosen = [(LONGEST, 0), *Random(1).sample(pairs[:-LONGEST], count - 1)]
    engine.register_many(
        {
            f"q{number}": f"SELECT k, {CALLS} FROM s [RANGE {size} SECONDS{f' TO {to} SECONDS' if to else ''} "
            "SLIDE 1 SECOND] GROUP BY k"
            for number, (size, to) in enumerate(chosen)
        }
    )
    return engine


class Kernels:
    """What a push comes down to, without the engine, for one batch."""

    def __init__(self, batch: pa.Table, keys: int):
        self.column = batch["k"].combine_chunks()
        self.dictionary = KeyDictionary([self.column.type])
        self.ids = self.dictionary.encode([self.column])
        self.value = np.asarray(batch["n"])
        edges = np.arange(0, BATCH_ROWS + 1, RATE)
        self.lo, self.hi = edges[:-1], edges[1:]
        self.last, self.cell = np.full(keys, -1), np.empty(BATCH_ROWS, np.int64)
        self.key, self.prior = np.empty(BATCH_ROWS, np.int64), np.empty(BATCH_ROWS, np.int64)
        self.first, self.made = np.empty(len(self.lo), np.int64), 0
        self.actions = [self.encode, self.assign, self.fold]

    def encode(self, run: int) -> None:
        self.dictionary.encode([self.column])

    def assign(self, run: int) -> None:
        self.last.fill(-1)
        self.made = append_cells(
            self.lo, self.hi, self.ids, self.last, 0, 0, self.cell, self.key, self.prior, self.first
        )

    def fold(self, run: int) -> None:
        count, events, total = (np.zeros(self.made, np.int64) for _ in range(3))
        shadow, least = np.zeros(self.made), np.full(self.made, 2**63 - 1)
        greatest, valid = np.full(self.made, -(2**63)), np.ones(BATCH_ROWS, np.bool_)
        count_cells(self.cell, 0, events)
        fold_ints(
            self.cell,
            0,
            self.value,
            valid,
            True,
            True,
            True,
            True,
            True,
            count,
            total,
            shadow,
            least,
            greatest,
        )


def check_answers(engine: muntin.Engine, batches: list[pa.Table], keys: int) -> None:
    """Compare the longest window with NumPy."""
    seconds = min(LONGEST, len(batches) * BATCH_ROWS // RATE)
    some = pa.concat_tables(batches)[-seconds * RATE :]
    found = engine.lookup("q0", at=len(batches) * BATCH_ROWS * (1_000_000 // RATE))
    ids = some["k"].combine_chunks().dictionary_encode()
    code, value = np.asarray(ids.indices), np.asarray(some["n"])
    total = dict(zip(ids.dictionary.to_pylist(), np.bincount(code, value).tolist(), strict=True))
    assert found.num_rows == len(total)
    assert dict(zip(found["k"].to_pylist(), found["total"].to_pylist(), strict=True)) == total
