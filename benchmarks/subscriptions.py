"""Subscriptions that differ in a constant of WHERE: lanes of one store, a store for each, one GROUP BY, and DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import polars
import pyarrow as pa

from benchmarks.measure import Column, Result, measure_side_by_side
from benchmarks.workloads import MINUTE, Draw, minute_of_events
from muntin import Engine
from muntin.plan import choices

COLUMNS = [
    Column("how", "served by"), Column("compared", "columns compared", ",d"),
    Column("subscriptions", "subscriptions", ",d"), Column("constants", "symbols", ",d"),
    Column("push_rate", "events pushed per CPU s", ",.0f"), Column("advance_ms", "an instant, CPU ms", ",.1f"),
    Column("rate", "events per CPU s, answers included", ",.0f"), Column("alerts", "alerts an instant", ",d"),
    Column("bytes_each", "state, bytes each", ",.0f"),
]  # fmt: skip
WINDOWS = 10  # of one to ten minutes
NOTES = """`SELECT SUM(n) … [RANGE m MINUTES SLIDE 1 MINUTE] WHERE symbol = … HAVING SUM(n) > …`, {windows} different
m, every subscription with a threshold of its own; with two columns, `WHERE symbol = … AND venue = …`. {rate:,}
events a minute of event time in ten batches, over {symbols:,} symbols and {venues} venues; windows are full before
anything is timed, and every minute every answer is made. `lanes`: subscriptions read lanes of one store. `a filter
each`: as before there were lanes. `GROUP BY`: {windows} queries that answer for all symbols, with one threshold.
`DuckDB, rescan`: each minute the events of ten minutes are summed by symbol and minute, then joined with a table of
subscriptions. `DuckDB` and `polars` do what an expert writes who knows the windows: the events of the last minute are
summed once, sums of ten minutes are kept, totals of all windows are made of them and joined with the table of
subscriptions; one thread. `DuckDB, FILTER`: the same sums, and one filtered aggregate for each subscription. Keeping
the events until the minute is over costs them nothing here. All give the same alerts. CPU seconds, medians of {runs}
minutes, taken in turns."""
VENUES = 10
FEW_SYMBOLS = 1_000


@dataclass(frozen=True)
class Subscriptions:
    """So many of them, on so many of the symbols there are; no two are alike."""

    count: int
    symbols: int
    all_symbols: int
    with_venue: bool = False
    has_floor: bool = True  # without, every subscription has an answer every minute

    def minutes(self, number: int) -> int:
        return 1 + number // self.symbols % WINDOWS

    def symbol(self, number: int) -> str:
        return f"S{number % self.symbols}"

    def venue(self, number: int) -> str:
        return f"V{number % 7 % VENUES}" if self.with_venue else ""

    def floor(self, number: int, rate: int) -> int:
        """What about one in twenty exceeds, or what all do."""
        if not self.has_floor:
            return -1
        expected = 500 * rate * self.minutes(number) / self.all_symbols / (VENUES if self.with_venue else 1)
        return int(expected * (1.1 + 0.0001 * (number % 97)))

    def queries(self, rate: int) -> dict[str, str]:
        return {
            f"q{i}": f"SELECT SUM(n) AS v FROM s [RANGE {self.minutes(i)} MINUTES SLIDE 1 MINUTE] "
            f"WHERE symbol = '{self.symbol(i)}'{self._and_venue(i)}{self._having(i, rate)}"
            for i in range(self.count)
        }

    def _having(self, number: int, rate: int) -> str:
        return f" HAVING SUM(n) > {self.floor(number, rate)}" if self.has_floor else ""

    def _and_venue(self, number: int) -> str:
        return f" AND venue = '{self.venue(number)}'" if self.with_venue else ""

    def table(self, rate: int) -> pa.Table:
        """The same as rows."""
        numbers = range(self.count)
        columns = {
            "name": [f"q{i}" for i in numbers],
            "symbol": [self.symbol(i) for i in numbers],
            "minutes": [self.minutes(i) for i in numbers],
            "floor": [self.floor(i, rate) for i in numbers],
        }
        return pa.table(columns | ({"venue": [self.venue(i) for i in numbers]} if self.with_venue else {}))

    @property
    def columns(self) -> list[str]:
        """Those that WHERE compares."""
        return ["symbol", "venue"] if self.with_venue else ["symbol"]


class InEngine:
    """Queries in an engine of muntin's."""

    def __init__(
        self, queries: dict[str, str], with_lanes: bool = True, threads: int = 1, together: bool = False
    ):
        self._together = together
        self._engine = Engine(backlog_bytes=1 << 30, threads=threads)
        self._engine.execute(
            "CREATE STREAM s (ts BIGINT, symbol VARCHAR, venue VARCHAR, n BIGINT) TIMESTAMP BY ts"
        )
        many, choices.MANY_LANES = choices.MANY_LANES, 2 if with_lanes else 1 << 60
        try:
            self._engine.register_many(queries)
            self._engine.push("s", {"ts": [0], "symbol": ["none"], "venue": ["none"], "n": [0]})
        finally:
            choices.MANY_LANES = many
        self._answers: dict[str, pa.Table] | list[pa.Table] = {}

    def push(self, batch: pa.Table) -> None:
        self._engine.push("s", batch)

    def advance(self, minute: int) -> None:
        if self._together:
            self._answers = self._engine.advance(until=minute * MINUTE, together=True)
        else:
            self._answers = self._engine.advance(until=minute * MINUTE)

    @property
    def alerts(self) -> set[tuple[str, int]]:
        if isinstance(self._answers, list):
            columns = [(table["query"].to_pylist(), table["v"].to_pylist()) for table in self._answers]
            return {pair for names, values in columns for pair in zip(names, values, strict=True)}
        return {(name, v) for name, table in self._answers.items() for v in table.column("v").to_pylist()}

    @property
    def state_bytes(self) -> int:
        return int(self._engine.stats()["streams"]["s"]["bytes"])


