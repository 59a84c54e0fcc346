"""Subscriptions that differ in a constant of WHERE: lanes of one store, a store for each, one GROUP BY, and DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result, measure_side_by_side
from muntin import Engine
from muntin.plan import choices

COLUMNS = [
    Column("how", "served by"), Column("subscriptions", "subscriptions", ",d"), Column("constants", "constants", ",d"),
    Column("push_rate", "events pushed per CPU s", ",.0f"), Column("advance_ms", "an instant, CPU ms", ",.1f"),
    Column("rate", "events per CPU s, answers included", ",.0f"), Column("alerts", "alerts an instant", ",d"),
    Column("bytes_each", "state, bytes each", ",.0f"),
]  # fmt: skip
MINUTE = 60_000_000
WINDOWS = 10  # of one to ten minutes
NOTES = """`SELECT SUM(n) … [RANGE m MINUTES SLIDE 1 MINUTE] WHERE symbol = … HAVING SUM(n) > …`, {windows} different
m, every subscription with a threshold of its own. {rate:,} events a minute of event time in ten batches,
over {symbols:,} symbols; windows are full before anything is timed, and every minute every answer is made.
`lanes`: subscriptions read lanes of one store. `a filter each`: as before there were lanes. `GROUP BY`:
{windows} queries that answer for all symbols, with one threshold. `DuckDB`: each minute the events of ten
minutes are summed by symbol and minute, then joined with a table of subscriptions; keeping the events costs
it nothing here. All give the same alerts. CPU seconds, medians of {runs} minutes, taken in turns."""


@dataclass(frozen=True)
class Subscriptions:
    """So many of them, on so many of the symbols there are; no two are alike."""

    count: int
    symbols: int
    all_symbols: int

    def minutes(self, number: int) -> int:
        return 1 + number // self.symbols % WINDOWS

    def symbol(self, number: int) -> str:
        return f"S{number % self.symbols}"

    def floor(self, number: int, rate: int) -> int:
        """What about one in twenty exceeds."""
        expected = 500 * rate * self.minutes(number) / self.all_symbols
        return int(expected * (1.1 + 0.0001 * (number % 97)))

    def queries(self, rate: int) -> dict[str, str]:
        return {
            f"q{i}": f"SELECT SUM(n) AS v FROM s [RANGE {self.minutes(i)} MINUTES SLIDE 1 MINUTE] "
            f"WHERE symbol = '{self.symbol(i)}' HAVING SUM(n) > {self.floor(i, rate)}"
            for i in range(self.count)
        }


class InEngine:
    """Queries in an engine of muntin's."""

    def __init__(self, queries: dict[str, str], with_lanes: bool = True):
        self._engine = Engine(backlog_bytes=1 << 30)
        self._engine.execute("CREATE STREAM s (ts BIGINT, symbol VARCHAR, n BIGINT) TIMESTAMP BY ts")
        many, choices.MANY_LANES = choices.MANY_LANES, 2 if with_lanes else 1 << 60
        try:
            self._engine.register_many(queries)
            self._engine.push("s", {"ts": [0], "symbol": ["none"], "n": [0]})
        finally:
            choices.MANY_LANES = many
        self.alerts: set[tuple[str, int]] = set()

    def push(self, batch: pa.Table) -> None:
        self._engine.push("s", batch)

    def advance(self, minute: int) -> None:
        answers = self._engine.advance(until=minute * MINUTE)
        self.alerts = {(name, v) for name, table in answers.items() for v in table.column("v").to_pylist()}

    @property
    def state_bytes(self) -> int:
        return int(self._engine.stats()["streams"]["s"]["bytes"])


class InDuckDB:
    """Subscriptions as a table; what is kept is the events of the longest window."""

    def __init__(self, subscriptions: Subscriptions, rate: int):
        self._database = duckdb.connect(config={"threads": 1})
        numbers = range(subscriptions.count)
        rules = {
            "name": [f"q{i}" for i in numbers],
            "symbol": [subscriptions.symbol(i) for i in numbers],
            "minutes": [subscriptions.minutes(i) for i in numbers],
            "floor": [subscriptions.floor(i, rate) for i in numbers],
        }
        self._database.register("given", pa.table(rules))
        self._database.execute("CREATE TABLE rules AS SELECT * FROM given")
        self._kept: list[pa.Table] = []
        self.alerts: set[tuple[str, int]] = set()
        self.state_bytes = 0

    def push(self, batch: pa.Table) -> None:
        self._kept.append(batch)

    def advance(self, minute: int) -> None:
        self._kept = self._kept[-10 * WINDOWS :]
        self._database.register("events", pa.concat_tables(self._kept))
        found = self._database.execute(
            f"""WITH sums AS (
                  SELECT symbol, {minute} - ts // {MINUTE} AS age, SUM(n) AS n FROM events
                  WHERE ts < {minute * MINUTE} GROUP BY ALL),
                totals AS (
                  SELECT symbol, m.m AS minutes, SUM(n) AS v FROM sums, range(1, {WINDOWS + 1}) AS m(m)
                  WHERE age <= m.m GROUP BY ALL)
                SELECT name, v FROM totals JOIN rules USING (symbol, minutes) WHERE v > floor"""
        ).fetchall()
        self.alerts = {(name, int(v)) for name, v in found}


