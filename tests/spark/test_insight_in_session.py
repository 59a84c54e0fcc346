"""On a real Spark: what a job tells of itself, by its name, and what becomes of bad events on the way to a sink."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from flow import assert_same, events, expected, progress_of, write_files
from pyspark.sql import SparkSession
from runs import run, stream_of

import effort
import muntin.spark
from muntin.spark.published import MetricsPublisher

pytestmark = [pytest.mark.spark, pytest.mark.slow]
QUERIES = {
    "sums": "SELECT k, SUM(v * v) AS total FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "all": "SELECT COUNT(*) AS n FROM t [RANGE 30 SECONDS SLIDE 10 SECONDS]",
    "rows": "SELECT SUM(v * v) AS total FROM t [ROWS 50 SLIDE 25]",
}


def test_a_job_with_a_name_tells_of_itself_and_of_bad_events(spark: SparkSession, tmp_path: Path) -> None:
    good = events(2_000)
    rows = good.to_pylist()
    rows[700]["ts"] = None
    rows[1200]["v"] = 2**40  # its square has no value
    write_files(pa.Table.from_pylist(rows, schema=good.schema), tmp_path / "in", range(2), 2)
    publisher = MetricsPublisher(spark, per_query=True)
    with progress_of(spark) as told:
        answers = muntin.spark.shared_windows(
            stream_of(spark, tmp_path / "in"),
            QUERIES,
            stream="t",
            time="ts",
            shards=2,
            bad_events="emit",
            name="trades",
        )
        run(answers, tmp_path)
    # both routes leave out the event without a value: COUNT(*) is in the same one as `rows`
    left = pa.Table.from_pylist(
        [row for place, row in enumerate(rows) if place not in (700, 1200)], schema=good.schema
    )
    got = spark.read.schema(answers.schema).parquet(str(tmp_path / "answers"))
    for name, wanted in expected(left, QUERIES).items():
        assert_same(wanted, muntin.spark.answers_of(got, name).toArrow())
    refused = [json.loads(row.rest) for row in got.where("query IS NULL").collect()]
    assert sorted(each.get("keys", "all") for each in refused) == ["", "all", "k"]
    assert {each["event"]["v"] for each in refused} == {rows[700]["v"], 2**40}

    (job,) = {each.job for progress in told for each in progress.jobs}
    assert job == "trades"
    assert sum(progress.bad for progress in told) == 3
    by_query = {
        name: sum(each.answers for progress in told for each in progress.queries if each.query == name)
        for name in QUERIES
    }
    assert by_query == {name: len(wanted) for name, wanted in expected(left, QUERIES).items()}
    routes = {each.route: each for progress in told for each in progress.routes if each.bytes}
    assert (routes["k"].cells > 0, routes["k"].events) == (True, 0)
    assert (routes[""].cells, routes[""].events > 0) == (0, True)
    for progress in told:
        publisher.publish(progress)
    gauges = {name: gauge.value() for name, gauge in publisher._gauges.items()}
    assert gauges["muntin.trades.events"] == 1_999
    assert gauges["muntin.trades.route.k.bad"] == 1 + 1  # the one without a time counts for the first route
    assert gauges["muntin.trades.query.all.answers"] == by_query["all"]

    plan = muntin.spark.explain(answers.where("query = 'sums'"))
    assert "route by k: 1 query in 2 shards" in plan
    assert "query 'rows' needs more than slices tell" in plan
    state = muntin.spark.read_state(spark, str(tmp_path / "checkpoint"))
    assert sum(each.answers for each in state) == sum(by_query.values())
    assert sum(each.bad for each in state) == 3


@pytest.mark.parametrize("is_folder", effort.every_second([True, False]))
def test_a_control_stream_with_a_roster_keeps_folding(
    spark: SparkSession, tmp_path: Path, is_folder: bool
) -> None:
    """Tasks know the number of their micro-batch, and fold for a query that came by a statement."""
    table = events(4_000)
    folder = tmp_path / "in"
    write_files(table, folder, range(4), 4)
    (tmp_path / "control").mkdir()
    more = "SELECT k, SUM(v) AS total FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE v > 20 GROUP BY k"
    (tmp_path / "control" / "1.txt").write_text(f"REGISTER QUERY more AS {more}\n")
    df = (
        muntin.spark.EventFolder(spark, str(folder), delay=timedelta(seconds=2), files_per_batch=1)
        if is_folder
        else stream_of(spark, folder, files=1)
    )
    own = {"sums": "SELECT k, SUM(v) AS total FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"}
    with progress_of(spark) as told:
        answers = muntin.spark.shared_windows(
            df, own, stream="t", time="ts", shards=2, roster=str(tmp_path / "roster"),
            control=spark.readStream.schema("statement STRING").text(str(tmp_path / "control")),
        )  # fmt: skip
        run(answers, tmp_path)
    assert [(each.events, each.cells > 0) for progress in told for each in progress.routes if each.bytes] == [
        (0, True)
    ] * 4
    got = spark.read.schema(answers.schema).parquet(str(tmp_path / "answers"))
    wanted = expected(table, own | {"more": more})
    assert_same(wanted["sums"], muntin.spark.answers_of(got, "sums").toArrow())
    rows = got.where("query = 'more' AND complete").select("k", "total", "window_end").toArrow()
    ends = set(rows["window_end"].to_pylist())
    due = [
        (row["k"], row["total"], row["window_end"])
        for row in wanted["more"].to_pylist()
        if row["window_end"].replace(tzinfo=UTC) in {each.replace(tzinfo=UTC) for each in ends}
    ]
    assert len(ends) > 5
    assert sorted(map(str, due)) == sorted(
        str((row["k"], row["total"], row["window_end"].replace(tzinfo=None))) for row in rows.to_pylist()
    )
