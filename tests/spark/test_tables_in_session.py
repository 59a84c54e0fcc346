"""Tables in a real Spark: rows and changes in DataFrames, a restart with changes and with other rows, and what is
refused when `shared_windows` is called."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from flow import SCHEMA, assert_same, events, write_files
from pyspark.sql import SparkSession
from runs import assert_answers, run
from table_events import (
    LIMIT_ROWS,
    QUERIES,
    RULE_ROWS,
    Rows,
    W,
    change,
    engine_with,
    rules_frame,
    streamed,
    write_changes,
)

import muntin
import muntin.spark
from muntin.errors import MuntinError
from muntin.spark import TableFrame, shared_windows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = events(4_000)
    write_files(table, tmp_path, range(2), 2)
    limits = spark.createDataFrame(
        [tuple(row.values()) for row in LIMIT_ROWS], "k STRING, most BIGINT, since TIMESTAMP_NTZ"
    )
    answers = shared_windows(
        spark.read.schema(SCHEMA).parquet(str(tmp_path)), QUERIES, stream="t", time="ts", delay=timedelta(seconds=2),
        tables={"limits": limits, "rules": rules_frame(spark, RULE_ROWS)},
    ).cache()  # fmt: skip
    engine = engine_with(LIMIT_ROWS, RULE_ROWS)
    engine.push("t", table)
    wanted = engine.advance()
    assert wanted.keys() == QUERIES.keys()
    for name, each in wanted.items():
        assert_same(each, muntin.spark.answers_of(answers, name).toArrow())


def test_changes_and_other_rows_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """`limits` is a stream of changes, `rules` is given anew with each run."""
    table, engine = events(6_000), engine_with([], RULE_ROWS)
    wanted: dict[str, list[pa.Table]] = {}
    runs: list[tuple[Rows, Rows]] = [
        (LIMIT_ROWS, RULE_ROWS),
        ([{"k": "a", "most": 10**6}, {"k": "z", "gone": True}, {"k": None, "most": 1}], RULE_ROWS),
        ([{"k": "c", "most": 5}], [RULE_ROWS[1], {**RULE_ROWS[2], "k": "b", "span": timedelta(seconds=10)}]),
    ]
    for number, (limits, rules) in enumerate(runs):
        write_files(table, tmp_path / "in", [number], len(runs))
        write_changes(limits, tmp_path / "changes", number)
        run(streamed(spark, tmp_path, rules), tmp_path)
        change(engine, limits)
        engine.execute("DELETE FROM rules")
        engine.load("rules", pa.Table.from_pylist(rules, engine.tables["rules"].schema))
        engine.push("t", table.slice(number * 2_000, 2_000))
        for name, each in engine.advance().items():
            wanted.setdefault(name, []).append(each)
    assert wanted.keys() == QUERIES.keys()
    assert_answers(spark, tmp_path, {name: pa.concat_tables(some) for name, some in wanted.items()})
    told = spark.read.parquet(str(tmp_path / "answers")).where("query IS NULL").collect()
    assert len(told) == 1
    assert "1 changes of table 'limits' are left out, since k is NULL" in told[0]["rest"]


def test_what_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([], SCHEMA)
    rows = spark.createDataFrame([("a", 1), ("a", 2), (None, 3)], "k STRING, most BIGINT")
    query = f"SELECT t.k, SUM(v) AS s FROM t {W} AS t JOIN limits AS l ON t.k = l.k GROUP BY t.k HAVING SUM(v) > l.most"

    def refused(match: str, queries: dict[str, str] = {"q": query}, **tables: Any) -> None:  # noqa: B006
        with pytest.raises(MuntinError, match=match):
            shared_windows(df, queries, stream="t", time="ts", tables=tables)

    refused("unknown stream 'limits'")
    refused("column 'k' is NULL in row 2", limits=rows)
    refused("k = 'a' is in rows 0 and 1", limits=rows.where("k IS NOT NULL"))
    refused("table 'limits' has no column 'id'", limits=TableFrame(rows, key="id"))
    refused("DECIMAL\\(20,0\\), a type", limits=rows.selectExpr("k", "CAST(most AS DECIMAL(20)) AS most"))
    refused("'t' is both|both called 't'", t=rows, limits=rows)
    refused("No query joins it", limits=rows.where("most = 1"), others=rows)
    refused("no query joins table 'others'", limits=rows.where("most = 1"), others=TableFrame(rows, key="k"))
    refused("add it to GROUP BY", limits=TableFrame(rows.where("most = 1"), key=["k", "most"]))
    refused("is a DataFrame or a TableFrame", limits=[1, 2])
    refused("deleted is for tables that are streams", limits=TableFrame(rows, deleted="most"))
    refused("is a stream of changes", limits=spark.readStream.format("rate").load())
    other = {
        "q": query,
        "p": f"SELECT v, COUNT(*) AS n FROM t {W} AS t JOIN limits AS l ON t.v = l.most GROUP BY v",
    }
    refused("Queries join it by k and by most", other, limits=rows)
