"""More or fewer shards or partitions than before: the ways that docs/concepts/spark.md names."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from flow import FOLDED, assert_same, events, expected, write_files
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from runs import assert_answers, run, stream_of

import muntin.spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_another_number_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Spark moves the state of the shards; the shards do not notice. It takes a number for this that the log of
    the file sink then lacks, so answers go through `foreachBatch`."""
    table, folder, checkpoint = events(6_000), tmp_path / "in", str(tmp_path / "checkpoint")
    for files in (range(2), range(2, 4)):
        write_files(table, folder, files, 4)
        df = stream_of(spark, folder)
        run(
            muntin.spark.shared_windows(df, FOLDED, stream="t", time="ts", shards=4), tmp_path, "foreachBatch"
        )
        if files.start == 0:
            spark._streamingCheckpointManager.repartition(checkpoint, 3)
    assert_answers(spark, tmp_path, expected(table, FOLDED))
    assert {each.partition for each in muntin.spark.read_state(spark, checkpoint)} == {0, 1, 2}


def test_another_number_of_shards(spark: SparkSession, tmp_path: Path) -> None:
    """A new checkpoint reads again what its windows need, and answers from where the old one ended."""
    table, folder = events(6_000), tmp_path / "in"
    write_files(table, folder, range(3), 4)
    old = muntin.spark.shared_windows(stream_of(spark, folder), FOLDED, stream="t", time="ts", shards=3)
    run(old, tmp_path / "old")
    latest = max(each.latest for each in muntin.spark.read_state(spark, str(tmp_path / "old" / "checkpoint")))
    until = latest - timedelta(seconds=2)
    longest = timedelta(seconds=30)
    write_files(table, folder, [3], 4)
    again = stream_of(spark, folder).where(F.col("ts") >= until - longest)
    new = muntin.spark.shared_windows(again, FOLDED, stream="t", time="ts", shards=2)
    run(new.where(F.col("window_end") > until), tmp_path / "new")
    both = [spark.read.parquet(str(tmp_path / each / "answers")) for each in ("old", "new")]
    for name, wanted in expected(table, FOLDED).items():
        parts = [muntin.spark.answers_of(each, name) for each in both]
        assert all(part.count() for part in parts)
        assert_same(wanted, parts[0].unionByName(parts[1]).toArrow())
