"""A thousand queries in one Spark stream, beside ten: events per second, and CPU per event."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import Column, Result
from benchmarks.spark_runs import Played, play, read
from benchmarks.spark_workload import KEYS, RATE, SIZES, SLIDE, queries, write_events

COUNTS = (10, 1_000)
COLUMNS = [
    Column("what", "source"), Column("queries", "queries", ",d"),
    Column("rate", "events per second", ",.0f"), Column("cpu", "CPU seconds per million events", ".2f"),
    Column("more", "CPU beside ten queries", ".2f"), Column("answers", "answers", ",d"),
    Column("batch", "seconds per micro-batch", ".2f"),
    Column("kept", "rate by CPU, beside no control stream", ".2f"),
]  # fmt: skip
NOTES = f"""\
{KEYS:,} keys, {RATE:,} events a second of event time in Parquet files; SUM, COUNT, MIN, MAX and AVG per key
over windows of {SIZES[0] // 60} to {SIZES[-1] // 60} minutes that move by {SLIDE // 60} minute, each with a
HAVING threshold that about one key in a hundred passes in a full window. Local mode on two cores with two
shards; answers are written by Spark's Parquet sink. Streams run in turns, the first of them twice and counted
once; of each, two micro-batches are not counted. CPU is that of driver, JVM and Python workers: it says what the rate
would be on a machine that does nothing else. *Folder* is the source that reads files in Python tasks. *With control*
has a control stream that registers one more query, and a `roster`, so that tasks go on folding. Spark's own windows are
on [a page of their own](reproduce/spark.md)."""


def run(quick: bool, files: int = 36) -> Result:
    """Measure muntin by number of queries and source."""
    import muntin.spark

    files, rows, each = (6, 200_000, 1) if quick else (files, 1_000_000, 4)
    folder = Path(tempfile.mkdtemp(prefix="muntin-spark-"))
    session = muntin.spark.local_session(cores=2, memory="4g")
    try:
        write_events(folder / "in", files, rows)
        _measure(session, folder, COUNTS[-1], each, "Parquet")  # the JVM compiles what it runs often
        table = [
            _row(source, count, _measure(session, folder, count, each, source))
            for source, counts in (("Parquet", COUNTS), ("with control", COUNTS[-1:]), ("folder", COUNTS))
            for count in counts
        ]
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    by_source = {(row["what"], row["queries"]): row for row in table}
    for (source, count), row in by_source.items():
        if source == "with control":
            row["kept"] = by_source["Parquet", count]["cpu"] / row["cpu"]
        else:
            row["more"] = row["cpu"] / by_source[source, COUNTS[0]]["cpu"]
    return Result(
        "spark", "A stream on Spark", " ".join(NOTES.split()), COLUMNS, table,
        {"events": files * rows, "events per micro-batch": each * rows},
    )  # fmt: skip


def _measure(session: Any, folder: Path, count: int, each: int, source: str) -> Played:
    import muntin.spark

    df: Any = read(session, folder, each)
    if source == "folder":
        df = muntin.spark.EventFolder(session, str(folder / "in"), timedelta(seconds=1), files_per_batch=each)
    more: dict[str, Any] = {}
    if source == "with control":
        statement = f"REGISTER QUERY one_more AS {queries(count + 1)[f'q{count}']}"
        (folder / "control").mkdir()
        (folder / "control" / "0.json").write_text(json.dumps({"statement": statement}))
        control = session.readStream.schema("statement STRING").json(str(folder / "control"))
        more = {"control": control, "roster": str(folder / "roster")}
    answers = muntin.spark.shared_windows(df, queries(count), stream="t", time="ts", shards=2, **more)
    return play(session, folder, [answers])


def _row(source: str, count: int, played: Played) -> dict[str, Any]:
    return {
        "what": source, "queries": count, "rate": played.rate, "cpu": played.cpu_per_million,
        "answers": played.answers, "batch": played.seconds / played.batches,
    }  # fmt: skip
