"""Requests beside a small stream, queries that answer them, and what the engine answers: for tests on a real Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from flow import CREATE
from pyspark.sql import DataFrame, SparkSession
from runs import stream_of

import muntin
import muntin.spark
from answers import is_close

QUERIES = {
    "loose": "SELECT k, SUM(v) AS total, MAX(ts) AS latest FROM t [RANGE 10 SECONDS] GROUP BY k",
    "median": "SELECT k, MEDIAN(v) AS m FROM t [RANGE 20 SECONDS] GROUP BY k HAVING COUNT(*) > 3",
    "all": "SELECT COUNT(*) AS n, AVG(x) AS mean FROM t [RANGE 30 SECONDS SLIDE 5 SECONDS]",
    "other": "SELECT v AS number, COUNT(*) AS n FROM t [RANGE 15 SECONDS SLIDE 1 SECOND] GROUP BY v",
}
ASKED = "k STRING, number BIGINT, at TIMESTAMP, label BIGINT, some ARRAY<INT>, price DECIMAL(9, 2)"


def asked(many: int, until: int, seed: int = 11) -> pa.Table:
    """Requests in order of their instants, up to `until` microseconds."""
    random = np.random.default_rng(seed)
    keys = np.array(["a", "b", "c", "never", None], object)[random.integers(0, 5, many)]
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "number": pa.array(random.integers(0, 120, many)),
            "at": pa.array(np.sort(random.integers(0, until, many)), pa.timestamp("us", "UTC")),
            "label": pa.array(np.arange(many)),
            "some": pa.array([[i, i] for i in range(many)], pa.list_(pa.int32())),
            "price": pa.array([Decimal(i) for i in range(many)], pa.decimal128(9, 2)),
        }
    )


def streamed(spark: SparkSession, folder: Path) -> DataFrame:
    """The answers to the requests in FOLDER/asked beside the events in FOLDER/in, a file of each a micro-batch."""
    read = spark.readStream.schema(ASKED).option("maxFilesPerTrigger", 1).parquet(str(folder / "asked"))
    return muntin.spark.lookup_at(
        stream_of(spark, folder / "in", 1), QUERIES, read.withWatermark("at", "40 seconds"),
        stream="t", time="ts", shards=2,
    )  # fmt: skip


def engine_after(table: pa.Table) -> muntin.Engine:
    """An engine that has seen all events."""
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(QUERIES)
    engine.push("t", table)
    return engine


def answered(table: pa.Table, requests: pa.Table) -> pa.Table:
    """The requests that the watermark has passed after all events, with their answers; some it has not passed."""
    expected = muntin.lookup_at(table, QUERIES, requests, stream=CREATE)
    watermark = engine_after(table).stats()["streams"]["t"]["watermark"].item()
    passed = np.array([row["at"] <= watermark for row in rows_of(expected)])
    assert 0 < passed.sum() < len(passed)
    return expected.filter(pa.array(passed))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return [
        {
            name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
            for name, value in row.items()
        }
        for row in table.sort_by("label").to_pylist()
    ]


def same(expected: pa.Table, got: pa.Table) -> None:
    """The same requests, each once, with the same answers."""
    assert got.column_names == expected.column_names
    one, other = rows_of(expected), rows_of(got)
    assert [row["label"] for row in one] == [row["label"] for row in other]
    for left, right in zip(one, other, strict=True):
        assert all(is_close(left[name], right[name]) for name in left), f"{left}\n{right}"
