"""Tables of an engine: what goes in and comes out, whole or not at all, and through a checkpoint."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from muntin import Engine, MuntinError, NameTaken, NotFound, NoValue, SchemaError, SqlError

LIMITS = "CREATE TABLE limits (account BIGINT, daily DOUBLE, tier VARCHAR, PRIMARY KEY (account))"
RULES = "CREATE TABLE rules (id BIGINT PRIMARY KEY, symbol VARCHAR, span INTERVAL, since TIMESTAMP)"
MINUTE = timedelta(minutes=1)


@pytest.fixture
def engine() -> Engine:
    engine = Engine()
    engine.execute(f"{LIMITS}; {RULES}")
    engine.execute("INSERT INTO limits VALUES (7, 100, 'gold'), (8, NULL, NULL)")
    return engine


def rows(engine: Engine, sql: str = "SELECT * FROM limits") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in engine.execute(sql).to_pylist()]


def test_rows_are_inserted_or_replaced_in_order(engine: Engine) -> None:
    engine.execute("INSERT INTO limits (tier, account) VALUES ('new', 1), ('now', 7)")
    assert rows(engine) == [(7, None, "now"), (8, None, None), (1, None, "new")]
    engine.execute("DELETE FROM limits WHERE account = 7")
    engine.execute("INSERT INTO limits VALUES (7, 0.5, 'again')")
    assert [row[0] for row in rows(engine)] == [8, 1, 7]
    engine.check()


FRAME = {"account": [9, 7], "daily": [1.0, None], "tier": ["a", None]}


@pytest.mark.parametrize(
    "form",
    [
        lambda table, path: FRAME,
        lambda table, path: table,
        lambda table, path: table.to_batches()[0],
        lambda table, path: table.to_pandas(),
        lambda table, path: polars.from_arrow(table),
        lambda table, path: table.to_reader(max_chunksize=1),
        lambda table, path: pyarrow.parquet.write_table(table, path / "a.parquet") or path / "a.parquet",
        lambda table, path: pyarrow.csv.write_csv(table, path / "a.csv") or str(path / "a.csv"),
        lambda table, path: pyarrow.feather.write_feather(table, path / "a.arrow") or path,
    ],
)
def test_load_takes_what_users_have(engine: Engine, tmp_path: Path, form: Any) -> None:
    engine.load("limits", form(pa.table(FRAME, engine.tables["limits"].schema), tmp_path))
    assert rows(engine) == [(7, None, None), (8, None, None), (9, 1.0, "a")]


def test_lengths_of_time(engine: Engine, tmp_path: Path) -> None:
    """As pandas, Arrow, text and SQL have them."""
    (tmp_path / "a.csv").write_text("id,symbol,span,since\n1,A,5 minutes,2024-01-01 00:00:00\n2,,,\n")
    (tmp_path / "b.jsonl").write_text('{"id": 3, "symbol": "B", "span": "90 seconds", "since": null}\n')
    engine.load("rules", tmp_path / "a.csv")
    engine.load("rules", tmp_path / "b.jsonl")
    none = {"symbol": [None], "since": [None]}
    engine.load("rules", pandas.DataFrame({"id": [4], "span": pandas.to_timedelta(["4min"]), **none}))
    engine.load("rules", {"id": [5], "span": pa.array([300], pa.duration("s")), **none})
    engine.load("rules", {"id": [6], "span": [timedelta(minutes=6)], **none})
    engine.execute(
        "INSERT INTO rules (id, span, since) VALUES (7, INTERVAL '7 minutes', '2024-01-01'), (8, 8 MINUTES, NULL), "
        "(9, '9 minutes', TIMESTAMP '2024-01-01 00:00:01')"
    )
    found = rows(engine, "SELECT id, span FROM rules ORDER BY id")
    wanted = [5, None, 1.5, 4, 5, 6, 7, 8, 9]
    assert found == [(id, span and span * MINUTE) for id, span in enumerate(wanted, 1)]
    assert rows(engine, "SELECT since FROM rules WHERE since > '2023-12-31' AND id > 6") == [
        (datetime(2024, 1, 1),), (datetime(2024, 1, 1, 0, 0, 1),)
    ]  # fmt: skip
    assert rows(engine, "SELECT id FROM rules WHERE span > INTERVAL '6 minutes'") == [(7,), (8,), (9,)]


def test_a_length_of_time_finer_than_microseconds_is_refused(engine: Engine) -> None:
    with pytest.raises(SchemaError, match="column 'span' of the batch does not fit table 'rules'"):
        engine.load(
            "rules", {"id": [1], "symbol": ["A"], "since": [None], "span": pa.array([1], pa.duration("ns"))}
        )


def test_delete(engine: Engine) -> None:
    """WHERE must be true: a condition that is NULL removes nothing."""
    engine.execute("DELETE FROM limits WHERE daily < 50 OR tier = 'silver'")
    assert len(rows(engine)) == 2
    engine.execute("DELETE FROM limits WHERE account = 8 AND daily > 0")
    engine.execute("DELETE FROM limits WHERE account = 5")
    assert len(rows(engine)) == 2
    engine.execute("DELETE FROM limits WHERE tier IS NULL")
    assert rows(engine) == [(7, 100.0, "gold")]
    engine.execute("INSERT INTO limits VALUES (1, 1, NULL); DELETE FROM limits")
    assert rows(engine) == []
    engine.check()


def test_select(engine: Engine) -> None:
    engine.execute("INSERT INTO limits VALUES (1, 5, 'gold'), (2, 7, NULL)")
    assert rows(engine, "SELECT account * 2 AS a, UPPER(l.tier) FROM limits AS l WHERE limits.daily > 4") == [
        (14, "GOLD"), (2, "GOLD"), (4, None)
    ]  # fmt: skip
    assert rows(engine, "SELECT account FROM limits ORDER BY account DESC LIMIT 2") == [(8,), (7,)]
    assert rows(engine, "SELECT 1 AS one FROM limits") == [(1,)] * 4
    assert rows(engine, "SELECT COUNT(*), SUM(daily) AS s FROM limits") == [(4, 112.0)]
    assert rows(engine, "SELECT COUNT(*) FROM limits WHERE account = 3") == [(0,)]
    tiers = "SELECT tier, COUNT(*) AS n FROM limits GROUP BY tier HAVING COUNT(*) > 1 ORDER BY n"
    assert rows(engine, tiers) == [("gold", 2), (None, 2)]
    assert engine.execute("SELECT * FROM limits WHERE 1 = 0").schema == engine.tables["limits"].schema


BAD: dict[str, tuple[type[MuntinError], str]] = {
    "INSERT INTO limits VALUES (1, 2)": (SqlError, "a row has 2 values, and there are 3 columns"),
    "INSERT INTO limits (account, nope) VALUES (1, 2)": (SqlError, "has no column 'nope'"),
    "INSERT INTO limits (account, account) VALUES (1, 2)": (SqlError, "column 'account' stands twice"),
    "INSERT INTO limits (account) VALUES (1.5)": (SqlError, "no value of column 'account'"),
    "INSERT INTO limits (account) VALUES ('x')": (SqlError, "VARCHAR where column 'account' is BIGINT"),
    "INSERT INTO limits (account) VALUES (COUNT(*))": (SqlError, "an aggregate cannot stand in VALUES"),
    "INSERT INTO limits (account) VALUES (daily)": (SqlError, "takes constants"),
    "INSERT INTO limits (daily) VALUES (1)": (SchemaError, "'account' is NULL in row 0"),
    "INSERT INTO limits (account) VALUES (1), (2), (1)": (SchemaError, "account = 1 is in rows 0 and 2"),
    "INSERT INTO limits VALUES (1, 1, 'a'); INSERT INTO limits (account) VALUES (NULL)": (SchemaError, "NULL"),
    "INSERT INTO limit VALUES (1)": (SqlError, "unknown table 'limit'; did you mean 'limits'?"),
    "INSERT INTO rules (id, span) VALUES (1, 'soon')": (SqlError, "'soon' is not a length of time"),
    "INSERT INTO rules (id, since) VALUES (1, 'soon')": (SqlError, "no value of column 'since'"),
    "DELETE FROM limits WHERE nope = 1": (SqlError, "table 'limits' has no column 'nope'"),
    "DELETE FROM limits WHERE account": (SqlError, "WHERE needs a condition"),
    "DELETE FROM limits WHERE SUM(daily) > 1": (SqlError, "an aggregate cannot stand in WHERE"),
    "DELETE FROM limits WHERE account * 9223372036854775807 > 1": (NoValue, "exceeds 64 bits"),
    "DROP TABLE limit": (NotFound, "there is no table 'limit'; did you mean 'limits'?"),
    "CREATE TABLE limits (x BIGINT PRIMARY KEY)": (NameTaken, "there is a table 'limits' already"),
    "CREATE STREAM limits (ts TIMESTAMP) TIMESTAMP BY ts": (NameTaken, "there is a table 'limits' already"),
    "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; CREATE TABLE s (x INT PRIMARY KEY)": (NameTaken, "stream 's'"),
    "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; REGISTER QUERY limits AS SELECT COUNT(*) FROM s [ROWS 5]": (
        NameTaken, "there is a table 'limits' already"),
    "SELECT account FROM limits [RANGE 5 MINUTES]": (SqlError, "is a table, and has no window"),
    "SELECT account FROM limits EMIT CHANGES": (SqlError, "a table is read as it is now"),
    "SELECT COUNT(*) OVER [ROWS 5] FROM limits": (SqlError, "OVER is not for tables"),
    "SELECT account FROM limits ORDER BY nope": (SqlError, "ORDER BY names columns of the answer"),
    "REGISTER QUERY q AS SELECT account FROM limits": (SqlError, "'limits' is a table; a query reads a stream"),
}  # fmt: skip


@pytest.mark.parametrize("sql", BAD)
def test_refused_and_nothing_changed(engine: Engine, sql: str) -> None:
    kind, words = BAD[sql]
    before = rows(engine), engine.stats()["tables"]
    with pytest.raises(kind) as caught:
        engine.execute(sql)
    assert words in str(caught.value).splitlines()[0]
    assert (rows(engine), engine.stats()["tables"]) == before
    engine.check()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"account": [1, 1], "daily": [1, 2], "tier": ["a", "b"]}, "account = 1 is in rows 0 and 1"),
        ({"account": [1, None], "daily": [1, 2], "tier": ["a", "b"]}, "'account' is NULL in row 1"),
        ({"account": [1], "daily": [1]}, "the batch has no column 'tier' of table 'limits'"),
        (
            {"account": ["x"], "daily": [1], "tier": ["a"]},
            "column 'account' of the batch does not fit table 'limits', where it is BIGINT: it has text",
        ),
        (
            {"account": [1], "daily": [1], "tier": [2.5]},
            "column 'tier' of the batch does not fit table 'limits', where it is VARCHAR: it has DOUBLE",
        ),
        (5, "a batch cannot be a int"),
        ("nowhere.csv", "there is no input file 'nowhere.csv'"),
    ],
)
def test_load_refuses_whole(engine: Engine, data: Any, words: str) -> None:
    before = rows(engine)
    with pytest.raises(MuntinError) as caught:
        engine.load("limits", data)
    assert words in str(caught.value)
    assert rows(engine) == before


def test_a_reader_that_fails_halfway_changes_nothing(engine: Engine) -> None:
    schema = engine.tables["limits"].schema

    def batches() -> Any:
        yield pa.RecordBatch.from_pydict({"account": [1], "daily": [1.0], "tier": ["a"]}, schema)
        raise OSError("the line is dead")

    with pytest.raises(Exception, match="the line is dead"):
        engine.load("limits", pa.RecordBatchReader.from_batches(schema, batches()))
    assert len(rows(engine)) == 2


def test_load_of_nothing_and_of_no_table(engine: Engine) -> None:
    engine.load("limits", {"account": [], "daily": [], "tier": []})
    assert len(rows(engine)) == 2
    with pytest.raises(NotFound, match="there is no table 'limit'; did you mean 'limits'"):
        engine.load("limit", FRAME)


def test_load_stays_in_the_folders(tmp_path: Path) -> None:
    engine = Engine(folders=[tmp_path / "data"])
    engine.execute(LIMITS)
    (tmp_path / "limits.csv").write_text("account,daily,tier\n1,1,a\n")
    with pytest.raises(MuntinError, match="is outside of the folders of this engine"):
        engine.load("limits", tmp_path / "limits.csv")


def test_a_table_that_is_dropped_while_its_rows_are_read(engine: Engine) -> None:
    schema = engine.tables["limits"].schema

    def batches() -> Any:
        dropping = threading.Thread(target=engine.execute, args=("DROP TABLE limits",))
        dropping.start()
        dropping.join()  # nobody holds the lock while rows are read
        yield pa.RecordBatch.from_pydict(FRAME, schema)

    with pytest.raises(NotFound, match="table 'limits' was dropped while its rows were read"):
        engine.load("limits", pa.RecordBatchReader.from_batches(schema, batches()))
    assert list(engine.tables) == ["rules"]


def test_checkpoint(engine: Engine, tmp_path: Path) -> None:
    """Rows, their order and the definition come back; and so does an engine without any table."""
    engine.execute("DELETE FROM limits WHERE account = 7; INSERT INTO limits VALUES (3, 3, 'c')")
    engine.checkpoint(tmp_path / "state")
    again = Engine.restore(tmp_path / "state")
    assert again.tables == engine.tables
    for table in engine.tables:
        assert again.execute(f"SELECT * FROM {table}").equals(engine.execute(f"SELECT * FROM {table}"))
    again.check()
    Engine().checkpoint(tmp_path / "none")
    assert Engine.restore(tmp_path / "none").tables == {}


def test_names_in_any_case(engine: Engine) -> None:
    engine.execute("INSERT INTO LIMITS (Account, DAILY) VALUES (1, 2); DELETE FROM Limits WHERE ACCOUNT = 8")
    assert rows(engine, "SELECT aCCount FROM LiMits") == [(7,), (1,)]
    with pytest.raises(SqlError, match="unknown table 'LIMITS'"):
        engine.execute('DELETE FROM "LIMITS"')
