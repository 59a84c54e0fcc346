"""Features of requests at instants of their own, from history: beside a range join and ASOF joins in DuckDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result

SPAN = 30 * 86_400_000_000  # microseconds of event time
BEGIN = 1_700_000_000_000_000
ACCOUNTS = 10_000
HOUR = 3_600_000_000
WINDOWS = {"1h": HOUR, "6h": 6 * HOUR, "1d": 24 * HOUR, "7d": 168 * HOUR}
STREAM = "CREATE STREAM p (ts TIMESTAMP, account BIGINT, amount BIGINT, items BIGINT) TIMESTAMP BY ts"
TOTALS = ("COUNT(*)", "SUM(amount)", "AVG(amount)", "SUM(items)", "AVG(items)")
EXTREMES = ("COUNT(*)", "SUM(amount)", "AVG(amount)", "MAX(amount)", "MIN(amount)")
COLUMNS = [
    Column("what", "features"), Column("events", "events", ",d"), Column("requests", "requests", ",d"),
    Column("seconds", "CPU s", ".2f"), Column("rate", "request-features per CPU s", ",.0f"),
    Column("live_rate", "of a live engine", ",.0f"),
    Column("range_join", "range join, CPU s", ".2f"), Column("range_ratio", "times as fast", ".1f"),
    Column("asof", "ASOF, CPU s", ".2f"), Column("asof_ratio", "times as fast", ".1f"),
]  # fmt: skip
NOTES = f"""\
20 features of {ACCOUNTS:,} accounts: five aggregates over each of {", ".join(WINDOWS)} without SLIDE, for
requests at random instants within 30 days, in no order. *CPU s* is `muntin.lookup_at(history, …)`: all events are
pushed and all requests answered. *Of a live engine* is `Engine.lookup_at` alone, of an engine that has seen the events,
for a tenth of the requests, all at instants of the last half day; runs of keys have been fed. DuckDB has the events and
requests in tables of its own and one thread. *Range join* joins every request with the events of its account within the
longest window once, and has a FILTER for each shorter one; *ASOF* joins running totals per account at the five ends of
windows, which maxima and minima do not have. The answers are equal. CPU time of one process."""


def run(quick: bool) -> Result:
    """Measure both sets of features, small and large."""
    sizes = [20_000] if quick else [1_000_000, 10_000_000]
    rows = [measure(name, calls, events) for events in sizes for name, calls in
            (("totals", TOTALS), ("with extremes", EXTREMES))]  # fmt: skip
    return Result("lookup_at", "Features of requests at instants of their own", " ".join(NOTES.split()), COLUMNS, rows,
                  {"accounts": ACCOUNTS, "features": len(TOTALS) * len(WINDOWS)})  # fmt: skip


def measure(what: str, calls: tuple[str, ...], count: int) -> dict[str, Any]:
    """History beside DuckDB, at one size."""
    events, requests = make_events(count), make_requests(count // 10)
    query = features(calls, WINDOWS)
    muntin.lookup_at(events.slice(0, 100_000), query, requests, stream=STREAM)  # kernels are loaded
    seconds, ours = cpu(lambda: muntin.lookup_at(events, query, requests, stream=STREAM))
    many = len(calls) * len(WINDOWS) * requests.num_rows
    row = {
        "what": what, "events": count, "requests": requests.num_rows, "seconds": seconds, "rate": many / seconds,
        "live_rate": measure_live(query, calls, events, requests.num_rows // 10),
    }  # fmt: skip
    database = connected(events, requests)
    row["range_join"], theirs = cpu(
        lambda: database.sql(range_join(calls, WINDOWS) + " ORDER BY r.id").to_arrow_table()
    )
    row["range_ratio"] = row["range_join"] / seconds
    check(ours.sort_by("id"), theirs)
    if calls == TOTALS:
        row["asof"], theirs = cpu(lambda: database.sql(asof_join()).to_arrow_table())
        row["asof_ratio"] = row["asof"] / seconds
        check(ours.sort_by("id"), theirs)
    return row


def make_events(count: int) -> pa.Table:
    return some_events(np.random.default_rng(1), 0, SPAN, count)


def some_events(random: np.random.Generator, begin: int, end: int, count: int) -> pa.Table:
    """Events in order of time, of a part of the span."""
    at = BEGIN + np.sort(random.integers(begin, end, count))
    return pa.table({
        "ts": pa.array(at, pa.timestamp("us")), "account": random.integers(0, ACCOUNTS, count),
        "amount": random.integers(1, 100_000, count), "items": random.integers(1, 20, count),
    })  # fmt: skip


def make_requests(count: int, first: int = 0) -> pa.Table:
    """Requests in no order."""
    random = np.random.default_rng(2)
    at = BEGIN + random.integers(first, SPAN, count)
    return pa.table({
        "id": np.arange(count), "account": random.integers(0, ACCOUNTS, count), "at": pa.array(at, pa.timestamp("us")),
    })  # fmt: skip


def name_of(call: str, window: str) -> str:
    return f"{call.lower().replace('(*)', '').replace('(', '_').rstrip(')')}_{window}"


def features(calls: tuple[str, ...], windows: Mapping[str, int]) -> str:
    """One query with all of them."""
    items = [
        f"{call} OVER [RANGE {length // HOUR} HOURS] AS {name_of(call, short)}"
        for short, length in windows.items()
        for call in calls
    ]
    return f"SELECT account, {', '.join(items)} FROM p GROUP BY account"


def measure_live(query: str, calls: tuple[str, ...], events: pa.Table, many: int) -> float:
    """Request-features a second of an engine that has the last days."""
    engine = muntin.Engine(backlog_bytes=0)
    engine.execute(STREAM)
    engine.register(query, "q")
    last = events.num_rows // 30
    engine.push("p", events.slice(0, events.num_rows - last))
    engine.push("p", events.slice(events.num_rows - last))
    requests = make_requests(many, SPAN - WINDOWS["1d"] // 2)
    engine.lookup_at("q", requests)  # runs are fed
    seconds, found = cpu(lambda: engine.lookup_at("q", requests))
    assert sum(found["complete"].to_pylist()) > 0.99 * many
    return len(calls) * len(WINDOWS) * many / seconds


def connected(events: pa.Table, requests: pa.Table) -> duckdb.DuckDBPyConnection:
    """DuckDB with both in tables, times as microseconds: it compares integers fastest."""
    database = duckdb.connect()
    database.execute("SET threads = 1")
    for name, given, at in (("p", events, "ts"), ("r", requests, "at")):
        database.register("given", given)
        database.execute(
            f'CREATE TABLE {name} AS SELECT * EXCLUDE ("{at}"), epoch_us("{at}") AS us FROM given'
        )
        database.unregister("given")
    return database


def range_join(calls: tuple[str, ...], windows: Mapping[str, int]) -> str:
    """All windows from one join with the longest; times are microseconds in columns `us`."""
    items = [
        f"{call} FILTER (WHERE p.us >= r.us - {length}) AS {name_of(call, short)}".replace("(*)", "(p.us)")
        for short, length in windows.items()
        for call in calls
    ]
    within = f"p.account = r.account AND p.us < r.us AND p.us >= r.us - {max(windows.values())}"
    return f"SELECT r.id, {', '.join(items)} FROM r LEFT JOIN p ON {within} GROUP BY r.id"


def asof_join() -> str:
    """Running totals at the end of all windows less those at the start of each."""
    totals = (
        "SELECT account, us, count(*) OVER w AS n, sum(amount) OVER w AS amount, sum(items) OVER w AS items FROM p "
        "WINDOW w AS (PARTITION BY account ORDER BY us RANGE UNBOUNDED PRECEDING)"
    )
    items, joins = [], ["ASOF LEFT JOIN t AS e ON e.account = r.account AND e.us < r.us"]
    for short, length in WINDOWS.items():
        b = f"b_{short}"
        joins.append(f"ASOF LEFT JOIN t AS {b} ON {b}.account = r.account AND {b}.us < r.us - {length}")
        ends = (f"(coalesce(e.{each}, 0) - coalesce({b}.{each}, 0))" for each in ("n", "amount", "items"))
        items += from_totals(TOTALS, short, *ends)
    return f"WITH t AS MATERIALIZED ({totals}) SELECT r.id, {', '.join(items)} FROM r {' '.join(joins)} ORDER BY r.id"


def from_totals(calls: tuple[str, ...], short: str, n: str, amount: str, items: str) -> list[str]:
    """Features of one window, given its totals in SQL."""
    found = {
        "COUNT(*)": n,
        "SUM(amount)": f"CASE WHEN {n} > 0 THEN {amount} END", "AVG(amount)": f"{amount} / nullif({n}, 0)",
        "SUM(items)": f"CASE WHEN {n} > 0 THEN {items} END", "AVG(items)": f"{items} / nullif({n}, 0)",
    }  # fmt: skip
    return [f"{found[call]} AS {name_of(call, short)}" for call in calls]


def check(ours: pa.Table, theirs: pa.Table) -> None:
    """The same requests in the same order, with the same features."""
    assert ours.num_rows
    for name in theirs.column_names:
        one, other = (np.asarray(each[name].to_numpy(), np.float64) for each in (ours, theirs))
        assert np.allclose(one, other, rtol=1e-9, equal_nan=True), f"{name} differs"


def cpu(action: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
