"""What is read off a DataFrame before Spark runs anything: its columns, their kinds, where each query has its own.

A frame here has a schema, and takes every call: no session is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException
from pyspark.sql import types as spark

import muntin.spark
from muntin.errors import NotFound, SchemaError
from muntin.run.spark_inputs import SparkInputs
from muntin.spark.answer_table import table_of
from muntin.spark.flow import _spark_schema
from muntin.spark.job import read_query
from muntin.spark.stream_of import find_time
from muntin.stream import Stream

VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT a.x, b.x AS y FROM a [RANGE 1 MINUTE] JOIN b [RANGE 1 MINUTE] "
    "ON a.x = b.x EVERY 1 SECOND"
)
KINDS = {
    "TIMESTAMP": spark.TimestampType(), "TIMESTAMP_NTZ": spark.TimestampNTZType(), "BIGINT": spark.LongType(),
    "STRING": spark.StringType(),
}  # fmt: skip


class Column:
    """A column of anything: whatever is done with it makes another one."""

    def __call__(self, *_: object, **__: object) -> Column:
        return self

    def __getattr__(self, name: str) -> Column:
        return self

    __add__ = __and__ = __le__ = __eq__ = __call__
    __hash__ = object.__hash__


def frame(**columns: str) -> Any:
    made = MagicMock(isStreaming=True, columns=list(columns))
    made.schema = spark.StructType([spark.StructField(name, KINDS[kind]) for name, kind in columns.items()])
    made.dtypes = [(field.name, field.dataType.simpleString()) for field in made.schema]
    made.select.return_value = made.withWatermark.return_value = made.join.return_value = made
    made.sparkSession.conf.get.side_effect = lambda name, default=None: default
    return made


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are made without Java, and every session will do."""
    for name in ("flow", "view_pairs"):
        monkeypatch.setattr(sys.modules[f"muntin.spark.{name}"], "F", Column())
    monkeypatch.setattr(sys.modules["muntin.spark.flow"], "check_session", lambda *_: None)


@pytest.mark.parametrize("left", KINDS)
@pytest.mark.parametrize("right", KINDS)
def test_views_are_joined_by_instants_or_by_times_of_day(
    no_session: None, left: str, right: str, tmp_path: Path
) -> None:
    """Two columns of one kind can be equal; an instant and a time of day cannot, whatever the zone of the session."""
    streams = {"a": frame(ts="TIMESTAMP", x=left), "b": frame(ts="TIMESTAMP", x=right)}
    options: dict[str, Any] = {
        "time": "ts",
        "archive": str(tmp_path / "views"),
        "checkpoint": str(tmp_path / "spark"),
    }
    if {left, right} == {"TIMESTAMP", "TIMESTAMP_NTZ"}:
        with pytest.raises(SchemaError, match="are a TIMESTAMP and a TIMESTAMP_NTZ"):
            muntin.spark.keep_view(VIEW, streams, **options)
    elif left == right:
        muntin.spark.keep_view(VIEW, streams, **options)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ({"statement": "STRING"}, ["`statement`", "_metadata.file_path", "_metadata.file_block_start"]),
        ({"statement": "STRING", "position": "BIGINT"}, ["`statement`", "`position`"]),
        ({"statement": "BIGINT"}, None),
        ({"position": "BIGINT"}, None),
        ({"statement": "STRING", "other": "STRING"}, None),
        ({"statement": "STRING", "position": "STRING"}, None),
    ],
)
def test_columns_of_a_control_stream(
    no_session: None, columns: dict[str, str], chosen: list[str] | None
) -> None:
    """A statement and perhaps its position, each of its type; anything beside, or missing, is refused."""
    queries = {"q": "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]"}

    def share(control: Any) -> None:
        muntin.spark.shared_windows(frame(ts="TIMESTAMP"), queries, stream="s", time="ts", control=control)

    control = frame(**columns)
    if chosen is None:
        with pytest.raises(SchemaError, match="the control stream"):
            share(control)
        return
    share(control)
    control.select.assert_called_once_with(*chosen)
    if "position" not in columns:  # of what are no files Spark knows no places
        control = frame(**columns)
        told = MagicMock()
        control.select.side_effect = [AnalysisException("no such column"), told]
        share(control)
        control.select.assert_called_with("`statement`")
        told.mapInArrow.assert_called_once()


