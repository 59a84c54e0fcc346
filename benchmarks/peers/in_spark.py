"""Spark's own windows over a folder of events: a stream for each query, with slices before its windows.

`python in_spark.py FOLDER` does what the same of Flink does (in_flink.py).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from benchmarks.process_tree import CpuMeter

SCHEMA = "us BIGINT, k BIGINT, n BIGINT, m BIGINT"
FILES = 4  # micro-batches
DAY = 86_400_000_000
PARTIAL = {
    "SUM(n)": ("sum", "n"), "SUM(m)": ("sum", "m"), "MIN(n)": ("min", "n"), "MIN(m)": ("min", "m"),
    "MAX(n)": ("max", "n"), "MAX(m)": ("max", "m"), "COUNT(*)": ("count", "n"), "AVG(n)": ("sum", "n"),
    "AVG(m)": ("sum", "m"),
}  # fmt: skip


def main(folder: Path) -> None:
    """Run all in one session, so that the first run warms up."""
    import pyspark

    import muntin.spark

    for part in ("short", "whole"):
        cut(folder / f"{part}_parquet", folder / f"{part}_files")
    session = muntin.spark.local_session(cores=2, memory="2g")
    try:
        queries = json.loads((folder / "queries.json").read_text())
        all_queries(session, folder, queries, "short", "csv")
        began = time.perf_counter()
        with CpuMeter() as meter:
            all_queries(session, folder, queries, "whole", "noop")
        seconds = time.perf_counter() - began
        with CpuMeter() as reading:
            session.read.schema(SCHEMA).parquet(str(folder / "whole_files")).selectExpr("sum(n)").collect()
    finally:
        session.stop()
    found = {
        "seconds": seconds,
        "cpu": meter.seconds,
        "reading": reading.seconds,
        "version": pyspark.__version__,
    }
    print(json.dumps(found))


def cut(source: Path, target: Path) -> None:
    """Files of one micro-batch each, and an event a day later, which lets all windows close."""
    if target.exists():
        return
    target.mkdir()
    table = pyarrow.parquet.read_table(source).rename_columns(["us", "k", "n", "m"])
    rows = -(-table.num_rows // FILES)
    parts = [table.slice(number * rows, rows) for number in range(FILES)]
    late = pa.table(
        {name: pa.array([DAY if name == "us" else -1], pa.int64()) for name in table.column_names}
    )
    for number, part in enumerate([*parts, late]):
        pyarrow.parquet.write_table(part, target / f"{number}.parquet")


def all_queries(session: Any, folder: Path, queries: list[Any], part: str, sink: str) -> None:
    """Run a stream for each to its end, all at once."""
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    running = []
    for number, (size, slide, call) in enumerate(queries):
        answers = windowed(session, folder / f"{part}_files", number, size, slide, call)
        place = folder / "spark" / part / f"{len(queries)}_{number}"
        write = answers.writeStream.format(sink).option("checkpointLocation", str(place))
        if sink == "csv":
            write = write.option("path", str(folder / "answers" / str(number)))
            write = write.option("timestampFormat", "yyyy-MM-dd HH:mm:ss")
        running.append(write.trigger(availableNow=True).start())
    for query in running:
        query.awaitTermination()
        if query.exception():
            raise query.exception()


def windowed(session: Any, files: Path, number: int, size: int, slide: int, call: str) -> Any:
    """Slices as long as the slide, and windows of slices, so that an event is not copied into each of its windows."""
    from pyspark.sql import functions as F

    how, column = PARTIAL[call]
    events = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files))
    events = events.withColumn("ts", F.timestamp_micros("us")).withWatermark("ts", "0 seconds")
    slices = events.groupBy(F.window("ts", f"{slide} seconds"), "k").agg(
        getattr(F, how)(column).alias("part"), F.count("*").alias("many")
    )
    again = F.sum if how in ("sum", "count") else getattr(F, how)
    wide = slices.groupBy(F.window(F.window_time("window"), f"{size} seconds", f"{slide} seconds"), "k").agg(
        again("part").alias("part"), F.sum("many").alias("many")
    )
    value = F.col("part") / F.col("many") if call.startswith("AVG") else F.col("part")
    kept = wide.where(F.col("window.end") < F.timestamp_micros(F.lit(DAY // 2)))
    return kept.select(F.lit(number).alias("q"), F.col("window.end"), "k", value.cast("double"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
