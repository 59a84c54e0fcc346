"""Columns as others name and type them, on a real Spark: awkward names at every entry point, both kinds of timestamps
in and out, types that muntin lacks, and sessions that cannot run us."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from flow import progress_of
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from runs import run

import muntin
import muntin.spark
from muntin.errors import MuntinError, SchemaError
from muntin.spark import session as session_check
from muntin.spark.session import PROVIDER, STATE_SETTINGS

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECOND = 1_000_000
NAMES = [
    "a.b", "a`b", "x y", "Ünïcode", "select", "0", "query", "Complete", "window_end", 'quo"te', "rest", "k", "K",
    "a,b;c", "{t}", "#part", "",
]  # fmt: skip
TIME = "t.s"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def awkward(rows: int = 60) -> pa.Table:
    """A time and a column for each name, all of them small numbers."""
    columns = {TIME: pa.array([10 * SECOND + i * 500_000 for i in range(rows)], pa.timestamp("us", tz="UTC"))}
    columns |= {
        name: pa.array([(i * (j + 1)) % 5 for i in range(rows)]) for j, name in enumerate(NAMES) if name
    }
    return pa.table(columns)


def queries_by_name() -> dict[str, str]:
    """Each name as a key, as a value, and as what an answer is called."""
    made = {}
    for name in filter(None, NAMES):
        made[f"by {name}"] = (
            f"SELECT {quoted(name)}, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY {quoted(name)}"
        )
        if name.casefold() not in ("window_end", "complete"):
            made[f"of {name}"] = (
                f"SELECT SUM({quoted(name)}) AS {quoted(name)} FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]"
            )
    return {name: text for name, text in made.items() if name not in ("by window_end", "by Complete")}


def embedded(table: pa.Table, queries: dict[str, str]) -> dict[str, pa.Table]:
    engine = muntin.Engine()
    columns = ", ".join(f"{quoted(name)} BIGINT" for name in table.column_names if name != TIME)
    engine.execute(f"CREATE STREAM s ({quoted(TIME)} TIMESTAMP, {columns}) TIMESTAMP BY {quoted(TIME)}")
    engine.register_many(queries)
    engine.push("s", table)
    return engine.advance()


def assert_all(answers: DataFrame, wanted: dict[str, pa.Table], one: str) -> None:
    """All answers, found by what the column `query` says of their places; those of one query by `answers_of`."""
    answers = answers.cache()
    whole = answers.toArrow()
    places = json.loads(answers.schema["query"].metadata["muntin"])
    for name, table in wanted.items():
        mine = whole.filter(pa.compute.equal(whole["query"], name)).select(list(places[name].values()))
        assert rows_of(mine.rename_columns(list(places[name]))) == rows_of(table), name
    assert rows_of(muntin.spark.answers_of(answers, one).toArrow()) == rows_of(wanted[one])
    answers.unpersist()


def rows_of(table: pa.Table) -> Counter[str]:
    rows = zip(*(without_zone(table[name]).to_pylist() for name in table.column_names), strict=True)
    return Counter(map(str, rows))


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    """Else Spark itself cannot make or read a table with columns `k` and `K`."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def test_awkward_names(spark: SparkSession, tmp_path: Path, case_sensitive: None) -> None:
    """Of a table and a folder; the time is found in any case."""
    df, queries, wanted = awkward_files(spark, tmp_path)
    assert_all(muntin.spark.shared_windows(df, queries, stream="s", time=TIME.upper()), wanted, "by a`b")
    folder = muntin.spark.EventFolder(spark, str(tmp_path / "in"), is_streaming=False)
    whole = muntin.spark.shared_windows(folder, queries, stream="s", time=TIME.upper(), fold=False)
    assert_all(whole, wanted, "of query")


