"""Exactly-once by overwriting: a sink for `foreachBatch` that may see a micro-batch twice and keeps it once."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame


def overwrite_batches(path: str, format: str = "parquet") -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: each micro-batch owns the folder `batch=<number>` under `path`.

    After a failure Spark repeats a micro-batch with the same number and the same answers, which then take the
    place of whatever the first attempt left.

        answers.writeStream.foreachBatch(muntin.spark.overwrite_batches("/answers")).start()
    """

    def write(answers: DataFrame, batch: int) -> None:
        answers.write.format(format).mode("overwrite").save(f"{path}/batch={batch}")

    return write
