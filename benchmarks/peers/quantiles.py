"""Quantiles per key: many parts of many windows over the same values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import muntin
from benchmarks.peers.race import Contestant
from benchmarks.workloads import MINUTE, Draw, minute_of_events

LONGEST = 30  # minutes: a window of every length


class Asked(NamedTuple):
    """One query: its window in minutes, and which part of the values lies below the answer."""

    size: int
    phi: float

    @property
    def sql(self) -> str:
        window = f"[RANGE {self.size} MINUTES SLIDE 1 MINUTE]"
        return f"SELECT k, QUANTILE(x, {self.phi}) AS v FROM s {window} GROUP BY k"


def asked(count: int) -> list[Asked]:
    """So many different ones: all windows for the first part, then all for the second; parts are spread evenly."""
    parts = -(-count // LONGEST)
    return [
        Asked(LONGEST - number % LONGEST, round((2 * (number // LONGEST) + 1) / (2 * parts), 6))
        for number in range(count)
    ]


@dataclass(frozen=True)
class Quantiles:
    """So many events a minute, of so many keys."""

    title: str
    work: int
    keys: int
    unit: str = "events"

    def minute(self, number: int) -> pa.Table:
        return _minute(number, self.work, self.keys)

    def prepare(self, step: int) -> pa.Table:
        """The minute of a step, after those that fill the windows."""
        return self.minute(LONGEST + step)

    def contestants(self, count: int) -> Mapping[str, Callable[[], Contestant]]:
        queries = asked(count)
        return {
            "muntin": partial(Muntin, self, queries, 1), "muntin_2": partial(Muntin, self, queries, 2),
            "polars": partial(Polars, self, queries), "duckdb": partial(DuckDB, self, queries),
        }  # fmt: skip


@lru_cache(maxsize=40)
def _minute(number: int, events: int, keys: int) -> pa.Table:
    columns: dict[str, Draw] = {
        "k": lambda random, many: random.integers(0, keys, many),
        "x": lambda random, many: random.normal(size=many),
    }
    return minute_of_events(number, events, columns, batches=1)[0]


class Muntin:
    """A query for each part of each window."""

    def __init__(self, kind: Quantiles, queries: list[Asked], threads: int):
        self.kind = kind
        self.engine = muntin.Engine(threads=threads)
        self.engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE) TIMESTAMP BY ts")
        self.texts = {f"q{number}": each.sql for number, each in enumerate(queries)}
        self.found: list[Mapping[str, pa.Table]] = []

    def fill(self) -> None:
        self.engine.register(Asked(LONGEST, 0.5).sql, "longest")
        for minute in range(LONGEST):
            self._take(minute)
        self.engine.register_many(self.texts)
        self.engine.drop("longest")

    def take(self, step: int) -> None:
        self._take(LONGEST + step)

    def _take(self, minute: int) -> None:
        self.engine.push("s", self.kind.minute(minute))
        self.found = []
        while not self.found or self.found[-1].more:  # type: ignore[attr-defined]
            self.found.append(self.engine.advance(until=(minute + 1) * MINUTE))

    @property
    def rows(self) -> int:
        return sum(table.num_rows for part in self.found for table in part.values())

    def answer(self, query: int) -> pa.Table | None:
        return pa.concat_tables(part[f"q{query}"] for part in self.found if f"q{query}" in part).select(
            ["k", "v"]
        )


class ByWindow:
    """What polars and DuckDB have in common: one question for each window, with all parts that are asked of it."""

    def __init__(self, kind: Quantiles, queries: list[Asked]):
        self.kind, self.queries = kind, queries
        self.parts: dict[int, list[float]] = defaultdict(list)
        for size, phi in queries:
            self.parts[size].append(phi)
        self.found: dict[int, Any] = {}

    def place(self, query: int) -> tuple[int, int]:
        """Its window, and the number of its part there."""
        size, phi = self.queries[query]
        return size, self.parts[size].index(phi)

    def fill(self) -> None:
        for minute in range(LONGEST):
            self.insert(minute)

    def take(self, step: int) -> None:
        minute = LONGEST + step
        self.insert(minute)
        self.found = {size: self.window(minute + 1 - size, phis) for size, phis in self.parts.items()}

    @property
    def rows(self) -> int:
        return sum(self.height(size) * len(phis) for size, phis in self.parts.items())

    def insert(self, minute: int) -> None:
        raise NotImplementedError

    def window(self, first: int, phis: list[float]) -> Any:
        raise NotImplementedError

    def height(self, size: int) -> int:
        raise NotImplementedError


class Polars(ByWindow):
    """The values of all windows are kept in order, so that a part of a window is a place among its key's values."""

    def __init__(self, kind: Quantiles, queries: list[Asked]):
        super().__init__(kind, queries)
        self.events = pl.DataFrame()

    def insert(self, minute: int) -> None:
        given = pl.from_arrow(self.kind.minute(minute))
        assert isinstance(given, pl.DataFrame)
        old = (
            self.events.filter(pl.col("ts") >= (minute + 1 - LONGEST) * MINUTE)
            if len(self.events)
            else given[:0]
        )
        self.events = pl.concat([old, given]).sort("k", "x")

    def window(self, first: int, phis: list[float]) -> pl.DataFrame:
        inside = self.events.filter(pl.col("ts") >= first * MINUTE)  # in order of keys and values
        many = inside.group_by("k", maintain_order=True).len("many")
        heights = many["many"].to_numpy().astype(np.int64)
        starts = np.cumsum(heights) - heights
        ranks = np.maximum(np.ceil(np.outer(phis, heights)).astype(np.int64), 1) - 1
        values = inside["x"].gather((starts + ranks).ravel())
        return many.select("k").with_columns(
            values.slice(number * len(many), len(many)).alias(str(number)) for number in range(len(phis))
        )

    def height(self, size: int) -> int:
        return int(self.found[size].height)

    def answer(self, query: int) -> pa.Table | None:
        size, number = self.place(query)
        return self.found[size].select("k", v=str(number)).to_arrow()


class DuckDB(ByWindow):
    """Events in a table, blocks of which are skipped by their times; one call gives a list of all parts."""

    def __init__(self, kind: Quantiles, queries: list[Asked]):
        super().__init__(kind, queries)
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("CREATE TABLE s (ts BIGINT, k BIGINT, x DOUBLE)")

    def insert(self, minute: int) -> None:
        self.connection.register("given", self.kind.minute(minute))
        self.connection.execute("INSERT INTO s SELECT ts, k, x FROM given")
        self.connection.execute("DELETE FROM s WHERE ts < ?", [(minute + 1 - LONGEST) * MINUTE])

    def window(self, first: int, phis: list[float]) -> pa.Table:
        call = f"quantile_disc(x, [{', '.join(map(str, phis))}])"
        return self.connection.sql(
            f"SELECT k, {call} AS v FROM s WHERE ts >= {first * MINUTE} GROUP BY k"
        ).to_arrow_table()

    def height(self, size: int) -> int:
        return int(self.found[size].num_rows)

    def answer(self, query: int) -> pa.Table | None:
        size, number = self.place(query)
        table = self.found[size]
        return pa.table({"k": table["k"], "v": pa.compute.list_element(table["v"], number)})