def test_two_in_one_streaming_query(spark: SparkSession, tmp_path: Path, case_sensitive: None) -> None:
    """Each `shared_windows` has half of the awkward names; progress has the numbers of both together."""
    df, queries, wanted = awkward_files(spark, tmp_path)
    streaming = (
        spark.readStream.schema(df.schema)
        .parquet(str(tmp_path / "in"))
        .withWatermark(f"`{TIME}`", "0 seconds")
    )
    halves = [dict(list(queries.items())[::2]), dict(list(queries.items())[1::2])]
    both = [muntin.spark.shared_windows(streaming, half, stream="s", time=TIME, shards=1) for half in halves]
    with progress_of(spark) as told:
        run(both[0].select("query", "complete").unionByName(both[1].select("query", "complete")), tmp_path)
    counted = spark.read.parquet(str(tmp_path / "answers")).groupBy("query").count().collect()
    got = {row["query"]: row["count"] for row in counted}
    assert got == {name: each.num_rows for name, each in wanted.items()}
    assert sum(each.events for each in told) == 2 * df.count()
    assert sum(each.answers for each in told) == sum(got.values())


def awkward_files(spark: SparkSession, folder: Path) -> tuple[DataFrame, dict[str, str], dict[str, pa.Table]]:
    """The events in a file, the queries, and what embedded answers; it has no `k` beside `K`."""
    table, queries = awkward(), queries_by_name()
    capital = {name: text for name, text in queries.items() if name[3:] == "K"}
    others = {name: text for name, text in queries.items() if name not in capital}
    wanted = embedded(table.drop_columns(["K"]), others) | embedded(table.drop_columns(["k"]), capital)
    (folder / "in").mkdir()
    pq.write_table(table, folder / "in" / "0.parquet")
    return spark.read.parquet(str(folder / "in")), queries, wanted


def test_names_of_views(spark: SparkSession, tmp_path: Path) -> None:
    """A view of awkward names is planned by Spark; names that Spark takes for one are refused."""
    (tmp_path / "in").mkdir()
    pq.write_table(awkward().drop_columns(["K", "k"]), tmp_path / "in" / "0.parquet")
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    df = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    places = {"time": TIME.upper(), "archive": str(tmp_path / "v"), "checkpoint": str(tmp_path / "c")}
    for name in schema.names[1:]:
        text = f"""CREATE MATERIALIZED VIEW v AS SELECT l.{quoted(name)} AS one, r.{quoted(name)} AS other FROM l
        [RANGE 1 MINUTE] JOIN r [RANGE 1 MINUTE] ON l.{quoted(name)} = r.{quoted(name)} EVERY 1 MINUTE"""
        muntin.spark.keep_view(text, {"l": df, "r": df}, **places)
    twice = df.select(F.col(f"`{TIME}`"), F.col("x y").alias("k"), F.col("x y").alias("K"))
    text = text.replace(quoted(schema.names[-1]), "k")
    with pytest.raises(MuntinError, match="k"):
        muntin.spark.keep_view(text, {"l": twice, "r": twice}, **places)
    local = df.withColumn("k", F.lit(None).cast("timestamp"))
    other = df.withColumn("k", F.lit(None).cast("timestamp_ntz"))
    with pytest.raises(SchemaError, match="TIMESTAMP_NTZ: cast one"):
        muntin.spark.keep_view(text, {"l": local, "r": other}, **places)
    with pytest.raises(SchemaError, match="must be TIMESTAMP"):
        muntin.spark.keep_view(text, {"l": other, "r": other}, **(places | {"time": "k"}))
    with pytest.raises(MuntinError, match="is a table"):
        muntin.spark.keep_view(text, dict.fromkeys("lr", spark.read.parquet(str(tmp_path / "in"))), **places)
    with pytest.raises(MuntinError, match="is on a file system that only Spark reads"):
        muntin.spark.keep_view(text, {"l": df, "r": df}, **(places | {"checkpoint": "s3://bucket/c"}))


