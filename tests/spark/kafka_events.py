"""Events as messages of Kafka, queries over them, and what DuckDB answers to what a topic holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin.spark
from muntin.arrow_bytes import read_batches, stream_bytes

SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE"
DELAY = timedelta(minutes=5)  # of event time: partitions that come back after a broker died are far apart
BEGIN = datetime(2026, 1, 1)
PER_MESSAGE = {"json": 1, "arrow": 10}
QUERIES = {
    "sums": "SELECT k, SUM(v) AS total, AVG(x) AS mean FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "high": "SELECT k, MAX(v) AS total FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING MAX(v) > 985",
    "all": "SELECT COUNT(*) AS total FROM t [RANGE 1 MINUTE SLIDE 10 SECONDS]",
}
_IN_DUCKDB = {
    "sums": (10, 5, "k, SUM(v)", "AVG(x)", "TRUE"),
    "high": (3, 1, "k, MAX(v)", "NULL", "MAX(v) > 985"),
    "all": (60, 10, "NULL, COUNT(*)", "NULL", "TRUE"),
}


def event(id: int) -> dict[str, Any]:
    """An event every 20 milliseconds."""
    return {
        "ts": BEGIN + timedelta(milliseconds=20 * id),
        "k": "abcde"[id * 7 % 5],
        "v": id * 37 % 1_000,
        "x": id / 7,
    }


def to_message(kind: str, ids: Iterable[int]) -> bytes:
    rows = [event(id) for id in ids]
    if kind == "arrow":
        return stream_bytes(pa.RecordBatch.from_pylist(rows))
    (row,) = rows
    return json.dumps(row | {"ts": row["ts"].isoformat() + "Z"}).encode()


def events_of(messages: DataFrame, kind: str) -> DataFrame:
    """The events of a topic, as Spark's connector has it."""
    if kind == "arrow":
        events = muntin.spark.arrow_events(messages, SCHEMA)
    else:
        decoded = F.from_json(F.col("value").cast("string"), SCHEMA)
        events = messages.select(decoded.alias("event")).select("event.*")
    return events.withWatermark("ts", f"{DELAY.seconds} seconds")


def table_of(kind: str, values: Iterable[bytes]) -> pa.Table:
    """What messages hold, read without muntin if they are JSON; those that cannot be read are left out."""
    if kind == "arrow":
        return pa.Table.from_batches(
            [each for value in values if value != BAD for each in read_batches(value)]
        )
    rows = [json.loads(value) for value in values if value != BAD]
    return pa.Table.from_pylist([row | {"ts": datetime.fromisoformat(row["ts"][:-1])} for row in rows])


BAD = b"{ no event"


def expected(events: pa.Table) -> set[tuple[Any, ...]]:
    """The answers of all windows that the watermark has passed: query, key, total, mean and end."""
    database = duckdb.connect()
    found = set()
    until = f"(SELECT MAX(ts) - INTERVAL {DELAY.seconds} SECONDS FROM events)"
    for name, (size, slide, columns, mean, having) in _IN_DUCKDB.items():
        database.register("events", events)
        ends = (
            f"SELECT TIMESTAMP '{BEGIN}' + INTERVAL {slide} SECONDS * i AS stop FROM range(1, 100000) AS r(i)"
        )
        rows = database.execute(
            f"SELECT {columns}, {mean}, stop FROM ({ends}) JOIN events ON ts >= stop - INTERVAL {size} SECONDS "
            f"AND ts < stop WHERE stop <= {until} GROUP BY stop{', k' if 'k,' in columns else ''} HAVING {having}"
        ).fetchall()
        found |= {(name, k, total, mean and f"{mean:.9g}", stop) for k, total, mean, stop in rows}
    return found


def answer_of(value: bytes) -> tuple[Any, ...]:
    """An answer as it stands in a message."""
    told = json.loads(value)
    mean = told.get("mean")
    stop = datetime.fromisoformat(told["window_end"]).replace(tzinfo=None)
    return told["query"], told.get("k"), told["total"], mean and f"{mean:.9g}", stop
