"""Every type, function and statement that docs/reference/query-language.md names works as it says."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin import Engine
from muntin.sql import parse_expression
from muntin.sql.vocabulary import FUNCTIONS, aggregate_names
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs/reference/query-language.md").read_text()
_TYPES = re.search(r"Types are (.*?for UTC)", PAGE, re.DOTALL)
assert _TYPES
TYPES = sorted(set(re.findall(r"\b(?:[A-Z]{4,}(?:_\w+)?)\b", _TYPES[1])) - {"UTC"})
DAY = datetime(2024, 1, 1)
SIGNED, UNSIGNED = (
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
)
BITS = dict(zip((*SIGNED, *UNSIGNED), (8, 16, 32, 64) * 2, strict=True))
VALUES: dict[str, list[Any]] = {
    **{kind: [3, 2 ** (BITS[kind] - 1) - 1, None, 1, 3] for kind in SIGNED},
    **{kind: [3, 2 ** min(BITS[kind], 63) - 1, None, 1, 3] for kind in UNSIGNED},
    **{kind: [0.5, 2.25, None, -1.5, 0.5] for kind in ("REAL", "DOUBLE")},
    **{
        kind: [DAY, DAY + timedelta(days=1, hours=5), None, datetime(1969, 7, 20), DAY]
        for kind in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ")
    },
    **{
        kind: [Decimal("9.99"), Decimal("1234567890.12"), None, Decimal("-0.05"), Decimal("9.99")]
        for kind in ("DECIMAL", "NUMERIC")
    },
    "BOOLEAN": [True, False, None, False, True],
    "VARCHAR": ["b", "c", None, "a", "b"],
    "DATE": [date(2024, 1, 1), date(2024, 1, 2), None, date(1969, 7, 20), date(2024, 1, 1)],
}
WINDOWS = ("[RANGE 1 HOUR SLIDE 1 MINUTE]", "[RANGE 1 HOUR]", "[ROWS 10]")
AT = DAY + timedelta(minutes=1)


def test_every_type_is_walked() -> None:
    """The page and this test name the same types."""
    assert set(TYPES) == set(VALUES)


def plain(value: Any, kind: str) -> Any:
    """An answer as it was pushed."""
    if isinstance(value, datetime):
        return datetime(*value.timetuple()[:6], value.microsecond)
    return value


@pytest.mark.parametrize("kind", TYPES)
def test_type(kind: str, tmp_path: Path) -> None:
    """Pushed, aggregated, compared, a key, looked up after a restart: each window the same."""
    engine, values = Engine(), VALUES[kind]
    known = [value for value in values if value is not None]
    declared = f"{kind}(12, 2)" if kind in ("DECIMAL", "NUMERIC") else kind
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, v {declared}) TIMESTAMP BY ts")
    greatest = max(known)
    literal = {"VARCHAR": "'b'", "BOOLEAN": "TRUE", "DATE": "'2024-01-01'"}.get(
        kind, "'2024-01-01'" if kind.startswith("TIME") else "1"
    )
    bound = known[0] if kind in ("VARCHAR", "BOOLEAN", "DATE") or kind.startswith("TIME") else 1
    calls = {
        "COUNT(v)": 4, "COUNT(DISTINCT v)": len(set(known)), "MIN(v)": min(known), "MAX(v)": greatest,
        "FIRST(v)": known[0], "LAST(v)": known[-1], f"COUNT(*) FILTER (WHERE v >= {literal})": sum(
            value >= bound for value in known
        ), "COUNT(*) FILTER (WHERE v IS NULL)": 1, f"LAST(v = {literal})": known[-1] == bound,
        "LAST(COALESCE(v, v))": known[-1], "LAST(CASE WHEN v IS NULL THEN v ELSE v END)": known[-1],
    }  # fmt: skip
    if kind in BITS or kind in ("REAL", "DOUBLE"):
        calls |= {"LAST(v / 2)": known[-1] / 2, "LAST(-v)": -known[-1], "QUANTILE(v, 0.5)": sorted(known)[1]}
        if 2 ** BITS.get(kind, 8) < 2**63:
            calls |= {"SUM(v)": sum(known), "LAST(v + 1)": known[-1] + 1, "AVG(v)": sum(known) / 4}
    if kind.startswith("TIME"):
        calls |= {
            "LAST(v + INTERVAL '1 day')": known[-1] + timedelta(days=1), "LAST(v - v)": timedelta(0),
            "MIN(EXTRACT(year FROM v))": 1969, "MIN(DATE_TRUNC('year', v))": datetime(1969, 1, 1),
        }  # fmt: skip
    names = [f"a{number}" for number in range(len(calls))]
    items = ", ".join(f"{call} AS {name}" for call, name in zip(calls, names, strict=True))
    for number, window in enumerate(WINDOWS):
        engine.register(f"SELECT {items} FROM s {window}", f"q{number}")
        engine.register(f"SELECT v, COUNT(*) AS n FROM s {window} GROUP BY v", f"k{number}")
    engine.push("s", {"ts": [DAY + timedelta(seconds=each) for each in range(5)], "v": values})
    engine.check()
    for _ in range(2):
        for number in range(len(WINDOWS)):
            row = engine.lookup(f"q{number}", at=AT).to_pylist()[0]
            assert {call: plain(row[name], kind) for call, name in zip(calls, names, strict=True)} == calls
            for value in known:
                assert engine.value(f"k{number}", key=value, at=AT) == values.count(value)
        engine.checkpoint(tmp_path / "state")
        engine = Engine.restore(tmp_path / "state")


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.startswith("TIME")])
def test_time_column(kind: str) -> None:
    """Event time in any unit is the same instant."""
    engine = Engine()
    engine.execute(f"CREATE STREAM s (ts {kind}) TIMESTAMP BY ts DELAY 5 SECONDS")
    engine.register("SELECT COUNT(*) AS n, MAX(ts) AS latest FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]", "q")
    engine.push("s", {"ts": [DAY, DAY + timedelta(seconds=59), DAY + timedelta(seconds=61)]})
    row = engine.lookup("q").to_pylist()[0]
    assert (row["n"], plain(row["latest"], kind)) == (2, DAY + timedelta(seconds=59))
    assert row["window_end"] == DAY + timedelta(minutes=1)


def test_large_unsigned_integers() -> None:
    """A UBIGINT beyond 63 bits is a key; an aggregate refuses the batch."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v UBIGINT) TIMESTAMP BY ts")
    engine.register("SELECT v, COUNT(*) AS n FROM s [ROWS 5] GROUP BY v", "k")
    engine.push("s", {"ts": [DAY, DAY], "v": [2**64 - 1, 1]})
    assert engine.value("k", key=2**64 - 1) == 1
    assert engine.lookup("k")["v"].to_pylist() == [2**64 - 1, 1]
    engine.register("SELECT MAX(v) AS n FROM s [ROWS 5]", "max")
    with pytest.raises(Exception, match="aggregates compute in 64 bits with a sign"):
        engine.push("s", {"ts": [DAY], "v": [2**64 - 1]})


