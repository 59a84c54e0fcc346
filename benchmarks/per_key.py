"""Per key where a rescan used to win: ROWS windows, windows without SLIDE, lists of keys, quantiles."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import muntin
from benchmarks import values_per_key
from benchmarks.measure import Column, Result

TURNS = 21
EVENTS, SPAN = 1_000_000, 1_000_000_000  # microseconds of event time
BATCH_ROWS = 10_000
PASSING = 50  # keys
STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts"
COLUMNS = [
    Column("what", "what"), Column("keys", "keys", ",d"), Column("before_us", "before, us", ",.0f"),
    Column("now_us", "now, us", ",.1f"), Column("best_us", "at best, us", ",.1f"), Column("beside", "beside"),
    Column("beside_us", "us", ",.1f"), Column("ratio", "times as fast as that", ".2f"),
    Column("rows", "rows", ",d"), Column("bytes_a_key", "bytes a key", ",.0f"),
]  # fmt: skip
NOTES = f"""\
CPU time of one core, medians of {TURNS} turns with what stands beside, and the fastest turn; answers are equal.
*Before* is what the same took before events lay in runs by key. ROWS windows have seen 2,000,000 events; windows
without SLIDE hold 600,000 of {EVENTS:,}. QUANTILE(x, 0.99) is every answer of every minute, for windows of 30; of 5,
15 and 30; and of ten lengths up to 30 minutes, beside the better of two ways of DuckDB: before, it took 1.9, 3.5 and
5.1 times as long. *Bytes a key* are of all state."""


def run(quick: bool) -> Result:
    """Measure every case."""
    events = EVENTS // 20 if quick else EVENTS
    rows = [measure_rows_value(keys, 2 * events) for keys in (1_000, 10_000, 100_000)]
    rows.append(measure_rows_advance(100_000 if not quick else 5_000, 2 * events))
    rows.append(measure_some_keys(5_000, events))
    for windows in (30,), (5, 15, 30), tuple(range(3, 31, 3)):
        rows.append(measure_quantile(windows, events))
    rows.append(measure_approximate(events))
    return Result("per_key", "Per key, where a rescan used to win", " ".join(NOTES.split()), COLUMNS, rows,
                  {"turns": TURNS, "batch_rows": BATCH_ROWS})  # fmt: skip


def filled(
    queries: dict[str, str], events: dict[str, np.ndarray], rows: int = BATCH_ROWS
) -> tuple[muntin.Engine, float]:
    """An engine that has seen the events, and CPU microseconds of an event."""
    engine = muntin.Engine(backlog_bytes=0)
    engine.execute(STREAM)
    engine.register_many(queries)
    push = lambda lo, hi: engine.push("s", {name: each[lo:hi] for name, each in events.items()})  # noqa: E731
    push(0, 1)  # the plan is made, kernels are loaded
    seconds, _ = cpu(lambda: [push(lo, lo + rows) for lo in range(1, len(events["ts"]), rows)])
    return engine, seconds / len(events["ts"]) * 1e6


def make_events(keys: int, count: int) -> dict[str, np.ndarray]:
    """Some keys have several times the events of the others, and now and then a great number."""
    random = np.random.default_rng(keys)
    key, n = random.integers(0, keys, count), random.integers(0, 100, count)
    often = random.random(count) < max(0.05, 400 * PASSING / count)
    key[often] = random.permutation(keys)[:PASSING][random.integers(0, PASSING, int(often.sum()))]
    n[often & (random.random(count) < 0.1)] = 150
    return {"ts": np.sort(random.integers(0, SPAN, count)), "k": key, "n": n}


def measure_rows_value(keys: int, count: int) -> dict[str, Any]:
    engine, _ = filled(
        {"q": "SELECT k, SUM(n) AS v FROM s [ROWS 100] GROUP BY k"}, make_events(keys, count), 50_000
    )
    before = {1_000: 2_300, 10_000: 28_000, 100_000: 42_000}[keys]
    size = engine.stats()["streams"]["s"]["bytes"]
    return {
        "what": "value(key), [ROWS 100]", "keys": keys, "before_us": before, **taken(value_of(engine, "q", keys), 50),
        "bytes_a_key": size / keys,
    }  # fmt: skip


def value_of(engine: muntin.Engine, name: str, keys: int) -> Callable[[], Any]:
    """One key after the other, any of them."""
    some = iter(np.random.default_rng(2).integers(0, keys, 200_000).tolist())
    for _ in range(60):
        engine.value(name, key=3)  # until runs are fed
    return lambda: engine.value(name, key=next(some))


def measure_rows_advance(keys: int, count: int) -> dict[str, Any]:
    events = make_events(keys, count)
    engine, _ = filled({"q": "SELECT k, SUM(n) AS v FROM s [ROWS 100 SLIDE 10] GROUP BY k"}, events, 50_000)
    engine.advance()
    spent, rows = [], []
    random = np.random.default_rng(7)
    for turn in range(TURNS):
        at = SPAN + turn * 1_000 + np.arange(1_000)
        engine.push("s", {"ts": at, "k": random.integers(0, keys, 1_000), "n": events["n"][:1_000]})
        seconds, answers = cpu(engine.advance)
        spent.append(seconds * 1e6)
        rows.append(answers["q"].num_rows)
    return {
        "what": "advance of [ROWS 100 SLIDE 10] after 1,000 events", "keys": keys, "before_us": 267_000,
        "now_us": statistics.median(spent), "best_us": min(spent), "rows": int(statistics.median(rows)),
    }  # fmt: skip


def measure_some_keys(keys: int, count: int) -> dict[str, Any]:
    engine, _ = filled(
        {"q": "SELECT k, SUM(n) AS v FROM s [RANGE 10 MINUTES] GROUP BY k"}, make_events(keys, count)
    )
    some = np.random.default_rng(3).permutation(keys)[:1_000].tolist()
    for _ in range(30):
        engine.lookup("q", key=some)
    found = beside(lambda: engine.lookup("q", key=some), lambda: engine.lookup("q"))
    rows = engine.lookup("q", key=some).num_rows
    return {
        "what": "lookup of 1,000 keys, no SLIDE", "keys": keys, "before_us": 40_000, **found, "beside": "all keys",
        "rows": rows,
    }  # fmt: skip


def measure_quantile(windows: tuple[int, ...], count: int) -> dict[str, Any]:
    call = values_per_key.Call("QUANTILE(x, 0.99)", "QUANTILE(x, 0.99) AS a", "quantile_disc(x, 0.99)")
    found = values_per_key.measure_call(call, windows, count)
    return {
        "what": f"{call.what}, windows: {len(windows)}", "keys": values_per_key.KEYS,
        "now_us": found["ours_ms"] * 1e3, "beside": "DuckDB", "beside_us": found["beside_ms"] * 1e3,
        "ratio": found["ratio"],
    }  # fmt: skip


def measure_approximate(count: int) -> dict[str, Any]:
    found = values_per_key.measure_approximate(count)
    return {
        "what": "APPROX_QUANTILE(x, 0.5, 0.02)", "keys": values_per_key.KEYS, "now_us": found["ours_ms"] * 1e3,
        "beside": "QUANTILE", "beside_us": found["beside_ms"] * 1e3, "ratio": found["ratio"],
    }  # fmt: skip


def taken(action: Callable[[], Any], times: int) -> dict[str, float]:
    spent = [cpu(lambda: [action() for _ in range(times)])[0] / times * 1e6 for _ in range(TURNS)]
    return {"now_us": statistics.median(spent), "best_us": min(spent)}


def beside(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, float]:
    pairs = [(cpu(ours)[0] * 1e6, cpu(theirs)[0] * 1e6) for _ in range(TURNS)]
    now, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "now_us": now,
        "best_us": min(pair[0] for pair in pairs),
        "beside_us": other,
        "ratio": other / now,
    }


def cpu(action: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
