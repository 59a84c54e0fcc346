"""Statements about tables: what they mean, and where faults point (» stands before the word)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.errors import SqlError
from muntin.sql import CreateTable, DeleteRows, InsertRows, parse_statements


def test_create_table() -> None:
    text = "CREATE TABLE t (a BIGINT, b VARCHAR, c INTERVAL, PRIMARY KEY (B, a)); CREATE TABLE u (x INT PRIMARY KEY)"
    first, second = parse_statements(text, {})
    assert isinstance(first, CreateTable)
    assert isinstance(second, CreateTable)
    assert first.table.schema == pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.duration("us"))])
    assert (first.table.key, second.table.key) == (("b", "a"), ("x",))


def test_later_statements_know_the_table() -> None:
    _, insert, delete = parse_statements(
        "CREATE TABLE t (a BIGINT, b DOUBLE, PRIMARY KEY (a)); INSERT INTO t VALUES (1, -2), (3, NULL); "
        "DELETE FROM t WHERE 1 = a AND b < 5",
        {},
    )
    assert isinstance(insert, InsertRows)
    assert insert.rows.to_pydict() == {"a": [1, 3], "b": [-2.0, None]}
    assert isinstance(delete, DeleteRows)
    assert delete.where.key == (1,)
    assert str(delete.where.condition) == "a = 1 AND b < 5"


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("a = 1 AND b = 'x'", (1, "x")),
        ("b = 'x' AND (a = 1 AND c > 3)", (1, "x")),
        ("a = 1", None),
        ("a = 1 OR b = 'x'", None),
        ("a = 1.5 AND b = 'x'", None),
        ("a > 1 AND b = 'x'", None),
    ],
)
def test_what_a_condition_says_of_the_key(where: str, key: tuple[object, ...] | None) -> None:
    created = "CREATE TABLE t (a BIGINT, b VARCHAR, c BIGINT, PRIMARY KEY (a, b))"
    _, delete = parse_statements(f"{created}; DELETE FROM t WHERE {where}", {})
    assert isinstance(delete, DeleteRows)
    assert delete.where.key == key


FAULTS = [
    ("CREATE TABLE t (x BIGINT»)", "a table needs a primary key, by which rows are replaced: add PRIMARY KEY"),
    ("CREATE TABLE t (x BIGINT, PRIMARY KEY (»y))", "the table has no column 'y'; there are: x"),
    ("CREATE TABLE t (x BIGINT, PRIMARY KEY (»x, x))", "a column stands twice in the primary key of table 't'"),
    ("CREATE TABLE t (x BIGINT PRIMARY KEY, »PRIMARY KEY (x))", "a table has one PRIMARY KEY"),
    ("CREATE TABLE t (x BIGINT, »X INT, PRIMARY KEY (x))", "two columns are called 'X'"),
    ("CREATE TABLE t (x »WIBBLE PRIMARY KEY)", "unknown type 'WIBBLE'"),
    ("CREATE TABLE t (x BIGINT »NOT NULL, PRIMARY KEY (x))", "expected ',' or ')' after a column's type"),
    ("CREATE TABLE t »x BIGINT", "expected '(' and the columns, found 'x'"),
    ("CREATE TABLE t (x BIGINT, PRIMARY KEY »x)", "expected '(' and the columns of the primary key, found 'x'"),
    ("CREATE TABLE »IF EXISTS t (x BIGINT PRIMARY KEY)", "IF EXISTS belongs to DROP"),
    ("CREATE STREAM s (ts TIMESTAMP, d »INTERVAL) TIMESTAMP BY ts", "INTERVAL is for columns of a table"),
    ("INSERT »t VALUES (1)", "expected INTO and a table after INSERT, found 't'"),
    ("CREATE TABLE t (x INT PRIMARY KEY); INSERT INTO t »SELECT 1", "expected VALUES and rows in parentheses"),
    ("CREATE TABLE t (x INT PRIMARY KEY); INSERT INTO t VALUES »1", "expected '(' and the values of a row, found '1'"),
    ("CREATE TABLE t (x INT PRIMARY KEY); INSERT INTO t VALUES (1), »(2, 3)", "a row has 2 values, and there are 1"),
    ("CREATE TABLE t (x INT PRIMARY KEY); INSERT INTO t VALUES (»3000000000)", "no value of column 'x'"),
    (
        "CREATE TABLE t (x INT PRIMARY KEY, y DECIMAL(6, 2)); INSERT INTO t VALUES (1, »10000)",
        "10000 has more digits than column 'y', a DECIMAL(6, 2)",
    ),
    (
        "CREATE TABLE t (x INT PRIMARY KEY, y DECIMAL(6, 2)); INSERT INTO t VALUES (1, 9.99), (2, »9.999)",
        "9.999 has more digits than column 'y', a DECIMAL(6, 2)",
    ),
    ("DELETE »t", "expected FROM and a table after DELETE, found 't'"),
    ("CREATE TABLE t (x INT PRIMARY KEY); DELETE FROM t »USING u", "unexpected 'USING' after the end"),
    ("CREATE TABLE t (x INT PRIMARY KEY); SELECT »y FROM t", "table 't' has no column 'y'; there are: x"),
    ("CREATE TABLE t (x INT PRIMARY KEY); SELECT x FROM »t [ROWS 5]", "'t' is a table, and has no window"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message"), FAULTS)
def test_fault(marked: str, message: str) -> None:
    at, text = marked.index("»"), marked.replace("»", "")
    with pytest.raises(SqlError) as caught:
        parse_statements(text, {})
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, at + 1)
