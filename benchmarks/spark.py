"""A thousand queries in one Spark stream: events per second, beside ten queries and Spark's own windows."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import Column, Result
from benchmarks.spark_workload import KEYS, RATE, SCHEMA, SIZES, SLIDE, queries, threshold, write_events

COUNTS = (10, 1_000)
NATIVE = (1, 2, 4, 8)
COLUMNS = [
    Column("what", "what runs"), Column("queries", "queries", ",d"),
    Column("rate", "events per second", ",.0f"), Column("ratio", "as fast as Spark's windows", ".1f"),
    Column("answers", "answers", ",d"), Column("batch", "seconds per micro-batch", ".2f"),
]  # fmt: skip
NOTES = f"""\
{KEYS:,} keys, {RATE:,} events a second of event time in Parquet files; SUM, COUNT, MIN, MAX and AVG per key
over windows of {SIZES[0] // 60} to {SIZES[-1] // 60} minutes that move by {SLIDE // 60} minute, each with a
HAVING threshold that about one key in a hundred passes in a full window. Local mode on two cores with two
shards; answers are written by Spark's Parquet sink. Rates are those of all micro-batches but the first three,
from the start of the first to the end of the last. *Folder* is the source that reads files in Python tasks.
Spark's own `window()` runs one stream per query, all at once, with the same sink and thresholds, over windows
of ten minutes (SUM); the ratio compares with its rate at the same number of queries."""


def run(quick: bool) -> Result:
    """Measure muntin by number of queries and source, then Spark's windows."""
    import muntin.spark

    files, rows, each = (8, 200_000, 1) if quick else (64, 1_000_000, 2)
    folder = Path(tempfile.mkdtemp(prefix="muntin-spark-"))
    session = muntin.spark.local_session(cores=2, memory="4g")
    try:
        write_events(folder / "in", files, rows)
        table = []
        for count in NATIVE[:2] if quick else NATIVE:
            table.append(_native(session, folder, count, each))
            ours = _muntin(
                session, folder, {f"sum{i}": _same(i) for i in range(count)}, each, "Parquet source"
            )
            table.append(
                ours | {"ratio": ours["rate"] / table[-1]["rate"], "what": "muntin, the same windows"}
            )
        for count in COUNTS:
            table.append(_muntin(session, folder, queries(count), each, "Parquet source"))
            table.append(_muntin(session, folder, queries(count), each, "folder"))
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        "spark", "A stream on Spark", " ".join(NOTES.split()), COLUMNS, table,
        {"events": files * rows, "events per micro-batch": each * rows},
    )  # fmt: skip


def _same(number: int) -> str:
    limit = threshold("SUM", SIZES[-1]) * (1 + number * 1e-6)
    return (
        f"SELECT k, SUM(x) AS value FROM t [RANGE {SIZES[-1]} SECONDS SLIDE {SLIDE} SECONDS] "
        f"GROUP BY k HAVING SUM(x) > {limit!r}"
    )


def _read(session: Any, folder: Path, each: int) -> Any:
    read = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", each).parquet(str(folder / "in"))
    return read.withWatermark("ts", "1 second")


def _muntin(session: Any, folder: Path, some: dict[str, str], each: int, source: str) -> dict[str, Any]:
    import muntin.spark

    df: Any = _read(session, folder, each)
    if source == "folder":
        df = muntin.spark.EventFolder(session, str(folder / "in"), timedelta(seconds=1), files_per_batch=each)
    answers = muntin.spark.shared_windows(df, some, stream="t", time="ts", shards=2)
    progress = _play(session, folder, [answers])[0]
    return _row(f"muntin, {source}", len(some), [progress], _count(session, folder))


def _native(session: Any, folder: Path, count: int, each: int) -> dict[str, Any]:
    from pyspark.sql import functions as F

    streams = [
        _read(session, folder, each)
        .groupBy(F.window("ts", f"{SIZES[-1]} seconds", f"{SLIDE} seconds"), "k")
        .agg(F.sum("x").alias("value"))
        .where(F.col("value") > threshold("SUM", SIZES[-1]) * (1 + number * 1e-6))
        for number in range(count)
    ]
    return _row("Spark's window()", count, _play(session, folder, streams), _count(session, folder))


def _play(session: Any, folder: Path, streams: list[Any]) -> list[list[Any]]:
    """Run streams side by side to their end; the progress of each."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    running = []
    for number, stream in enumerate(streams):
        out = folder / "out" / str(number)
        write = stream.writeStream.format("parquet").option("path", str(out / "answers"))
        write = write.option("checkpointLocation", str(out / "checkpoint"))
        running.append(write.trigger(availableNow=True).start())
    for each in running:
        each.awaitTermination()
    return [[progress for progress in each.recentProgress if progress.numInputRows] for each in running]


def _row(what: str, count: int, streams: list[list[Any]], answers: int) -> dict[str, Any]:
    """The slowest of the streams decides: all of them have to answer."""
    rates, times = [], []
    for progress in streams:
        timed = progress[min(3, len(progress) - 1) :]
        seconds = sum(each.durationMs["triggerExecution"] for each in timed) / 1000
        rates.append(sum(map(_events, timed)) / seconds)
        times.append(seconds / len(timed))
    return {
        "what": what, "queries": count, "rate": min(rates), "answers": answers, "batch": max(times),
    }  # fmt: skip


def _events(progress: Any) -> int:
    """Spark counts the rows of a source, of which a folder gives few: ours are counted by the tasks."""
    ours = (progress.observedMetrics or {}).get("muntin")
    return int(ours["events"] if ours else progress.numInputRows)


def _count(session: Any, folder: Path) -> int:
    outs = [str(out / "answers") for out in sorted((folder / "out").iterdir())]
    return sum(int(session.read.parquet(out).count()) for out in outs)
