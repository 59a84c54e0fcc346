"""Joins of two DataFrames in a real Spark: as a table, beside DuckDB, and as streams with a restart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from flow import write_files
from join_events import JOINED, JOINS, assert_same, both, expected, streams_of
from pyspark.sql import SparkSession
from runs import run

import muntin.spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FILES = 6
SECOND = 1_000_000


def test_a_table(spark: SparkSession) -> None:
    tables = both(1_200)
    answers = muntin.spark.shared_windows(
        {name: spark.createDataFrame(table).repartition(3) for name, table in tables.items()},
        {**JOINS, "whole": f"SELECT t.k, u.k AS other, COUNT(*) AS n, SUM(t.v) AS total {JOINED} GROUP BY t.k, u.k"},
        time={"t": "ts", "u": "ts"}, delay={"t": timedelta(seconds=2), "u": timedelta(seconds=2)}, shards=3,
    ).cache()  # fmt: skip
    for name, wanted in expected(tables, JOINS).items():
        if name == "by key":  # of events with the same time, LAST takes the one that Spark has last
            wanted = wanted.drop_columns(["last"])
        got = muntin.spark.answers_of(answers, name).toArrow()
        assert_same(wanted, got.select(wanted.schema.names), name)
    got = muntin.spark.answers_of(answers, "whole").toArrow()
    database = duckdb.connect()
    for name, table in tables.items():
        database.register(name, table.set_column(0, "ts", table["ts"].cast(pa.int64())))
    text = (
        f"SELECT t.k, u.k, COUNT(*), SUM(t.v)::BIGINT, s FROM t JOIN u ON t.v = u.v, range(0, 10) AS r(s) "
        f"WHERE t.ts >= (s - 1) * {SECOND} AND t.ts < s * {SECOND} AND u.ts >= (s - 2) * {SECOND} "
        f"AND u.ts < s * {SECOND} GROUP BY t.k, u.k, s"
    )
    ends = [
        int(end) // SECOND
        for end in got["window_end"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    ]
    rows = list(zip(*(got[name].to_pylist() for name in ("k", "other", "n", "total")), ends, strict=True))
    wanted = [row for row in database.sql(text).fetchall() if row[-1] <= max(ends)]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
    answers.unpersist()


def test_a_stream_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    tables = both(1_200)
    for files in (range(3), range(3, FILES)):
        for name, table in tables.items():
            write_files(table, tmp_path / name, files, FILES)
        run(muntin.spark.shared_windows(streams_of(spark, tmp_path), JOINS, time="ts", shards=3), tmp_path)
    read = spark.read.parquet(str(tmp_path / "answers"))
    for name, wanted in expected(tables, JOINS).items():
        assert_same(wanted, muntin.spark.answers_of(read, name).toArrow(), name)
