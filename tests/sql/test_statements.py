"""Scripts: what each statement becomes, and which streams it sees."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.errors import SqlError
from muntin.sql import (
    CreateStream,
    DropQuery,
    DropStream,
    Explain,
    RegisterQuery,
    Select,
    parse_query,
    parse_statements,
)


def one(text, streams=()):
    (statement,) = parse_statements(text, dict(streams))
    return statement


def test_create_stream():
    statement = one(
        "CREATE STREAM trades (ts TIMESTAMP, symbol VARCHAR, price DOUBLE, shares BIGINT) "
        "TIMESTAMP BY ts DELAY 5 SECONDS"
    )
    assert isinstance(statement, CreateStream)
    stream = statement.stream
    assert (stream.name, stream.time, stream.delay) == ("trades", "ts", 5_000_000)
    assert stream.schema == pa.schema(
        [("ts", pa.timestamp("us")), ("symbol", pa.string()), ("price", pa.float64()), ("shares", pa.int64())]
    )


def test_create_stream_without_delay_and_with_time_in_microseconds():
    stream = one('create stream "My Stream" ("At" bigint, x int) timestamp by "At"').stream
    assert (stream.name, stream.time, stream.delay) == ("My Stream", "At", 0)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("BOOLEAN", pa.bool_()), ("BOOL", pa.bool_()), ("TINYINT", pa.int8()), ("SMALLINT", pa.int16()),
        ("INT", pa.int32()), ("INTEGER", pa.int32()), ("BIGINT", pa.int64()), ("REAL", pa.float32()),
        ("FLOAT", pa.float32()), ("DOUBLE", pa.float64()), ("DOUBLE PRECISION", pa.float64()),
        ("VARCHAR", pa.string()), ("VARCHAR(20)", pa.string()), ("TEXT", pa.string()),
        ("STRING", pa.string()),
        ("TIMESTAMP", pa.timestamp("us")), ("DATE", pa.date32()), ("timestamp", pa.timestamp("us")),
    ],
)  # fmt: skip
def test_types(written, kind):
    assert (
        one(f"CREATE STREAM s (ts TIMESTAMP, x {written}) TIMESTAMP BY ts").stream.schema.field("x").type
        == kind
    )


def test_drops():
    assert one("DROP STREAM trades") == DropStream("trades")
    assert one("drop query busy;") == DropQuery("busy")


def test_register(streams):
    statement = one("REGISTER QUERY busy AS SELECT COUNT(*) FROM trades [ROWS 5]", streams)
    assert isinstance(statement, RegisterQuery)
    assert statement.name == "busy"
    assert statement.query == parse_query("SELECT COUNT(*) FROM trades [ROWS 5]", streams)


def test_explain(streams):
    assert one("EXPLAIN") == Explain()
    assert one("EXPLAIN QUERY busy") == Explain("busy")
    explain = one("EXPLAIN SELECT COUNT(*) FROM trades [ROWS 5]", streams)
    assert explain.query.text == "SELECT COUNT(*) FROM trades [ROWS 5]"


def test_select(streams):
    assert isinstance(one("SELECT COUNT(*) FROM trades [ROWS 5]", streams), Select)


def test_a_script_sees_the_streams_it_creates():
    script = """
        /* two streams; one query */
        CREATE STREAM a (ts TIMESTAMP, x DOUBLE) TIMESTAMP BY ts;
        CREATE STREAM b (at TIMESTAMP, y DOUBLE) TIMESTAMP BY at;;
        -- the query; really
        REGISTER QUERY q AS SELECT SUM(y) FROM b [RANGE 1 DAY];
        EXPLAIN;
    """
    kinds = [type(statement) for statement in parse_statements(script, {})]
    assert kinds == [CreateStream, CreateStream, RegisterQuery, Explain]


def test_a_script_no_longer_sees_the_streams_it_drops(streams):
    with pytest.raises(SqlError, match="unknown stream 'trades'") as caught:
        parse_statements("DROP STREAM trades;\nSELECT COUNT(*) FROM trades [ROWS 5]", streams)
    assert (caught.value.line, caught.value.column) == (2, 22)


def test_the_streams_given_stay_as_they_are(streams):
    parse_statements("CREATE STREAM x (ts TIMESTAMP) TIMESTAMP BY ts; DROP STREAM trades", streams)
    assert list(streams) == ["trades"]
