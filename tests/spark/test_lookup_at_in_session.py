"""Look-ups on a real Spark: a table of requests, a stream of them with a restart, and its checkpoint opened."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from flow import CREATE, SCHEMA, events, write_files
from lookup_events import ASKED, QUERIES, answered, asked, engine_after, same, streamed
from pyspark.sql import SparkSession
from runs import run

import muntin
import muntin.spark
from answers import is_close
from muntin.errors import MuntinError

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_table(spark: SparkSession, tmp_path: Path) -> None:
    table, requests = events(4_000), asked(300, 60_000_000)
    write_files(table, tmp_path / "in", range(3), 3)
    pq.write_table(requests, tmp_path / "asked.parquet")
    answers = muntin.spark.lookup_at(
        spark.read.schema(SCHEMA).parquet(str(tmp_path / "in")),
        QUERIES,
        spark.read.schema(ASKED).parquet(str(tmp_path / "asked.parquet")).repartition(3),
        stream="t",
        time="ts",
        shards=3,
    )
    assert answers.schema["loose.latest"].dataType.simpleString() == "timestamp"
    expected = muntin.lookup_at(table.sort_by("ts"), QUERIES, requests, stream=CREATE)
    same(expected, answers.toArrow())
    refuse(spark, tmp_path)


def refuse(spark: SparkSession, folder: Path) -> None:
    """What is wrong is told before anything runs."""
    frame = spark.read.schema(SCHEMA).parquet(str(folder / "in"))
    given = spark.read.schema(ASKED).parquet(str(folder / "asked.parquet"))
    stream = spark.readStream.schema(ASKED).parquet(str(folder / "in"))
    for requests, options, told in (
        (stream, {}, "the events are a table, and the requests are a stream: give two tables, or two streams"),
        (17, {}, "requests is a DataFrame, not 17"),
        (given, {"at": "label_at"}, "no column 'label_at', the instants to look up"),
        (given, {"at": "some"}, "must be TIMESTAMP or BIGINT (microseconds), not ARRAY<INT>"),
        (given.drop("k"), {}, "the requests have no column 'k', a key of query 'loose'"),
        (given.withColumnRenamed("label", "all.N"), {}, "two columns 'all.N' and 'all.n', which Spark takes for one"),
        (given, {"requests_delay": timedelta(1)}, "requests_delay is for streams"),
        (given, {"delay": 5}, "delay is a timedelta, not 5"),
        (given, {"queries": {"q": 1}}, "query 'q'"),
    ):  # fmt: skip
        with pytest.raises(MuntinError) as error:
            muntin.spark.lookup_at(
                frame, **{"queries": QUERIES, "requests": requests, "stream": "t", "time": "ts"} | options
            )
        assert told in str(error.value)
    with pytest.raises(MuntinError, match="is not a checkpoint of muntin"):
        muntin.spark.restore(str(folder / "in"), spark)


def test_a_stream_its_restart_and_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Every request once, as soon as the watermark has passed it; those after it wait, and the state can be asked."""
    table, requests = events(4_000), asked(200, 45_000_000)
    for files in (range(2), range(2, 4)):
        write_files(table, tmp_path / "in", files, 4)
        write_files(requests, tmp_path / "asked", files, 4)
        run(streamed(spark, tmp_path), tmp_path)
    same(answered(table, requests), spark.read.parquet(str(tmp_path / "answers")).toArrow())

    engine = engine_after(table)
    watermark = engine.stats()["streams"]["t"]["watermark"].item()
    state = muntin.spark.restore(str(tmp_path / "checkpoint"), spark)
    assert state.queries == QUERIES
    assert state.watermark.replace(tzinfo=None) == watermark
    assert state.latest.replace(tzinfo=None) == engine.stats()["streams"]["t"]["greatest"].item()
    for name in QUERIES:
        one, other = (sorted(each.lookup(name).to_pylist(), key=str) for each in (engine, state))
        assert len(one) == len(other)
        assert all(is_close(left[c], right[c]) for left, right in zip(one, other, strict=True) for c in left)
    assert state.value("loose", key="a") == engine.value("loose", key="a")
    late = asked(20, 37_000_000, seed=5)
    same(muntin.lookup_at(table, QUERIES, late, stream=CREATE), state.lookup_at(list(QUERIES), late))