class ByHand:
    """Subscriptions as a table, answered by another library: events of the minute, then sums of the minutes before."""

    def __init__(self, subscriptions: Subscriptions, rate: int):
        self.columns = subscriptions.columns
        self.by = ", ".join(self.columns)
        self.rules = subscriptions.table(rate)
        self.windows = sorted({subscriptions.minutes(number) for number in range(subscriptions.count)})
        # those who ask for few of the symbols drop the others' events first
        self.drops_others = subscriptions.symbols < FEW_SYMBOLS
        self.kept: list[pa.Table] = []
        self.found: pa.Table = pa.table({"name": pa.array([], pa.string()), "v": pa.array([], pa.int64())})
        self.state_bytes = 0

    def push(self, batch: pa.Table) -> None:
        self.kept.append(batch)

    @property
    def alerts(self) -> set[tuple[str, int]]:
        return {
            (name, int(v))
            for name, v in zip(*(self.found[each].to_pylist() for each in ("name", "v")), strict=True)
        }


class InDuckDB(ByHand):
    """Sums of each minute are kept in a table."""

    def __init__(self, subscriptions: Subscriptions, rate: int):
        super().__init__(subscriptions, rate)
        self.database = duckdb.connect(config={"threads": 1})
        self.database.register("given", self.rules)
        self.database.execute("CREATE TABLE rules AS SELECT * FROM given")
        typed = ", ".join(f"{each} VARCHAR" for each in self.columns)
        self.database.execute(f"CREATE TABLE sums ({typed}, minute BIGINT, n BIGINT)")

    def advance(self, minute: int) -> None:
        self._sum_up(minute)
        self.found = self.database.sql(
            f"""WITH totals AS (
                  SELECT {self.by}, m.m AS minutes, SUM(n)::BIGINT AS v FROM sums, unnest({self.windows}) AS m(m)
                  WHERE minute >= {minute} - m.m GROUP BY ALL)
                SELECT name, v FROM totals JOIN rules USING ({self.by}, minutes) WHERE v > floor"""
        ).to_arrow_table()

    def _sum_up(self, minute: int) -> None:
        """The events of the minute that is over."""
        self.database.register("events", pa.concat_tables(self.kept))
        self.kept = []
        self.database.execute(f"DELETE FROM sums WHERE minute < {minute - WINDOWS}")
        self.database.execute(
            f"INSERT INTO sums SELECT {self.by}, ts // {MINUTE}, SUM(n)::BIGINT FROM events {self._where()} "
            "GROUP BY ALL"
        )

    def _where(self) -> str:
        return "WHERE symbol IN (SELECT symbol FROM rules)" if self.drops_others else ""