def run(quick: bool) -> Result:
    """One run for each number of subscriptions; in it, those that are compared take turns."""
    rate, symbols, runs = (5_000, 50, 1) if quick else (1_000_000, 5_000, 3)
    sizes = (20, 100) if quick else (10, 100, 1_000, 10_000, 100_000)
    rows = []
    for size in sizes:
        subscriptions = Subscriptions(size, min(symbols, max(1, size // 2)), symbols)
        rows += _measure(subscriptions, rate, symbols, runs, most_alone=20 if quick else 1_000)
    notes = NOTES.format(windows=WINDOWS, rate=rate, symbols=symbols, runs=runs)
    return Result(
        name="subscriptions",
        title="Subscriptions that differ in a constant",
        notes=" ".join(notes.split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": runs, "events_a_minute": rate, "symbols": symbols},
    )


def _measure(
    subscriptions: Subscriptions, rate: int, symbols: int, runs: int, most_alone: int
) -> list[dict[str, Any]]:
    queries = subscriptions.queries(rate)
    by_symbol = {
        f"g{m}": f"SELECT symbol, SUM(n) AS v FROM s [RANGE {m} MINUTES SLIDE 1 MINUTE] GROUP BY symbol "
        f"HAVING SUM(n) > {int(550 * rate * m / symbols)}"
        for m in range(1, WINDOWS + 1)
    }
    entrants: dict[str, InEngine | InDuckDB] = {
        "lanes": InEngine(queries),
        "GROUP BY": InEngine(by_symbol),
        "DuckDB": InDuckDB(subscriptions, rate),
    }
    if subscriptions.count <= most_alone:
        entrants["a filter each"] = InEngine(queries, with_lanes=False)
    minutes = [_minute(number, rate, symbols) for number in range(WINDOWS + 1 + runs + 1)]
    for number, batches in enumerate(minutes[: WINDOWS + 1]):
        for each in entrants.values():
            for batch in batches:
                each.push(batch)
            each.advance(number + 1)
    actions: list[Callable[[int], object]] = []
    for each in entrants.values():
        actions.append(lambda run, each=each: [each.push(batch) for batch in minutes[WINDOWS + 1 + run]])
        actions.append(lambda run, each=each: each.advance(WINDOWS + 2 + run))
    timings = measure_side_by_side(actions, runs)
    expected = entrants["lanes"].alerts
    for name, each in entrants.items():
        assert name == "GROUP BY" or each.alerts == expected, name
    rows = []
    for (name, each), push, advance in zip(entrants.items(), timings[::2], timings[1::2], strict=True):
        rows.append(
            {
                "how": name,
                "subscriptions": subscriptions.count,
                "constants": subscriptions.symbols,
                "push_rate": rate / push.cpu_median,
                "advance_ms": 1000 * advance.cpu_median,
                "rate": rate / (push.cpu_median + advance.cpu_median),
                "alerts": len(each.alerts),
                "bytes_each": each.state_bytes / subscriptions.count,
            }
        )
    return rows


def _minute(number: int, rate: int, symbols: int) -> list[pa.Table]:
    """The events of a minute, in ten batches."""
    random = np.random.default_rng(number)
    names = pa.array([f"S{i}" for i in range(symbols)])
    many = rate // 10
    batches = []
    for part in range(10):
        begin = number * MINUTE + part * MINUTE // 10
        batches.append(
            pa.table(
                {
                    "ts": begin + np.sort(random.integers(0, MINUTE // 10, many)),
                    "symbol": names.take(pa.array(random.integers(0, symbols, many))),
                    "n": random.integers(0, 1_000, many),
                }
            )
        )
    return batches
