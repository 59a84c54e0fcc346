"""Rules per symbol that differ in `WHERE price > v`: bands of one store, a filter each, and DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.measure import Column, Result, measure_side_by_side
from benchmarks.workloads import MINUTE, Draw, minute_of_events
from muntin import Engine
from muntin.plan import choices

COLUMNS = [
    Column("how", "served by"), Column("rules", "rules", ",d"),
    Column("rate", "events per CPU s, answers included", ",.0f"),
    Column("push_rate", "events pushed per CPU s", ",.0f"),
    Column("advance_ms", "an instant, CPU ms", ",.1f"), Column("alerts", "alerts an instant", ",d"),
    Column("state_mb", "state, MB", ",.1f"),
]  # fmt: skip
SPAN, PRICES = 10, 100
NOTES = """`SELECT symbol, SUM(n) AS v … [RANGE {span} MINUTES SLIDE 1 MINUTE] WHERE price > … GROUP BY symbol
HAVING SUM(n) > …`, another price for each rule, over {symbols:,} symbols and {rate:,} events a minute of event time in
ten batches; windows are full before anything is timed, and every minute every answer is made. `bands`: all rules read
one store. `a filter each`: every rule has a store of its own, as in 0.1.0. `DuckDB` does what an expert writes: the
events of the last minute are summed once by symbol and band of the price, the sums of ten minutes are kept, and one
query adds them up from the highest band down and joins them with a table of rules; one thread. Keeping the events
until the minute is over costs it nothing here. All give the same alerts. CPU seconds, medians of {runs} minutes, taken
in turns."""


class Rules:
    """So many, each with a price and a threshold of its own."""

    def __init__(self, count: int, rate: int, symbols: int):
        self.cuts = [PRICES * number / count for number in range(count)]
        mean = 500 * SPAN * rate / symbols
        self.floors = [int(1.25 * mean * (1 - cut / PRICES) + 2_000) for cut in self.cuts]

    def queries(self) -> dict[str, str]:
        return {
            f"q{i}": f"SELECT symbol, SUM(n) AS v FROM s [RANGE {SPAN} MINUTES SLIDE 1 MINUTE] WHERE price > {cut!r} "
            f"GROUP BY symbol HAVING SUM(n) > {floor}"
            for i, (cut, floor) in enumerate(zip(self.cuts, self.floors, strict=True))
        }


class InEngine:
    """Rules in an engine of muntin's."""

    def __init__(self, rules: Rules, with_bands: bool):
        self._engine = Engine(backlog_bytes=1 << 30)
        self._engine.execute(
            "CREATE STREAM s (ts BIGINT, symbol BIGINT, price DOUBLE, n BIGINT) TIMESTAMP BY ts"
        )
        names = ("MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY")
        before = {name: getattr(choices, name) for name in names}
        try:
            if not with_bands:
                for name in names:
                    setattr(choices, name, 1 << 60)
            self._engine.register_many(rules.queries())
            self._engine.push("s", {"ts": [0], "symbol": [0], "price": [0.0], "n": [0]})
        finally:
            for name, value in before.items():
                setattr(choices, name, value)
        self._answers: dict[str, pa.Table] = {}

    def push(self, batch: pa.Table) -> None:
        self._engine.push("s", batch)

    def advance(self, minute: int) -> None:
        self._answers = self._engine.advance(until=minute * MINUTE)

    @property
    def alerts(self) -> set[tuple[str, int, int]]:
        return {
            (name, symbol, v)
            for name, table in self._answers.items()
            for symbol, v in zip(table["symbol"].to_pylist(), table["v"].to_pylist(), strict=True)
        }

    @property
    def state_bytes(self) -> int:
        return int(self._engine.stats()["streams"]["s"]["bytes"])


