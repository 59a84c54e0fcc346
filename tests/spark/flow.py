"""A small stream in files, queries over it, and what the engine answers: for tests on a real Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from answers import is_close

SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE"
CREATE = "CREATE STREAM t (ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
DELAY = "2 seconds"
FOLDED = {
    "sums": "SELECT k, SUM(v) AS total, AVG(x) AS mean FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "big": "SELECT k, SUM(v) AS total FROM t [RANGE 20 SECONDS SLIDE 4 SECONDS] WHERE v > 50 GROUP BY k "
    "HAVING SUM(v) > 3000",
    "all": "SELECT COUNT(*) AS n, MAX(x) AS top, LAST(v) AS total FROM t [RANGE 30 SECONDS SLIDE 10 SECONDS]",
}
WHOLE = FOLDED | {
    "median": "SELECT k, MEDIAN(v) AS total FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "rows": "SELECT k, SUM(v) AS total, MAX(ts) AS latest FROM t [ROWS 50 SLIDE 25] GROUP BY k",
    "approximate": "SELECT APPROX_QUANTILE(v, 0.9, 0.1) AS p90, APPROX_FREQUENT(k, 0.3, 0.1) AS often FROM t "
    "[RANGE 20 SECONDS SLIDE 10 SECONDS]",
}


def events(rows: int, seed: int = 3, begin: int = 0) -> pa.Table:
    """One hundred events a second, some of them up to a second late."""
    random = np.random.default_rng(seed)
    at = begin + np.arange(rows) * 10_000 - random.integers(0, 2, rows) * random.integers(0, 1_000_000, rows)
    keys = np.array(["a", "b", "c", "d", None], object)[random.integers(0, 5, rows)]
    return pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us", tz="UTC")),
            "k": pa.array(keys, pa.string()),
            "v": pa.array(random.integers(0, 100, rows)),
            "x": pa.array(random.normal(size=rows)),
        }
    )


def write_files(table: pa.Table, folder: Path, files: Iterable[int], many: int) -> None:
    """Some of `many` equal parts, as files that Spark takes in this order."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-table.num_rows // many)
    for number in files:
        path = folder / f"{number:04}.parquet"
        pq.write_table(table.slice(number * size, size), folder / ".part", row_group_size=500)
        os.replace(folder / ".part", path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def expected(table: pa.Table, queries: dict[str, str]) -> dict[str, pa.Table]:
    """What the embedded engine emits; all files at once."""
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    engine.push("t", table)
    return engine.advance()


def assert_same(wanted: pa.Table, got: pa.Table) -> None:
    """The same columns and rows, in any order; times in Spark have a zone."""
    assert got.schema.names == wanted.schema.names
    got = got.cast(pa.schema([pa.field(field.name, _in_microseconds(field.type)) for field in got.schema]))
    for field in wanted.schema:
        if not pa.types.is_timestamp(field.type):
            assert got.schema.field(field.name).type == field.type
    one, other = (sorted(map(_plain, table.to_pylist()), key=_place) for table in (wanted, got))
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert all(is_close(left[name], right[name]) for name in left), f"{left}\n{right}"


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Spark writes times to Parquet as nanoseconds, and Connect gives texts as large ones."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for name, value in row.items()
    }


def _place(row: dict[str, Any]) -> str:
    return str([row["window_end"], row["window_start"], row.get("k"), row.get("total")])


@contextmanager
def progress_of(spark: Any) -> Iterator[list[Any]]:
    """What a listener is told of the queries that run meanwhile: all of it, also what it hears when they are over."""
    import muntin.spark

    told: list[Any] = []
    listener = muntin.spark.ProgressListener(told.append)
    spark.streams.addListener(listener)
    try:
        yield told
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(
            600_000
        )  # milliseconds; a bound, not an expectation
    finally:
        spark.streams.removeListener(listener)
