"""A thousand windows over a table on Spark, beside the best plain SQL for the same answers."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import Column, Result
from benchmarks.process_tree import cpu_seconds
from benchmarks.spark_rules import LONGEST, MOST, RATE, plain_sql, rules
from benchmarks.spark_workload import KEYS, SCHEMA, SLIDE, write_events

# who is measured with how many windows; plain SQL with all of them was not done with 5 M events in 100 seconds
SIDES = {10: ("frame", "folder", "plain"), 128: ("folder", "plain"), MOST: ("folder",)}
MOST_PLAIN = max(count for count, sides in SIDES.items() if "plain" in sides)
LIMIT = 540.0  # seconds that plain SQL is given
COLUMNS = [
    Column("queries", "windows", ",d"), Column("answers", "answers", ",d"),
    Column("plain", "plain SQL, seconds", ",.1f"), Column("frame", "muntin, seconds", ".1f"),
    Column("folder", "muntin by folder, seconds", ".1f"), Column("ratio", "times as fast", ".1f"),
    Column("cpu", "CPU, times less", ".1f"),
]  # fmt: skip
NOTES = f"""\
{KEYS:,} keys, {RATE:,} events a second of event time; SUM, COUNT, MIN, MAX and AVG per key, each over windows of up
to {LONGEST * SLIDE // 60} minutes that move by {SLIDE // 60}, no two with the same function and size, with a threshold
that one key in a thousand passes. Plain SQL folds events into (key, minute) once and has all windows in one pass over
these: sums, counts and averages as differences of running totals, MIN and MAX by window functions, then each
threshold. It is tried with up to {MOST_PLAIN} windows, and given {LIMIT:.0f} seconds. muntin reads the files by itself
(*folder*), which the last two columns compare with plain SQL, and once a DataFrame of Spark's Parquet source.
Answers are counted, not written, and all must have as many. Local mode on two cores; a small table was answered by
all of them before."""


def run(quick: bool, files: int = 100, rows: int = 1_000_000) -> Result:
    """Measure each number of windows on all sides."""
    import muntin.spark

    files, rows = (4, 500_000) if quick else (files, rows)
    folder = Path(tempfile.mkdtemp(prefix="muntin-table-"))
    session = muntin.spark.local_session(cores=2, memory="6g")
    try:
        write_events(folder / "small", 4, 100_000, RATE)
        write_events(folder / "large", files, rows, RATE)
        _measure(session, folder / "small", 10, 4 * 100_000)  # processes start, code is compiled
        table = [_measure(session, folder / "large", count, files * rows) for count in SIDES]
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        "spark_table", "A table on Spark", " ".join(NOTES.split()), COLUMNS, table, {"events": files * rows}
    )


def _measure(session: Any, folder: Path, count: int, events: int) -> dict[str, Any]:
    import muntin.spark

    frame = session.read.schema(SCHEMA).parquet(str(folder))
    files = muntin.spark.EventFolder(session, str(folder), timedelta(0), is_streaming=False)
    some = rules(count)
    texts = {rule.name: rule.query for rule in some}
    frame.createOrReplaceTempView("t")
    last = (events - 1) * (1_000_000 // RATE)  # when the last event is
    sides: dict[str, Callable[[], Any]] = {
        "frame": lambda: muntin.spark.shared_windows(frame, texts, stream="t", time="ts", shards=2),
        "folder": lambda: muntin.spark.shared_windows(files, texts, stream="t", time="ts", shards=2),
        "plain": lambda: session.sql(plain_sql(some, last // (SLIDE * 1_000_000))),
    }
    spent = {name: _count(session, sides[name]) for name in SIDES[count]}
    found = {each[2] for each in spent.values() if each is not None}
    assert len(found) == 1, f"{count} windows: different numbers of answers, {spent}"
    row: dict[str, Any] = {"queries": count, "answers": found.pop()}
    row |= {name: each[0] for name, each in spent.items() if each is not None}
    plain, ours = spent.get("plain"), spent["folder"]
    if plain is not None and ours is not None:
        row |= {"ratio": plain[0] / ours[0], "cpu": plain[1] / ours[1]}
    return row


def _count(session: Any, make: Callable[[], Any]) -> tuple[float, float, int] | None:
    """Seconds, CPU seconds and rows of a DataFrame; None if it is not done in time."""
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        session.sparkContext.cancelAllJobs()

    timer = threading.Timer(LIMIT, stop)
    timer.start()
    began, cpu = time.perf_counter(), cpu_seconds()
    try:
        found = int(make().count())
    except Exception:
        if stopped.is_set():
            return None
        raise
    finally:
        timer.cancel()
    return time.perf_counter() - began, cpu_seconds() - cpu, found
