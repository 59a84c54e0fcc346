"""Views kept by Spark: at every update they hold what the join answers."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("pyspark")

from archive_flow import VIEW, expected, held, start, tables, write

import muntin
import muntin.spark
from muntin.errors import MuntinError

pytestmark = pytest.mark.spark
FILES = 4
LIMIT = 600  # seconds; a bound, not an expectation


def test_holds_the_pairs_while_spark_writes(spark, tmp_path):
    made, seen, scans = tables(), [], []
    folder = str(tmp_path / "views" / "v")
    write(made, tmp_path, range(1), FILES)
    query = start(spark, tmp_path)
    try:
        for number in range(1, FILES):
            write(made, tmp_path, range(number, number + 1), FILES)
            query.processAllAvailable()
            found, now = held(tmp_path)
            assert now is None or found == expected(made, now)
            seen.append(sum(found.values()))
            scans.append((muntin.spark.scan_archive(spark, folder).select("k", "x", "total"), found))
    finally:
        query.stop()
    assert max(seen) > 100
    view = muntin.archive.View.open(folder)
    for scan, found in scans:  # each as of the update before it, though the writer has gone on
        assert Counter(map(tuple, scan.collect())) == found
    assert scans[-1][1] == expected(made, view.now)
    again = start(spark, tmp_path, availableNow=True)  # goes on from its checkpoint; there is nothing to do
    again.awaitTermination(LIMIT)
    assert held(tmp_path) == (expected(made, view.now), view.now)
    assert {path.name for path in (tmp_path / "views" / "v").glob("*.arrow")} == view.epoch.files()


def test_refusals(spark, tmp_path):
    df = spark.readStream.schema("ts TIMESTAMP, k STRING, x BIGINT, y BIGINT").parquet(str(tmp_path))
    df = df.withWatermark("ts", "1 second")
    streams = {"a": df.drop("y"), "b": df.drop("x")}
    for text, message in (
        ("SELECT k FROM a [RANGE 1 SECOND]", "takes a CREATE MATERIALIZED VIEW"),
        (VIEW.replace("JOIN b", "LEFT JOIN b"), "LEFT JOIN"),
        (VIEW.replace("JOIN b", "JOIN c").replace("b.k", "c.k"), "'c'"),
    ):
        with pytest.raises(MuntinError, match=message):
            muntin.spark.keep_view(
                text, streams, time="ts", archive=str(tmp_path / "v"), checkpoint=str(tmp_path / "c")
            )
    assert not (tmp_path / "v").exists()
