"""Sessions, LIMIT, landmarks, decimals, modes, weights and pairs of values on a real Spark: as a stream in several
micro-batches, in three shards, that stops in between and starts again from its checkpoint."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from flow import DELAY, events, write_files
from pyspark.sql import SparkSession
from runs import assert_answers, run

import muntin
import muntin.spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, d DECIMAL(9, 2), w BIGINT"
CREATE = (
    "CREATE STREAM t (ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE, d DECIMAL(9, 2), w BIGINT) TIMESTAMP BY ts "
    "DELAY 2 SECONDS"
)
W = "FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS]"
QUERIES = {
    "sessions": "SELECT k, COUNT(*) AS n, SUM(d) AS total, ARG_MAX(v, x) AS best, LAST(d) AS last "
    "FROM t [SESSION 300 MILLISECONDS] WHERE v > 60 GROUP BY k HAVING COUNT(*) > 1",
    "whole": "SELECT COUNT(*) AS n, MAX(d) AS total FROM t [SESSION 200 MILLISECONDS] WHERE v > 93",
    "first": f"SELECT k, SUM(d) AS total {W} GROUP BY k ORDER BY total DESC LIMIT 2",
    "modes": f"SELECT v % 7 AS k, MODE(d) AS total, MODE(k) AS usual {W} GROUP BY v % 7 HAVING SUM(d) > 0.5 "
    "ORDER BY usual, COUNT(*) DESC, v % 7 LIMIT 3",
    "changes": f"SELECT v AS k, COUNT(*) AS total {W} GROUP BY v ORDER BY total DESC, v LIMIT 5 EMIT CHANGES",
    "minutes": "SELECT k, SUM(d) AS total, MODE(d) AS usual "
    "FROM t [SINCE HOUR SLIDE 20 SECONDS OFFSET 7 SECONDS] GROUP BY k",
    "pairs": f"SELECT k, ARG_MAX(d, x) AS total, ARG_MIN(k, v) AS least, MODE(v) AS usual {W} WHERE d > 0.095 "
    "GROUP BY k",
    "heavy": f"SELECT APPROX_FREQUENT(k, 0.1, 0.01, weight => w) AS total {W}",
    "different": f"SELECT k, APPROX_COUNT_DISTINCT(v) AS total {W} GROUP BY k",
    "lines": f"SELECT k, CORR(v, x) AS total, REGR_SLOPE(v, x) AS slope, BOOL_OR(v > 98) AS any {W} GROUP BY k",
}


def more_events(rows: int) -> pa.Table:
    """Those of flow.py with an amount and a weight, which is NULL or negative at times."""
    table, random = events(rows), np.random.default_rng(8)
    cents = random.choice([-5, 0, 5, 10, 999, 1000, None], rows).tolist()
    amounts = [None if each is None else Decimal(each) / 100 for each in cents]
    weights = pa.array(random.integers(-1, 1500, rows), mask=random.random(rows) < 0.1)
    return table.append_column("d", pa.array(amounts, pa.decimal128(9, 2))).append_column("w", weights)


@pytest.mark.parametrize("fold", [True, False])
def test_a_stream_that_starts_again(spark: SparkSession, tmp_path: Path, fold: bool) -> None:
    """What each file brought is answered once, with the values that one engine has."""
    table, folder = more_events(6_000), tmp_path / "in"
    for files in (range(2), range(2, 4)):
        write_files(table, folder, files, 4)
        read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
        df = read.withWatermark("ts", DELAY)
        run(muntin.spark.shared_windows(df, QUERIES, stream="t", time="ts", fold=fold, shards=3), tmp_path)
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(QUERIES)
    engine.push("t", table)
    wanted = engine.advance()
    assert wanted.keys() == QUERIES.keys()
    assert_answers(spark, tmp_path, wanted)
