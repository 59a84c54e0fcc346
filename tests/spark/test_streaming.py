"""On a real Spark: tables, streams with restarts, statements, folders, progress and the state on disk."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from flow import CREATE, FOLDED, SCHEMA, WHOLE, assert_same, events, expected, progress_of, write_files
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from runs import assert_all, assert_answers, run, stream_of

import muntin
import muntin.spark
from muntin.errors import CheckpointError, MuntinError, NotFound, SchemaError
from muntin.spark.progress import Progress

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("fold", [True, False])
def test_a_table(spark: SparkSession, tmp_path: Path, fold: bool) -> None:
    """Read by several tasks, answered by several shards, in time order without keeping it all."""
    table, queries = events(6_000), FOLDED if fold else WHOLE
    write_files(table, tmp_path, range(3), 3)
    df = spark.read.schema(SCHEMA).parquet(str(tmp_path))
    delay = timedelta(seconds=2)
    answers = muntin.spark.shared_windows(df, queries, stream="t", time="ts", delay=delay, fold=fold)
    assert_all(answers, expected(table, queries))


def test_the_end_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """With `flush`, Spark's own windows over the table have the same answers."""
    table = events(3_000)
    write_files(table, tmp_path, [0], 1)
    df = spark.read.schema(SCHEMA).parquet(str(tmp_path))
    ours = muntin.spark.shared_windows(df, {"sums": FOLDED["sums"]}, stream="t", time="ts", flush=True)
    mine = muntin.spark.answers_of(ours, "sums").select("k", "total", "window_end")
    df.createOrReplaceTempView("t")
    theirs = spark.sql(
        "SELECT k, SUM(v) AS total, window.end AS window_end FROM t "
        "GROUP BY window(ts, '10 seconds', '5 seconds'), k"
    )
    rows = [sorted(map(str, each.collect())) for each in (mine, theirs)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("fold", [True, False])
def test_a_stream_that_starts_again(spark: SparkSession, tmp_path: Path, fold: bool) -> None:
    """The second run finds its state and the files it has not seen; typed columns as embedded."""
    table, queries = events(8_000), FOLDED if fold else WHOLE
    folder = tmp_path / "in"
    with progress_of(spark) as told:
        for files in (range(4), range(4, 6)):
            write_files(table, folder, files, 6)
            df = stream_of(spark, folder)
            run(
                muntin.spark.shared_windows(df, queries, stream="t", time="ts", fold=fold, shards=3), tmp_path
            )
    assert_answers(spark, tmp_path, expected(table, queries))
    shards = muntin.spark.read_state(spark, str(tmp_path / "checkpoint"))
    assert [(each.route, each.bucket, each.entries) for each in shards] == [
        ("", 0, 3), ("k", 0, 3), ("k", 1, 3), ("k", 2, 3),
    ]  # fmt: skip
    assert all(isinstance(each, Progress) for each in told)
    assert sum(each.events for each in told) == 8_000
    assert sum(each.answers for each in told) == sum(map(len, expected(table, queries).values()))
    if not fold:
        return  # a shard refuses what follows whatever it is sent
    shutil.copy(folder / "0005.parquet", folder / "0006.parquet")
    other = muntin.spark.shared_windows(stream_of(spark, folder), queries, stream="t", time="ts", fold=fold)
    with pytest.raises(Exception, match=r"has (3 shards|no shard 3) for the keys"):
        run(other, tmp_path)


def test_filters_that_differ_in_a_constant(spark: SparkSession, tmp_path: Path) -> None:
    """Folded by lanes: as a stream that starts again, and as a table."""
    window, by = "[RANGE 10 SECONDS SLIDE 5 SECONDS]", "GROUP BY k"
    queries = {f"one {i}": f"SELECT SUM(v) AS total FROM t {window} WHERE v = {i}" for i in range(30)}
    queries |= {
        f"above {i}": f"SELECT k, SUM(v) AS total FROM t {window} WHERE v > {3 * i} {by}" for i in range(10)
    }
    queries |= {
        f"of {i}": f"SELECT k, COUNT(*) FILTER (WHERE v = {i}) AS n, SUM(v) AS total FROM t {window} {by}"
        for i in range(30)
    }
    queries["some"] = f"SELECT SUM(v) AS total FROM t {window} WHERE k IN ('a', 'c') OR k IS NULL"
    table, folder = events(6_000), tmp_path / "in"
    for files in (range(2), range(2, 4)):
        write_files(table, folder, files, 4)
        df = stream_of(spark, folder)
        run(muntin.spark.shared_windows(df, queries, stream="t", time="ts", shards=2), tmp_path)
    wanted = expected(table, queries)
    assert wanted.keys() == queries.keys()
    assert_answers(spark, tmp_path, wanted)
    df, delay = spark.read.schema(SCHEMA).parquet(str(folder)), timedelta(seconds=2)
    assert_all(muntin.spark.shared_windows(df, queries, stream="t", time="ts", delay=delay), wanted)


def test_queries_in_all_shards(spark: SparkSession, tmp_path: Path) -> None:
    """What shards know of a window is merged, of a table and of a stream that starts again; few events are kept as
    they are, so that merged answers of sketches are exact."""
    table, folder = events(6_000), tmp_path / "in"
    queries = {name: WHOLE[name] for name in ("approximate", "sums")}
    queries["different"] = (
        "SELECT COUNT(DISTINCT v) AS n, AVG(x) AS mean FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS]"
    )
    wanted = expected(table, queries)
    for files in (range(2), range(2, 3)):
        write_files(table, folder, files, 3)
        df = stream_of(spark, folder)
        run(muntin.spark.shared_windows(df, queries, stream="t", time="ts", shards=3, spread="all"), tmp_path)
    assert_answers(spark, tmp_path, wanted)
    df = spark.read.schema(SCHEMA).parquet(str(folder))
    delay = timedelta(seconds=2)
    assert_all(
        muntin.spark.shared_windows(df, queries, stream="t", time="ts", delay=delay, spread="all"), wanted
    )


def test_a_history_fills_new_queries(spark: SparkSession, tmp_path: Path) -> None:
    """On the first run, and of a query that comes with the next one; its files are gone by then for the others."""
    table, folder = events(6_000), tmp_path / "in"
    past, live = table.slice(0, 2_000), table.slice(2_000)
    queries = {name: FOLDED[name] for name in ("sums", "all")}
    engine = muntin.Engine()
    engine.execute(CREATE)
    wanted: dict[str, list[pa.Table]] = {}
    for number, seen in enumerate((past, table.slice(0, 4_000))):
        new = queries if number == 0 else {"median": WHOLE["median"]}
        write_files(seen, tmp_path / f"past {number}", range(2), 2)
        write_files(live, folder, [number], 2)
        engine.register_many(new, backfill=seen)
        queries |= new
        df, history = stream_of(spark, folder), str(tmp_path / f"past {number}")
        run(
            muntin.spark.shared_windows(df, queries, stream="t", time="ts", shards=2, history=history),
            tmp_path / "out",
        )
        shutil.rmtree(history)
        engine.push("t", live.slice(number * 2_000, 2_000))
        for name, each in engine.advance().items():
            wanted.setdefault(name, []).append(each)
    answers = spark.read.parquet(str(tmp_path / "out" / "answers"))
    assert wanted.keys() == queries.keys()
    for name, tables in wanted.items():
        whole = pa.concat_tables(tables)
        assert name == "all" or whole["complete"].to_pylist() == [True] * len(whole)
        assert_same(whole, answers.where(answers["query"] == name).toArrow().select(whole.column_names))
    with pytest.raises(muntin.MuntinError, match="and no DataFrame: write it there with"):
        muntin.spark.shared_windows(df, queries, stream="t", time="ts", history=df)
    read_once = spark.read.schema(SCHEMA).parquet(str(folder))
    with pytest.raises(muntin.MuntinError, match="history is for streams"):
        muntin.spark.shared_windows(read_once, queries, stream="t", time="ts", history=str(folder))


def test_a_folder_read_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Events that never pass through the JVM, once and as a stream in two runs."""
    table, folder = events(6_000), tmp_path / "in"
    write_files(table, folder, range(1), 2)
    source = muntin.spark.EventFolder(spark, str(folder), timedelta(seconds=2), files_per_batch=1)
    run(muntin.spark.shared_windows(source, FOLDED, stream="t", time="ts"), tmp_path)
    write_files(table, folder, range(1, 2), 2)
    run(muntin.spark.shared_windows(source, FOLDED, stream="t", time="ts"), tmp_path)
    assert_answers(spark, tmp_path, expected(table, FOLDED))
    shards = muntin.spark.read_state(spark, str(tmp_path / "checkpoint"))
    assert {each.entries for each in shards} == {2}, "a file is a micro-batch"
    whole = muntin.spark.EventFolder(spark, str(folder), timedelta(seconds=2), is_streaming=False)
    assert_all(muntin.spark.shared_windows(whole, FOLDED, stream="t", time="ts"), expected(table, FOLDED))


@pytest.mark.parametrize("is_folder", [True, False])
def test_events_ahead_are_left_out(spark: SparkSession, tmp_path: Path, is_folder: bool) -> None:
    """An event of the year 2286 in the first file spoils nothing; progress counts it; a run can be set back."""
    table, folder = events(3_000), tmp_path / "in"
    far = table.slice(0, 1).set_column(0, "ts", pa.array([10**16]).cast(table.schema.field("ts").type))
    write_files(pa.concat_tables([table.slice(0, 1_500), far]), folder, [0], 1)
    write_files(table, folder, [1], 2)
    ahead, delay = timedelta(hours=1), timedelta(seconds=2)
    if is_folder:
        source = muntin.spark.EventFolder(spark, str(folder), delay, files_per_batch=1, ahead=ahead)
        answers = muntin.spark.shared_windows(source, FOLDED, stream="t", time="ts")
    else:
        df = stream_of(spark, folder, files=1)
        answers = muntin.spark.shared_windows(df, FOLDED, stream="t", time="ts", ahead=ahead, fold=False)
    with progress_of(spark) as told:
        run(answers, tmp_path)
    assert_answers(spark, tmp_path, expected(table, FOLDED))
    assert sum(each.ahead for each in told) == 1


def test_statements_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A query that comes and one that goes between two runs of the same query."""
    table, folder, orders = events(6_000), tmp_path / "in", tmp_path / "orders"
    orders.mkdir()
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many({"sums": FOLDED["sums"], "all": FOLDED["all"]})
    wanted: dict[str, list[Any]] = {}
    longer = FOLDED["sums"].replace("10 SECONDS", "15 SECONDS")
    for turn in range(3):
        write_files(table, folder, [turn], 3)
        if turn == 1:
            (orders / "1.sql").write_text(
                f"REGISTER QUERY longer AS {longer}\nDROP QUERY all\nDROP QUERY what\n"
            )
            engine.register(longer, "longer")
            engine.drop("all")
        control = spark.readStream.schema("statement STRING").text(str(orders))
        answers = muntin.spark.shared_windows(
            stream_of(spark, folder), {"sums": FOLDED["sums"], "all": FOLDED["all"]},
            stream="t", time="ts", control=control,
        )  # fmt: skip
        run(answers, tmp_path)
        engine.push("t", table.slice(turn * 2_000, 2_000))
        for name, emitted in engine.advance().items():
            wanted.setdefault(name, []).append(emitted)
    read = spark.read.parquet(str(tmp_path / "answers"))
    counts = {row["query"]: row["count"] for row in read.groupBy("query").count().collect()}
    assert counts == {None: 1} | {name: sum(map(len, tables)) for name, tables in wanted.items()}
    (refused,) = read.where("query IS NULL").collect()
    assert "no query 'what'" in refused["rest"]


def test_what_cannot_run_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame([], SCHEMA)
    share = muntin.spark.shared_windows
    with pytest.raises(MuntinError, match="total"):
        share(df, {"q": "SELECT SUM(total) FROM t [ROWS 5]"}, stream="t", time="ts")
    with pytest.raises(SchemaError, match="no column 'tts'; did you mean 'ts'"):
        share(df, {"q": FOLDED["all"]}, stream="t", time="tts")
    with pytest.raises(SchemaError, match="must be TIMESTAMP or BIGINT"):
        share(df, {"q": FOLDED["all"]}, stream="t", time="k")
    write_files(events(10), tmp_path / "in", [0], 1)
    other = stream_of(spark, tmp_path / "in").withColumn("other", F.timestamp_seconds("v"))
    with pytest.raises(SchemaError, match="watermark is on column 'ts'"):
        share(other, {"q": FOLDED["all"]}, stream="t", time="other")
    answers = share(df, {"busy": FOLDED["all"]}, stream="t", time="ts")
    with pytest.raises(NotFound, match="did you mean 'busy'"):
        muntin.spark.answers_of(answers, "busty")
    with pytest.raises(MuntinError, match="does not say where"):
        muntin.spark.answers_of(df, "busy")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        muntin.spark.read_state(spark, str(tmp_path))
    with pytest.raises(MuntinError, match="both DataFrames must be streaming"):
        share(df, {"q": FOLDED["all"]}, stream="t", time="ts", control=df)
