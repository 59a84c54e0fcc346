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
from benchmarks.spark_rules import (
    LONGEST,
    MOST,
    RATE,
    array_table_sql,
    arrays_sql,
    rules,
    slices_sql,
    window_functions_sql,
)
from benchmarks.spark_workload import KEYS, SCHEMA, SLIDE, write_events

# who is measured with how many windows
SIDES = {
    10: ("frame", "folder", "functions"),
    128: ("folder", "functions", "arrays"),
    320: ("folder", "functions"),
    MOST: ("folder", "arrays"),
}
MOST_FUNCTIONS = max(count for count, sides in SIDES.items() if "functions" in sides)
LIMIT = 1200.0  # seconds that plain SQL is given
COLUMNS = [
    Column("queries", "windows", ",d"), Column("answers", "answers", ",d"),
    Column("functions", "window functions, seconds", ",.1f"), Column("arrays", "arrays, seconds", ",.1f"),
    Column("frame", "muntin, seconds", ".1f"), Column("folder", "muntin by folder, seconds", ".1f"),
    Column("ratio", "times as fast as window functions", ".1f"), Column("ratio_arrays", "as arrays", ".1f"),
]  # fmt: skip
NOTES = f"""\
{KEYS:,} keys, {RATE:,} events a second of event time; SUM, COUNT, MIN, MAX and AVG per key, each over windows of up
to {LONGEST * SLIDE // 60} minutes that move by {SLIDE // 60}, no two with the same function and size, with a threshold
that one key in a thousand passes. Plain SQL folds events into (key, minute) once, and has all windows in one pass over
these: by *window functions*, where sums, counts and averages are differences of running totals, and MIN and MAX
functions of their own; or by *arrays*, which is SQL for someone who knows the algorithms: per key, arrays of running
totals and of MIN and MAX of runs of 1, 2, 4, … minutes, so that each rule is one or two operations on elements. Window
functions are tried with up to {MOST_FUNCTIONS} windows, and both are given {LIMIT:.0f} seconds. muntin reads the files
by itself (*folder*), which the last two columns compare, and once a DataFrame of Spark's Parquet source. Answers are
counted, not written, and all must have as many. Local mode on two cores; a small table was answered by all of them
before."""


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
    minutes = (
        (events - 1) * (1_000_000 // RATE) // (SLIDE * 1_000_000)
    )  # that are over when the last event comes

    def keep(text: str, name: str) -> None:
        session.sql(text).persist().createOrReplaceTempView(name)

    def functions() -> Any:
        keep(slices_sql(minutes), "slices")
        return session.sql(window_functions_sql(some))

    def arrays() -> Any:
        keep(slices_sql(minutes), "slices")
        keep(array_table_sql(minutes), "arrays")  # or they would be made again for each rule
        return session.sql(arrays_sql(some, minutes))

    sides: dict[str, Callable[[], Any]] = {
        "frame": lambda: muntin.spark.shared_windows(frame, texts, stream="t", time="ts", shards=2),
        "folder": lambda: muntin.spark.shared_windows(files, texts, stream="t", time="ts", shards=2),
        "functions": functions,
        "arrays": arrays,
    }
    spent = {name: _count(session, sides[name]) for name in SIDES[count]}
    found = {each[1] for each in spent.values() if each is not None}
    assert len(found) == 1, f"{count} windows: different numbers of answers, {spent}"
    row: dict[str, Any] = {"queries": count, "answers": found.pop()}
    row |= {name: each[0] for name, each in spent.items() if each is not None}
    ratios = {"functions": "ratio", "arrays": "ratio_arrays"}
    return row | {
        ratio: row[name] / row["folder"] for name, ratio in ratios.items() if name in row and "folder" in row
    }


def _count(session: Any, make: Callable[[], Any]) -> tuple[float, int] | None:
    """Seconds and rows of a DataFrame; None if it is not done in time."""
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        session.sparkContext.cancelAllJobs()

    timer = threading.Timer(LIMIT, stop)
    timer.start()
    began = time.perf_counter()
    try:
        found = int(make().count())
    except Exception:
        if stopped.is_set():
            return None
        raise
    finally:
        timer.cancel()
        session.catalog.clearCache()
    return time.perf_counter() - began, found
