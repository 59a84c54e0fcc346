"""`muntin run --engine spark`: the same answers as embedded, in the same files, and the same views."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark_types

from muntin.archive import View
from muntin.arrow_bytes import stream_bytes
from muntin.errors import MuntinError
from muntin.run.on_spark import spark_errors
from muntin.run.script import parse_script
from muntin.run.spark_inputs import inputs_of
from muntin.run.topic import Topic
from muntin.spark.state import ShardState, show_state
from muntin.testing import TradeStream

STREAM = TradeStream(seed=3, symbols=20, rate=500.0)  # none is late: a table has no order of arrival
SCRIPT = f"""\
{STREAM.create_statement};
CREATE STREAM quotes (ts TIMESTAMP, symbol VARCHAR, bid DOUBLE) TIMESTAMP BY ts DELAY 5 SECONDS;
CREATE STREAM silent (ts TIMESTAMP, symbol VARCHAR) TIMESTAMP BY ts;
REGISTER QUERY nothing AS SELECT COUNT(*) AS n FROM silent [RANGE 5 SECONDS SLIDE 5 SECONDS];
REGISTER QUERY busy AS
  SELECT symbol, SUM(shares) AS volume, MAX(price) AS high FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS]
  GROUP BY symbol HAVING SUM(shares) > 2000;
SELECT COUNT(*) AS trades FROM trades [RANGE 4 SECONDS SLIDE 2 SECONDS];
CREATE TABLE limits (symbol VARCHAR, most BIGINT, PRIMARY KEY (symbol));
INSERT INTO limits VALUES ('none', 0);
REGISTER QUERY over AS
  SELECT t.symbol, SUM(shares) AS volume, l.most FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS] AS t
  JOIN limits AS l ON t.symbol = l.symbol GROUP BY t.symbol HAVING SUM(shares) > l.most;
