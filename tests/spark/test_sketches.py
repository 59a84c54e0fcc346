"""Approximate answers on Spark's shards: un-keyed ones are those of the engine, keyed ones within their error,
with attempts and memory lost in between."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards

import muntin
from muntin.stream import Stream
from tests.synopsis.sketch.streams import rank_error

SECOND = 1_000_000
STREAM = Stream(
    "s",
    pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())]),
    "ts",
    SECOND,
)
CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
ASKED = (
    "APPROX_QUANTILE(x, 0.9, 0.2) AS p, APPROX_FREQUENT(v, 0.4, 0.2) AS top, APPROX_COUNT(v = 1, 0.2) AS one"
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


def test_sketches_in_shards() -> None:
    table = events(4000)
    shards = Shards(STREAM, QUERIES, shards=3)
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(QUERIES)
    emitted = Counter[str]()
    for number, lo in enumerate(range(0, 4000, 800)):
        part = table.slice(lo, 800)
        tasks = [part.slice(0, 500).to_batches(), part.slice(500).to_batches()]
        if number % 2:
            shards.lose_attempt(tasks)
        else:
            shards.restart()
        engine.push("s", part)
        wanted, found = engine.advance(), shards.send(tasks)
        assert wanted.keys() == found.keys()
        for name, rows in found.items():
            emitted[name] += rows.num_rows
            if name != "each":
                assert rows.to_pylist() == wanted[name].to_pylist()
            for row in rows.to_pylist() if name in ("all", "each") else ():
                assert_within(row, table)
    assert emitted.keys() == QUERIES.keys()
    assert min(emitted.values()) > 5


def assert_within(row: dict[str, Any], table: pa.Table) -> None:
    at = table["ts"].to_numpy()
    inside = (at >= np.datetime64(row["window_start"])) & (at < np.datetime64(row["window_end"]))
    if "k" in row:
        inside &= table["k"].to_numpy() == row["k"]
    x, v = table["x"].to_numpy()[inside], table["v"].to_numpy()[inside]
    assert row["p_error"] <= 0.2
    assert rank_error(x, 0.9, row["p"]) <= row["p_error"] * len(x)
    true = Counter(v.tolist())
    assert row["one"] <= true[1] <= row["one"] + row["one_error"] <= row["one"] + 0.2 * len(v)
    assert all(each["lower"] <= true[each["item"]] <= each["upper"] for each in row["top"])
    assert {item for item, often in true.items() if often > 0.4 * len(v)} <= {
        each["item"] for each in row["top"]
    }
