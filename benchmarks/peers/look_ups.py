"""Look-ups at instants of their own: features of requests from history; events, requests and tables of `lookup_at`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import muntin
from benchmarks.lookup_at import STREAM, connected, make_events, make_requests
from benchmarks.peers.race import Contestant

CALLS = {"SUM(amount)": "amount", "COUNT(*)": "n", "AVG(amount)": "avg_amount", "SUM(items)": "items",
         "AVG(items)": "avg_items"}  # fmt: skip
MINUTE = 60_000_000
LONGEST = 7 * 24 * 60  # minutes


def asked(count: int) -> list[tuple[str, int]]:
    """So many features, each an aggregate and a window in minutes, without SLIDE: all aggregates for each window."""
    windows = -(-count // len(CALLS))
    return [
        (list(CALLS)[number % len(CALLS)], LONGEST * (windows - number // len(CALLS)) // windows)
        for number in range(count)
    ]


@dataclass(frozen=True)
class LookUps:
    """So many events of history, and so many requests, which are what counts as work."""

    title: str
    events: int
    work: int
    unit: str = "requests"

    @cached_property
    def history(self) -> pa.Table:
        return make_events(self.events)

    @cached_property
    def requests(self) -> pa.Table:
        return make_requests(self.work)

    def prepare(self, step: int) -> object:
        """Every step asks the same of the same history."""
        return self.history, self.requests

    def contestants(self, count: int) -> Mapping[str, Callable[[], Contestant]]:
        features = asked(count)
        return {
            "muntin": partial(Muntin, self, features), "polars": partial(Polars, self, features),
            "duckdb": partial(DuckDB, self, features),
        }  # fmt: skip


class Muntin:
    """A query for each feature, from a history that is read each time."""

    def __init__(self, kind: LookUps, features: list[tuple[str, int]]):
        self.kind = kind
        self.texts = {
            f"q{number}": f"SELECT account, {call} AS v FROM p [RANGE {size} MINUTES] GROUP BY account"
            for number, (call, size) in enumerate(features)
        }
        self.found = pa.table({})

    def fill(self) -> None:
        """There is no state."""

    def take(self, step: int) -> None:
        self.found = muntin.lookup_at(self.kind.history, self.texts, self.kind.requests, stream=STREAM)

    @property
    def rows(self) -> int:
        return int(self.found.num_rows * len(self.texts))

    def answer(self, query: int) -> pa.Table | None:
        return pa.table({"id": self.found["id"], "v": self.found[f"q{query}.v"]})


class ByTotals:
    """What polars and DuckDB have in common: running totals of each account, and an ASOF join that finds them before
    each request, and before the start of each of its windows. A window holds the difference."""

    def __init__(self, kind: LookUps, features: list[tuple[str, int]]):
        self.kind, self.features = kind, features
        self.sizes = sorted({size for _, size in features})

    def fill(self) -> None:
        """There is no state."""


class Polars(ByTotals):
    """The joins are of a frame with a row for each request and window; what is found is such a frame."""

    def take(self, step: int) -> None:
        history = pl.DataFrame(self.kind.history).select(
            "account", "amount", "items", us=pl.col("ts").cast(pl.Int64)
        )
        totals = history.sort("us").with_columns(
            n=pl.int_range(1, pl.len() + 1).over("account"),
            amount=pl.col("amount").cum_sum().over("account"),
            items=pl.col("items").cum_sum().over("account"),
        )
        requests = pl.DataFrame(self.kind.requests).select("id", "account", us=pl.col("at").cast(pl.Int64))
        ends = self._before(requests.sort("us"), totals)
        sizes = pl.DataFrame({"size": self.sizes})
        starts = requests.join(sizes, how="cross").with_columns(us=pl.col("us") - pl.col("size") * MINUTE)
        begun = self._before(starts.sort("us"), totals)
        found = begun.join(ends, on="id", suffix="_end").select(
            "id",
            "size",
            *((pl.col(f"{each}_end") - pl.col(each)).alias(each) for each in ("n", "amount", "items")),
        )
        some = pl.col("n") > 0
        self.found = found.with_columns(
            amount=pl.when(some).then("amount"), items=pl.when(some).then("items"),
            avg_amount=pl.when(some).then(pl.col("amount") / pl.col("n")),
            avg_items=pl.when(some).then(pl.col("items") / pl.col("n")),
        )  # fmt: skip

    def _before(self, asked: pl.DataFrame, totals: pl.DataFrame) -> pl.DataFrame:
        """The totals of the last event before each row."""
        joined = asked.join_asof(
            totals,
            on="us",
            by="account",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        return joined.with_columns(pl.col("n", "amount", "items").fill_null(0))

    @property
    def rows(self) -> int:
        return self.kind.work * len(self.features)

    def answer(self, query: int) -> pa.Table | None:
        call, size = self.features[query]
        return self.found.filter(pl.col("size") == size).select("id", v=CALLS[call]).to_arrow()


class DuckDB(ByTotals):
    """Events and requests are in tables of its own; ASOF joins of a table with a row for each request and window."""

    def __init__(self, kind: LookUps, features: list[tuple[str, int]]):
        super().__init__(kind, features)
        self.database: duckdb.DuckDBPyConnection = connected(kind.history, kind.requests)
        self.database.register("given", pa.table({"size": np.array(self.sizes)}))
        self.database.execute("CREATE TABLE sizes AS SELECT * FROM given")
        self.found = pa.table({})

    def take(self, step: int) -> None:
        parts = ("n", "amount", "items")
        ends = ", ".join(f"coalesce(t.{each}, 0) AS {each}" for each in parts)
        within = ", ".join(f"e.{each} - coalesce(t.{each}, 0) AS {each}" for each in parts)
        self.found = self.database.sql(
            f"""WITH t AS MATERIALIZED (
                  SELECT account, us, count(*) OVER w AS n, sum(amount) OVER w AS amount, sum(items) OVER w AS items
                  FROM p WINDOW w AS (PARTITION BY account ORDER BY us RANGE UNBOUNDED PRECEDING)),
                e AS MATERIALIZED (
                  SELECT r.id, r.account, r.us, {ends} FROM r
                  ASOF LEFT JOIN t ON t.account = r.account AND t.us < r.us),
                s AS (SELECT e.*, size, e.us - size * {MINUTE} AS start FROM e, sizes),
                d AS (
                  SELECT e.id, size, {within} FROM s AS e
                  ASOF LEFT JOIN t ON t.account = e.account AND t.us < e.start)
                SELECT id, size, n,
                  CASE WHEN n > 0 THEN amount END::BIGINT AS amount, amount / nullif(n, 0) AS avg_amount,
                  CASE WHEN n > 0 THEN items END::BIGINT AS items, items / nullif(n, 0) AS avg_items FROM d"""
        ).to_arrow_table()

    @property
    def rows(self) -> int:
        return self.kind.work * len(self.features)

    def answer(self, query: int) -> pa.Table | None:
        call, size = self.features[query]
        table = self.found.filter(pa.compute.equal(self.found["size"], size))
        return pa.table({"id": table["id"], "v": table[CALLS[call]]})
