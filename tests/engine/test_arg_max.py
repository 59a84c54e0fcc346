"""ARG_MAX and ARG_MIN where random cases do not go: DuckDB, texts that come and go, joins, threads, errors."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine
from muntin.errors import SqlError

SECOND = 1_000_000
STREAM = (
    "CREATE STREAM s (ts BIGINT, k VARCHAR, w VARCHAR, n BIGINT, x DOUBLE, u UBIGINT, b BOOLEAN, d DATE) "
    "TIMESTAMP BY ts"
)
ITEMS = (
    "ARG_MAX(w, x) AS a, ARG_MIN(w, x) AS b, ARG_MAX(x, n) AS c, ARG_MIN(d, u) AS d, ARG_MAX(b, d) AS e, "
    "ARG_MAX(n, b) AS f, ARG_MIN(n + 1, x * 2) FILTER (WHERE n > 0) AS g, ARG_MAX('one', n) AS h, ARG_MAX(u, ts) AS i"
)
ORDERED = ITEMS.replace(") AS", " ORDER BY ts, i) AS").replace(") FILTER", " ORDER BY ts, i) FILTER")
ORDERED = ORDERED.replace("0 ORDER BY ts, i)", "0)")


def events(count: int = 400) -> pa.Table:
    """With ties, NULL, NaN, 0.0 and -0.0, and integers that no float tells apart."""
    random = np.random.default_rng(5)

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(random.integers(0, len(values), count)))

    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(0, 60, count)) * SECOND),
            "k": some(["a", "b", None], pa.string()),
            "w": some(["one", "two", "three", None], pa.string()),
            "n": some([1, -5, 2**60, 2**60 + 1, None], pa.int64()),
            "x": some([0.0, -0.0, 1.5, float("nan"), float("-inf"), None], pa.float64()),
            "u": some([0, 7, 2**63 - 1, None], pa.uint64()),
            "b": some([True, False, None], pa.bool_()),
            "d": some([0, 18_000, -400, None], pa.int32()).cast(pa.date32()),
        }
    )


@pytest.mark.parametrize("window", ["[RANGE 20 SECONDS SLIDE 5 SECONDS]", "[RANGE 20 SECONDS]"])
@pytest.mark.parametrize("threads", [1, 2])
def test_second_opinion(window: str, threads: int) -> None:
    table = events()
    engine = Engine(threads=threads)
    engine.execute(STREAM)
    engine.register(f"SELECT k, {ITEMS} FROM s {window} GROUP BY k", "q")
    for batch in table.to_batches(max_chunksize=90):
        engine.push("s", batch)
    found = engine.lookup("q", at=60 * SECOND).sort_by("k")
    with duckdb.connect() as connection:
        connection.register("s", table.append_column("i", pa.array(np.arange(len(table)))))
        told = connection.execute(
            f"SELECT k, {ORDERED} FROM s WHERE ts >= {40 * SECOND} GROUP BY k ORDER BY k"
        )
        theirs = [
            dict(zip([each[0] for each in told.description], row, strict=True)) for row in told.fetchall()
        ]
    ours = [{name: row[name] for name in theirs[0]} for row in found.to_pylist()]
    assert list(map(repr, ours)) == list(map(repr, theirs))  # NaN is no value that equals another


def test_texts_come_and_go() -> None:
    """Those that no window has any more are forgotten, and the others numbered anew: in rings and in slices."""
    engine = Engine()
    engine.execute(STREAM)
    for name, window in {"ring": "[RANGE 2 SECONDS]", "slices": "[RANGE 2 SECONDS SLIDE 1 SECOND]"}.items():
        engine.register(f"SELECT k, ARG_MAX(w, n) AS w FROM s {window} GROUP BY k", name)
    nothing = {"x": [None], "u": [None], "b": [None], "d": [None]}
    for second in range(30):
        words = [f"{second} {number}" for number in range(400)]
        empty = {name: values * 400 for name, values in nothing.items()}
        engine.push(
            "s",
            {"ts": [second * SECOND] * 400, "k": ["a"] * 400, "w": words, "n": list(range(400)), **empty},
        )
        engine.advance()
        assert engine.value("ring", key="a") == f"{second - (second > 0)} 399"
        engine.check()
    assert all(len(texts) < 4000 for texts in engine._shards["s"].state.texts.values())


def test_joins_and_tables() -> None:
    engine = Engine()
    engine.execute(
        f"{STREAM}; CREATE TABLE t (k VARCHAR PRIMARY KEY, least BIGINT); INSERT INTO t VALUES ('a', 2), ('b', 50)"
    )
    engine.register_many(
        {
            "table": "SELECT t.k, ARG_MAX(s.w, s.n) AS v FROM s [ROWS 9] JOIN t ON s.k = t.k GROUP BY t.k "
            "HAVING ARG_MAX(s.n, s.n) >= t.least",
            "pairs": "SELECT ARG_MIN(a.w, b.n) AS v FROM s [RANGE 1 HOUR] AS a JOIN s [RANGE 1 HOUR] AS b ON a.k = b.k",
            "changes": "SELECT k, ARG_MAX(w, n) AS v FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k "
            "HAVING ARG_MAX(w, n) = 'two' EMIT CHANGES",
        }
    )
    rows: dict[str, list[Any]] = {
        "ts": [0, 1, 2],
        "k": ["a", "a", "b"],
        "w": ["one", "two", "three"],
        "n": [3, 9, 1],
    }
    engine.push("s", rows | dict.fromkeys("xubd", [None] * 3))
    assert engine.lookup("table").select(["k", "v"]).to_pylist() == [{"k": "a", "v": "two"}]
    assert engine.value("pairs") == "three"
    changes = engine.advance(until=5 * SECOND)["changes"]
    assert changes.select(["v", "change"]).to_pylist() == [
        {"v": "two", "change": "enter"},
        {"v": None, "change": "leave"},
    ]


@pytest.mark.parametrize(
    ("text", "said", "marked"),
    [
        ("ARG_MAX(n)", "ARG_MAX takes 2 arguments: write ARG_MAX(value, by)", "ARG_MAX(n)"),
        ("ARG_MIN(n, x, 3)", "ARG_MIN takes 2 arguments: write ARG_MIN(value, by)", "ARG_MIN(n, x, 3)"),
        ("ARG_MAX(n, k)", "ARG_MAX compares by a number or a time, and k is VARCHAR", "k"),
        ("ARG_MAX(*)", "ARG_MAX(*) is not supported", "ARG_MAX(*)"),
        ("ARG_MAX(1, 2)", "ARG_MAX of constants is the same for all events", "ARG_MAX(1, 2)"),
        ("ARG_MAX(n, SUM(x))", "an aggregate cannot stand in the argument of another", "SUM(x)"),
        ("ARG_MAX(n, y)", "no column 'y'", "y"),
        ("ARGMAX(n, x)", "use ARG_MAX(value, by)", "ARGMAX(n, x)"),
    ],
)
def test_refused(text: str, said: str, marked: str) -> None:
    engine = Engine()
    engine.execute(STREAM)
    with pytest.raises(SqlError) as caught:
        engine.register(f"SELECT {text} AS v FROM s [ROWS 9]", "q")
    assert said in str(caught.value)
    assert "^" * len(marked) in str(caught.value)
