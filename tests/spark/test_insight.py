"""What a job tells of itself without a session: its plan, and reports of shards, added up by route and query."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark")

from pyspark.sql import types as spark
from shards import Shards

import muntin.spark
from muntin.cli import app
from muntin.errors import MuntinError, NotFound
from muntin.spark.explain import PLANNED, explain_job, remember
from muntin.spark.join_job import plan_joins
from muntin.spark.plan_job import plan_job
from muntin.spark.published import MetricsPublisher
from muntin.spark.report import QueryReport, RouteReport, read_reports, report_text
from muntin.stream import Stream
from reference import declared
from scenario import SECOND

STREAM = Stream(
    "t", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())]), "ts", 2 * SECOND
)
QUERIES = {
    "sums": "SELECT k, SUM(v) AS s FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE v > 3 GROUP BY k",
    "a": "SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] WHERE k = 'a'",
    "b": "SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 4 SECONDS] WHERE k = 'b'",
    "rows": "SELECT v, COUNT(*) AS n FROM t [ROWS 5 SLIDE 1] GROUP BY v",
}


def test_a_plan_says_what_travels_and_how_shards_answer() -> None:
    plan = explain_job(plan_job(STREAM, QUERIES, shards=3))
    routes = {part.splitlines()[0]: part for part in plan.split("\n\nroute ")}
    assert (
        "job over stream t (DELAY 2 SECONDS): 3 routes, 7 shards; tasks read ts, k, v; bad events: fail"
        in plan
    )
    assert "    1 lane of v, slices of 5 SECONDS: " in routes["by k: 1 query in 3 shards"]
    alone = routes["without keys: 2 queries in 1 shard"]
    assert "2 lanes of k, slices of 2 SECONDS: count of *" in alone
    assert "each shard: 2 queries in 1 group" in alone
    rows = routes["by v: 1 query in 3 shards"]
    assert "events travel as they are (ts, v): query 'rows' needs more than slices tell" in rows
    assert "1152921504606846976" not in plan  # a shard's own delay means nothing


def frame_of(metadata: dict[str, str]) -> Any:
    return MagicMock(
        schema=spark.StructType([spark.StructField("query", spark.StringType(), metadata=metadata)])
    )


def test_answers_find_their_plan() -> None:
    job = plan_job(STREAM, QUERIES)
    remember(job)
    assert muntin.spark.explain(frame_of({PLANNED: job.fingerprint})) == explain_job(job)
    with pytest.raises(NotFound, match="call shared_windows with the same arguments"):
        muntin.spark.explain(frame_of({PLANNED: "another"}))
    with pytest.raises(MuntinError, match="which job answers"):
        muntin.spark.explain(frame_of({}))
    with pytest.raises(MuntinError, match="a DataFrame that shared_windows made, not 5"):
        muntin.spark.explain(5)  # type: ignore[arg-type]


def test_the_command_explains_a_script(tmp_path: Path) -> None:
    script = tmp_path / "trades.sql"
    script.write_text(
        "CREATE STREAM t (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS;\n"
        + "\n".join(f"REGISTER QUERY {name} AS {sql};" for name, sql in QUERIES.items())
    )
    told = CliRunner().invoke(app, ["explain", str(script), "--engine", "spark"])
    assert told.exit_code == 0, told.output
    assert "route without keys: 2 queries in 1 shard" in told.output


def test_reports_add_up_by_route_and_query() -> None:
    """Those of every shard and portion, against what came out; overflows by query, also after a replacement."""
    shards = Shards(STREAM, QUERIES, shards=2, is_controlled=True)
    given: dict[str, int] = {}
    times = [each * SECOND for each in range(60)]
    events = pa.table(
        {"ts": times, "k": ["a", "b"] * 30, "v": [each % 7 for each in range(60)]}, STREAM.schema
    )
    for lo in range(0, 60, 20):
        for name, table in shards.send([events.slice(lo, 20).to_batches()]).items():
            given[name] = given.get(name, 0) + table.num_rows
    routes, queries = read_reports("t", shards.reports)
    assert {each.query: each.answers for each in queries} == given
    assert {each.route: each.answers for each in routes}["k"] == given["sums"]
    assert {each.route: each.events for each in routes} == {"k": 60, "": 60, "v": 60}
    assert all(each.state_bytes > 0 for each in routes)
    shards.reports.clear()
    huge = pa.table({"ts": [70 * SECOND] * 2, "k": ["a"] * 2, "v": [2**62] * 2}, STREAM.schema)
    shards.send([huge.to_batches()])
    with pytest.warns(RuntimeWarning, match="leaves out"):
        shards.promise(100 * SECOND)
    lost = {each.query: each.overflows for each in read_reports("t", shards.reports)[1]}
    assert lost == {**dict.fromkeys(lost, 0), "sums": 2}  # two windows hold both
    shards.tell(f"CREATE OR REPLACE QUERY sums AS {QUERIES['sums']}")
    shards.reports.clear()
    later = pa.table({"ts": [101 * SECOND] * 2, "k": ["a"] * 2, "v": [2**62] * 2}, STREAM.schema)
    shards.send([later.to_batches()])
    with pytest.warns(RuntimeWarning, match="leaves out"):
        shards.promise(130 * SECOND)
    assert {each.query: each.overflows for each in read_reports("t", shards.reports)[1]}["sums"] == 2


def test_a_route_of_very_many_queries_reports_as_a_whole() -> None:
    text = report_text("k", {"events": 5}, {"x": 2, "y": 3}, {"x": 1}, 10_001)
    routes, queries = read_reports("j", [text, text])
    assert routes == [RouteReport("j", "k", 10, 0, 0, 0, 0, 0, 10, 2)]
    assert queries == []


def test_gauges_add_up_and_state_does_not() -> None:
    publisher = MetricsPublisher(MagicMock(), per_query=True)
    publisher._context.longAccumulator.side_effect = lambda name: MagicMock()
    for _ in range(2):
        routes = (RouteReport("my job", "k, v", 3, 0, 10, 1, 0, 500, 2, 0),)
        progress = MagicMock(jobs=(), routes=routes, queries=(QueryReport("my job", "q 1", 2, 0),))
        publisher.publish(progress)
    last = {name: gauge.setValue.call_args[0][0] for name, gauge in publisher._gauges.items()}
    assert last["muntin.my_job.route.k_v.events"] == 6
    assert last["muntin.my_job.route.k_v.state_bytes"] == 500
    assert last["muntin.my_job.query.q_1.answers"] == 4


def test_the_plan_of_joins() -> None:
    """Where pairs meet, what is merged, and what needs one shard."""
    streams = [
        declared(f"CREATE STREAM {name} (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts") for name in "ab"
    ]
    by = "FROM a [RANGE 2 SECONDS SLIDE 1 SECOND] AS a JOIN b [RANGE 1 SECOND] AS b ON a.k = b.k"
    queries = {
        "pairs": f"SELECT a.v {by}",
        "whole": f"SELECT COUNT(*) AS n {by}",
        "mid": f"SELECT MEDIAN(a.v) AS m {by}",
    }
    told = explain_job(plan_joins(streams, queries, shards=3))
    assert told.startswith("job over streams a (DELAY 0 SECONDS), b (DELAY 0 SECONDS): 2 routes, 4 shards")
    assert "merged in one more step for whole" in told
    assert "2 queries in 3 shards" in told
    assert "1 query in 1 shard\n" in told
    assert "one shard receives all events" in told