REGISTER QUERY bids AS SELECT symbol, MAX(bid) AS bid FROM quotes [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY symbol;
REGISTER QUERY crossed AS
  SELECT t.symbol, COUNT(*) AS pairs, MIN(price) AS low FROM trades [RANGE 5 SECONDS SLIDE 5 SECONDS] AS t
  JOIN quotes [RANGE 2 SECONDS] AS q ON t.symbol = q.symbol GROUP BY t.symbol;
CREATE MATERIALIZED VIEW pairs AS SELECT t.symbol, price, bid FROM trades [RANGE 4 SECONDS] AS t
  JOIN quotes [RANGE 1 SECOND] AS q ON t.symbol = q.symbol WHERE shares > 500 EVERY 1 SECOND;
CREATE MATERIALIZED VIEW unquoted AS SELECT symbol, price FROM trades [RANGE 4 SECONDS] WHERE shares > 500
  EXCEPT SELECT symbol FROM quotes [RANGE 300 MILLISECONDS] EVERY 1 SECOND;
CREATE MATERIALIZED VIEW newest AS SELECT t.symbol, price, bid FROM trades [ROWS 50] AS t
  JOIN quotes [ROWS 20] AS q ON t.symbol = q.symbol EVERY 1 SECOND;
SELECT symbol, price, bid FROM pairs;
"""
ANSWERS = {"busy": True, "query_1": True, "over": True, "bids": True, "crossed": True, "query_2": False}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("quick_java")
def test_both_engines_write_the_same(tmp_path: Path, muntin: Any) -> None:
    """Several inputs in several formats, joins, tables and views of all kinds."""
    (tmp_path / "queries.sql").write_text(SCRIPT)
    trades = STREAM.table(10_000)
    (tmp_path / "trades").mkdir()
    pq.write_table(trades.slice(0, 6_000), tmp_path / "trades" / "1.parquet")
    with (
        pa.OSFile(str(tmp_path / "trades" / "2.arrow"), "wb") as file,
        pa.ipc.new_file(file, trades.schema) as write,
    ):
        write.write_table(trades.slice(6_000))
    quotes = trades.filter(pc.less(trades["shares"], 150))
    lines = [f"{row['ts'].isoformat()},{row['symbol']},{row['price'] + 0.5}" for row in quotes.to_pylist()]
    (tmp_path / "quotes.csv").write_text("\n".join(["ts,symbol,bid", *lines]))
    (tmp_path / "silent.jsonl").write_text("")
    limits = [
        f"{symbol},{1000 * place}" for place, symbol in enumerate(trades["symbol"].unique().to_pylist()[:9])
    ]
    (tmp_path / "limits.csv").write_text("\n".join(["symbol,most", *limits]))
    command = [
        "run", tmp_path / "queries.sql", "--input", f"trades={tmp_path / 'trades'}",
        "--input", f"quotes={tmp_path / 'quotes.csv'}", "--table", f"limits={tmp_path / 'limits.csv'}",
        "--input", f"silent={tmp_path / 'silent.jsonl'}",
    ]  # fmt: skip
    places = {
        engine: ["--engine", engine, "--out", tmp_path / engine, "--archive", tmp_path / f"{engine}_views"]
        for engine in ("embedded", "spark")
    }
    embedded = muntin(*command, *places["embedded"])
    assert embedded.exit_code == 0, embedded.output
    # in a process of its own, whose session is stopped at the end
    code = "from muntin.cli import main; main()"
    arguments = [*map(str, command), *map(str, places["spark"])]
    spark = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert spark.returncode == 0, spark.stderr[-2_000:]
    done = re.search(r"[\d,]+ events, [\d,]+ answers of 7 queries", embedded.output)
    assert done
    assert f"{10_000 + quotes.num_rows:,} events" in done[0]
    assert done[0] in spark.stderr
    told = [int(each.replace(",", "")) for each in re.findall(r"% +([\d,]+) events", spark.stderr)]
    assert told == sorted(told)
    assert 0 < told[-1] <= 10_000 + quotes.num_rows  # though views and several jobs read the same input
    for name, is_timed in ANSWERS.items():
        one, other = (
            pq.read_table(tmp_path / engine / f"{name}.parquet") for engine in ("embedded", "spark")
        )
        assert one.schema == other.schema
        assert one.num_rows, name
        assert ordered(one, is_timed) == ordered(other, is_timed), name
    for view in ("pairs", "unquoted", "newest"):
        one, other = (View.open(str(tmp_path / f"{engine}_views" / view)) for engine in ("embedded", "spark"))
        assert one.now == other.now
        held = [Counter(map(repr, each.read_all().to_pylist())) for each in (one, other)]
        assert held[0] == held[1], view
        assert held[0], view


def ordered(table: pa.Table, is_timed: bool) -> list[dict[str, object]]:
    """As they lie there by time, and of one instant by their keys."""
    if is_timed:
        ends = table["window_end"].to_pylist()
        assert ends == sorted(ends)
    return sorted(table.to_pylist(), key=repr)


TOPIC = (
    "CREATE STREAM s (ts TIMESTAMP, n BIGINT) TIMESTAMP BY ts "
    "WITH (source = 'kafka', brokers = 'b:1', topic = 't'{})"
)
QUERY = "; SELECT SUM(n) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]"


def test_what_is_refused(tmp_path: Path, muntin: Any) -> None:
    """Before Spark starts, and at the word."""
    (tmp_path / "e.csv").write_text("ts,n\n0,6\n")
    text = TOPIC.format("")
    given = ("--input", tmp_path / "e.csv")
    view = "; CREATE MATERIALIZED VIEW v AS SELECT n FROM s [RANGE 1 HOUR] EXCEPT SELECT n FROM s [ROWS 1] EVERY 1 HOUR"
    for script, arguments, told in (
        (text.replace("'kafka', brokers = 'b:1', topic = 't'", "'http'") + QUERY, (), "no stream has an input"),
        (TOPIC.format(", format = 'csv'") + QUERY, (), "reads messages of JSON or Arrow: format = 'json' or 'arrow'"),
        (TOPIC.format(", start = 'latest'") + QUERY, (), "from its beginning: start = 'earliest'"),
        (TOPIC.format(", config = 'f'") + QUERY, (), "settings are of librdkafka"),
        (TOPIC.format(", bad = 'topic:x'") + QUERY, (), "does not write messages: bad = 'fail' or 'skip'"),
        (TOPIC.format(", formt = 'csv'") + QUERY, (), "has no option 'formt'; did you mean 'format'?"),
        (text + "; CREATE STREAM d AS SELECT ts, n FROM s WHERE n > 1" + QUERY, given, "stream 'd'"),
        (text + view, given, "view 'v' needs a place on disk: choose one with --archive"),
        (text + "; REGISTER QUERY q AS SELECT SUM(n) AS n FROM s [ROWS 1] BACKFILL 'f'", given, "'q' has a BACKFILL"),
        (text + QUERY, ("--input", "s=no.csv"), "there is no input file 'no.csv'"),
        (text + QUERY, (*given, "--conf", "spark.master"), "which setting is 'spark.master'?"),
    ):  # fmt: skip
        (tmp_path / "q.sql").write_text(script)
        done = muntin("run", tmp_path / "q.sql", *arguments, "--out", tmp_path / "out", "--engine", "spark")
        assert done.exit_code == 2, done.output
        assert told in done.output
        assert not (tmp_path / "out").exists()
    for arguments, told in (
        ((), "what is the input? write --input [STREAM=]PATH"),
        ((*given, "--packages", "p"), "--packages is for --engine spark"),
    ):
        done = muntin("run", tmp_path / "q.sql", *arguments, "--out", tmp_path / "out")
        assert done.exit_code == 2
        assert told in done.output


def test_a_file_stands_for_a_topic() -> None:
    text = TOPIC.format(", format = 'arrow', bad = 'skip'")
    topic = Topic("b:1", "t", "arrow", True)
    script = parse_script(text)
    assert inputs_of(text, script, [], None) == {"s": topic}
    assert inputs_of(text, script, ["some.csv"], None) == {"s": Path("some.csv")}
    assert topic.reader_options == {
        "kafka.bootstrap.servers": "b:1", "subscribe": "t", "startingOffsets": "earliest", "endingOffsets": "latest",
    }  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_messages_are_events(spark: Any) -> None:
    """Without a broker: what the messages of a topic are read as, and what is told where there is no connector."""
    schema = spark_types.StructType.fromDDL("ts TIMESTAMP, n BIGINT")
    rows = [{"ts": "2026-01-05T10:00:00.000001Z", "n": 1}, {"n": 2, "ts": "2026-01-05 10:00:01", "more": "x"}]
    texts = [json.dumps(rows[0]), json.dumps(rows), "{ no event", '{"n": 3}']
    batch = pa.record_batch({"ts": pa.array([1, 2], pa.timestamp("us")), "n": [1, 2]})
    values = {"json": [text.encode() for text in texts], "arrow": [stream_bytes(batch), b"no event"]}
    for format, some in values.items():
        messages = spark.createDataFrame([(bytearray(value),) for value in some], "value BINARY")
        found = Topic("b:1", "t", format, True).events(messages, schema, "ts").collect()
        assert [row["n"] for row in found] == ([1, 1, 2] if format == "json" else [1, 2])
        strict = Topic("b:1", "t", format, False).events(messages, schema, "ts")
        if format == "arrow":  # NULLs, which no query takes for a time
            assert [row["ts"] is None for row in strict.collect()] == [False, False, True]
        else:
            with pytest.raises(MuntinError, match=r"Spark: .*MALFORMED_RECORD"), spark_errors():
                strict.collect()
    with pytest.raises(MuntinError, match=r"--packages org\.apache\.spark:spark-sql-kafka-0-10_2\.13:\d"):
        Topic("b:1", "t", "json", True).read(spark, schema, "ts")


def test_the_state_is_shown_shard_by_shard() -> None:
    shards = [
        ShardState("symbol", 0, 1, 1, 12, 8, 34_567, 2, 1, 250, 3, None),
        ShardState("", 0, 0, 1, 12, 0, 89, 0, 0, 17, 0, None),
    ]
    text = show_state(shards)
    assert "symbol" in text
    assert "34,567" in text
    assert text.splitlines()[-1] == "2 shards, 34,656 bytes, format version 1"