def test_types_that_muntin_lacks(spark: SparkSession) -> None:
    """A query that reads such a column is told the column's type; others do not notice."""
    df = spark.createDataFrame(
        [],
        "ts TIMESTAMP, v BIGINT, D DECIMAL(20, 2), arr ARRAY<INT>, s STRUCT<a: INT>, b BINARY, m MAP<INT, INT>",
    )
    share = muntin.spark.shared_windows
    for column, kind in (("d", "DECIMAL\\(20,2\\)"), ("arr", "ARRAY<INT>"), ("s", "STRUCT<A:INT>"), ("b", "BINARY"),
                         ("m", "MAP<INT,INT>")):  # fmt: skip
        for text in ("SELECT COUNT({0}) FROM t [ROWS 5]", "SELECT COUNT(*) FROM t [ROWS 5] WHERE t.{0} > 1",
                     "SELECT {0}, COUNT(*) FROM t [ROWS 5] GROUP BY {0}"):  # fmt: skip
            with pytest.raises(MuntinError, match=f"no column '{column}': in the DataFrame it is {kind}"):
                share(df, {"q": text.format(column)}, stream="t", time="ts")
    twice = df.select("ts", "v", "v")
    with pytest.raises(MuntinError, match="has 2 columns of this name"):
        share(twice, {"q": "SELECT SUM(v) FROM t [ROWS 5]"}, stream="t", time="ts")
    with pytest.raises(SchemaError, match="2 columns that 'TS' may mean"):
        share(df.select("ts", F.col("ts").alias("Ts")), {"q": "SELECT 1"}, stream="t", time="TS")
    with pytest.raises(SchemaError, match=r"must be TIMESTAMP or BIGINT, not DECIMAL\(20,2\)"):
        share(df, {"q": "SELECT COUNT(*) FROM t [ROWS 5]"}, stream="t", time="d")
    with pytest.raises(MuntinError, match="1 to 32,768 shards, not 40,000"):
        share(df, {"q": "SELECT COUNT(*) FROM t [ROWS 5]"}, stream="t", time="ts", shards=40_000)


# instants and times of day around a change to summer time: some hours do not exist in a zone, others twice
STAMPS = [datetime(2025, 3, 9, 1, 30), datetime(2025, 3, 9, 2, 30), datetime(2025, 3, 9, 7, 30),
          datetime(2025, 11, 2, 1, 30), datetime(2025, 11, 2, 6, 30)]  # fmt: skip
KINDS = {
    "ends": "SELECT MIN(ts) AS first, MAX(n) AS latest, COUNT(*) AS c FROM t [RANGE 400 DAYS SLIDE 1 DAY]",
    "by_n": "SELECT n, LAST(ts) AS stamp FROM t [RANGE 400 DAYS SLIDE 1 DAY] GROUP BY n",
    "by_ts": "SELECT ts, FIRST(n) AS stamp FROM t [RANGE 400 DAYS SLIDE 1 DAY] GROUP BY ts",
    "often": "SELECT APPROX_FREQUENT(n, 0.3, 0.1) AS often, APPROX_FREQUENT(ts, 0.3, 0.1) AS seldom FROM t "
    "[RANGE 400 DAYS SLIDE 1 DAY]",
}
ZONED = {"first", "seldom", "ts", ("by_n", "stamp")}


def kinds_wanted(time: str, until: datetime) -> dict[str, pa.Table]:
    table = pa.table(
        {"ts": pa.array(STAMPS, pa.timestamp("us")), "n": pa.array(STAMPS[::-1], pa.timestamp("us"))}
    )
    engine = muntin.Engine()
    engine.execute(f"CREATE STREAM t (ts TIMESTAMP, n TIMESTAMP) TIMESTAMP BY {time} DELAY 400 DAYS")
    engine.register_many(KINDS)
    engine.push("t", table)
    return engine.advance(until=until)


