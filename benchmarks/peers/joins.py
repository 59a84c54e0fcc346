"""Joins: pairs of two streams with the same key, within windows of many lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import muntin
from benchmarks.peers.race import Contestant

LONGEST = 60  # seconds
SECOND = 1_000_000
VALUES = {"a": "x", "b": "y"}


def sizes(count: int) -> list[int]:
    """Windows of so many lengths, in milliseconds; the longest first."""
    return [LONGEST * 1000 * (count - number) // count for number in range(count)]


@dataclass(frozen=True)
class Joins:
    """So many events a second of each stream, with keys out of so many."""

    title: str
    rate: int
    keys: int
    unit: str = "events"

    @property
    def work(self) -> int:
        return 2 * self.rate

    def prepare(self, step: int) -> dict[str, pa.Table]:
        """The second of a step, after those that fill the windows, in both streams."""
        return _both(self, LONGEST + step)

    def second(self, number: int, stream: str) -> pa.Table:
        random = np.random.default_rng([number, ord(stream)])
        at = number * SECOND + np.sort(random.integers(0, SECOND, self.rate))
        columns = {
            "k": random.integers(0, self.keys, self.rate),
            VALUES[stream]: random.integers(0, 1_000, self.rate),
        }
        return pa.table({"ts": at, **columns})

    def contestants(self, count: int) -> Mapping[str, Callable[[], Contestant]]:
        return {
            "muntin": partial(Muntin, self, count, 1), "muntin_2": partial(Muntin, self, count, 2),
            "polars": partial(Polars, self, count), "duckdb": partial(DuckDB, self, count),
        }  # fmt: skip


@lru_cache(maxsize=80)
def _both(kind: Joins, number: int) -> dict[str, pa.Table]:
    return {stream: kind.second(number, stream) for stream in VALUES}


class Muntin:
    """A query for each window."""

    def __init__(self, kind: Joins, count: int, threads: int):
        self.kind = kind
        self.engine = muntin.Engine(threads=threads)
        self.engine.execute(
            "CREATE STREAM a (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts;"
            "CREATE STREAM b (ts BIGINT, k BIGINT, y BIGINT) TIMESTAMP BY ts"
        )
        self.texts = {
            f"q{number}": f"SELECT x, y FROM a [RANGE {size} MILLISECONDS SLIDE 1 SECOND] "
            f"JOIN b [RANGE {size} MILLISECONDS] ON a.k = b.k"
            for number, size in enumerate(sizes(count))
        }
        self.found: list[Mapping[str, pa.Table]] = []

    def fill(self) -> None:
        """The longest window comes first, the others when it is full."""
        self.engine.register(self.texts["q0"], "q0")
        for step in range(-LONGEST, 0):
            self.take(step)
        self.engine.register_many({name: text for name, text in self.texts.items() if name != "q0"})

    def take(self, step: int) -> None:
        for stream, events in self.kind.prepare(step).items():
            self.engine.push(stream, events)
        self.found = []
        while not self.found or self.found[-1].more:  # type: ignore[attr-defined]
            self.found.append(self.engine.advance(until=(LONGEST + step + 1) * SECOND))

    @property
    def rows(self) -> int:
        return sum(table.num_rows for part in self.found for table in part.values())

    def answer(self, query: int) -> pa.Table | None:
        found = [part[f"q{query}"] for part in self.found if f"q{query}" in part]
        empty = {"x": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}
        return pa.concat_tables(found).select(["x", "y"]) if found else pa.table(empty)


class OnceForAll:
    """What polars and DuckDB have in common: new events are joined with the other stream's of the longest window, once
    for all queries. A pair is in a window as long as the older of the two is."""

    def __init__(self, kind: Joins, count: int):
        self.kind, self.sizes = kind, sizes(count)

    def fill(self) -> None:
        for step in range(-LONGEST, 0):
            self.match(step)

    def take(self, step: int) -> None:
        self.match(step)
        self.read((LONGEST + step + 1) * SECOND)

    def match(self, step: int) -> None:
        raise NotImplementedError

    def read(self, now: int) -> None:
        raise NotImplementedError


class Polars(OnceForAll):
    """Pairs in order of their older event: those of a window are the last so many."""

    def __init__(self, kind: Joins, count: int):
        super().__init__(kind, count)
        self.events: dict[str, pl.DataFrame] = {}
        self.pairs = pl.DataFrame()
        self.found: list[pl.DataFrame] = []

    def match(self, step: int) -> None:
        given = {stream: pl.DataFrame(table) for stream, table in self.kind.prepare(step).items()}
        since = (LONGEST + step + 1) * SECOND - LONGEST * SECOND
        old = {
            stream: self.events[stream].filter(pl.col("ts") >= since) if self.events else table[:0]
            for stream, table in given.items()
        }
        self.events = {stream: pl.concat([old[stream], given[stream]]) for stream in given}
        new = pl.concat(
            [
                given["a"].join(self.events["b"], on="k").select("x", "y", "ts", "ts_right"),
                old["a"].join(given["b"], on="k").select("x", "y", "ts", "ts_right"),
            ]
        ).select("x", "y", older=pl.min_horizontal("ts", "ts_right"))
        kept = self.pairs.filter(pl.col("older") >= since) if len(self.pairs) else new[:0]
        self.pairs = pl.concat([kept, new]).sort("older")

    def read(self, now: int) -> None:
        pairs = self.pairs.select("x", "y")
        begins = self.pairs["older"].search_sorted(now - np.array(self.sizes) * 1000, "left").to_numpy()
        self.found = [pairs.slice(begin) for begin in begins.tolist()]

    @property
    def rows(self) -> int:
        return sum(frame.height for frame in self.found)

    def answer(self, query: int) -> pa.Table | None:
        return self.found[query].to_arrow()


class DuckDB(OnceForAll):
    """Pairs in a table, joined with a table of windows: one answer with all of them."""

    def __init__(self, kind: Joins, count: int):
        super().__init__(kind, count)
        self.connection = duckdb.connect(config={"threads": 1})
        windows = pa.table({"number": np.arange(count), "size": np.array(self.sizes) * 1000})
        self.connection.register("given", windows)
        self.connection.execute("CREATE TABLE windows AS SELECT * FROM given")
        for stream, value in VALUES.items():
            self.connection.execute(f"CREATE TABLE {stream} (ts BIGINT, k BIGINT, {value} BIGINT)")
        self.connection.execute("CREATE TABLE pairs (x BIGINT, y BIGINT, older BIGINT)")
        self.found = pa.table({})

    def match(self, step: int) -> None:
        run = self.connection.execute
        since = (LONGEST + step + 1) * SECOND - LONGEST * SECOND
        for stream, table in self.kind.prepare(step).items():
            run(f"DELETE FROM {stream} WHERE ts < {since}")
            self.connection.register(f"new_{stream}", table)
        new = "SELECT x, y, least(a.ts, b.ts) FROM {} AS a JOIN {} AS b USING (k)"
        run(f"DELETE FROM pairs WHERE older < {since}")
        run(f"INSERT INTO pairs {new.format('a', 'new_b')} UNION ALL {new.format('new_a', 'b')} "
            f"UNION ALL {new.format('new_a', 'new_b')}")  # fmt: skip
        for stream in VALUES:
            run(f"INSERT INTO {stream} SELECT * FROM new_{stream}")

    def read(self, now: int) -> None:
        self.found = self.connection.sql(
            f"SELECT number, x, y FROM windows JOIN pairs ON older >= {now} - size"
        ).to_arrow_table()

    @property
    def rows(self) -> int:
        return int(self.found.num_rows)

    def answer(self, query: int) -> pa.Table | None:
        return self.found.filter(pa.compute.equal(self.found["number"], query)).select(["x", "y"])