def test_streams_of_one_name_and_other_types() -> None:
    """What was compiled for one type is not used for another, in one process."""
    for kind, values in VALUES.items():
        engine = Engine()
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP, v {kind}) TIMESTAMP BY ts")
        engine.register(
            "SELECT LAST(v = v) AS a, LAST(v > v) AS b, MAX(CAST(v AS VARCHAR)) AS c FROM s [ROWS 5]", "q"
        )
        engine.push("s", {"ts": [DAY], "v": values[:1]})
        row = engine.lookup("q").to_pylist()[0]
        assert (row["a"], row["b"]) == (True, False)
        if kind in BITS:
            assert row["c"] == "3"
        if kind in ("VARCHAR", "DATE") or kind.startswith("TIME"):
            engine.register("SELECT LAST(v > '2023-06-01') AS a FROM s [ROWS 5]", "later")
            engine.push("s", {"ts": [DAY], "v": values[:1]})
            assert engine.value("later") is True


EXAMPLES = {
    "ABS": "ABS(x)", "CEIL": "CEIL(x)", "CEILING": "CEILING(x)", "EXP": "EXP(x)", "FLOOR": "FLOOR(x)", "LN": "LN(x)",
    "MOD": "MOD(n, 2)", "POW": "POW(x, 2)", "POWER": "POWER(x, 2)", "ROUND": "ROUND(x, 1)", "SIGN": "SIGN(x)",
    "SQRT": "SQRT(x)", "LEAST": "LEAST(x, n)", "GREATEST": "GREATEST(x, n)", "COALESCE": "COALESCE(x, n)",
    "IFNULL": "IFNULL(x, 1)", "NULLIF": "NULLIF(x, 1)", "CONCAT": "CONCAT(k, 'a')", "LENGTH": "LENGTH(k)",
    "LOWER": "LOWER(k)", "SUBSTR": "SUBSTR(k, 1, 1)", "SUBSTRING": "SUBSTRING(k, 1, 1)", "TRIM": "TRIM(k)",
    "UPPER": "UPPER(k)", "EXTRACT": "EXTRACT(hour FROM ts)", "DATE_TRUNC": "DATE_TRUNC('hour', ts)",
    "CAST": "CAST(x AS VARCHAR)", "TRY_CAST": "TRY_CAST(k AS BIGINT)", "LEFT": "LEFT(k, 2)", "RIGHT": "RIGHT(k, -2)",
    "LOG": "LOG(2, x)", "REGEXP_EXTRACT": "REGEXP_EXTRACT(k, '(a)', 1, 'i')", "REPLACE": "REPLACE(k, 'a', 'b')",
    "REGEXP_MATCHES": "REGEXP_MATCHES(k, 'a', 's')", "SPLIT_PART": "SPLIT_PART(k, ',', 1)", "XOR": "XOR(n, 1)",
    "STARTS_WITH": "STARTS_WITH(k, 'a')", "TIME_BUCKET": "TIME_BUCKET(INTERVAL '5 minutes', ts, INTERVAL '1 minute')",
}  # fmt: skip
COLUMNS = {"ts": pa.timestamp("us"), "k": pa.string(), "n": pa.int64(), "x": pa.float64()}


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, "CEILING"}))
def test_function(name: str) -> None:
    """Every function of one row is on the page, can be called, and means the same when written again."""
    assert re.search(rf"\b{name}\b", PAGE), f"{name} is not documented"
    expression = parse_expression(EXAMPLES[name], COLUMNS)
    columns = {column: pa.array([None], kind) for column, kind in COLUMNS.items()}
    assert len(expression.evaluate(columns)) == 1
    assert parse_expression(expression.sql, COLUMNS).sql == expression.sql


