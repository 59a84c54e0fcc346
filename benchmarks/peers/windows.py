"""Windows per key or of the whole stream: many lengths, slides and aggregates over the same events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import muntin
from benchmarks.peers.race import Contestant

SLIDES = (1, 2, 3, 6)  # seconds
LONGEST = 600
STEP = 6  # seconds: what every slide divides
SECOND = 1_000_000
CALLS = {
    "SUM(n)": "sum_n", "COUNT(*)": "events", "AVG(n)": "avg_n", "MIN(n)": "min_n", "MAX(n)": "max_n",
    "SUM(m)": "sum_m", "AVG(m)": "avg_m", "MIN(m)": "min_m", "MAX(m)": "max_m",
}  # fmt: skip
PARTS = {
    "events": "sum", "sum_n": "sum", "min_n": "min", "max_n": "max", "sum_m": "sum", "min_m": "min", "max_m": "max"
}  # fmt: skip
NEUTRAL = {"sum": 0, "min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}  # of a key without events
THIN = 10  # what fills the windows has a tenth of the events, which makes as many slices
FEW = 16  # windows due at once, up to which combining the slices of each is cheaper than one pass for all


class Asked(NamedTuple):
    """One query: its window and slide in seconds, and its aggregate."""

    size: int
    slide: int
    call: str

    def sql(self, by_key: bool) -> str:
        window = f"[RANGE {self.size} SECONDS SLIDE {self.slide} SECONDS]"
        return f"SELECT {'k, ' * by_key}{self.call} AS v FROM s {window}{' GROUP BY k' * by_key}"


def asked(count: int, longest: int = LONGEST) -> list[Asked]:
    """So many different queries, drawn at random; the first has the longest window."""
    every = [
        Asked(size, slide, call)
        for slide in SLIDES
        for size in range(slide, longest + 1, slide)
        for call in CALLS
    ]
    first = Asked(longest, 1, "SUM(n)")
    every.remove(first)
    return [first, *Random(1).sample(every, count - 1)]


@dataclass(frozen=True)
class Windows:
    """So many events a second, of so many keys; without keys, queries are about the whole stream."""

    title: str
    rate: int
    keys: int = 0
    longest: int = LONGEST
    unit: str = "events"

    @property
    def work(self) -> int:
        return self.rate * STEP

    def second(self, number: int, thin: int = 1) -> pa.Table:
        """The events of one second, the same whenever it is asked for; `thin` times fewer, to fill windows sooner."""
        random, many = np.random.default_rng(number), self.rate // thin
        at = number * SECOND + np.arange(many) * SECOND // many
        keys = {"k": random.integers(0, self.keys, many)} if self.keys else {}
        values = {"n": random.integers(0, 1_000, many), "m": random.integers(0, 1_000_000, many)}
        return pa.table({"ts": at, **keys, **values})

    def step(self, number: int) -> list[tuple[int, pa.Table]]:
        """The seconds of a step, after those that fill the windows."""
        return _seconds(self, self.longest + number * STEP)

    prepare = step

    def contestants(self, count: int) -> Mapping[str, Callable[[], Contestant]]:
        queries = asked(count, self.longest)
        return {
            "muntin": partial(Muntin, self, queries, 1), "muntin_2": partial(Muntin, self, queries, 2),
            "polars": partial(Polars, self, queries), "duckdb": partial(DuckDB, self, queries),
        }  # fmt: skip


@lru_cache(maxsize=8)
def _seconds(kind: Windows, first: int) -> list[tuple[int, pa.Table]]:
    return [(second, kind.second(second)) for second in range(first, first + STEP)]


class Muntin:
    """All queries in one engine. Thousands of answers of one row each are taken as one table, as from the others."""

    def __init__(self, kind: Windows, queries: list[Asked], threads: int):
        self.kind, self.queries = kind, queries
        self.engine = muntin.Engine(threads=threads)
        key = "k BIGINT, " if kind.keys else ""
        self.engine.execute(f"CREATE STREAM s (ts BIGINT, {key}n BIGINT, m BIGINT) TIMESTAMP BY ts")
        self.found: list[pa.Table | Mapping[str, pa.Table]] = []

    def fill(self) -> None:
        """A query of the longest window keeps what those that come after it look at, and no more than that."""
        by_key = bool(self.kind.keys)
        used = dict.fromkeys(each.call for each in self.queries)
        calls = ", ".join(f"{call} AS v{number}" for number, call in enumerate(used))
        self.engine.register(Asked(self.kind.longest, 1, "").sql(by_key).replace(" AS v", calls), "longest")
        for second in range(self.kind.longest):
            self._take(second, self.kind.second(second, THIN))
        self.engine.register_many(
            {f"q{number}": each.sql(by_key) for number, each in enumerate(self.queries)}
        )
        self.engine.drop("longest")

    def take(self, step: int) -> None:
        for second, events in self.kind.step(step):
            self._take(second, events)

    def _take(self, second: int, events: pa.Table) -> None:
        self.engine.push("s", events)
        self.found = []
        is_over = False
        while not is_over:
            until = (second + 1) * SECOND
            answers = (
                self.engine.advance(until, together=True) if self._together else self.engine.advance(until)
            )
            self.found.append(answers)
            is_over = not answers.more

    @property
    def _together(self) -> bool:
        return not self.kind.keys and len(self.queries) > FEW

    @property
    def rows(self) -> int:
        return sum(
            table.num_rows for part in self.found for table in (part if self._together else part.values())
        )

    def answer(self, query: int) -> pa.Table | None:
        name = f"q{query}"
        if self._together:
            all_ = [table for part in self.found for table in part]
            found = [table.filter(pa.compute.equal(table["query"], name)) for table in all_]
        else:
            found = [part[name] for part in self.found if name in part]
        found = [table.select(["k", "v"] if self.kind.keys else ["v"]) for table in found if table.num_rows]
        return pa.concat_tables(found) if found else None


class BySlices:
    """What polars and DuckDB have in common: events are folded into slices of a second once for all queries, and these
    into slices of every slide that there is. A window that is due is answered once, for all queries that ask for it.

    Few windows that are due combine the slices of each. Many of them all end now: they nest, so that one pass over the
    slices, backwards in time, has the answers of all.
    """

    def __init__(self, kind: Windows, queries: list[Asked]):
        self.kind, self.queries = kind, queries
        self.sizes: dict[int, list[int]] = defaultdict(list)  # by slide
        for size, slide in sorted({(each.size, each.slide) for each in queries}):
            self.sizes[slide].append(size)
        self.found: Any = None
        self.last = -1

    def fill(self) -> None:
        for second in range(self.kind.longest):
            self.fold(second, self.kind.second(second, THIN))

    def take(self, step: int) -> None:
        for second, events in self.kind.step(step):
            self.fold(second, events)
            self.last = second + 1
            self.found = self.answered(self.due(self.last))

    def due(self, instant: int) -> list[int]:
        """The sizes of windows that close now, each once."""
        return sorted({size for slide, sizes in self.sizes.items() if instant % slide == 0 for size in sizes})

    def is_due(self, query: int) -> bool:
        return self.last % self.queries[query].slide == 0

    def asked_now(self) -> list[Asked]:
        return [each for each in self.queries if self.last % each.slide == 0]

    def fold(self, second: int, events: pa.Table) -> None:
        raise NotImplementedError

    def answered(self, sizes: list[int]) -> Any:
        raise NotImplementedError


class Polars(BySlices):
    """A frame of slices: a row for each second and key. What is found is a frame for each size, whose columns are
    the answers of the queries that have it."""

    def __init__(self, kind: Windows, queries: list[Asked]):
        super().__init__(kind, queries)
        self.by = ["k"] if kind.keys else []
        self.slices = pl.DataFrame()
        self.grid = pl.DataFrame({"k": np.arange(kind.keys or 1)})
        self.young: list[pl.DataFrame] = []

    def fold(self, second: int, events: pa.Table) -> None:
        frame = pl.from_arrow(events)
        assert isinstance(frame, pl.DataFrame)
        parts = [pl.len().cast(pl.Int64).alias("events")]
        for column in "nm":
            value = pl.col(column)
            parts += [
                value.sum().alias(f"sum_{column}"), value.min().alias(f"min_{column}"),
                value.max().alias(f"max_{column}"),
            ]  # fmt: skip
        slice_ = frame.group_by("k").agg(parts) if self.by else frame.select(parts)
        if self.by:  # a row for each key, so that slices are of one length
            slice_ = self.grid.join(slice_, on="k", how="left", maintain_order="left")
            slice_ = slice_.with_columns(pl.col(name).fill_null(NEUTRAL[how]) for name, how in PARTS.items())
        self.young = [*self.young, slice_][-self.kind.longest :]

    def answered(self, sizes: list[int]) -> dict[int, pl.DataFrame]:
        return self._one_by_one(sizes) if len(sizes) <= FEW else self._in_one(sizes)

    def _one_by_one(self, sizes: list[int]) -> dict[int, pl.DataFrame]:
        parts = [getattr(pl.col(name), how)() for name, how in PARTS.items()]
        found = {}
        for size in sizes:
            slices = pl.concat(self.young[-size:])
            whole = slices.group_by("k").agg(parts) if self.by else slices.select(parts)
            found[size] = self._shown(whole)
        return found

    def _in_one(self, sizes: list[int]) -> dict[int, pl.DataFrame]:
        height = len(self.grid)
        slices = pl.concat(self.young[::-1][: sizes[-1]])
        parts = [getattr(pl.col(name), f"cum_{how}")() for name, how in PARTS.items()]
        if self.by:
            nested = slices.select("k", *(each.over("k") for each in parts))
        else:
            nested = slices.select(parts)
        nested = self._averaged(nested)
        wholes = {size: nested.slice((size - 1) * height, height) for size in sizes}
        if self.by and nested["events"].head(height * sizes[0]).min() == 0:
            wholes = {size: each.filter(pl.col("events") > 0) for size, each in wholes.items()}
        return wholes

    def _shown(self, whole: pl.DataFrame) -> pl.DataFrame:
        return self._averaged(whole.filter(pl.col("events") > 0))

    def _averaged(self, whole: pl.DataFrame) -> pl.DataFrame:
        averages = ((pl.col(f"sum_{each}") / pl.col("events")).alias(f"avg_{each}") for each in "nm")
        return whole.with_columns(*averages)

    @property
    def rows(self) -> int:
        return sum(self.found[each.size].height for each in self.asked_now())

    def answer(self, query: int) -> pa.Table | None:
        if not self.is_due(query):
            return None
        frame = self.found[self.queries[query].size]
        return frame.select(*self.by, v=CALLS[self.queries[query].call]).to_arrow()


class DuckDB(BySlices):
    """A table of slices. What is found is one table: a row for each size and key, and a column for each aggregate."""

    def __init__(self, kind: Windows, queries: list[Asked]):
        super().__init__(kind, queries)
        self.key = "k, " if kind.keys else ""
        self.connection = duckdb.connect(config={"threads": 1})
        columns = ", ".join(f"{each} BIGINT" for each in ("second", *(["k"] if self.key else []), *PARTS))
        self.connection.execute(f"CREATE TABLE slices ({columns})")
        self.connection.execute("CREATE TABLE due (size BIGINT, instant BIGINT)")
        self.connection.execute("CREATE TABLE keys AS SELECT range AS k FROM range(?)", [kind.keys])

    def fold(self, second: int, events: pa.Table) -> None:
        self.connection.register("events", events)
        values = ", ".join(f"sum({each})::BIGINT, min({each}), max({each})" for each in "nm")
        group = "GROUP BY k" if self.key else ""
        self.connection.execute(
            f"INSERT INTO slices SELECT {second}, {self.key}count(*), {values} FROM events {group}"
        )
        if second % 60 == 0:
            self.connection.execute(f"DELETE FROM slices WHERE second <= {second - self.kind.longest}")

    def answered(self, sizes: list[int]) -> pa.Table:
        text = self._one_by_one(sizes) if len(sizes) <= FEW else self._in_one(sizes)
        averages = ", ".join(f"sum_{each} / events AS avg_{each}" for each in "nm")
        return self.connection.sql(f"SELECT *, {averages} FROM ({text}) WHERE events > 0").to_arrow_table()

    def _one_by_one(self, sizes: list[int]) -> str:
        parts = ", ".join(f"{how}({name})::BIGINT AS {name}" for name, how in PARTS.items())
        group = "GROUP BY k" if self.key else ""
        return " UNION ALL ".join(
            f"SELECT {size} AS size, {self.key}{parts} FROM slices WHERE second >= {self.last - size} {group}"
            for size in sizes
        )

    def _in_one(self, sizes: list[int]) -> str:
        oldest = self.last - sizes[-1]
        parts = ", ".join(f"{how}({name}) OVER w::BIGINT AS {name}" for name, how in PARTS.items())
        due = ", ".join(map(str, sizes))
        if not self.key:
            nested = (
                f"SELECT {self.last} - second AS size, {parts} FROM slices WHERE second >= {oldest} "
                "WINDOW w AS (ORDER BY second DESC)"
            )
            return f"SELECT * FROM ({nested}) WHERE size IN ({due})"
        # a row for each key and second, also where the key has no event, since each is the end of a window
        cells = (
            f"SELECT {self.last} - t.second AS size, k, {', '.join(PARTS)} "
            f"FROM range({oldest}, {self.last}) AS t(second) CROSS JOIN keys "
            "LEFT JOIN slices USING (second, k)"
        )
        nested = f"SELECT size, k, {parts} FROM ({cells}) WINDOW w AS (PARTITION BY k ORDER BY size)"
        return f"SELECT * FROM ({nested}) WHERE size IN ({due})"

    @property
    def rows(self) -> int:
        sizes, heights = np.unique(self.found["size"].to_numpy(), return_counts=True)
        height = dict(zip(sizes.tolist(), heights.tolist(), strict=True))
        return sum(height[each.size] for each in self.asked_now())

    def answer(self, query: int) -> pa.Table | None:
        if not self.is_due(query):
            return None
        size, _, call = self.queries[query]
        table = self.found.filter(pa.compute.equal(self.found["size"], size))
        return table.select([*(["k"] if self.key else []), CALLS[call]]).rename_columns(
            ["k", "v"] if self.key else ["v"]
        )
