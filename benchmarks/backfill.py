"""A new query filled from twenty million events of history in Parquet, beside DuckDB reading the same file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from benchmarks.measure import Column, Result, measure_side_by_side

EVENTS = 20_000_000
KEYS = 10_000
SPACING = 2_000  # microseconds between events
RUNS = 3
QUERIES = {
    "without keys, by the minute": "SELECT SUM(n) AS total FROM s [RANGE 10 DAYS SLIDE 1 MINUTE]",
    "per key, by ten minutes": "SELECT k, SUM(n) AS total FROM s [RANGE 10 DAYS SLIDE 10 MINUTES] GROUP BY k",
    "per key, the last hour by the minute": "SELECT k, SUM(n) AS total FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY k",
    "at any instant, the last hour": "SELECT MAX(n) AS most FROM s [RANGE 1 HOUR]",
}
COLUMNS = [
    Column("query", "query"), Column("clock", "backfill, s", ".2f"), Column("cpu", "CPU s", ".2f"),
    Column("duckdb_clock", "DuckDB reads, s", ".2f"), Column("duckdb_cpu", "CPU s", ".2f"),
    Column("ratio", "clock, times DuckDB", ".1f"), Column("cpu_ratio", "CPU, times DuckDB", ".1f"),
    Column("spread", "spread", ".0%"),
]  # fmt: skip
NOTES = """\
`register(sql, name, backfill="events.parquet")` of {events:,} events in order (a time, one of {keys:,} keys, a number;
Snappy, row groups of a million), until the query answers. *DuckDB reads* is the sum of each of the three columns: all
values are decoded, and nothing is kept. Both have two cores; they take turns, and the medians of {runs} runs are shown.
The answers are compared with DuckDB's."""


def run(quick: bool) -> Result:
    """Each kind of query."""
    events = EVENTS // 20 if quick else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        write(path, events)
        rows = [measure_query(name, path) for name in QUERIES]
    notes = " ".join(NOTES.format(events=events, keys=KEYS, runs=RUNS).split())
    return Result("backfill", "Filling a query from history", notes, COLUMNS, rows, {"runs": RUNS})


def write(path: Path, events: int) -> None:
    random = np.random.default_rng(1)
    at = pa.array(np.arange(events) * SPACING, pa.timestamp("us"))
    numbers = {"k": random.integers(0, KEYS, events), "n": random.integers(0, 1_000, events)}
    pq.write_table(pa.table({"ts": at, **numbers}), path)


def measure_query(name: str, path: Path) -> dict[str, Any]:
    """One row: fill and read in turns."""
    connection = duckdb.connect()
    read = f"SELECT SUM(epoch_us(ts)), SUM(k), SUM(n) FROM '{path}'"
    ours, theirs = measure_side_by_side(
        [lambda run: fill(QUERIES[name], path), lambda run: connection.execute(read).fetchall()], RUNS
    )
    check(name, fill(QUERIES[name], path), connection, path)
    pairs = zip(ours.seconds, theirs.seconds, strict=True)
    return {
        "query": name,
        "clock": ours.median,
        "cpu": ours.cpu_median,
        "duckdb_clock": theirs.median,
        "duckdb_cpu": theirs.cpu_median,
        "ratio": float(np.median([mine / other for mine, other in pairs])),
        "cpu_ratio": 1 / ours.speed_against(theirs),
        "spread": ours.spread,
    }


def fill(sql: str, path: Path) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register(sql, "q", backfill=path)
    return engine


def check(name: str, engine: muntin.Engine, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Compare with DuckDB at the end of the history."""
    table = engine.lookup("q")
    start, end = (table[column][0].as_py() for column in ("window_start", "window_end"))
    call, key = (
        QUERIES[name].split(" AS ")[0].removeprefix("SELECT k, ").removeprefix("SELECT "),
        "k" in table.column_names,
    )
    asked = f"SELECT {'k, ' if key else ''}{call} AS found FROM '{path}' WHERE ts >= ? AND ts < ?"
    asked += " GROUP BY k ORDER BY k" if key else ""
    wanted = connection.execute(asked, [start, end]).fetchall()
    columns = table.column_names[: 2 if key else 1]
    found = [tuple(row[each] for each in columns) for row in table.select(columns).to_pylist()]
    assert sorted(found) == [tuple(map(int, row)) for row in wanted], name
