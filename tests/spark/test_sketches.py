"""Approximate answers on Spark's shards: un-keyed ones are those of the engine, keyed ones within their error,
with attempts and memory lost in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards

import muntin
from muntin.stream import Stream
from tests.sketch.streams import rank_error

SECOND = 1_000_000
STREAM = Stream(
    "s",
    pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())]),
    "ts",
    SECOND,
)
CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
ASKED = (
    "APPROX_QUANTILE(x, 0.9, 0.2) AS p, APPROX_FREQUENT(v, 0.4, 0.2) AS top, APPROX_COUNT(v = 1, 0.2) AS one, "
    "APPROX_FREQUENT(v, 0.4, 0.2, weight => 9 * v) AS heavy"
)
WINDOW = "[RANGE 20 SECONDS SLIDE 5 SECONDS]"
QUERIES = {
    "all": f"SELECT {ASKED} FROM s {WINDOW}",
    "words": f"SELECT APPROX_FREQUENT(k, 0.3, 0.1) AS top FROM s {WINDOW}",
    "rows": f"SELECT {ASKED} FROM s [ROWS 900 SLIDE 300]",
    "each": f"SELECT k, {ASKED} FROM s {WINDOW} GROUP BY k",
}


pytestmark = pytest.mark.usefixtures("small_blocks")


def events(count: int) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(0, 60 * SECOND, count)), pa.timestamp("us")),
            "k": pa.array([f"key {number}" for number in random.zipf(1.7, count) % 4]),
            "v": pa.array(random.zipf(1.6, count) % 50),
            "x": pa.array(random.normal(size=count)),
        }
    )


def micro_batches(table: pa.Table, queries: dict[str, str], **options: Any) -> Iterator[Any]:
    """What the engine and three shards emit, with attempts and memory lost on the way."""
    shards = Shards(STREAM, queries, shards=3, **options)
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    for number, lo in enumerate(range(0, table.num_rows, 800)):
        part = table.slice(lo, 800)
        tasks = [part.slice(0, 500).to_batches(), part.slice(500).to_batches()]
        if number % 2:
            shards.lose_attempt(tasks)
        else:
            shards.restart()
        engine.push("s", part)
        wanted, found = engine.advance(), shards.send(tasks)
        assert wanted.keys() == found.keys()
        yield from ((name, wanted[name], rows) for name, rows in found.items())


def test_sketches_in_shards() -> None:
    table = events(4000)
    emitted = Counter[str]()
    for name, wanted, rows in micro_batches(table, QUERIES):
        emitted[name] += rows.num_rows
        if name != "each":
            assert rows.to_pylist() == wanted.to_pylist()
        for row in rows.to_pylist() if name in ("all", "each") else ():
            assert_within(row, table)
    assert emitted.keys() == QUERIES.keys()
    assert min(emitted.values()) > 5


@pytest.mark.parametrize("promise", ["0.2", "0.2, 0.001"])
def test_shares_of_all_shards_are_merged(promise: str) -> None:
    """Windows are those of the engine, and answers within eps."""
    table, asked = events(4000), ASKED.replace("0.2)", f"{promise})")
    queries = {
        "all": f"SELECT {asked} FROM s {WINDOW}",
        "some": f"SELECT APPROX_FREQUENT(k, 0.3, {promise}) FILTER (WHERE v > 1) AS top, "
        f"APPROX_COUNT(k = 'key 1', {promise}) + 1 AS ones FROM s {WINDOW} WHERE x > 0 "
        f"HAVING APPROX_COUNT(v = 1, {promise}) >= 0",
        "over": f"SELECT APPROX_QUANTILE(x, 0.5, {promise}) OVER [RANGE 9 SECONDS SLIDE 5 SECONDS] AS p FROM s",
        "never": f"SELECT {asked} FROM s {WINDOW} HAVING APPROX_COUNT(v = 1, {promise}) < 0",
        "text": f"SELECT APPROX_QUANTILE_SUMMARY(x, {promise}) AS q, APPROX_COUNT_SUMMARY(k, {promise}) AS c "
        f"FROM s {WINDOW}",
        "exact": f"SELECT COUNT(*) AS n FROM s {WINDOW}",
    }
    checks = {"all": assert_within, "some": assert_some, "text": assert_texts}
    emitted = Counter[str]()
    for name, wanted, rows in micro_batches(table, queries, spread=True):
        emitted[name] += rows.num_rows
        assert rows.schema == wanted.schema
        bounds = ["window_start", "window_end", "complete"]
        assert rows.sort_by("window_end").select(bounds).to_pylist() == wanted.select(bounds).to_pylist()
        for row in rows.to_pylist() if name in checks else ():
            checks[name](row, table)
    assert emitted.keys() == queries.keys() - {"never"}
    assert min(emitted.values()) > 5


def test_only_what_merges_is_spread() -> None:
    """ROWS windows, and queries with keys or with exact aggregates, go their usual way."""
    exact = f"SELECT COUNT(*) AS n, APPROX_COUNT(v = 1, 0.1) AS one FROM s {WINDOW}"
    job = Shards(STREAM, QUERIES | {"exact": exact}, shards=3, spread=True).job
    assert {route.name: set(route.queries) for route in job.routes} == {
        "": {"rows", "exact"}, "k": {"each"}, "(spread)": {"all", "words"},
    }  # fmt: skip
    assert [route.shards for route in job.routes] == [1, 3, 3]
    assert not Shards(STREAM, QUERIES, shards=1, spread=True).job.is_spread


def test_queries_to_come_cannot_be_spread() -> None:
    with pytest.raises(muntin.MuntinError, match="spread is for queries that are all known"):
        Shards(STREAM, QUERIES, spread=True, keys=["", "k"])


def inside(row: dict[str, Any], table: pa.Table) -> np.ndarray:
    at = table["ts"].to_numpy()
    return (at >= np.datetime64(row["window_start"])) & (at < np.datetime64(row["window_end"]))


def assert_some(row: dict[str, Any], table: pa.Table) -> None:
    some = inside(row, table) & (table["x"].to_numpy() > 0)
    true = Counter(table["k"].to_numpy()[some].tolist())
    assert row["ones"] - 1 <= true["key 1"] <= row["ones"] - 1 + row["ones_error"]
    assert row["ones_error"] <= 0.2 * some.sum()
    some &= table["v"].to_numpy() > 1
    listed, true = {each["item"]: each for each in row["top"]}, Counter(table["k"].to_numpy()[some].tolist())
    assert {item for item, often in true.items() if often > 0.3 * some.sum()} <= listed.keys()
    assert all(each["lower"] <= true[item] <= each["upper"] for item, each in listed.items())


def assert_texts(row: dict[str, Any], table: pa.Table) -> None:
    known = inside(row, table)
    quantiles, items = (muntin.merge_summaries([row[name]]) for name in ("q", "c"))
    assert rank_error(table["x"].to_numpy()[known], 0.9, quantiles.quantile(0.9)) <= quantiles.error
    least, most = items.bounds("key 1")
    assert least <= Counter(table["k"].to_numpy()[known].tolist())["key 1"] <= most
    assert max(quantiles.error, items.error) <= 0.2 * known.sum() + 3  # of each shard, rounded up


def assert_within(row: dict[str, Any], table: pa.Table) -> None:
    some = inside(row, table)
    if "k" in row:
        some &= table["k"].to_numpy() == row["k"]
    x, v = table["x"].to_numpy()[some], table["v"].to_numpy()[some]
    assert row["p_error"] <= 0.2
    assert rank_error(x, 0.9, row["p"]) <= row["p_error"] * len(x)
    true = Counter(v.tolist())
    assert row["one"] <= true[1] <= row["one"] + row["one_error"] <= row["one"] + 0.2 * len(v)
    assert all(each["lower"] <= true[each["item"]] <= each["upper"] for each in row["top"])
    assert {item for item, often in true.items() if often > 0.4 * len(v)} <= {
        each["item"] for each in row["top"]
    }
    weight = {item: 9 * item * often for item, often in true.items()}
    total = sum(weight.values())
    assert all(each["lower"] <= weight[each["item"]] <= each["upper"] for each in row["heavy"])
    assert all(each["upper"] - each["lower"] <= 0.2 * total for each in row["heavy"])
    assert {item for item, heavy in weight.items() if heavy > 0.4 * total} <= {
        each["item"] for each in row["heavy"]
    }
