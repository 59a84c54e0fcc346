"""What shards keep, on a real Spark: other queries after a restart, an empty source at first, statements in files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from flow import CREATE, SCHEMA, events, write_files
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from runs import finish, patiently, stream_of

import muntin
import muntin.spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WINDOW = "FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"
SUM, MAX = f"SELECT k, SUM(v) AS total {WINDOW}", f"SELECT k, MAX(v) AS total {WINDOW}"


def collect(answers: DataFrame, out: Path) -> list[dict[str, Any]]:
    """Answer what is there, and give the rows of all micro-batches."""
    rows: dict[int, list[dict[str, Any]]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        rows[number] = [row.asDict() for row in batch.collect()]

    write = answers.writeStream.foreachBatch(keep).option("checkpointLocation", str(out / "checkpoint"))
    finish(write)
    return [row for number in sorted(rows) for row in rows[number]]


def run_until(write: DataStreamWriter, is_so: Callable[[], bool]) -> None:
    """Let a query that never ends run until something is so; raise what ended it, if anything did."""
    running, deadline = write.start(), time.monotonic() + 300
    try:
        while running.isActive and not is_so() and time.monotonic() < deadline:
            time.sleep(0.2)
        if error := running.exception():
            raise error
    finally:
        running.stop()


def counted(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """Rows and totals of each query, by window."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        place = str(row["query"]), str(row["window_end"])[:19]
        found[place] = found.get(place, 0) + row["total"]
    return found


def test_a_restart_with_other_queries(spark: SparkSession, tmp_path: Path) -> None:
    """A name with another text, and a new name with the old text: as in the engine, from then on."""
    table, engine = events(6_000), muntin.Engine()
    engine.execute(CREATE)
    engine.register(SUM, "q")
    for files, queries in ((range(2), {"q": SUM}), (range(2, 4), {"q": MAX, "n": SUM})):
        write_files(table, tmp_path / "in", files, 4)
        if "n" in queries:
            engine.drop("q")
            engine.register_many(queries)
        engine.push("t", table.slice(files[0] * 1500, 3000))
        expected = [
            {"query": name, **row}
            for name, answers in engine.advance().items()
            for row in answers.to_pylist()
        ]
        df = stream_of(spark, tmp_path / "in")
        got = collect(muntin.spark.shared_windows(df, queries, stream="t", time="ts", shards=2), tmp_path)
        assert len(got) == len(expected) > 0
        assert counted(got) == counted(expected)


def test_a_source_that_is_empty_at_first(spark: SparkSession, tmp_path: Path) -> None:
    """The rate source begins with a micro-batch without rows; so does a topic without messages. A restart goes on."""
    query = {"n": "SELECT COUNT(*) AS n, MIN(value) AS least FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"}
    kept: dict[int, list[dict[str, Any]]] = {}  # by micro-batch: one that was not committed comes again

    def keep(batch: DataFrame, number: int) -> None:
        kept[number] = [row.asDict() for row in batch.collect()]

    def count() -> int:
        return sum(map(len, kept.values()))

    for _ in range(2):
        before = count()
        df = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
        answers = muntin.spark.shared_windows(df, query, stream="t", time="timestamp")
        write = answers.writeStream.foreachBatch(keep).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        patiently(lambda write=write, most=before + 2: run_until(write, lambda: count() >= most))
        assert count() >= before + 2
    rows = [row for number in sorted(kept) for row in kept[number]]
    ends = [row["window_end"] for row in rows]
    assert len(set(ends)) == len(ends)  # none twice
    assert [row["n"] for row in rows[1:]] == [20] * len(rows[1:])  # and nothing lost, whatever the restart


def test_statements_of_files_are_carried_out_by_file(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads large files first; statements take effect in the order of file names, and of lines."""
    write_files(events(2_000), tmp_path / "in", range(2), 2)
    (tmp_path / "told").mkdir()
    long = " " * 2_000
    lines = {
        "001.txt": ["DROP QUERY q"],
        "002.txt": [
            f"REGISTER QUERY q AS {MAX}{long}",
            "DROP QUERY nobody",
            f"CREATE OR REPLACE QUERY q AS {SUM}",
        ],
        "003.txt": [f"REGISTER QUERY q AS {MAX}{long}{long}", f"REGISTER QUERY other AS {SUM}"],
    }
    for name, statements in lines.items():
        (tmp_path / "told" / name).write_text("\n".join(statements))
        os.utime(tmp_path / "told" / name, (1_000_000, 1_000_000))
    control = spark.readStream.schema("statement STRING").text(str(tmp_path / "told"))
    df = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in")).withWatermark("ts", "2 seconds")
    answers = muntin.spark.shared_windows(df, {"q": MAX}, stream="t", time="ts", control=control, keys=["k"])
    got = collect(answers, tmp_path)
    refused = [json.loads(row["rest"])["refused"] for row in got if row["query"] is None]
    assert [each.split("'")[1] for each in refused] == ["nobody", "q"]
    told = [row for row in got if row["query"] is not None]
    assert {row["query"] for row in told} == {"q", "other"}
    totals = counted(told)
    assert all(totals["other", end] == total for (name, end), total in totals.items() if name == "q")
