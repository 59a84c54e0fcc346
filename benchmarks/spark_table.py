"""A thousand windows over a table on Spark, beside the best plain SQL for the same answers."""

from __future__ import annotations

import shutil
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import Column, Result
from benchmarks.spark_workload import FUNCTIONS, SCHEMA, SIZES, SLIDE, queries, threshold, write_events

COUNTS = (10, 100, 1_000)
COLUMNS = [
    Column("queries", "queries", ",d"), Column("muntin", "muntin, seconds", ".1f"),
    Column("folder", "muntin by folder, seconds", ".1f"), Column("plain", "plain SQL, seconds", ".1f"),
    Column("ratio", "muntin, times as fast", ".1f"), Column("answers", "answers", ",d"),
]  # fmt: skip
NOTES = """\
The events and queries of the stream on Spark, as a table. Plain SQL folds events into (key, minute) once and
computes every function over every window size that some query has by a window function over these minutes;
thresholds are then applied to each row, query by query. Answers are counted, not written; both sides must
have as many."""


def run(quick: bool, files: int = 100) -> Result:
    """Measure each number of queries on both sides."""
    import muntin.spark

    files, rows = (4, 500_000) if quick else (files, 1_000_000)
    folder = Path(tempfile.mkdtemp(prefix="muntin-table-"))
    session = muntin.spark.local_session(cores=2, memory="6g")
    try:
        write_events(folder, files, rows)
        table = [_measure(session, folder, count) for count in (COUNTS[:2] if quick else COUNTS)]
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        "spark_table", "A table on Spark", " ".join(NOTES.split()), COLUMNS, table, {"events": files * rows}
    )


def _measure(session: Any, folder: Path, count: int) -> dict[str, Any]:
    import muntin.spark

    events = session.read.schema(SCHEMA).parquet(str(folder))
    files = muntin.spark.EventFolder(session, str(folder), timedelta(0), is_streaming=False)
    some = queries(count)
    seconds, answers = [], []
    for source in (events, files):
        df = muntin.spark.shared_windows(source, some, stream="t", time="ts", shards=2)
        spent, found = _count(df)
        seconds.append(spent)
        answers.append(found)
    spent, found = _count(_plain(session, events, count))
    assert {found} == set(answers), f"{found:,} answers of plain SQL, {answers} of muntin"
    return {
        "queries": count, "muntin": seconds[0], "folder": seconds[1], "plain": spent,
        "ratio": spent / seconds[0], "answers": found,
    }  # fmt: skip


def _count(df: Any) -> tuple[float, int]:
    began = time.perf_counter()
    found = int(df.count())
    return time.perf_counter() - began, found


def _plain(session: Any, events: Any, count: int) -> Any:
    events.createOrReplaceTempView("t")
    minute = f"CAST(floor(unix_micros(ts) / {SLIDE * 1_000_000}) AS INT)"
    columns, passes = {}, []
    for number in range(count):
        function, size = FUNCTIONS[number % 5], SIZES[number // 5 % len(SIZES)]
        limit = threshold(function, size) * (1 + number * 1e-6)
        columns[f"{function}_{size}"] = (function, size)
        passes.append(f"CASE WHEN {function}_{size} > {limit!r}D THEN 'q{number}' END")
    over = {
        "SUM": "SUM(s)", "COUNT": "SUM(n)", "MIN": "MIN(lo)", "MAX": "MAX(hi)", "AVG": "SUM(s) / SUM(n)",
    }  # fmt: skip
    windows = [
        over[function].replace(")", f") OVER (PARTITION BY k ORDER BY m RANGE {size // SLIDE - 1} PRECEDING)")
        + f" AS {name}"
        for name, (function, size) in columns.items()
    ]
    folded = "SUM(x) AS s, COUNT(*) AS n, MIN(x) AS lo, MAX(x) AS hi"
    slices = f"SELECT k, {minute} AS m, {folded} FROM t GROUP BY k, {minute}"
    wide = f"SELECT k, m, {', '.join(windows)} FROM ({slices})"
    # a minute that has not ended by the last event closes no window
    closed = f"m < (SELECT MAX({minute}) FROM t)"
    return session.sql(
        f"SELECT k, m, query FROM (SELECT k, m, explode(array_compact(array({', '.join(passes)}))) AS query "
        f"FROM ({wide}) WHERE {closed})"
    )