class InDuckDB:
    """Sums of each minute by symbol and band are kept in a table."""

    state_bytes = 0

    def __init__(self, rules: Rules):
        self._database = duckdb.connect(config={"threads": 1})
        names = [f"q{i}" for i in range(len(rules.cuts))]
        self._rules = pa.table({"name": names, "cut": rules.cuts, "floor": rules.floors})
        self._database.register("given", self._rules)
        self._database.execute(
            "CREATE TABLE rules AS SELECT *, row_number() OVER (ORDER BY cut) AS band FROM given"
        )
        self._database.execute("CREATE TABLE sums (symbol BIGINT, band BIGINT, minute BIGINT, n BIGINT)")
        self._kept: list[pa.Table] = []
        self._found = pa.table({name: pa.array([], pa.int64()) for name in ("name", "symbol", "v")})

    def push(self, batch: pa.Table) -> None:
        self._kept.append(batch)

    def advance(self, minute: int) -> None:
        self._database.register("events", pa.concat_tables(self._kept))
        self._kept = []
        self._database.execute(f"DELETE FROM sums WHERE minute < {minute - SPAN}")
        self._database.execute(
            f"""INSERT INTO sums SELECT symbol, band, ts // {MINUTE}, SUM(n)::BIGINT
                FROM events ASOF JOIN rules ON events.price > rules.cut GROUP BY ALL"""
        )
        self._found = self._database.sql(
            """WITH totals AS (SELECT symbol, band, SUM(n)::BIGINT AS n FROM sums GROUP BY ALL),
                 above AS (SELECT symbol, band, (SUM(n) OVER (PARTITION BY symbol ORDER BY band DESC))::BIGINT AS v
                           FROM totals),
                 each_band AS (SELECT symbols.symbol, rules.name, rules.floor, rules.band
                               FROM (SELECT DISTINCT symbol FROM totals) symbols, rules)
               SELECT name, e.symbol, v FROM each_band e ASOF JOIN above a ON e.symbol = a.symbol AND e.band <= a.band
               WHERE v > floor"""
        ).to_arrow_table()

    @property
    def alerts(self) -> set[tuple[str, int, int]]:
        columns = (self._found[each].to_pylist() for each in ("name", "symbol", "v"))
        return set(zip(*columns, strict=True))


def run(quick: bool) -> Result:
    """One run for each number of rules; in it, those that are compared take turns."""
    rate, symbols, runs = (5_000, 50, 1) if quick else (1_000_000, 1_000, 3)
    rows = [
        row for count in ((20,) if quick else (100, 1_000)) for row in _measure(count, rate, symbols, runs)
    ]
    return Result(
        name="ranges_per_key",
        title="Rules per key that differ in a range",
        notes=" ".join(NOTES.format(span=SPAN, rate=rate, symbols=symbols, runs=runs).split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": runs, "events_a_minute": rate, "symbols": symbols},
    )


def _measure(count: int, rate: int, symbols: int, runs: int) -> list[dict[str, Any]]:
    rules = Rules(count, rate, symbols)
    entrants: dict[str, InEngine | InDuckDB] = {"bands": InEngine(rules, True), "DuckDB": InDuckDB(rules)}
    if count <= 100:
        entrants["a filter each"] = InEngine(rules, False)
    minutes = [_minute(number, rate, symbols) for number in range(SPAN + 4 + runs + 1)]
    for number, batches in enumerate(minutes[: SPAN + 4]):
        for each in entrants.values():
            for batch in batches:
                each.push(batch)
            each.advance(number + 1)
    actions: list[Callable[[int], object]] = []
    for each in entrants.values():
        actions.append(lambda run, each=each: [each.push(batch) for batch in minutes[SPAN + 4 + run]])
        actions.append(lambda run, each=each: each.advance(SPAN + 5 + run))
    timings = measure_side_by_side(actions, runs)
    expected = entrants["bands"].alerts
    rows = []
    for (name, each), push, advance in zip(entrants.items(), timings[::2], timings[1::2], strict=True):
        assert each.alerts == expected, name
        rows.append(
            {
                "how": name,
                "rules": count,
                "rate": rate / (push.cpu_median + advance.cpu_median),
                "push_rate": rate / push.cpu_median,
                "advance_ms": 1000 * advance.cpu_median,
                "alerts": len(expected),
                "state_mb": each.state_bytes / 2**20,
            }
        )
    return rows


def _minute(number: int, rate: int, symbols: int) -> list[pa.Table]:
    columns: dict[str, Draw] = {
        "symbol": lambda random, many: random.integers(0, symbols, many),
        "price": lambda random, many: random.random(many) * PRICES,
        "n": lambda random, many: random.integers(0, 1_000, many),
    }
    return minute_of_events(number, rate, columns)