def test_every_documented_function_is_there() -> None:
    """What the tables of the page write like a function is one."""
    tables = re.findall(r"^\|.*\|$", PAGE, re.MULTILINE)
    written = {name for line in tables for name in re.findall(r"`[^`]*`", line)}
    called = {name for code in written for name in re.findall(r"\b([A-Z_]{2,})\(", code)}
    listed = {name for code in written for name in re.findall(r"\b[A-Z_]{2,}\b", code) if name in EXAMPLES}
    known = {*aggregate_names(), *EXAMPLES}
    assert called - known - {"IN"} == set()
    assert listed == EXAMPLES.keys()


def test_every_statement(tmp_path: Path) -> None:
    """Each form in the table of statements, one after the other."""
    table = PAGE.split("| statement | does |")[1].split("\n\n")[0]
    forms = re.findall(r"^\| `(.*?)` \| ", table, re.MULTILINE)
    forms = [form for line in forms for form in line.split("`, `")]
    (tmp_path / "history.csv").write_text("ts,k\n2024-01-01T00:00:00,a\n")
    engine, ran = Engine(), []
    for form in (*forms[:3], *forms[3:]):
        text = (
            form.replace("[DELAY duration]", "DELAY 5 SECONDS")
            .replace("[AHEAD duration]", "AHEAD 1 HOUR")
            .replace("'instant'", "'2024-01-01'")
            .replace("(column TYPE, …) TIMESTAMP BY column", "(ts TIMESTAMP, k VARCHAR) TIMESTAMP BY ts")
            .replace(
                "name AS SELECT … FROM stream [WHERE …]", "chosen AS SELECT ts, k FROM name WHERE k = 'a'"
            )
            .replace("name FROM QUERY query", "closed FROM QUERY minutes")
            .replace("SELECT …", "SELECT COUNT(*) FROM name [ROWS 5]")
            .replace("'path'", f"'{tmp_path / 'history.csv'}'")
        )
        if "TABLE" in text or text.startswith(("INSERT", "DELETE")):  # a table has a name of its own
            text = (
                text.replace("name", "rows_of_it")
                .replace(
                    "(column TYPE, …, PRIMARY KEY (column, …))", "(k BIGINT, n INTERVAL, PRIMARY KEY (k))"
                )
                .replace("(value, …), …", "(1, 5 MINUTES), (2, NULL)")
                .replace("WHERE condition", "WHERE k = 1")
            )
        if "BACKFILL" in text:
            engine.execute("DROP QUERY name")
        if text.startswith("EXPLAIN") and "name" not in engine.queries:
            engine.execute("CREATE STREAM name (ts TIMESTAMP, k VARCHAR) TIMESTAMP BY ts")
            engine.execute("REGISTER QUERY name AS SELECT COUNT(*) FROM name [ROWS 5]")
        if "FROM QUERY" in text:
            engine.execute(
                "REGISTER QUERY minutes AS SELECT COUNT(*) AS n FROM chosen [RANGE 1 HOUR SLIDE 1 MINUTE]"
            )
        if text == "DROP STREAM name":  # which others follow from
            engine.execute("DROP STREAM closed; DROP QUERY minutes; DROP STREAM chosen")
        if text.startswith("REWIND"):
            engine.push("name", {"ts": [datetime(2024, 1, 2)], "k": ["a"]})
        engine.execute(text)
        ran.append(text)
    assert len(ran) >= 8
