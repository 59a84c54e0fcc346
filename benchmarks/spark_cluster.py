"""The same tables on one and two executors of a cluster on this machine: equal answers, and how fast."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import spark_joins, spark_lookup_at
from benchmarks.lookup_at import features
from benchmarks.measure import Column, Result
from benchmarks.spark_table_steps import WINDOWS
from benchmarks.spark_workload import SCHEMA, queries, write_events

QUERIES = 1_000
ROWS = 1_000_000  # of a file
COLUMNS = [
    Column("what", "what"), Column("events", "events", ",d"), Column("executors", "executors", ",d"),
    Column("seconds", "seconds", ".1f"), Column("speed", "times as fast as one", ".2f"),
    Column("answers", "answers", ",d"),
]  # fmt: skip
NOTES = f"""\
Tables in Parquet files, on `local-cluster` with one core per executor; the second run of each. *Windows* are
{QUERIES:,} queries. *Joins* are {len(WINDOWS)} queries of pairs with EMIT CHANGES over two streams of
{spark_joins.KEYS:,} keys. *Look-ups* are {len(spark_lookup_at.EXTREMES) * len(spark_lookup_at.WINDOWS)} features for a
request per hundred events. Driver and executors share the two cores of the machine."""


def run(quick: bool, files: int = 12) -> Result:
    """One executor, then two, for each kind of work."""
    count, million = (20, 100_000) if quick else (QUERIES, 1_000_000)
    files = 4 if quick else files
    folder = Path(tempfile.mkdtemp(prefix="muntin-cluster-"))
    sizes = {"windows": files * ROWS, "joins": 2 * million, "look-ups": 4 * million}
    try:
        write_events(folder / "windows", files, ROWS)
        for seed, name in enumerate("ab"):
            spark_joins.write(folder / name, seed, 4, sizes["joins"] // 8)
        spark_lookup_at.write(folder / "look-ups", sizes["look-ups"], sizes["look-ups"] // 100)
        rows = [row for executors in (1, 2) for row in _measure(folder, executors, count)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows.sort(key=lambda row: list(sizes).index(row["what"]))
    for one, two in zip(rows[::2], rows[1::2], strict=True):
        assert one["sum"] == two["sum"], f"answers of {one['what']} differ between one executor and two"
        for row in (one, two):
            row |= {"events": sizes[row["what"]], "speed": one["seconds"] / row["seconds"]}
    return Result(
        "spark_cluster", "One executor and two", " ".join(NOTES.split()), COLUMNS, rows, {"events": files * ROWS}
    )  # fmt: skip


def _measure(folder: Path, executors: int, count: int) -> list[dict[str, Any]]:
    import muntin.spark

    # packed rows are large, and a gigabyte and a half is little: without a limit in bytes, a batch of them fills it
    few = {"spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 2**20)}
    session = muntin.spark.local_session(
        cores=executors, master=f"local-cluster[{executors},1,1536]", settings=few
    )
    work: dict[str, tuple[Callable[[], Any], list[str]]] = {
        "windows": (lambda: _windows(session, folder, count), ["query", "k", "window_end"]),
        "joins": (lambda: _joins(session, folder), ["query", "k", "x", "y", "window_end", "change"]),
        "look-ups": (lambda: _lookups(session, folder), ["id", "count_1h", "sum_amount_1d", "max_amount_7d"]),
    }
    try:
        return [
            {"what": what, "executors": executors, **_run(make, columns)}
            for what, (make, columns) in work.items()
        ]
    finally:
        session.stop()


def _run(make: Callable[[], Any], columns: list[str]) -> dict[str, Any]:
    """Seconds of the second run, and a sum over all answers that does not depend on their order."""
    from pyspark.sql import functions as F

    # each time from a DataFrame of its own: Spark would not shuffle again for the same one
    for _ in range(2):
        df = make()
        began = time.perf_counter()
        checked = df.agg(F.count("*"), F.sum(F.hash(*columns).cast("bigint")))
        answers, total = checked.collect()[0]
        seconds = time.perf_counter() - began
    assert answers > 0, "nothing was answered"
    return {"seconds": seconds, "answers": int(answers), "sum": total}


def _windows(session: Any, folder: Path, count: int) -> Any:
    from muntin.spark import shared_windows

    events = session.read.schema(SCHEMA).parquet(str(folder / "windows"))
    return shared_windows(events, queries(count), stream="t", time="ts", shards=4)


def _joins(session: Any, folder: Path) -> Any:
    from muntin.spark import shared_windows

    frames = {name: session.read.schema(spark_joins.SCHEMA).parquet(str(folder / name)) for name in "ab"}
    return shared_windows(frames, spark_joins.queries(WINDOWS), time="ts", shards=4)


def _lookups(session: Any, folder: Path) -> Any:
    from muntin.spark import lookup_at

    events, requests = (session.read.parquet(str(folder / "look-ups" / name)) for name in ("p", "r.parquet"))
    texts = features(spark_lookup_at.EXTREMES, spark_lookup_at.WINDOWS)
    return lookup_at(events, texts, requests, stream="p", time="ts", shards=4)