def test_answers_of_one_query(no_session: None) -> None:
    """Those of a query that is there, from the columns that it has; of others, the name is told."""
    stream = Stream("s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())]), "ts")
    texts = {
        "counts": "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k",
        "all": "SELECT MAX(k) AS n, MIN(k) AS least FROM s [RANGE 1 SECOND SLIDE 1 SECOND]",
    }
    queries = {name: read_query(stream, text) for name, text in texts.items()}
    answers = MagicMock(schema=_spark_schema(table_of(queries, None, {}, False), ""))
    for name, columns in (("counts", ["k", "n"]), ("all", ["n", "least"])):
        answers.reset_mock()
        muntin.spark.answers_of(answers, name)
        chosen = answers.where.return_value.select.call_args.args
        assert len(chosen) == len([*columns, "window_start", "window_end", "complete"])
    with pytest.raises(NotFound, match="no query 'count'; did you mean 'counts'"):
        muntin.spark.answers_of(answers, "count")


def test_the_time_column_in_any_case() -> None:
    """As it is written if there is such a column; else the only one that differs in case alone."""
    assert find_time("ts", ["TS", "ts", "Ts"]) == "ts"
    assert find_time("tS", ["v", "TS"]) == "TS"
    for columns in (["TS", "ts"], ["TS", "ts", "Ts"]):
        with pytest.raises(SchemaError, match=f"{len(columns)} columns that 'tS' may mean: TS, ts"):
            find_time("tS", columns)
    with pytest.raises(SchemaError, match="no column 'tz'"):
        find_time("tz", ["v", "TS"])


@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "e.jsonl", "e.parquet", "folder"])
def test_files_of_a_run_are_read_as_declared(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each format by its reader, with the declared columns: all instants, numbers and texts are those of the script."""
    monkeypatch.setattr("pyspark.sql.functions.col", MagicMock())
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "e.parquet" if name == "folder" else tmp_path / name
    file.write_bytes(b"")
    stream = Stream("s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("x", pa.string())]), "ts")
    session, script = MagicMock(), MagicMock(streams={"s": stream})
    session.read.parquet.return_value = frame(x="STRING", ts="TIMESTAMP_NTZ", k="BIGINT", more="STRING")
    SparkInputs(session, script, {"s": tmp_path / name}, {"s": 1}).frame("s")
    reader = {"csv": "csv", "jsonl": "json"}.get(name.split(".")[-1 if name != "e.csv.gz" else 1], "parquet")
    (call,) = session.read.method_calls
    assert (call[0], call.args) == (reader, (str(file),) if reader == "parquet" else ([str(file)],))
    if reader != "parquet":
        found = {field.name: field.dataType for field in call.kwargs["schema"]}
        assert found == {"ts": KINDS["TIMESTAMP"], "k": KINDS["BIGINT"], "x": KINDS["STRING"]}
        assert list(found) == stream.schema.names
    session.read.parquet.return_value = frame(x="STRING", ts="TIMESTAMP")
    if reader == "parquet":
        with pytest.raises(SchemaError, match="has no column 'k'"):
            SparkInputs(session, script, {"s": tmp_path / name}, {"s": 1}).frame("s")


def test_timestamps_have_the_kind_of_the_columns_they_come_from() -> None:
    """Instants of instants, times of day of times of day, in keys and in values; what only counts a column
    is of no kind, and one value of both kinds is refused."""
    kind = pa.timestamp("us")
    stream = Stream("s", pa.schema([("ts", kind), ("day", kind), ("v", pa.int64())]), "ts")
    window = "FROM s [RANGE 1 SECOND SLIDE 1 SECOND]"
    texts = {
        "instants": f"SELECT LAST(ts) AS a, MAX(ts) AS b, COUNT(day) AS c, SUM(v) AS d {window}",
        "days": f"SELECT LAST(day) AS a, MIN(day) AS b, COUNT(ts) AS c, COUNT(*) AS d {window}",
        "filtered": f"SELECT MAX(day) FILTER (WHERE v > 3) AS a {window}",
        "keys": f"SELECT day, MAX(ts) AS a, COUNT(*) AS b {window} GROUP BY day",
    }
    zones = {"ts": "UTC", "day": None}
    layout = table_of({name: read_query(stream, text) for name, text in texts.items()}, "UTC", zones)
    found = {
        name: [
            kind.tz or "none"
            for column in places.values()
            if pa.types.is_timestamp(kind := layout.schema.field(column).type)
        ]
        for name, places in layout.places.items()
    }
    own = ["UTC", "UTC"]  # the ends of the window
    assert found == {
        "instants": ["UTC", "UTC", *own], "days": ["none", "none", *own], "filtered": ["none", *own],
        "keys": ["none", "UTC", *own],
    }  # fmt: skip
    for item in (
        "CASE WHEN COUNT(*) > 3 THEN MAX(ts) ELSE MAX(day) END",
        "MAX(CASE WHEN v > 3 THEN ts ELSE day END)",
    ):
        mixed = read_query(stream, f"SELECT {item} AS a {window}")
        with pytest.raises(
            SchemaError, match="makes one value of 'ts', a TIMESTAMP, and 'day', a TIMESTAMP_NTZ"
        ):
            table_of({"mixed": mixed}, "UTC", zones)
