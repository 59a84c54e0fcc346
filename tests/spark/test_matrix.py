"""Every cell of docs/matrix.py: what runs on Spark's packing and shards has the answers it has embedded, and what is
refused says so."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from join_shards import JoinShards
from shards import Shards, split

import muntin
from muntin.errors import MuntinError
from muntin.join_query import JoinQuery
from muntin.shard.record_batch import to_record_batch
from muntin.spark.answers import unpack_answers
from muntin.spark.fed_operator import FedOperator
from muntin.spark.job import Job
from muntin.spark.keep_view import refuse_groups
from muntin.spark.loaded_tables import pack_loads
from muntin.spark.pack import pack_events
from muntin.spark.plan_job import plan_job
from muntin.spark.run_table import run_table
from muntin.sql import CreateTable, parse_query, parse_statements, parse_view
from muntin.table import Table
from muntin.tables.keyed_rows import keyed_rows
from reference import declared
from scenario import SECOND

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from matrix import QUERIES, RUNS, STATEMENTS, STREAMS, TABLES, VIEWS, Entry

EVENTS = {
    "t": pa.table(
        {
            "ts": pa.array([each * SECOND for each in range(1, 13)], pa.timestamp("us")),
            "k": ["a", "b", None, "a", "c", "b"] * 2,
            "v": list(range(12)),
            "x": [each / 4 for each in range(12)],
        }
    ),
    "q": pa.table(
        {"ts": pa.array([SECOND, 6 * SECOND], pa.timestamp("us")), "k": ["a", "b"], "bid": [1.5, 2.5]}
    ),
}
LIMITS = pa.table(
    {
        "k": ["a", "b"],
        "most": [3, 90],
        "tier": ["x", "x"],
        "span": [timedelta(seconds=2), timedelta(seconds=1)],
    }
)
KEPT = "CREATE MATERIALIZED VIEW kept AS SELECT k, v FROM t [RANGE 4 SECONDS] EVERY 2 SECONDS"
OWN = "SELECT k, COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"
JOINED = (
    "SELECT t.k, COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] AS t JOIN limits AS l ON t.k = l.k "
    "GROUP BY t.k"
)


def plain(table: pa.Table) -> list[str]:
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


def engine_of(archive: Path | None = None) -> muntin.Engine:
    engine = muntin.Engine(archive=archive)
    for create in (*STREAMS.values(), *TABLES.values()):
        engine.execute(create)
    engine.load("limits", LIMITS)
    return engine


def embedded(sql: str) -> pa.Table:
    engine = engine_of()
    engine.register(sql, name="own")
    for name, events in EVENTS.items():
        engine.push(name, events)
    return engine.advance()["own"]


def limits() -> Table:
    (statement,) = parse_statements(TABLES["limits"], {})
    assert isinstance(statement, CreateTable)
    return statement.table


def options_of(sql: str) -> dict[str, Any]:
    return {"shards": 2, "zone": None, "tables": (limits(),) if "limits" in sql else ()}


def rows_of(job: Job) -> list[pa.RecordBatch]:
    if not job.tables:
        return []
    return list(pack_loads(job, {"limits": keyed_rows(limits(), to_record_batch(limits(), LIMITS))}))


def joined(sql: str) -> JoinShards | None:
    """The shards of a join of streams; None for other queries."""
    streams = {name: declared(create) for name, create in STREAMS.items()}
    query = parse_query(sql, {**streams, "limits": limits()})
    if not isinstance(query, JoinQuery):
        return None
    names = dict.fromkeys(each.name for each in query.streams)
    return JoinShards([streams[name] for name in names], {"own": sql}, shards=2)


def tasks_of(shards: JoinShards) -> list[tuple[str, list[pa.RecordBatch]]]:
    return [(each.name, EVENTS[each.name].to_batches(max_chunksize=5)) for each in shards.streams]


def as_table(sql: str) -> pa.Table:
    if shards := joined(sql):
        return shards.run_as_table(tasks_of(shards))["own"]
    job = plan_job(declared(STREAMS["t"]), {"own": sql}, **options_of(sql))
    packed = rows_of(job) + list(pack_events(job, EVENTS["t"].to_batches(max_chunksize=5), 0))
    order = [(name, "ascending") for name in ("shard", "start", "origin", "turn")]
    emitted = run_table(job, pa.Table.from_batches(packed).sort_by(order).to_batches())
    return split(job, pa.Table.from_batches(list(unpack_answers(job, emitted))))["own"]


def as_stream(sql: str) -> pa.Table:
    if joins := joined(sql):
        return joins.deliver(joins.packed(tasks_of(joins)))["own"]
    shards = Shards(declared(STREAMS["t"]), {"own": sql}, **options_of(sql))
    tasks = [EVENTS["t"].slice(0, 5).to_batches(), EVENTS["t"].slice(5).to_batches()]
    return shards.deliver(rows_of(shards.job) + shards.packed(tasks))["own"]


@pytest.mark.parametrize("entry", QUERIES, ids=lambda entry: entry.what)
def test_a_query(entry: Entry) -> None:
    assert entry.embedded == RUNS
    wanted = plain(embedded(entry.sql))
    assert wanted
    for run, refused in ((as_table, entry.table), (as_stream, entry.stream)):
        if refused == RUNS:
            assert plain(run(entry.sql)) == wanted, run
        else:
            assert entry.why
            with pytest.raises(MuntinError, match=refused):
                run(entry.sql)


@pytest.mark.parametrize("entry", STATEMENTS, ids=lambda entry: entry.what)
def test_a_statement(entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(EVENTS["t"], tmp_path / "history.parquet")
    monkeypatch.chdir(tmp_path)
    engine = engine_of(archive=tmp_path / "views")
    engine.register(OWN, name="own")
    engine.execute(KEPT)
    if entry.what not in ("REGISTER QUERY … BACKFILL",):
        engine.push("t", EVENTS["t"])
    assert entry.embedded == RUNS
    engine.execute(entry.sql)
    shards = Shards(
        declared(STREAMS["t"]),
        {"own": OWN, "joined": JOINED},
        is_controlled=True,
        keys=["k", ""],
        **options_of(JOINED),
    )
    shards.deliver(rows_of(shards.job) + shards.packed([EVENTS["t"].to_batches()]))
    shards.tell(entry.sql)
    if entry.stream == RUNS:
        assert shards.refused == []
    else:
        assert entry.why
        assert entry.stream in shards.refused[0]


@pytest.mark.parametrize("entry", VIEWS, ids=lambda entry: entry.what)
def test_a_view(entry: Entry, tmp_path: Path) -> None:
    statement = f"CREATE MATERIALIZED VIEW v AS {entry.sql} EVERY 2 SECONDS"
    engine_of(archive=tmp_path).execute(statement)
    view = parse_view(statement, {name: declared(each) for name, each in STREAMS.items()})
    assert view is not None
    assert entry.embedded == RUNS
    if entry.stream == RUNS:
        refuse_groups(view)
        assert isinstance(view.source, JoinQuery) or FedOperator(view).watermark is None
    else:
        assert entry.why
        with pytest.raises(MuntinError, match=entry.stream):
            refuse_groups(view)


def test_every_statement_of_a_control_stream_is_there() -> None:
    """A statement that control streams come to take belongs on the page."""
    words = {entry.what.split(" …")[0] for entry in STATEMENTS if entry.stream == RUNS}
    assert words == {
        "REGISTER QUERY", "CREATE OR REPLACE QUERY", "DROP QUERY", "REWIND STREAM", "INSERT INTO", "DELETE FROM",
    }  # fmt: skip
