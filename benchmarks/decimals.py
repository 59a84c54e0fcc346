"""SUM and AVG of DECIMAL per key, every answer: beside DuckDB, and beside the same over BIGINT and DOUBLE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result
from benchmarks.values_per_key import MINUTE, THIRTY, THREE, cpu

EVENTS, KEYS, MINUTES, FIRST = 600_000, 2_000, 45, 35
TYPES = {"DECIMAL(12, 2)": pa.decimal128(12, 2), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
COLUMNS = [
    Column("type", "type"), Column("windows", "windows"), Column("ours_ms", "CPU ms an instant", ",.1f"),
    Column("beside_ms", "DuckDB", ",.1f"), Column("ratio", "times as fast", ".1f"),
    Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip
NOTES = f"""\
{EVENTS:,} events of {KEYS:,} keys over {MINUTES} minutes, pushed minute by minute; SUM(x) and AVG(x) over windows of
5, 15 and 30 minutes, or of every length from 1 to 30 minutes, all SLIDE 1 MINUTE and a query each; all answers of every
minute, as Arrow tables. x is an amount in cents, or the same number as a BIGINT or a DOUBLE. *DuckDB* has the events in
a table of the same types, one thread, and answers each window by a query of its own: a scan. CPU time of the last
{MINUTES - FIRST} minutes, the two in turns; sums are compared, and equal."""


def run(quick: bool) -> Result:
    """Measure each type over few and over many windows."""
    events = EVENTS // 20 if quick else EVENTS
    rows = [measure(name, windows, events) for name in TYPES for windows in (THREE, THIRTY)]
    return Result("decimals", "Sums of decimals per key", " ".join(NOTES.split()), COLUMNS, rows,
                  {"keys": KEYS, "minutes": MINUTES, "duckdb": duckdb.__version__})  # fmt: skip


def make_minutes(kind: pa.DataType, events: int) -> Iterator[pa.Table]:
    """The events of one minute after the other."""
    random = np.random.default_rng(1)
    for minute in range(MINUTES):
        many = events // MINUTES
        at = minute * MINUTE + np.sort(random.integers(0, MINUTE, many))
        cents = random.integers(0, 1_000_000, many)
        if pa.types.is_decimal(kind):  # so many cents, as 128 bits each
            halves = np.stack([cents, np.zeros_like(cents)], axis=1)
            x = pa.Array.from_buffers(kind, many, [None, pa.py_buffer(halves.tobytes())])
        else:
            x = pa.array(cents).cast(kind)
        yield pa.table({"ts": at, "k": random.integers(0, KEYS, many), "x": x})


def measure(name: str, windows: tuple[int, ...], events: int) -> dict[str, Any]:
    """One row: both of them minute by minute."""
    engine = muntin.Engine()
    engine.execute(f"CREATE STREAM s (ts BIGINT, k BIGINT, x {name}) TIMESTAMP BY ts")
    asked = "SELECT k, SUM(x) AS a, AVG(x) AS b FROM s [RANGE {} MINUTES SLIDE 1 MINUTE] GROUP BY k"
    engine.register_many({f"q{size}": asked.format(size) for size in windows})
    database = duckdb.connect(config={"threads": 1})
    database.execute(f"CREATE TABLE s (ts BIGINT, k BIGINT, x {name})")
    spent = np.zeros(2)
    for minute, table in enumerate(make_minutes(TYPES[name], events)):
        ours, answers = cpu(lambda table=table, minute=minute: _ours(engine, table, minute))
        given, _ = cpu(lambda table=table: _insert(database, table))
        if minute < FIRST:
            continue
        scanned, expected = cpu(lambda minute=minute: _theirs(database, windows, minute))
        spent += ours, given + scanned
        for size in windows:
            _assert_same(answers[f"q{size}"], expected[size])
    our_ms, their_ms = spent / (MINUTES - FIRST) * 1e3
    return {
        "type": name, "windows": "5, 15, 30 minutes" if windows == THREE else "1 to 30 minutes", "ours_ms": our_ms,
        "beside_ms": their_ms, "ratio": their_ms / our_ms, "state_bytes": engine.stats()["streams"]["s"]["bytes"],
    }  # fmt: skip


def _ours(engine: muntin.Engine, table: pa.Table, minute: int) -> dict[str, pa.Table]:
    engine.push("s", table)
    return engine.advance(until=(minute + 1) * MINUTE)


def _insert(database: duckdb.DuckDBPyConnection, table: pa.Table) -> None:
    database.register("given", table)
    database.execute("INSERT INTO s SELECT * FROM given")


def _theirs(
    database: duckdb.DuckDBPyConnection, windows: tuple[int, ...], minute: int
) -> dict[int, pa.Table]:
    now, found = (minute + 1) * MINUTE, {}
    for size in windows:
        asked = f"SELECT k, SUM(x) AS a, AVG(x) AS b FROM s WHERE ts >= {now - size * MINUTE} GROUP BY k"
        found[size] = database.sql(asked).to_arrow_table()
    return found


def _assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    ours, theirs = ours.sort_by("k"), theirs.sort_by("k")
    assert ours["k"].to_pylist() == theirs["k"].to_pylist(), "other keys"
    if pa.types.is_floating(ours["a"].type):
        assert np.allclose(ours["a"].to_numpy(), theirs["a"].to_numpy()), "muntin and DuckDB differ"
    else:
        assert ours["a"].to_pylist() == theirs["a"].to_pylist(), "muntin and DuckDB differ"
    assert np.allclose(ours["b"].to_numpy(), theirs["b"].to_numpy()), "muntin and DuckDB differ"
