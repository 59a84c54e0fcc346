"""What is there and what is not: IF [NOT] EXISTS, SHOW, DESCRIBE; GROUP BY positions and ALL; aliases again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import Engine
from muntin.errors import MuntinError, NotFound, SqlError
from muntin.stream import Stream
from muntin.table import Table

STREAM = "STREAM {} s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 5 SECONDS"
TABLE = "TABLE {} t (k VARCHAR, n DOUBLE, PRIMARY KEY (k))"
VIEW = """MATERIALIZED VIEW {} v KEY (k) AS SELECT a.k, b.n FROM s [RANGE 1 MINUTE] AS a
          JOIN s [RANGE 1 MINUTE] AS b ON a.k = b.k EVERY 1 MINUTE"""
SUM = "SELECT k, SUM(n) AS v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k"
HELD = "SELECT /* {} */ k, SUM(n) AS v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine(archive=tmp_path / "views")
    made.execute(";".join(f"CREATE {each.format('')}" for each in (STREAM, TABLE, VIEW)))
    made.register(SUM, "q")
    return made


def test_what_is_there_is_left_as_it_is(engine: Engine) -> None:
    engine.push("s", {"ts": [1], "k": ["a"], "n": [3]})
    before = engine.query("q")
    for text in (STREAM.replace("5 SECONDS", "1 DAY"), TABLE, VIEW):
        engine.execute(f"CREATE {text.format('IF NOT EXISTS')}")
    engine.execute("REGISTER QUERY IF NOT EXISTS q AS SELECT COUNT(w) FROM nothing [ROWS 5]")
    assert engine.query("q") is before
    assert engine.streams["s"].delay == 5_000_000
    assert engine.value("q", key="a", at=2_000_000) == 3


def test_what_is_not_there_is_made_once(tmp_path: Path) -> None:
    engine = Engine(archive=tmp_path)
    script = ";".join(f"CREATE {each.format('IF NOT EXISTS')}" for each in (STREAM, TABLE, VIEW))
    script += f"; REGISTER QUERY IF NOT EXISTS q AS {SUM}; REGISTER QUERY IF NOT EXISTS q AS SELECT 1 FROM s"
    engine.execute(script)
    engine.execute(script)
    assert (list(engine.streams), list(engine.tables), engine.query("q").text) == (["s"], ["t"], SUM)
    with pytest.raises(MuntinError, match="there is a table 't' already"):
        engine.execute("CREATE STREAM IF NOT EXISTS t (ts BIGINT) TIMESTAMP BY ts")
    engine.close()
    again = Engine(archive=tmp_path)  # a view on disk that nobody keeps is taken up, and declared the same
    again.execute(";".join(f"CREATE {each.replace('{} ', '')}" for each in (STREAM, VIEW)))
    assert "v" in again._views.at_work
    again.close()


def test_names_that_utf8_cannot_say(engine: Engine) -> None:
    """Half of a surrogate pair: neither a checkpoint nor an answer could have it."""
    engine.register("SELECT k, SUM(n) AS v FROM s [RANGE 1 HOUR] GROUP BY k", "plain")
    engine.push("s", {"ts": [1], "k": ["a"], "n": [3]})
    for name in ("\ud800", "a\udfff"):
        with pytest.raises(MuntinError, match="UTF-8 cannot say a query's name"):
            engine.register(SUM, name)
        with pytest.raises(MuntinError, match="UTF-8 cannot say name"):
            Stream(name, pa.schema([("ts", pa.int64())]), "ts")
        with pytest.raises(MuntinError, match="UTF-8 cannot say name"):
            Table(name, pa.schema([("k", pa.int64())]), ("k",))
        with pytest.raises(MuntinError, match="is not a value of key 'k'"):
            engine.value("plain", name)


def test_drop_if_exists(engine: Engine) -> None:
    script = "; ".join(
        f"DROP {each}" for each in ("QUERY IF EXISTS q", "MATERIALIZED VIEW IF EXISTS v", "TABLE IF EXISTS t",
                                    "STREAM IF EXISTS s")
    )  # fmt: skip
    engine.execute(script)
    assert (dict(engine.streams), dict(engine.tables), list(engine.queries)) == ({}, {}, [])
    engine.execute(script)
    for each in ("QUERY q", "MATERIALIZED VIEW v", "TABLE t", "STREAM s"):
        with pytest.raises(NotFound):
            engine.execute(f"DROP {each}")


def test_show(engine: Engine) -> None:
    assert engine.execute("SHOW STREAMS").to_pylist() == [
        {"name": "s", "time": "ts", "delay": timedelta(seconds=5), "ahead": None, "sql": None}
    ]
    engine.execute("INSERT INTO t VALUES ('a', 1)")
    assert engine.execute("SHOW TABLES").to_pylist() == [{"name": "t", "primary_key": "k", "rows": 1}]
    assert engine.execute("SHOW QUERIES").to_pylist() == [{"name": "q", "streams": "s", "sql": SUM}]
    assert engine.execute("SHOW VIEWS").select(["name", "key"]).to_pylist() == [{"name": "v", "key": "k"}]
    nothing = Engine()
    for kind in ("STREAMS", "TABLES", "QUERIES", "VIEWS"):
        assert nothing.execute(f"SHOW {kind}").num_rows == 0


def test_describe(engine: Engine) -> None:
    def told(name: str) -> list[tuple[str, ...]]:
        return [tuple(row.values()) for row in engine.execute(f"DESCRIBE {name}").to_pylist()]

    assert told("s") == [("ts", "BIGINT", "time"), ("k", "VARCHAR", None), ("n", "BIGINT", None)]
    assert told("t") == [("k", "VARCHAR", "key"), ("n", "DOUBLE", None)]
    assert told("q")[:3] == [
        ("k", "VARCHAR", "key"),
        ("v", "BIGINT", None),
        ("window_start", "TIMESTAMP", None),
    ]
    assert told("v") == [("k", "VARCHAR", "key"), ("n", "BIGINT", None)]
    with pytest.raises(NotFound, match="no stream, table, view or query 'w'"):
        engine.execute("DESCRIBE w")
    assert (
        engine.execute(
            "REGISTER QUERY later AS SELECT COUNT(*) AS n FROM s [ROWS 5]; DESCRIBE later"
        ).num_rows
        == 4
    )


def test_a_replacement_keeps_the_state_that_still_fits() -> None:
    """Also where nobody else holds it: the events of the last ten seconds are there, and the window is complete."""
    engine = Engine()
    engine.execute(f"CREATE {STREAM.format('')}")
    engine.execute(f"REGISTER QUERY q AS {HELD.format(0)}")
    engine.push("s", {"ts": [at * 1_000_000 for at in range(60)], "k": ["a"] * 60, "n": list(range(60))})
    for turn, text in enumerate(
        (HELD.format(1), f"{HELD.format(2)} HAVING SUM(n) > 9", HELD.format(3).replace("10 S", "5 S"))
    ):
        engine.execute(f"CREATE OR REPLACE QUERY q AS {text}")
        row = engine.lookup("q", key="a", at=50_000_000).to_pylist()[0]
        assert (row["v"], row["complete"]) == (sum(range(40, 50)) if turn < 2 else sum(range(45, 50)), True)
        assert list(engine.queries) == ["q"]
        engine.check()
    with pytest.raises(MuntinError):
        engine.execute("CREATE OR REPLACE QUERY q AS SELECT SUM(w) FROM s [ROWS 5]")
    assert engine.lookup("q", key="a", at=50_000_000).num_rows == 1


S, B = "FROM s [ROWS 9]", "FROM s [RANGE 9 SECONDS] AS a JOIN s [RANGE 9 SECONDS] AS b ON a.k = b.k"
T = "FROM s [ROWS 9] JOIN t ON s.k = t.k"
SAME = [
    (f"SELECT k, SUM(n) AS v {S} GROUP BY 1", f"SELECT k, SUM(n) AS v {S} GROUP BY k"),
    (f"SELECT SUM(n) AS v, n % 2 AS odd {S} GROUP BY 2", f"SELECT SUM(n) AS v, n % 2 AS odd {S} GROUP BY n % 2"),
    (f"SELECT n % 2, k, SUM(n) AS v {S} GROUP BY ALL", f"SELECT n % 2, k, SUM(n) AS v {S} GROUP BY n % 2, k"),
    (f"SELECT SUM(n) AS v {S} GROUP BY ALL", f"SELECT SUM(n) AS v {S}"),
    (f"SELECT 1 AS one, k, SUM(n) AS v {S} GROUP BY ALL", f"SELECT 1 AS one, k, SUM(n) AS v {S} GROUP BY k"),
    (f"SELECT k, SUM(n) AS v, v * 2 AS w, W + v AS z {S} GROUP BY ALL",
     f"SELECT k, SUM(n) AS v, SUM(n) * 2 AS w, SUM(n) * 2 + SUM(n) AS z {S} GROUP BY k"),
    (f"SELECT SUM(n) AS v, MAX(n) - v AS w {S} HAVING w < 0",
     f"SELECT SUM(n) AS v, MAX(n) - SUM(n) AS w {S} HAVING MAX(n) - SUM(n) < 0"),
    (f"SELECT t.k, SUM(s.n) AS v, v / t.n AS share {T} GROUP BY 1",
     f"SELECT t.k, SUM(s.n) AS v, SUM(s.n) / t.n AS share {T} GROUP BY t.k"),
    (f"SELECT SUM(n) OVER w AS v, MAX(n) OVER W AS w, MIN(n) OVER few AS z {S} WINDOW w AS [ROWS 2], few AS [ROWS 1]",
     f"SELECT SUM(n) OVER [ROWS 2] AS v, MAX(n) OVER [ROWS 2] AS w, MIN(n) OVER [ROWS 1] AS z {S}"),
    ("SELECT k, SUM(n) FILTER (WHERE n > 3) OVER w AS v FROM s GROUP BY k HAVING COUNT(*) OVER w > 0 "
     "WINDOW w AS [ROWS 2]",
     "SELECT k, SUM(n) FILTER (WHERE n > 3) OVER [ROWS 2] AS v FROM s GROUP BY k HAVING COUNT(*) OVER [ROWS 2] > 0"),
    ("SELECT k, SUM(n) AS v FROM s [ROWS 9] GROUP BY k WINDOW w AS [RANGE 2 SECONDS] "
     "ORDER BY SUM(n) OVER w DESC LIMIT 1",
     "SELECT k, SUM(n) AS v FROM s [ROWS 9] GROUP BY k ORDER BY SUM(n) OVER [RANGE 2 SECONDS] DESC LIMIT 1"),
    (f"SELECT a.k, COUNT(*) AS v, v * 2 AS w {B} GROUP BY ALL",
     f"SELECT a.k, COUNT(*) AS v, COUNT(*) * 2 AS w {B} GROUP BY a.k"),
]  # fmt: skip


@pytest.mark.parametrize(("short", "long"), SAME, ids=lambda text: text[7:40])
def test_short_for(engine: Engine, short: str, long: str) -> None:
    """The same answers; thrice, so that templates fill the last."""
    engine.execute("INSERT INTO t VALUES ('a', 2), ('b', 4)")
    for number in range(3):
        engine.register_many({f"short{number}": short, f"long{number}": long})
    engine.push("s", {"ts": [1, 2, 3], "k": ["a", "b", "a"], "n": [3, 4, 5]})
    for number in range(3):
        assert engine.lookup(f"short{number}").equals(engine.lookup(f"long{number}"))


def test_positions_are_no_constants(engine: Engine) -> None:
    """Texts that differ in a position alone are other queries."""
    texts = [
        f"SELECT k, n, COUNT(*) AS v FROM s [ROWS 9] GROUP BY {each}, {3 - each}"
        for each in (1, 2, 1, 2, 1, 2)
    ]
    engine.register_many({f"x{number}": text for number, text in enumerate(texts)})
    names = [tuple(key.name for key in engine.query(f"x{number}").keys) for number in range(6)]
    assert names == [("k", "n"), ("n", "k")] * 3


def test_a_column_comes_before_an_alias(engine: Engine) -> None:
    with pytest.raises(SqlError, match="'n' is neither a key nor inside an aggregate"):
        engine.register("SELECT SUM(n) AS n, n * 2 AS v FROM s [ROWS 9]", "x")
    with pytest.raises(SqlError, match="has no column 'later'"):
        engine.register("SELECT later + 1 AS v, SUM(n) AS later FROM s [ROWS 9]", "x")
