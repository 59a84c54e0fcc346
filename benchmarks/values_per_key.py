"""QUANTILE, COUNT(DISTINCT) and APPROX_QUANTILE per key, every answer: beside DuckDB, and beside each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result

EVENTS = 1_000_000
KEYS = 2_000
MINUTES = 60
MINUTE = 60_000_000
THREE, THIRTY = (5, 15, 30), tuple(range(1, 31))  # windows, in minutes
TIMED = {
    1: 20,
    3: 20,
    10: 15,
    30: 10,
}  # minutes, by how many windows there are: DuckDB takes seconds for one with thirty
COLUMNS = [
    Column("what", "what"), Column("windows", "windows"), Column("beside", "beside"),
    Column("ours_ms", "CPU ms an instant", ",.1f"), Column("beside_ms", "beside", ",.1f"),
    Column("ratio", "times as fast", ".1f"), Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip
NOTES = f"""\
{EVENTS:,} events of {KEYS:,} keys over {MINUTES} minutes, pushed minute by minute; windows of 5, 15 and 30 minutes, or
of every length from 1 to 30 minutes, all SLIDE 1 MINUTE and a query each; all answers of every minute, as Arrow tables.
*DuckDB* has the events of the stream in a table, one thread, and answers a minute by one query with a FILTER for each
window, or by a query for each window: the better of the two counts. It gets several phi of a window from one call. CPU
time, the two in turns over the same minutes, when the longest window has been full for ten; all answers are compared,
and equal.
QUANTILE asks for 0.5 and 0.99 of normal numbers, COUNT(DISTINCT) counts among 2 or 10,000 different ones. The last rows
are APPROX_QUANTILE(x, 0.5, 0.02) beside QUANTILE, over windows of 30 minutes that hold 500 values a key; every
approximate answer is within its promise."""


class Call(NamedTuple):
    """What is asked, of us and of DuckDB; columns of a list are answers of one call."""

    what: str
    ours: str
    theirs: str  # an aggregate, before its FILTER
    values: int = 0  # how many different ones there are; 0: all


QUANTILE = Call("QUANTILE", "QUANTILE(x, 0.5) AS a, QUANTILE(x, 0.99) AS b", "quantile_disc(x, [0.5, 0.99])")
DISTINCT = "COUNT(DISTINCT x) AS a", "count(DISTINCT x)"
FEW = Call("COUNT(DISTINCT), 2 values", *DISTINCT, 2)
MANY = Call("COUNT(DISTINCT), 10,000 values", *DISTINCT, 10_000)


def run(quick: bool) -> Result:
    """Measure every call over few and over many windows."""
    events = EVENTS // 20 if quick else EVENTS
    rows = [
        measure_call(call, windows, events) for call in (QUANTILE, FEW, MANY) for windows in (THREE, THIRTY)
    ]
    rows.append(measure_approximate(events))
    return Result("values_per_key", "Quantiles and distinct values per key", " ".join(NOTES.split()), COLUMNS, rows,
                  {"keys": KEYS, "minutes": MINUTES, "timed": TIMED, "duckdb": duckdb.__version__})  # fmt: skip


def make_minutes(values: int, events: int, minutes: int = MINUTES) -> Iterator[pa.Table]:
    """The events of one minute after the other."""
    random = np.random.default_rng(values)
    for minute in range(minutes):
        many = events // minutes
        at = minute * MINUTE + np.sort(random.integers(0, MINUTE, many))
        x = random.integers(0, values, many) * 1.0 if values else random.normal(size=many)
        yield pa.table({"ts": at, "k": random.integers(0, KEYS, many), "x": x})


class Muntin:
    """A query for each window, in one engine."""

    def __init__(self, outputs: str, windows: tuple[int, ...]):
        self.engine = muntin.Engine()
        self.engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE) TIMESTAMP BY ts")
        texts = {
            f"q{size}": f"SELECT k, {outputs} FROM s [RANGE {size} MINUTES SLIDE 1 MINUTE] GROUP BY k"
            for size in windows
        }
        self.engine.register_many(texts)

    def take(self, minute: int, events: pa.Table) -> dict[int, pa.Table]:
        self.engine.push("s", events)
        found = self.engine.advance(until=(minute + 1) * MINUTE)
        return {int(name[1:]): table for name, table in found.items()}

    def state_bytes(self) -> int:
        size: int = self.engine.stats()["streams"]["s"]["bytes"]
        return size


class DuckDB:
    """A table of all events; blocks that no window needs are skipped by their times."""

    def __init__(self, call: str, windows: tuple[int, ...]):
        self.call = call
        self.windows = windows
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("CREATE TABLE s (ts BIGINT, k BIGINT, x DOUBLE)")

    def insert(self, events: pa.Table) -> None:
        self.connection.register("given", events)
        self.connection.execute("INSERT INTO s SELECT ts, k, x FROM given")

    def in_one(self, now: int) -> pa.Table:
        """All windows in one pass."""
        calls = ", ".join(
            f"{self.call} FILTER (WHERE ts >= {now - size * MINUTE}) AS q{size}" for size in self.windows
        )
        longest = now - max(self.windows) * MINUTE
        return self._ask(f"SELECT k, {calls} FROM s WHERE ts >= {longest} GROUP BY k")

    def one_by_one(self, now: int) -> dict[int, pa.Table]:
        return {
            size: self._ask(f"SELECT k, {self.call} AS a FROM s WHERE ts >= {now - size * MINUTE} GROUP BY k")
            for size in self.windows
        }

    def _ask(self, text: str) -> pa.Table:
        return self.connection.sql(text).to_arrow_table()


def measure_call(call: Call, windows: tuple[int, ...], events: int) -> dict[str, Any]:
    """One row: both of them minute by minute."""
    ours, theirs = Muntin(call.ours, windows), DuckDB(call.theirs, windows)
    first, timed, spent = MINUTES * 2 // 3, TIMED[len(windows)], np.zeros(3)
    for minute, table in enumerate(make_minutes(call.values, events)):
        if minute >= first + timed:
            break
        now = (minute + 1) * MINUTE
        mine, answers = cpu(lambda minute=minute, table=table: ours.take(minute, table))
        given, _ = cpu(lambda table=table: theirs.insert(table))
        if minute >= first:
            in_one, _ = cpu(lambda now=now: theirs.in_one(now))
            one_by_one, expected = cpu(lambda now=now: theirs.one_by_one(now))
            spent += mine, given + in_one, given + one_by_one
            for size in windows:
                assert_same(answers[size], expected[size])
    our_ms, *their_ms = spent / timed * 1e3
    lengths = "5, 15, 30 minutes" if windows == THREE else "1 to 30 minutes"
    return {
        "what": call.what, "windows": lengths, "beside": "DuckDB", "ours_ms": our_ms, "beside_ms": min(their_ms),
        "ratio": min(their_ms) / our_ms, "state_bytes": ours.state_bytes(),
    }  # fmt: skip


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    ours, theirs = ours.sort_by("k"), theirs.sort_by("k")
    names = [name for name in ("a", "b") if name in ours.column_names]
    found = np.column_stack([ours.column(name).to_numpy() for name in names])
    expected = np.array(theirs.column("a").to_pylist()).reshape(len(theirs), -1)
    assert np.array_equal(ours.column("k").to_numpy(), theirs.column("k").to_numpy()), "other keys"
    assert np.array_equal(found, expected), "muntin and DuckDB differ"


def measure_approximate(events: int) -> dict[str, Any]:
    """An approximate quantile beside the exact one, minute by minute."""
    eps = 0.02
    approximate = Muntin(f"APPROX_QUANTILE(x, 0.5, {eps}) AS a", (30,))
    exact = Muntin("QUANTILE(x, 0.5) AS a", (30,))
    spent, kept = np.zeros(2), []
    for minute, table in enumerate(make_minutes(0, 2 * events)):
        kept = [*kept[-29:], table]
        found = [
            cpu(lambda minute=minute, table=table, each=each: each.take(minute, table)[30])
            for each in (approximate, exact)
        ]
        if minute >= MINUTES // 2:
            spent += [seconds for seconds, _ in found]
            assert_near(found[0][1], pa.concat_tables(kept), eps)
    ours, theirs = spent / (MINUTES // 2) * 1e3
    return {
        "what": "APPROX_QUANTILE", "windows": "30 minutes", "beside": "QUANTILE", "ours_ms": ours,
        "beside_ms": theirs, "ratio": theirs / ours, "state_bytes": approximate.state_bytes(),
    }  # fmt: skip


def assert_near(answers: pa.Table, events: pa.Table, eps: float) -> None:
    """Every answer has a rank within eps of the half."""
    answers, events = answers.sort_by("k"), events.sort_by([("k", "ascending"), ("x", "ascending")])
    key, x = events.column("k").to_numpy(), events.column("x").to_numpy()
    for k, found in zip(answers.column("k").to_pylist(), answers.column("a").to_pylist(), strict=True):
        mine = x[np.searchsorted(key, k) : np.searchsorted(key, k, "right")]
        low, high = np.searchsorted(mine, found), np.searchsorted(mine, found, "right")
        assert low < high, "not a value of the window"
        assert low - eps * len(mine) <= 0.5 * len(mine) <= high + eps * len(mine), "out of promise"


def cpu(action: Any) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
