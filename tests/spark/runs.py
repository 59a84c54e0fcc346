"""Streaming queries over files, run to their end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from flow import DELAY, SCHEMA, assert_same
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import muntin.spark


def stream_of(spark: SparkSession, folder: Path, files: int = 2) -> DataFrame:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(folder))
    return read.withWatermark("ts", DELAY)


def run(answers: DataFrame, out: Path, sink: str = "files") -> None:
    """Answer what is there, into files or by `foreachBatch`."""
    if sink == "files":
        write = answers.writeStream.format("parquet").option("path", str(out / "answers"))
    else:
        write = answers.writeStream.foreachBatch(muntin.spark.overwrite_batches(str(out / "answers")))
    finish(write.option("checkpointLocation", str(out / "checkpoint")))


def finish(write: DataStreamWriter, attempts: int = 100) -> None:
    """Answer what is there."""
    patiently(lambda: write.trigger(availableNow=True).start().awaitTermination(), attempts)


def patiently(call: Callable[[], Any], attempts: int = 100) -> Any:
    """Spark gives a Python process ten seconds to start, which a busy machine may not manage: then a query starts
    again, as it would in production. On a machine that was twenty times as slow, twenty attempts were not enough."""
    for left in reversed(range(attempts)):
        try:
            return call()
        except PySparkException as error:
            if not left or "failed to connect back" not in str(error):
                raise
    return None


def all_answers(answers: DataFrame) -> dict[str, pa.Table]:
    """What `answers_of` gives for each query, by one job of Spark instead of one for each of them."""
    whole = answers.toArrow()
    places: dict[str, dict[str, str]] = json.loads(answers.schema["query"].metadata["muntin"])
    return {
        name: whole.filter(pc.equal(whole["query"], name))
        .select(list(columns.values()))
        .rename_columns(list(columns))
        for name, columns in places.items()
    }


def assert_all(answers: DataFrame, wanted: dict[str, Any]) -> None:
    got = all_answers(answers)
    for name, table in wanted.items():
        assert_same(table, got[name])


def assert_answers(spark: SparkSession, out: Path, wanted: dict[str, Any]) -> None:
    """Of a run that wrote files."""
    read = spark.read.parquet(str(out / "answers"))
    assert_all(read, wanted)
    name = next(iter(wanted))
    assert_same(wanted[name], muntin.spark.answers_of(read, name).toArrow())
