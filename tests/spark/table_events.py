"""Tables that queries join with a small stream, and their changes: for tests on a real Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from flow import CREATE
from pyspark.sql import DataFrame, SparkSession
from runs import stream_of

import muntin
import muntin.spark
from muntin.spark import TableFrame, shared_windows

Rows = list[dict[str, Any]]
W = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"
LIMITS = "CREATE TABLE limits (k VARCHAR, most BIGINT, since TIMESTAMP, PRIMARY KEY (k))"
RULES = "CREATE TABLE rules (id BIGINT, k VARCHAR, span INTERVAL, floor BIGINT, PRIMARY KEY (id))"
QUERIES = {
    "over": f"SELECT t.k, SUM(v) AS total, l.most, l.since FROM t {W} AS t JOIN limits AS l ON t.k = l.k GROUP BY t.k "
    "HAVING SUM(v) > l.most EMIT CHANGES",
    "silent": f"SELECT l.k, COUNT(t.ts) AS total FROM limits AS l LEFT JOIN t {W} AS t ON t.k = l.k GROUP BY l.k",
    "ruled": "SELECT r.id, COUNT(*) AS total, r.span FROM t [RANGE r.span UP TO 20 SECONDS SLIDE 5 SECONDS] AS t "
    "JOIN rules AS r ON t.k = r.k GROUP BY r.id HAVING COUNT(*) > r.floor",
    "all": f"SELECT SUM(v) AS total FROM t {W} AS t JOIN limits AS l ON t.k = l.k WHERE l.most < 30000",
}
DAY = datetime(2026, 1, 2)
LIMIT_ROWS: Rows = [
    {"k": "a", "most": 9_000, "since": DAY},
    {"k": "b", "most": None, "since": None},
    {"k": "z", "most": 0, "since": DAY},
]
RULE_ROWS: Rows = [
    {"id": 1, "k": "a", "span": timedelta(seconds=5), "floor": 50},
    {"id": 2, "k": "a", "span": timedelta(seconds=20), "floor": 3},
    {"id": 3, "k": "c", "span": timedelta(minutes=1), "floor": 0},
]
_CHANGE = pa.schema(
    {"k": pa.string(), "most": pa.int64(), "since": pa.timestamp("us"), "gone": pa.bool_()}.items()
)


def engine_with(limits: Rows, rules: Rows) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(f"{CREATE}; {LIMITS}; {RULES}")
    engine.load("limits", pa.Table.from_pylist(limits, engine.tables["limits"].schema))
    engine.load("rules", pa.Table.from_pylist(rules, engine.tables["rules"].schema))
    engine.register_many(QUERIES)
    return engine


def rules_frame(spark: SparkSession, rows: Rows) -> TableFrame:
    schema = "id BIGINT, k STRING, span INTERVAL DAY TO SECOND, floor BIGINT"
    return TableFrame(spark.createDataFrame([tuple(row.values()) for row in rows], schema), key="id")


def changes_table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, _CHANGE)


def write_changes(rows: Rows, folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(changes_table(rows), folder / f"{number:04}.parquet")


def change(engine: muntin.Engine, rows: Iterable[dict[str, Any]]) -> None:
    """What the stream of changes does to `limits`; a change without a key is left out."""
    for row in rows:
        if row.get("gone"):
            engine.execute(f"DELETE FROM limits WHERE k = '{row['k']}'")
        elif row["k"] is not None:
            engine.load("limits", pa.Table.from_pylist([row], engine.tables["limits"].schema))


def streamed(spark: SparkSession, folder: Path, rules: Rows, files: int = 1000) -> DataFrame:
    """The answers from FOLDER/in, beside the changes of `limits` in FOLDER/changes and the rows of `rules`."""
    read = spark.readStream.schema("k STRING, most BIGINT, since TIMESTAMP_NTZ, gone BOOLEAN")
    changes = read.option("maxFilesPerTrigger", files).parquet(str(folder / "changes"))
    return shared_windows(
        stream_of(spark, folder / "in", files), QUERIES, stream="t", time="ts", shards=3,
        tables={"limits": TableFrame(changes, deleted="gone"), "rules": rules_frame(spark, rules)},
    )  # fmt: skip
