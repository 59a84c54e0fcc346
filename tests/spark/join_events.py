"""Two small streams, joins of them, and what the engine answers: for tests on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from flow import CREATE, DELAY, SCHEMA, events
from pyspark.sql import DataFrame, SparkSession

import muntin
import muntin.spark

JOINED = "FROM t [RANGE 1 SECOND SLIDE 1 SECOND] JOIN u [RANGE 2 SECONDS] ON t.v = u.v"
JOINS = {
    "pairs": f"SELECT t.k, t.v, u.x {JOINED} WHERE t.k <> u.k EMIT CHANGES",
    "by key": f"SELECT t.v, COUNT(*) AS n, LAST(u.k) AS last {JOINED} GROUP BY t.v HAVING COUNT(*) > 2",
    "merged": f"SELECT t.k, COUNT(*) AS n, AVG(u.x) AS mean, MAX(t.ts) AS latest {JOINED} GROUP BY t.k",
    "all": f"SELECT COUNT(*) AS n, SUM(u.v) AS total {JOINED}",
    "together": f"SELECT MEDIAN(u.x) AS mid {JOINED}",
    "distinct": f"SELECT DISTINCT u.k {JOINED}",
    "itself": "SELECT a.x, b.x AS y FROM t [RANGE 1 SECOND SLIDE 2 SECONDS] AS a JOIN t [RANGE 1 SECOND] AS b "
    "ON a.v = b.v + 1 WHERE a.k = b.k",
}


def both(rows: int) -> dict[str, pa.Table]:
    return {"t": events(rows, seed=3), "u": events(rows, seed=4)}


def expected(tables: dict[str, pa.Table], queries: dict[str, str]) -> dict[str, pa.Table]:
    """What the embedded engine emits; all events at once."""
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.execute(CREATE.replace("STREAM t", "STREAM u"))
    engine.register_many(queries)
    for name, table in tables.items():
        engine.push(name, table)
    return engine.advance()


def streams_of(spark: SparkSession, folder: Path, files: int = 2) -> dict[str, DataFrame]:
    """The files of each stream, so many a micro-batch."""
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files)
    return {name: read.parquet(str(folder / name)).withWatermark("ts", DELAY) for name in "tu"}


def assert_same(wanted: pa.Table, got: pa.Table, name: str) -> None:
    """The same columns and rows, in any order; times in Spark have a zone."""
    assert got.schema.names == wanted.schema.names, name
    one, other = (sorted(repr(_plain(row)) for row in table.to_pylist()) for table in (wanted, got))
    assert one == other, name
    assert one, name


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Without zones and nanoseconds, and without the last digits of floats, which were added up in another order."""
    return {
        name: str(value)[:26].removesuffix("+00:00").ljust(26, "0")
        if hasattr(value, "tzinfo")
        else float(f"{value:.9g}")
        if isinstance(value, float)
        else value
        for name, value in row.items()
    }
