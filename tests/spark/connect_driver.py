"""All that a session of Spark Connect can carry, in a process of its own: `connect_driver.py FOLDER SERVER [STEP …]`.

Each step asserts that answers are those of the embedded engine, or that a call is refused with its reason, and prints
its name.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import archive_flow  # noqa: E402
import flow  # noqa: E402
import join_events  # noqa: E402
import lookup_events  # noqa: E402
import table_events  # noqa: E402
import view_flow  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from runs import all_answers, assert_all, assert_answers, finish, patiently, run, stream_of  # noqa: E402

import muntin  # noqa: E402
import muntin.spark  # noqa: E402
from muntin.archive import View  # noqa: E402
from muntin.arrow_bytes import stream_bytes  # noqa: E402
from muntin.errors import MuntinError  # noqa: E402
from muntin.spark.session import STATE_SETTINGS  # noqa: E402

DELAY = timedelta(seconds=2)
OWN = """import muntin
import pyarrow.compute as pc


@muntin.function("TENFOLD", takes=[float], returns=float)
def tenfold(x):
    return pc.multiply(x, 10.0)
"""
STEPS: list[Callable[[SparkSession, Path], None]] = []
EVENTS = flow.events(2_000)


def step(each: Callable[[SparkSession, Path], None]) -> Callable[[SparkSession, Path], None]:
    STEPS.append(each)
    return each


def table(session: SparkSession, folder: Path) -> DataFrame:
    return session.read.schema(flow.SCHEMA).parquet(str(folder / "in"))


@step
def windows_of_a_table(session: SparkSession, folder: Path) -> None:
    """Out of Arrow messages, explained, and into messages."""
    values = [(bytearray(stream_bytes(batch)),) for batch in EVENTS.to_batches(max_chunksize=500)]
    df = muntin.spark.arrow_events(session.createDataFrame(values, "value BINARY"), flow.SCHEMA)
    answers = muntin.spark.shared_windows(df, flow.WHOLE, stream="t", time="ts", delay=DELAY)
    wanted = flow.expected(EVENTS, flow.WHOLE)
    assert_all(answers, wanted)
    flow.assert_same(wanted["all"], muntin.spark.answers_of(answers, "all").toArrow())
    assert "route by k: 4 queries" in muntin.spark.explain(answers)
    keys = [row["key"] for row in muntin.spark.answer_messages(answers).select("key").collect()]
    assert len(set(keys)) == len(keys) == sum(each.num_rows for each in wanted.values())


@step
def windows_of_a_folder(session: SparkSession, folder: Path) -> None:
    events = muntin.spark.EventFolder(session, str(folder / "in"), DELAY, is_streaming=False)
    spread = {"q": flow.WHOLE["approximate"]}
    answers = muntin.spark.shared_windows(events, spread, stream="t", time="ts", spread=True)
    assert answers.count() == flow.expected(EVENTS, spread)["q"].num_rows


@step
def a_stream_its_progress_and_its_state(session: SparkSession, folder: Path) -> None:
    """By foreachBatch into a Delta table."""
    told: list[muntin.spark.progress.Progress] = []
    listener = muntin.spark.ProgressListener(told.append)
    session.streams.addListener(listener)
    out, checkpoint = str(folder / "lake"), str(folder / "delta")
    answers = muntin.spark.shared_windows(
        muntin.spark.EventFolder(session, str(folder / "in"), DELAY), flow.FOLDED, stream="t", time="ts"
    )
    write = answers.writeStream.foreachBatch(muntin.spark.append_to_delta(out, checkpoint))
    finish(write.option("checkpointLocation", checkpoint))
    import deltalake

    wanted = flow.expected(EVENTS, flow.FOLDED)
    many = sum(each.num_rows for each in wanted.values())
    assert deltalake.DeltaTable(out).to_pyarrow_table().num_rows == many
    until = time.monotonic() + 300
    while not told and time.monotonic() < until:  # told by another thread
        time.sleep(0.05)
    assert (told[0].events, told[0].answers) == (EVENTS.num_rows, many)
    session.streams.removeListener(listener)
    assert sum(each.answers for each in muntin.spark.read_state(session, checkpoint)) == many
    state = muntin.spark.restore(checkpoint)  # the session is the active one
    assert state.queries == flow.FOLDED
    assert state.lookup("all").num_rows == 1


@step
def statements_and_a_history(session: SparkSession, folder: Path) -> None:
    past, (name, text) = flow.events(1_000, begin=-10_000_000), next(iter(flow.FOLDED.items()))
    flow.write_files(past, folder / "past", range(1), 1)
    (folder / "control").mkdir()
    (folder / "control" / "1.txt").write_text(
        f"REGISTER QUERY {name} AS {text} BACKFILL '{folder / 'past'}'\n"
    )
    control = session.readStream.schema("statement STRING").text(str(folder / "control"))
    answers = muntin.spark.shared_windows(
        stream_of(session, folder / "in", 1), {"all": flow.FOLDED["all"]}, stream="t", time="ts", control=control,
        keys=["k", ""], roster=str(folder / "roster"), history=str(folder / "past"), bad_events="emit",
    )  # fmt: skip
    run(answers, folder / "controlled")
    told = session.read.parquet(str(folder / "controlled" / "answers"))
    assert told.where("query IS NULL").count() == 0, told.where("query IS NULL").collect()
    assert told.where(f"query = '{name}'").count() > 0
    engine = muntin.Engine()
    engine.execute(flow.CREATE)
    engine.register_many({"all": flow.FOLDED["all"]}, backfill=past)
    engine.push("t", EVENTS)
    assert told.where("query = 'all'").count() == engine.advance()["all"].num_rows


@step
def tables(session: SparkSession, folder: Path) -> None:
    """One of rows, the other of changes."""
    table_events.write_changes(table_events.LIMIT_ROWS, folder / "changes", 0)
    run(table_events.streamed(session, folder, table_events.RULE_ROWS), folder / "tables")
    engine = table_events.engine_with(table_events.LIMIT_ROWS, table_events.RULE_ROWS)
    engine.push("t", EVENTS)
    assert_answers(session, folder / "tables", engine.advance())


@step
def joins(session: SparkSession, folder: Path) -> None:
    """Of streams, and of tables."""
    both = join_events.both(600)
    wanted = join_events.expected(both, join_events.JOINS)
    frames = {name: session.createDataFrame(each) for name, each in both.items()}
    answers = muntin.spark.shared_windows(frames, join_events.JOINS, time="ts", delay=DELAY, shards=2)
    got = all_answers(answers)
    for name in wanted.keys() - {
        "by key"
    }:  # of events with the same time, LAST takes the one that Spark has last
        join_events.assert_same(wanted[name], got[name], name)
    for name, each in both.items():
        flow.write_files(each, folder / "joined" / name, range(2), 2)
    streams = join_events.streams_of(session, folder / "joined")
    run(muntin.spark.shared_windows(streams, join_events.JOINS, time="ts", shards=2), folder / "joined")
    got = all_answers(session.read.parquet(str(folder / "joined" / "answers")))
    for name, each in wanted.items():
        join_events.assert_same(each, got[name], name)


@step
def look_ups(session: SparkSession, folder: Path) -> None:
    """Of a table and of a stream of requests."""
    requests = lookup_events.asked(60, 22_000_000)
    flow.write_files(requests, folder / "asked", range(2), 2)
    given = session.read.schema(lookup_events.ASKED).parquet(str(folder / "asked"))
    answers = muntin.spark.lookup_at(
        table(session, folder), lookup_events.QUERIES, given, stream="t", time="ts", shards=2
    )
    wanted = muntin.lookup_at(EVENTS.sort_by("ts"), lookup_events.QUERIES, requests, stream=flow.CREATE)
    lookup_events.same(wanted, answers.toArrow())
    run(lookup_events.streamed(session, folder), folder / "looked up")
    found = session.read.parquet(str(folder / "looked up" / "answers")).toArrow()
    lookup_events.same(lookup_events.answered(EVENTS, requests), found)


@step
def views(session: SparkSession, folder: Path) -> None:
    """Of both kinds: kept by Spark's join, and by the operator of the engine."""
    made = archive_flow.tables()
    archive_flow.write(made, folder / "viewed", range(2), 2)
    for view in ("except_", "pairs_"):
        patiently(lambda view=view: view_flow.start(session, folder / "viewed", view).awaitTermination())
        kept = folder / "viewed" / "views" / view
        rows = muntin.spark.scan_archive(session, str(kept)).drop("generated_at", "expires_at").collect()
        assert Counter(map(tuple, rows)) == view_flow.expected(made, view, View.open(str(kept)).now), view
        assert len(rows) > 10