class InDuckDBByFilters(InDuckDB):
    """One filtered aggregate for each subscription, over the same sums."""

    def __init__(self, subscriptions: Subscriptions, rate: int):
        super().__init__(subscriptions, rate)
        self._rows = self.rules.to_pylist()

    def advance(self, minute: int) -> None:
        self._sum_up(minute)
        calls = ", ".join(
            f"SUM(n) FILTER (WHERE {' AND '.join(f'{each} = {row[each]!r}' for each in self.columns)} "
            f"AND minute >= {minute - row['minutes']})::BIGINT"
            for row in self._rows
        )
        values = self.database.sql(f"SELECT {calls} FROM sums").fetchall()[0]
        passing = [
            (row["name"], v) for row, v in zip(self._rows, values, strict=True) if v and v > row["floor"]
        ]
        names, totals = zip(*passing, strict=True) if passing else ((), ())
        self.found = pa.table({"name": pa.array(names, pa.string()), "v": pa.array(totals, pa.int64())})


class RescannedInDuckDB(InDuckDB):
    """What is kept is the events of the longest window."""

    def _sum_up(self, minute: int) -> None:
        self.kept = self.kept[-10 * WINDOWS :]
        self.database.register("events", pa.concat_tables(self.kept))
        self.database.execute(
            f"CREATE OR REPLACE TABLE sums AS SELECT {self.by}, ts // {MINUTE} AS minute, SUM(n)::BIGINT AS n "
            f"FROM events WHERE ts < {minute * MINUTE} GROUP BY ALL"
        )


class InPolars(ByHand):
    """The same steps as data frames."""

    def __init__(self, subscriptions: Subscriptions, rate: int):
        super().__init__(subscriptions, rate)
        self._rules = polars.from_arrow(self.rules)
        self._sums: list[polars.DataFrame] = []

    def advance(self, minute: int) -> None:
        events = polars.from_arrow(pa.concat_tables(self.kept))
        self.kept = []
        if self.drops_others:
            events = events.filter(polars.col("symbol").is_in(self._rules["symbol"].unique().implode()))
        self._sums = [*self._sums[-WINDOWS + 1 :], events.group_by(self.columns).agg(polars.col("n").sum())]
        ages = range(len(self._sums), 0, -1)
        sums = polars.concat(
            [each.with_columns(age=polars.lit(age)) for each, age in zip(self._sums, ages, strict=True)]
        )
        totals = polars.concat(
            [
                sums.filter(polars.col("age") <= m).group_by(self.columns).agg(v=polars.col("n").sum())
                .with_columns(minutes=polars.lit(m, polars.Int64))
                for m in self.windows
            ]
        )  # fmt: skip
        passing = totals.join(self._rules, on=[*self.columns, "minutes"]).filter(
            polars.col("v") > polars.col("floor")
        )
        self.found = passing.select("name", "v").to_arrow()


def run(quick: bool) -> Result:
    """One run for each number of subscriptions; in it, those that are compared take turns."""
    rate, symbols, runs = (5_000, 50, 1) if quick else (1_000_000, 5_000, 3)
    sizes = (20, 100) if quick else (1, 10, 50, 100, 1_000, 10_000, 100_000)
    rows = []
    for size, with_venue in [*((size, False) for size in sizes), (sizes[-1] // 10, True)]:
        subscriptions = Subscriptions(size, min(symbols, max(1, size // 2)), symbols, with_venue)
        rows += _measure(subscriptions, rate, symbols, runs, most_alone=20 if quick else 1_000)
    notes = NOTES.format(windows=WINDOWS, rate=rate, symbols=symbols, venues=VENUES, runs=runs)
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
    entrants: dict[str, InEngine | ByHand] = {
        "lanes": InEngine(queries),
        "GROUP BY": InEngine(by_symbol),
        "DuckDB": InDuckDB(subscriptions, rate),
        "DuckDB, rescan": RescannedInDuckDB(subscriptions, rate),
        "polars": InPolars(subscriptions, rate),
    }
    if subscriptions.count <= most_alone:
        entrants["a filter each"] = InEngine(queries, with_lanes=False)
        entrants["DuckDB, FILTER"] = InDuckDBByFilters(subscriptions, rate)
    minutes = [make_minute(number, rate, symbols) for number in range(WINDOWS + 1 + runs + 1)]
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
                "compared": len(subscriptions.columns),
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


def make_minute(number: int, rate: int, symbols: int) -> list[pa.Table]:
    """The events of a minute, in batches."""
    names, venues = (
        pa.array([f"{letter}{i}" for i in range(n)]) for letter, n in (("S", symbols), ("V", VENUES))
    )
    columns: dict[str, Draw] = {
        "symbol": lambda random, many: names.take(pa.array(random.integers(0, symbols, many))),
        "venue": lambda random, many: venues.take(pa.array(random.integers(0, VENUES, many))),
        "n": lambda random, many: random.integers(0, 1_000, many),
    }
    return minute_of_events(number, rate, columns)