def instants(kind: Any) -> list[Any]:
    """The kinds of timestamps in a type of Spark's."""
    if isinstance(kind, T.ArrayType):
        return instants(kind.elementType)
    if isinstance(kind, T.StructType):
        return [each for field in kind for each in instants(field.dataType)]
    return [type(kind)] if isinstance(kind, (T.TimestampType, T.TimestampNTZType)) else []


def check_kinds(
    answers: DataFrame, time: str, until: datetime = datetime(2025, 11, 4), is_folder: bool = False
) -> None:
    """Each column is of the kind of what it was made of, and has the same digits as without zones, in UTC. All
    answers to a folder of files are instants."""
    of_time = T.TimestampType if time == "ts" or is_folder else T.TimestampNTZType
    for name, wanted in kinds_wanted(time, until).items():
        mine = muntin.spark.answers_of(answers, name)
        for field in mine.schema:
            is_zoned = is_folder or field.name in ZONED or (name, field.name) in ZONED
            kind = T.TimestampType if is_zoned else T.TimestampNTZType
            assert set(instants(field.dataType)) <= {of_time if field.name.startswith("window_") else kind}, (
                field
            )
        got = mine.toArrow()
        got = got.cast(wanted.schema) if name != "often" else got
        rows = [sorted(str(row) for row in plain(each).to_pylist()) for each in (wanted, got)]
        assert rows[0] == rows[1]


def plain(table: pa.Table) -> pa.Table:
    """Without zones, by the instant."""
    return pa.table({name: without_zone(table[name].combine_chunks()) for name in table.column_names})


