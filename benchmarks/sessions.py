"""Sessions of many gaps from one store: push and advance beside polars, which finds the sessions of each batch anew."""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # one core each; polars reads it when it is imported

import time
from typing import Any

import numpy as np
import polars as pl

import muntin
from benchmarks.measure import Column, Result

KEYS = 10_000
GAPS = (1, 8, 64)
SHORTEST = 5  # seconds; the others are multiples of it
BATCHES, BATCH = 20, 50_000
STEP = 30_000_000  # microseconds that a batch spans: an event a key every six seconds
COLUMNS = [
    Column("gaps", "gaps", ",d"), Column("sessions", "sessions", ",d"),
    Column("ours_ns", "muntin, ns an event", ",.0f"), Column("per_gap_ns", "and gap", ",.0f"),
    Column("polars_ns", "polars, ns an event", ",.0f"), Column("ratio", "times as fast", ".1f"),
    Column("state_bytes", "state, bytes", ",d"), Column("kept_bytes", "events polars keeps, bytes", ",d"),
]  # fmt: skip
NOTES = f"""\
SELECT k, COUNT(*), SUM(n), MAX(n) FROM s [SESSION g] GROUP BY k, for gaps of {SHORTEST}, {2 * SHORTEST}, … seconds at
once; {KEYS:,} keys, {BATCHES} batches of {BATCH:,} events, each of them {STEP // 1_000_000} seconds; half of the keys
are silent at a time. After each batch all sessions that have ended are given out. *polars* keeps the events of sessions
of the longest gap that have not ended; after each batch it sorts them by key and time once, and for each gap finds and
folds the sessions by `diff`, `cum_sum` and `group_by`. CPU time, one thread each, the first two batches left out. All
sessions of all gaps are equal."""


def run(quick: bool) -> Result:
    """Measure 1, 8 and 64 gaps."""
    keys, batch = (KEYS // 20, BATCH // 20) if quick else (KEYS, BATCH)
    rows = [measure(many, keys, batch) for many in (GAPS[:2] if quick else GAPS)]
    return Result(
        "sessions", "Sessions of many gaps", " ".join(NOTES.split()), COLUMNS, rows, {"batch_rows": batch}
    )


def measure(many: int, keys: int, batch: int) -> dict[str, Any]:
    """The same batches for both."""
    gaps = [SHORTEST * number * 1_000_000 for number in range(1, many + 1)]
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    for gap in gaps:
        engine.register(
            f"SELECT k, COUNT(*) AS c, SUM(n) AS s, MAX(n) AS m FROM s [SESSION {gap} MICROSECONDS] GROUP BY k",
            f"{gap}",
        )
    rescan = Rescan(gaps)
    random = np.random.default_rng(3)
    ours, theirs, sessions = [], [], 0
    for number in range(BATCHES):
        columns = make_batch(number, keys, batch, random)
        before = time.process_time()
        engine.push("s", columns)
        answers = engine.advance()
        ours.append(time.process_time() - before)
        before = time.process_time()
        wanted = rescan.take(pl.DataFrame(columns))
        theirs.append(time.process_time() - before)
        for gap in gaps:
            sessions += compare(answers.get(f"{gap}"), wanted[gap])
    events = batch * (BATCHES - 2)
    ours_ns, theirs_ns = sum(ours[2:]) / events * 1e9, sum(theirs[2:]) / events * 1e9
    return {
        "gaps": many,
        "sessions": sessions,
        "ours_ns": ours_ns,
        "per_gap_ns": ours_ns / many,
        "polars_ns": theirs_ns,
        "ratio": theirs_ns / ours_ns,
        "state_bytes": engine.stats()["streams"]["s"]["bytes"],
        "kept_bytes": int(rescan.kept.estimated_size()),
    }


def make_batch(number: int, keys: int, batch: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Events in order; the keys that are busy change slowly."""
    busy = (random.integers(0, keys // 2, batch) + number * keys // 10) % keys
    at = np.sort(random.integers(0, STEP, batch)) + number * STEP
    return {"ts": at, "k": busy, "n": random.integers(0, 1000, batch)}


class Rescan:
    """What polars does: sessions of all that has not ended, found anew."""

    def __init__(self, gaps: list[int]):
        self._gaps = gaps
        self._emitted = dict.fromkeys(gaps, -(2**62))
        self.kept = pl.DataFrame(schema={"ts": pl.Int64, "k": pl.Int64, "n": pl.Int64})

    def take(self, batch: pl.DataFrame) -> dict[int, pl.DataFrame]:
        """The sessions that have ended by the last event, by gap."""
        events = pl.concat([self.kept, batch]).sort("k", "ts")
        now = int(batch["ts"].max())  # type: ignore[arg-type]
        silence = pl.col("ts").diff()
        found = {}
        for gap in self._gaps:
            begins = (silence >= gap) | (pl.col("k").diff() != 0)
            numbered = events.with_columns(begins.fill_null(True).cum_sum().alias("session"))
            sessions = numbered.group_by("session", maintain_order=True).agg(
                pl.col("k").first(), pl.len().alias("c"), pl.col("n").sum().alias("s"), pl.col("n").max().alias("m"),
                (pl.col("ts").last() + gap).alias("end"),
            )  # fmt: skip
            is_due = (pl.col("end") <= now) & (pl.col("end") > self._emitted[gap])
            found[gap] = sessions.filter(is_due).sort("end", "k")
            self._emitted[gap] = now
        over = sessions.filter(pl.col("end") <= now)["session"]  # of the longest gap
        self.kept = numbered.filter(~pl.col("session").is_in(over.implode())).drop("session")
        return found


def compare(answers: Any, wanted: pl.DataFrame) -> int:
    """How many sessions there are; an error unless both found the same."""
    if answers is None:
        assert not len(wanted)
        return 0
    end = np.asarray(answers["window_end"].cast("int64"))
    order = np.lexsort((np.asarray(answers["k"]), end))
    for name in ("k", "c", "s", "m"):
        assert np.array_equal(np.asarray(answers[name])[order], wanted[name].to_numpy()), name
    assert np.array_equal(end[order], wanted["end"].to_numpy())
    return len(wanted)
