"""Streaming queries over files, run to their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flow import DELAY, SCHEMA, assert_same
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import muntin.spark


def stream_of(spark: SparkSession, folder: Path, files: int = 2) -> DataFrame:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(folder))
    return read.withWatermark("ts", DELAY)


def run(answers: DataFrame, out: Path, sink: str = "files") -> None:
    """Answer what is there, into files or by `foreachBatch`.

    Spark gives a Python process ten seconds to start, which a busy machine may not
    manage: then the query starts again, as it would in production."""
    if sink == "files":
        write = answers.writeStream.format("parquet").option("path", str(out / "answers"))
    else:
        write = answers.writeStream.foreachBatch(muntin.spark.overwrite_batches(str(out / "answers")))
    write = write.option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True)
    for attempt in range(5):
        try:
            write.start().awaitTermination()
            return
        except StreamingQueryException as error:
            if attempt == 4 or "failed to connect back" not in str(error):
                raise


def assert_answers(spark: SparkSession, out: Path, wanted: dict[str, Any]) -> None:
    read = spark.read.parquet(str(out / "answers"))
    for name, table in wanted.items():
        assert_same(table, muntin.spark.answers_of(read, name).toArrow())