def without_zone(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(array.offsets, without_zone(array.flatten()))
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays([without_zone(each) for each in array.flatten()], names=[
            field.name for field in array.type])  # fmt: skip
    return array.cast(pa.int64()).cast(pa.timestamp("us")) if pa.types.is_timestamp(array.type) else array


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_both_kinds_of_timestamps(spark: SparkSession, tmp_path: Path, elsewhere: None) -> None:
    """In a session outside UTC: of a table, a folder and a stream, with either kind as the time of events."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": pa.array(STAMPS, pa.timestamp("us", tz="UTC")), "n": pa.array(
        STAMPS[::-1], pa.timestamp("us"))}), tmp_path / "in" / "0.parquet")  # fmt: skip
    df = spark.read.parquet(str(tmp_path / "in"))
    assert [type(field.dataType) for field in df.schema] == [T.TimestampType, T.TimestampNTZType]
    delay = timedelta(0)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    for time in ("ts", "n"):
        check_kinds(
            muntin.spark.shared_windows(df, KINDS, stream="t", time=time, delay=delay, flush=True).where(
                "window_end <= timestamp'2025-11-03 19:00:00'"
                if time == "ts"
                else "window_end <= timestamp_ntz'2025-11-04 00:00:00'"
            ),
            time,
        )
    spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    folder = muntin.spark.EventFolder(spark, str(tmp_path / "in"), is_streaming=False)
    there = muntin.spark.shared_windows(folder, KINDS, stream="t", time="n", flush=True)
    check_kinds(there.where("window_end <= timestamp'2025-11-03 19:00:00'"), "n", is_folder=True)
    streaming = (
        spark.readStream.schema(df.schema).parquet(str(tmp_path / "in")).withWatermark("ts", "0 seconds")
    )
    run(muntin.spark.shared_windows(streaming, KINDS, stream="t", time="ts", shards=1), tmp_path)
    check_kinds(spark.read.parquet(str(tmp_path / "answers")), "ts", datetime(2025, 11, 2))
    mixed = "SELECT COALESCE(MAX(ts), MAX(n)) AS x FROM t [RANGE 1 DAY SLIDE 1 DAY]"
    with pytest.raises(SchemaError, match="'ts', a TIMESTAMP, and 'n', a TIMESTAMP_NTZ: cast one"):
        muntin.spark.shared_windows(df, {"q": mixed}, stream="t", time="ts")
    two = {"a": KINDS["by_n"], "b": KINDS["by_ts"]}
    names = muntin.spark.shared_windows(df, two, stream="t", time="ts").columns
    assert {"stamp_timestamp", "stamp_timestamptz"} <= set(names), "one name, two kinds"


def test_a_session_without_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    """Refused when the call is made, with the setting; reading a checkpoint leaves the caller's settings alone."""
    (tmp_path / "in").mkdir()
    df = spark.readStream.schema("ts TIMESTAMP, v BIGINT").parquet(str(tmp_path / "in"))
    text = {"q": "SELECT SUM(v) FROM t [ROWS 5 SLIDE 5]"}
    other = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    spark.conf.set(PROVIDER, other)
    try:
        with pytest.raises(MuntinError, match=f"{PROVIDER} is {other}: set it to org.*RocksDB"):
            muntin.spark.shared_windows(df, text, stream="t", time="ts")
        spark.conf.unset(next(name for name in STATE_SETTINGS if name != PROVIDER))
        before = [spark.conf.get(name, None) for name in STATE_SETTINGS]
        with pytest.raises(MuntinError, match="not a checkpoint"):
            muntin.spark.read_state(spark, str(tmp_path))
        assert [spark.conf.get(name, None) for name in STATE_SETTINGS] == before
    finally:
        for name, value in STATE_SETTINGS.items():
            spark.conf.set(name, value)


def test_workers_without_muntin(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or with another version: refused when the call is made, with the setting to change."""
    df = spark.createDataFrame([], "ts TIMESTAMP, v BIGINT")
    text = {"q": "SELECT SUM(v) FROM t [ROWS 5 SLIDE 5]"}
    session_check._checked.discard(df.sparkSession)
    with monkeypatch.context() as other:
        other.setattr(muntin, "__version__", "99")
        with pytest.raises(MuntinError, match=r"has muntin .*, not 99: set PYSPARK_PYTHON"):
            muntin.spark.shared_windows(df, text, stream="t", time="ts")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['muntin'] = None\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    os.chmod(python, 0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(MuntinError, match="has no muntin: set PYSPARK_PYTHON"):
        muntin.spark.shared_windows(df, text, stream="t", time="ts")
    monkeypatch.undo()
    muntin.spark.shared_windows(df, text, stream="t", time="ts")


def test_only_what_connect_has(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of Spark Connect has no `sparkContext`: nothing asks for it, for tables or for streams."""

    own = {name: getattr(each, name) for each, name in ((type(spark), "sparkContext"), (DataFrame, "rdd"))}

    def missing(name: str) -> Any:
        def get(self: Any) -> Any:
            if sys._getframe(1).f_globals["__name__"].startswith("muntin"):
                raise PySparkAttributeError(f"there is no {name} in Spark Connect")
            return own[name].fget(self)

        return property(get)

    (tmp_path / "in").mkdir()
    pq.write_table(awkward().select([TIME, "k"]).rename_columns(["ts", "k"]), tmp_path / "in" / "0.parquet")
    df = spark.read.parquet(str(tmp_path / "in"))
    text = {"q": "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"}
    session_check._checked.discard(df.sparkSession)
    wanted = muntin.spark.shared_windows(df, text, stream="s", time="ts").count()
    streaming = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    with monkeypatch.context() as connect:
        connect.setattr(type(spark), "sparkContext", missing("sparkContext"))
        connect.setattr(DataFrame, "rdd", missing("rdd"))
        table = muntin.spark.shared_windows(df, text, stream="s", time="ts")
        spread = {"q": "SELECT APPROX_QUANTILE(k, 0.5, 0.1) FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]"}
        muntin.spark.shared_windows(df, spread, stream="s", time="ts", spread=True)
        muntin.spark.shared_windows(streaming, text, stream="s", time="ts")
    assert table.count() == wanted > 0