@step
def functions(session: SparkSession, folder: Path) -> None:
    """Of one's own, in a file that is sent along."""
    (folder / "connect_functions.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    import connect_functions  # noqa: F401

    session.addArtifacts(str(folder / "connect_functions.py"), pyfile=True)
    query = "SELECT SUM(TENFOLD(x)) AS total FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS]"
    answers = muntin.spark.shared_windows(
        table(session, folder), {"q": query}, stream="t", time="ts", delay=DELAY
    )
    assert_all(answers, flow.expected(EVENTS, {"q": query}))


@step
def what_is_refused(session: SparkSession, folder: Path) -> None:
    for call, told in (
        (lambda: muntin.spark.publish_metrics(session), "publish_metrics cannot be used with a session of Spark Conn"),
        (muntin.spark.local_session, "local_session cannot be used with a session of Spark Connect"),
    ):  # fmt: skip
        try:
            call()
        except MuntinError as error:
            assert told in str(error), error
        else:
            raise AssertionError(told)


def main(folder: Path, server: str, *names: str) -> None:
    session = SparkSession.builder.remote(server).getOrCreate()
    for name, value in {**STATE_SETTINGS, "spark.sql.shuffle.partitions": "2"}.items():
        session.conf.set(name, value)
    flow.write_files(EVENTS, folder / "in", range(2), 2)
    for each in (each for each in STEPS if not names or each.__name__ in names):
        started = time.perf_counter()
        each(session, folder)
        print(f"{each.__name__}: {time.perf_counter() - started:.1f} s", flush=True)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
