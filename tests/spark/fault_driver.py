"""A streaming query in a process of its own, to be killed: `fault_driver.py FOLDER MASTER SINK [joins]`.

It answers the files in FOLDER/in, one a micro-batch, or joins those in FOLDER/t and FOLDER/u. It writes a line to
FOLDER/progress after each micro-batch, and ends when all are done.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from flow import DELAY, SCHEMA, WHOLE  # noqa: E402
from join_events import JOINS, streams_of  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402

import muntin.spark  # noqa: E402


def main() -> None:
    folder, master, sink = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    spark = muntin.spark.local_session(cores=2, memory="1g", master=master)

    def show(progress: object) -> None:
        with open(folder / "progress", "a") as lines:
            print(progress, file=lines, flush=True)

    spark.streams.addListener(muntin.spark.ProgressListener(show))
    if sys.argv[4:] == ["joins"]:
        answers = muntin.spark.shared_windows(streams_of(spark, folder, 1), JOINS, time="ts", shards=2)
    else:
        answers = one_stream(spark, folder)
    write = answers.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if sink == "files":
        write = write.format("parquet").option("path", str(folder / "out"))
    else:
        write = write.foreachBatch(muntin.spark.overwrite_batches(str(folder / "out")))
    write.trigger(availableNow=True).start().awaitTermination()


def one_stream(spark: SparkSession, folder: Path) -> DataFrame:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return muntin.spark.shared_windows(
        read.withWatermark("ts", DELAY), WHOLE, stream="t", time="ts", shards=2
    )


if __name__ == "__main__":
    main()
