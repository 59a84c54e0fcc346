"""Windows per key without SLIDE, and ROWS windows: runs of each key beside scans, filters of their own and DuckDB."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result
from muntin.plan import choices

EVENTS = 1_000_000
BATCH_ROWS = 10_000
SPAN = 1_000_000_000  # microseconds of event time
SUBSCRIPTIONS = 1_000
TURNS = 15
CALLS = "SUM(x) AS total, COUNT(*) AS many, MAX(n) AS most"
COLUMNS = [
    Column("what", "what"), Column("beside", "beside"), Column("keys", "keys", ",d"),
    Column("push", "events per CPU s", ",.0f"), Column("push_beside", "beside", ",.0f"),
    Column("all_us", "all keys, us", ",.0f"), Column("all_beside_us", "beside", ",.0f"),
    Column("all_ratio", "times as fast", ".1f"), Column("value_us", "one value, us", ",.1f"),
    Column("value_beside_us", "beside", ",.1f"), Column("value_ratio", "times as fast", ",.1f"),
    Column("fresh_us", "all keys after 1,000 events, us", ",.0f"), Column("state_bytes", "state, bytes", ",d"),
    Column("state_beside_bytes", "beside", ",d"),
]  # fmt: skip
NOTES = f"""\
{CALLS} of {EVENTS:,} events over {SPAN // 60_000_000} minutes, pushed {BATCH_ROWS:,} at a time; then look-ups of all
keys and of one value in turns with those beside, CPU time of one core, medians of {TURNS}; the answers are equal.
`[RANGE 10 MINUTES]` holds 600,000 of the events. *scan* is `SYNOPSIS(rescan)`; *DuckDB* ranks the events of each key by
time and sums the last 100, one thread. Runs are fed when look-ups have paid for it: the first ones, which do, are left
out. The last row is {SUBSCRIPTIONS:,} subscriptions `SELECT SUM(n) … [RANGE 10 MINUTES] WHERE k = …` with a text
each, half of the keys there are; *all keys* is `lookup_many` of all of them, over 40,000 events, and *filters* are
filters of their own: no two queries share lanes."""


def run(quick: bool) -> Result:
    """Measure windows of time, of rows, and subscriptions."""
    events = EVENTS // 20 if quick else EVENTS
    rows = [measure_range(keys, events) for keys in (2_000, 100_000)]
    rows += [measure_rows(keys, events) for keys in (2_000, 100_000)]
    rows.append(measure_subscriptions(SUBSCRIPTIONS // 20 if quick else SUBSCRIPTIONS, events // 5))
    return Result("loose_windows", "Windows without SLIDE, per key and per filter", " ".join(NOTES.split()), COLUMNS,
                  rows, {"batch_rows": BATCH_ROWS, "turns": TURNS})  # fmt: skip


def make_events(keys: int, events: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(keys)
    return {
        "ts": np.sort(random.integers(0, SPAN, events)), "k": random.integers(0, keys, events),
        "x": random.normal(size=events), "n": random.integers(0, 100, events),
    }  # fmt: skip


def filled(queries: dict[str, str], events: dict[str, np.ndarray]) -> tuple[muntin.Engine, float]:
    """An engine that has seen the events, and how many of them it took in a second."""
    engine = muntin.Engine(backlog_bytes=0)
    kind = "BIGINT" if events["k"].dtype.kind == "i" else "VARCHAR"
    engine.execute(f"CREATE STREAM s (ts BIGINT, k {kind}, x DOUBLE, n BIGINT) TIMESTAMP BY ts")
    engine.register_many(queries)
    many = len(events["ts"])
    engine.push(
        "s", {name: column[:1] for name, column in events.items()}
    )  # the plan is made, kernels are loaded
    seconds, _ = cpu(lambda: [
        engine.push("s", {name: column[begin : begin + BATCH_ROWS] for name, column in events.items()})
        for begin in range(1, many, BATCH_ROWS)
    ])  # fmt: skip
    return engine, (many - 1) / seconds


def measure_range(keys: int, count: int) -> dict[str, Any]:
    """A window of time without SLIDE, beside a scan."""
    events = make_events(keys, count)
    rest = f"k, {CALLS} FROM s [RANGE 10 MINUTES] GROUP BY k"
    by_runs, push = filled({"q": f"SELECT {rest}"}, events)
    by_scan, push_beside = filled({"q": f"SELECT /*+ SYNOPSIS(rescan) */ {rest}"}, events)
    for _ in range(30):  # until the runs are fed
        by_runs.lookup("q")
        by_runs.value("q", key=3)
    for one, other in zip(sorted_rows(by_runs), sorted_rows(by_scan), strict=True):
        assert np.allclose(one, other, rtol=1e-9), "runs and scan differ"
    all_us = beside([lambda: by_runs.lookup("q"), lambda: by_scan.lookup("q")])
    value_us = beside([lambda: by_runs.value("q", key=3), lambda: by_scan.value("q", key=3)], 100, 1)
    return {
        "what": "[RANGE 10 MINUTES]", "beside": "scan", "keys": keys, "push": push, "push_beside": push_beside,
        **compared("all", *all_us), **compared("value", *value_us), "fresh_us": measure_fresh(by_runs, events),
        **state_of(by_runs, by_scan),
    }  # fmt: skip


def sorted_rows(engine: muntin.Engine) -> Iterator[tuple[float, ...]]:
    table = engine.lookup("q").sort_by("k")
    return zip(*(table.column(name).to_pylist() for name in ("k", "total", "many", "most")), strict=True)


def measure_fresh(engine: muntin.Engine, events: dict[str, np.ndarray]) -> float:
    """All keys, when 1,000 events have come since the last time."""
    spent, latest = [], int(events["ts"][-1])
    for turn in range(1, TURNS + 1):
        some = {name: column[:1_000] for name, column in events.items()}
        engine.push("s", some | {"ts": latest + turn * 1_000_000 + np.arange(1_000)})
        spent.append(cpu(lambda: engine.lookup("q"))[0])
    return statistics.median(spent) * 1e6


def measure_rows(keys: int, count: int) -> dict[str, Any]:
    """A window of rows, beside DuckDB."""
    events = make_events(keys, count)
    by_runs, push = filled({"q": f"SELECT k, {CALLS} FROM s [ROWS 100] GROUP BY k"}, events)
    database = duckdb.connect()
    database.execute("SET threads = 1")
    database.execute("CREATE TABLE s (ts BIGINT, k BIGINT, x DOUBLE, n BIGINT)")
    database.register("given", pa.table(events))
    database.execute("INSERT INTO s SELECT ts, k, x, n FROM given")
    ranked = "SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts DESC) AS r FROM s"
    query = f"SELECT k, {CALLS} FROM ({ranked}) WHERE r <= 100 GROUP BY k ORDER BY k"
    found = database.sql(query).to_arrow_table()
    expected = zip(*(found.column(name).to_pylist() for name in ("k", "total", "many", "most")), strict=True)
    for one, other in zip(sorted_rows(by_runs), expected, strict=True):
        assert np.allclose(one, other, rtol=1e-6, atol=1e-6), "runs and DuckDB differ"
    all_us = beside([lambda: by_runs.lookup("q"), lambda: database.sql(query).to_arrow_table()])
    one = f"SELECT {CALLS} FROM (SELECT * FROM s WHERE k = 3 ORDER BY ts DESC LIMIT 100)"
    value_us = beside([lambda: by_runs.value("q", key=3), lambda: database.execute(one).fetchall()], 100, 1)
    return {
        "what": "[ROWS 100]", "beside": "DuckDB", "keys": keys, "push": push,
        **compared("all", *all_us), **compared("value", *value_us), "fresh_us": measure_fresh(by_runs, events),
        "state_bytes": by_runs.stats()["streams"]["s"]["bytes"],
    }  # fmt: skip


def measure_subscriptions(many: int, count: int) -> dict[str, Any]:
    """Filters that compare with a constant each, beside filters of their own."""
    events = make_events(2 * many, count)
    events["k"] = np.array([f"s{key}" for key in range(2 * many)], object)[events["k"]]
    queries = {f"q{i}": f"SELECT SUM(n) AS v FROM s [RANGE 10 MINUTES] WHERE k = 's{i}'" for i in range(many)}
    few = {name: column[: min(count, 40_000)] for name, column in events.items()}
    in_lanes, push = filled(queries, events)
    with without_lanes():
        alone, push_beside = filled(queries, few)
    few_in_lanes, _ = filled(queries, few)
    names = list(queries)
    for engine in (in_lanes, few_in_lanes):
        for _ in range(30):
            engine.value("q3")
    together = [engine.lookup_many(names) for engine in (few_in_lanes, alone)]
    assert together[0].equals(together[1]), "lanes and filters differ"
    all_us = beside([lambda: few_in_lanes.lookup_many(names), lambda: alone.lookup_many(names)])
    value_us = beside([lambda: few_in_lanes.value("q3"), lambda: alone.value("q3")], 100, 100)
    return {
        "what": f"{many:,} subscriptions WHERE k = …", "beside": "filters", "keys": 2 * many, "push": push,
        "push_beside": push_beside, **compared("all", *all_us), **compared("value", *value_us),
        **state_of(few_in_lanes, alone),
    }  # fmt: skip


@contextmanager
def without_lanes() -> Iterator[None]:
    before = choices.MANY_LANES
    choices.MANY_LANES = 10**9
    try:
        yield
    finally:
        choices.MANY_LANES = before


def compared(what: str, ours: float, theirs: float) -> dict[str, float]:
    return {f"{what}_us": ours, f"{what}_beside_us": theirs, f"{what}_ratio": theirs / ours}


def state_of(ours: muntin.Engine, beside: muntin.Engine) -> dict[str, int]:
    sizes = [engine.stats()["streams"]["s"]["bytes"] for engine in (ours, beside)]
    return {"state_bytes": sizes[0], "state_beside_bytes": sizes[1]}


def beside(actions: list[Callable[[], Any]], *times: int) -> list[float]:
    """Microseconds of each action, in turns: the median of what `times` of them take together."""
    repeats = list(times) or [1] * len(actions)
    spent: list[list[float]] = [[] for _ in actions]
    for _ in range(TURNS):
        for action, many, into in zip(actions, repeats, spent, strict=True):
            into.append(cpu(lambda action=action, many=many: [action() for _ in range(many)])[0] / many)
    return [statistics.median(each) * 1e6 for each in spent]


def cpu(action: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
