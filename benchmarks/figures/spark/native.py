"""Throughput by the number of queries on Spark: muntin beside one `window()` aggregation per query."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures.page import Record, short
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from benchmarks.spark_runs import WARM_UP, Played, play, read
from benchmarks.spark_workload import KEYS, RATE, threshold, write_events

COUNTS, QUICK_COUNTS = (1, 2, 4, 8), (1, 2)
MANY = 1_000  # queries that one stream per query is not tried with
SIZE, SLIDE = 20, 2  # seconds: each event is in ten windows
NAMES = {"muntin": "muntin", "window": "Spark's window()"}
MODES = {"clock": "By the clock, events per second", "cpu": "Events per second of CPU"}
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"

NOTES = f"""\
SUM per key over windows of {SIZE} seconds that move by {SLIDE}, {KEYS:,} keys, {RATE:,} events a second of event
time in Parquet files, with a threshold per query that about one key in a hundred passes. muntin answers all queries
in one stream; Spark's windows run in one stream per query, all at once, each reading the files. Both write their
answers with Spark's Parquet sink and must have as many. Local mode on two cores, two shuffle partitions; one after
the other in one session, after a run of each that is not counted; nor are the first {WARM_UP} micro-batches of each.
At {MANY:,} queries muntin is measured, and Spark's windows are a line through what {COUNTS[0]} to {COUNTS[-1]} of
them cost."""


def run(quick: bool, files: int = 8, rows: int = 1_000_000) -> Result:
    """Measure both by the number of queries."""
    import muntin.spark

    counts, files, rows = (QUICK_COUNTS, 4, 200_000) if quick else (COUNTS, files, rows)
    folder = Path(tempfile.mkdtemp(prefix="muntin-native-"))
    session = muntin.spark.local_session(cores=2, memory="4g")
    ours, theirs = {}, {}
    try:
        write_events(folder / "in", files, rows)
        for count in (1, *counts):  # what runs first runs twice: the JVM compiles what it runs often
            ours[count] = _muntin(session, folder, count)
            theirs[count] = _native(session, folder, count)
            found = ours[count].answers, theirs[count].answers
            assert found[0] == found[1] > 0, (
                f"{count} queries: {found[0]:,} answers, of Spark's windows {found[1]:,}"
            )
        ours[MANY] = _muntin(session, folder, MANY)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        name="spark/native",
        title="muntin and Spark's windows by the number of queries",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "by"), Column("queries", "queries", ",d"),
            *(Column(name, label, ",.0f") for name, label in NAMES.items()), Column("ratio", "ratio", ".1f"),
        ],
        rows=_rows("clock", ours, theirs) + _rows("cpu", ours, theirs),
        parameters={"events": files * rows, "events per micro-batch": rows},
    )  # fmt: skip


def _rows(mode: str, ours: Mapping[int, Played], theirs: Mapping[int, Played]) -> list[dict[str, Any]]:
    """Events per second by number of queries; of Spark's windows beyond what was measured, by a line through
    what an event costs."""

    def cost(played: Played) -> float:
        return (played.seconds if mode == "clock" else played.cpu) / played.events

    known = {count: cost(played) for count, played in theirs.items()}
    each, fixed = np.polyfit(list(known), list(known.values()), 1)
    rows = []
    for count, played in ours.items():
        mine, other = 1 / cost(played), 1 / known.get(count, max(fixed, 0.0) + each * count)
        rows.append(
            {"mode": mode, "queries": count, "muntin": mine, "window": other, "ratio": mine / other,
             "answers": played.answers}
        )  # fmt: skip
    return rows


def _muntin(session: Any, folder: Path, count: int) -> Played:
    import muntin.spark

    texts = {
        f"q{number}": f"SELECT k, SUM(x) AS value FROM t [RANGE {SIZE} SECONDS SLIDE {SLIDE} SECONDS] "
        f"GROUP BY k HAVING SUM(x) > {_limit(number)!r}"
        for number in range(count)
    }
    answers = muntin.spark.shared_windows(read(session, folder, 1), texts, stream="t", time="ts", shards=2)
    return play(session, folder, [answers])


def _native(session: Any, folder: Path, count: int) -> Played:
    from pyspark.sql import functions as F

    streams = [
        read(session, folder, 1)
        .groupBy(F.window("ts", f"{SIZE} seconds", f"{SLIDE} seconds"), "k")
        .agg(F.sum("x").alias("value"))
        .where(F.col("value") > _limit(number))
        for number in range(count)
    ]
    before = session.conf.get(_NO_DATA)
    session.conf.set(_NO_DATA, "true")  # or the windows that the last events close would stay in the state
    try:
        return play(session, folder, streams)
    finally:
        session.conf.set(_NO_DATA, before)


def _limit(number: int) -> float:
    return threshold("SUM", SIZE) * (1 + number * 1e-6)


def rates_table(record: Record) -> str:
    """Rates by the number of queries, by the clock and by CPU."""
    columns = [{"key": "queries", "label": "queries", "format": ",d"}]
    for mode, by in {"clock": "second", "cpu": "CPU second"}.items():
        columns += [
            {"key": f"{mode} {name}", "label": f"{label}, events per {by}", "format": ">"}
            for name, label in NAMES.items()
        ]
        columns.append({"key": f"{mode} ratio", "label": "times as fast", "format": ",.1f"})
    rows: dict[int, dict[str, Any]] = {}
    for row in record["rows"]:
        shown = {f"{row['mode']} {name}": short(row[name]) for name in NAMES}
        shown[f"{row['mode']} ratio"] = row["ratio"]
        rows.setdefault(row["queries"], {"queries": row["queries"]}).update(shown)
    return table_text(columns, list(rows.values()))


def image(record: Record) -> str:
    """The plot, which is there once something has been measured."""
    return "![Throughput by the number of queries](spark-native.svg)"


CHART = Chart(
    "queries",
    "queries (rings: Spark's windows by extrapolation)",
    "events",
    NAMES,
    apart=(MANY,),
    panels=MODES,
)
PARTS = {"image": image, "table": rates_table, "origin": origin_text}
