"""Parameters: a value is a constant, whatever is in it, and what is kept of a query has it written out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine
from muntin.errors import MuntinError, SqlError

STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
SUM = "SELECT SUM(n) AS v FROM s [RANGE $span SLIDE $step] WHERE k = $key AND n > $floor"


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.execute(STREAM)
    return made


def read_back(value: Any) -> Any:
    """A value through INSERT into a table, and the same through a query that is kept as a text."""
    engine = Engine()
    kind = {
        bool: "BOOLEAN",
        int: "BIGINT",
        float: "DOUBLE",
        str: "VARCHAR",
        date: "DATE",
        timedelta: "INTERVAL",
    }
    engine.execute(f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {kind.get(type(value), 'TIMESTAMP')})")
    engine.execute("INSERT INTO t VALUES (1, $v)", {"v": value})
    return engine.execute("SELECT v FROM t WHERE v = $v", {"v": value})["v"].to_pylist()


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"))
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))
    | st.dates(date(1700, 1, 1), date(2200, 1, 1))
    | st.timedeltas(timedelta(0), timedelta(days=9999))
    | st.sampled_from(["'; DROP TABLE t; --", "''", "\\'", "$v", "/*", "--", ";"])
)
def test_values_come_back_as_they_are(value: Any) -> None:
    assert read_back(value) == [value]


def test_other_values() -> None:
    assert read_back(datetime(2020, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))) == [datetime(2020, 1, 1)]
    assert read_back(datetime(2020, 1, 1, tzinfo=UTC)) == [datetime(2020, 1, 1)]
    assert read_back(np.int64(-5).item()) == [-5]
    engine = Engine()
    engine.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v DOUBLE)")
    engine.execute(
        "INSERT INTO t VALUES ($a, $b), ($c, -$d)", {"a": np.int32(1), "b": None, "c": 2, "d": -0.5}
    )
    assert engine.execute("SELECT v FROM t")["v"].to_pylist() == [None, 0.5]
    assert engine.execute("SELECT id FROM t ORDER BY id DESC LIMIT $n", {"n": 1})["id"].to_pylist() == [2]


def test_a_query_is_kept_with_its_constants(engine: Engine, tmp_path: Path) -> None:
    values = {"span": timedelta(minutes=1), "step": timedelta(seconds=1), "key": "it's $key", "floor": -3}
    engine.register(SUM, "q", parameters=values)
    engine.execute(f"REGISTER QUERY r AS {SUM}", values)
    engine.push(
        "s",
        {
            "ts": [datetime(2020, 1, 1)] * 3,
            "k": ["it's $key", "it's $key", "a"],
            "n": [-4, 5, 7],
            "x": [0.0] * 3,
        },
    )
    text = "SELECT SUM(n) AS v FROM s [RANGE INTERVAL '60000000 microseconds' SLIDE INTERVAL '1000000 microseconds'] "
    text += "WHERE k = 'it''s $key' AND n > ( - 3 )"
    assert [engine.query(name).text for name in "qr"] == [text, text]
    engine.checkpoint(tmp_path / "state")
    for each in (engine, Engine.restore(tmp_path / "state")):
        assert [each.value(name, at=datetime(2020, 1, 1, 0, 0, 2)) for name in "qr"] == [5, 5]


def test_rows_and_numbers_anywhere(engine: Engine) -> None:
    engine.register_many(
        {
            "a": "SELECT QUANTILE(n, $phi) AS v FROM s [ROWS $rows]",
            "b": "SELECT MAX(x) AS v FROM s [ROWS $rows]",
        },
        parameters={"phi": 0.5, "rows": 2},
    )
    engine.push("s", {"ts": [datetime(2020, 1, 1)] * 3, "k": ["a"] * 3, "n": [9, 1, 2], "x": [9.0, 1.0, 2.0]})
    assert (engine.value("a"), engine.value("b")) == (1, 2.0)


REFUSED = [
    (
        "SELECT SUM(n) AS v FROM s [ROWS 5] WHERE n > $lo",
        {"low": 1},
        "parameter 'lo' has no value; did you mean 'low'?",
    ),
    (
        "SELECT SUM(n) AS v FROM s [ROWS 5] WHERE n > $lo",
        {},
        "parameter 'lo' has no value; give it: {'lo': 5}",
    ),
    ("SELECT SUM(n) AS v FROM s [ROWS 5]", {"lo": 1}, "the text has no parameter '$lo'"),
    (
        "SELECT SUM(n) AS v FROM s [ROWS 5] WHERE n > $lo",
        {"lo": [1]},
        "parameter 'lo' is [1] (list); a value is",
    ),
    ("SELECT SUM(n) AS v FROM s [ROWS 5] WHERE n > $lo", {"lo": float("nan")}, "parameter 'lo' is nan"),
    ("SELECT SUM(n) AS v FROM s [ROWS 5] WHERE n > $lo", {"lo": 2**63}, "does not fit 64 bits"),
    ("SELECT SUM(n) AS v FROM s [ROWS 5] WHERE n > $lo", {"lo": "3 OR TRUE"}, "cannot be compared"),
    ("SELECT SUM(n) AS v FROM $s [ROWS 5]", {"s": "s"}, "expected a stream name"),
    ("SELECT SUM($c) AS v FROM s [ROWS 5]", {"c": "n"}, "SUM"),
    ("DROP QUERY $q", {"q": "q"}, "expected a query name"),
]


@pytest.mark.parametrize(("text", "values", "said"), REFUSED)
def test_refused(engine: Engine, text: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(MuntinError) as caught:
        engine.execute(text, values)
    assert said in str(caught.value)


def test_half_of_a_surrogate_pair(engine: Engine) -> None:
    with pytest.raises(MuntinError, match="UTF-8 cannot say parameter 'wanted'"):
        engine.execute(
            "REGISTER QUERY q AS SELECT $wanted AS w, COUNT(*) AS n FROM s [ROWS 3]", {"wanted": "\ud800"}
        )


def test_errors_point_at_the_parameter(engine: Engine) -> None:
    with pytest.raises(SqlError) as caught:
        engine.execute("SELECT SUM(n) AS v FROM s [ROWS $many]", {"many": -1})
    assert str(caught.value).splitlines()[-1].index("^") == 2 + len("SELECT SUM(n) AS v FROM s [ROWS ")
