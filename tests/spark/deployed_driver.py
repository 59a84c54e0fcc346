"""A job as one would deploy it, to be given to spark-submit: `deployed_driver.py FOLDER`.

It answers the Parquet files in FOLDER/in as a stream, once by Spark's own source and once by an EventFolder.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta

from pyspark.sql import SparkSession

import muntin.spark

QUERIES = {
    "sums": "SELECT k, SUM(v) AS total, AVG(x) AS mean FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "median": "SELECT k, MEDIAN(v) AS total FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k",
}


def main(folder: str) -> None:
    spark = SparkSession.builder.appName("deployed").getOrCreate()
    events = spark.readStream.schema("ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE").parquet(f"{folder}/in")
    sources = {
        "frame": events.withWatermark("ts", "2 seconds"),
        "folder": muntin.spark.EventFolder(spark, f"{folder}/in", delay=timedelta(seconds=2)),
    }
    for name, source in sources.items():
        started = time.perf_counter()
        answers = muntin.spark.shared_windows(source, QUERIES, stream="t", time="ts", name=name)
        write = answers.writeStream.option("checkpointLocation", f"{folder}/{name}/checkpoint")
        query = write.trigger(availableNow=True).format("parquet").start(f"{folder}/{name}/answers")
        query.awaitTermination()
        print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)
        print(muntin.spark.progress.progress_of(query.lastProgress), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
