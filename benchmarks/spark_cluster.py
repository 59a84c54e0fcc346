"""The same table on one and two executors of a cluster on this machine: equal answers, and how fast."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Column, Result
from benchmarks.spark_workload import SCHEMA, queries, write_events

QUERIES = 1_000
COLUMNS = [
    Column("executors", "executors", ",d"), Column("seconds", "seconds", ".1f"),
    Column("speed", "times as fast as one", ".2f"), Column("answers", "answers", ",d"),
]  # fmt: skip
NOTES = f"""\
{QUERIES:,} queries over a table in Parquet files, on `local-cluster` with one core per executor; the second
run of each. Driver and executors share the two cores of the machine."""


def run(quick: bool, files: int = 60) -> Result:
    """One executor, then two."""
    files, rows = (4, 1_000_000) if quick else (files, 1_000_000)
    folder = Path(tempfile.mkdtemp(prefix="muntin-cluster-"))
    try:
        write_events(folder, files, rows)
        table = [_measure(folder, executors, 20 if quick else QUERIES) for executors in (1, 2)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for row in table:
        row["speed"] = table[0]["seconds"] / row["seconds"]
    assert len({row["sum"] for row in table}) == 1, "answers differ between one executor and two"
    return Result(
        "spark_cluster",
        "One executor and two",
        " ".join(NOTES.split()),
        COLUMNS,
        table,
        {"events": files * rows},
    )


def _measure(folder: Path, executors: int, count: int) -> dict[str, Any]:
    from pyspark.sql import functions as F

    import muntin.spark

    session = muntin.spark.local_session(cores=executors, master=f"local-cluster[{executors},1,1536]")
    try:
        # each time from a DataFrame of its own: Spark would not shuffle again for the same one
        for _ in range(2):
            events = session.read.schema(SCHEMA).parquet(str(folder))
            df = muntin.spark.shared_windows(events, queries(count), stream="t", time="ts", shards=4)
            began = time.perf_counter()
            # a sum over all answers that does not depend on their order
            checked = df.agg(F.count("*"), F.sum(F.hash("query", "k", "window_end").cast("bigint")))
            answers, total = checked.collect()[0]
            seconds = time.perf_counter() - began
        assert answers > 0, "no window has closed"
        return {"executors": executors, "seconds": seconds, "answers": int(answers), "sum": total}
    finally:
        session.stop()
