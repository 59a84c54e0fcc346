"""Aggregates that are written out in others: against exact arithmetic, and against DuckDB."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine
from muntin.errors import SqlError
from muntin.sql.composed import _MAKERS
from muntin.sql.vocabulary import COMPOSED

OF_TWO = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT")
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, y DOUBLE, x DOUBLE, n BIGINT) TIMESTAMP BY ts"
ITEMS = ", ".join(f"{name}(y, x) AS {name.lower()}" for name in OF_TWO)


def engine_with(text: str, rows: list[tuple[Any, ...]]) -> Engine:
    engine = Engine(adaptive=False)
    engine.execute(STREAM)
    engine.register(text, "q")
    columns = dict(zip("kyxn", (list(each) for each in zip(*rows, strict=True)), strict=True))
    engine.push("s", {"ts": list(range(len(rows))), **columns})
    return engine


def exactly(pairs: list[tuple[float, float]]) -> dict[str, Fraction | float | None]:
    """What the five are, in fractions; roots in floats."""
    n = len(pairs)
    if not n:
        return dict.fromkeys(map(str.lower, OF_TWO))
    ys, xs = ([Fraction(each) for each in side] for side in zip(*pairs, strict=True))
    y_mean, x_mean = sum(ys) / n, sum(xs) / n
    both = sum((y - y_mean) * (x - x_mean) for y, x in zip(ys, xs, strict=True))
    of_y, of_x = (sum((each - mean) ** 2 for each in side) for side, mean in ((ys, y_mean), (xs, x_mean)))
    slope = both / of_x if of_x else None
    return {
        "covar_pop": both / n,
        "covar_samp": both / (n - 1) if n > 1 else None,
        "corr": float(both) / math.sqrt(of_y) / math.sqrt(of_x) if of_y and of_x else None,
        "regr_slope": slope,
        "regr_intercept": None if slope is None else y_mean - slope * x_mean,
    }


numbers = st.integers(-1000, 1000).map(float) | st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers), min_size=0, max_size=12),
    st.sampled_from([0.0, 1e7, -1e9]),
    st.sampled_from([1.0, 2.0**-40, 2.0**40]),
)
def test_as_exact_as_var(pairs: list[tuple[float, float]], shift: float, scale: float) -> None:
    """Whatever the means and scales are, the covariance is known to the last digits."""
    moved = [(y + shift, (x + shift) * scale) for y, x in pairs]
    rows = [("a", y, x, 0) for y, x in moved]
    rows += [("a", None, 5.0, 0), ("a", 5.0, None, 0), ("a", None, None, 0)]  # count for nothing
    found = engine_with(f"SELECT {ITEMS} FROM s [ROWS 99]", rows).rows("q")[0]
    wanted = exactly(moved)
    for name in ("covar_pop", "covar_samp"):
        value = wanted[name]
        if value is None:
            assert found[name] is None
        else:
            slack = 1e-24 * max(abs(y * x) for y, x in moved)
            assert found[name] == pytest.approx(float(value), rel=1e-14, abs=slack)
    assert found["corr"] is None or -1 <= found["corr"] <= 1
    for name in ("corr", "regr_slope"):
        assert (found[name] is None) == (wanted[name] is None)
        if wanted[name] is not None:  # variances are as VAR_POP knows them
            exact, spread = float(wanted[name]), 1.0 if name == "corr" else _unit(moved)
            assert found[name] == pytest.approx(exact, rel=1e-5, abs=1e-5 * spread)


def test_correlation_is_no_more_than_1() -> None:
    """Whatever the roundings of its parts: of points on a line many would come out above."""
    for rows in (5, 12, 13, 24):
        line = [("a", 0.1 * number, 0.7 * number + 0.3, 0) for number in range(rows)]
        (row,) = engine_with("SELECT CORR(y, x) AS up, CORR(-y, x) AS down FROM s [ROWS 99]", line).rows("q")
        assert 1 - 1e-12 < row["up"] <= 1
        assert -1 <= row["down"] < 1e-12 - 1


def _unit(pairs: list[tuple[float, float]]) -> float:
    """The spread of y by that of x."""
    spreads = [max(side) - min(side) for side in zip(*pairs, strict=True)]
    return spreads[0] / spreads[1]


ROWS = [
    ("a", 1.0, 2.0, 3), ("a", 2.0, 2.5, None), ("b", None, 1.0, 5), ("a", 4.0, 9.0, -2), ("b", 3.0, None, 7),
    ("c", 1.0, 1.0, 0), ("b", -3.0, 0.25, 7), ("b", 0.5, 0.75, 1), ("d", None, None, None), ("a", 2.5, 4.0, 2),
]  # fmt: skip
TEXTS = [
    ITEMS,
    "COVAR_POP(n, x) AS a, CORR(n + 1, y * 2) AS b, REGR_SLOPE(y, x) FILTER (WHERE n > 0) AS c",
    "COUNT_IF(n > 1) AS a, BOOL_AND(n > 1) AS b, BOOL_OR(n > 1) AS c, BOOL_AND(n IS NULL) AS d",
    "BOOL_OR(y > x) FILTER (WHERE n > 2) AS a, COUNT_IF(y < x) FILTER (WHERE n > 0) AS b",
    "ROUND(CORR(y, x) * 100) AS a, COVAR_SAMP(y, x) / VAR_SAMP(x) FILTER (WHERE y IS NOT NULL) AS b",
]


@pytest.mark.parametrize("items", TEXTS, ids=lambda text: text[:20])
@pytest.mark.parametrize("window", ["[RANGE 1 HOUR SLIDE 1 HOUR]", "[ROWS 99]"])
def test_second_opinion(items: str, window: str) -> None:
    engine = engine_with(f"SELECT k, {items} FROM s {window} GROUP BY k", ROWS)
    engine.advance(3_600_000_000)
    found = (
        engine.lookup("q", at=3_600_000_000)
        .sort_by("k")
        .drop_columns(["window_start", "window_end", "complete"])
    )
    table = pa.table(dict(zip("kyxn", map(list, zip(*ROWS, strict=True)), strict=True)))
    with duckdb.connect() as connection:
        connection.register("s", table)
        told = connection.execute(f"SELECT k, {items} FROM s GROUP BY k ORDER BY k")
        names = [each[0] for each in told.description]
        theirs = [dict(zip(names, map(_as_here, row), strict=True)) for row in told.fetchall()]
    for ours, wanted in zip(found.to_pylist(), theirs, strict=True):
        for name, value in wanted.items():
            if value is None and re.search(rf"COUNT_IF\([^)]*\)( FILTER \([^)]*\))? AS {name}\b", items):
                value = 0  # of nothing, as any COUNT; DuckDB's is NULL
            assert ours[name] == (
                pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value
            )


def _as_here(value: Any) -> Any:
    """Without spread there is no value, where DuckDB has NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def test_not_finite() -> None:
    for odd in (math.inf, -math.inf, math.nan):
        row = engine_with(f"SELECT {ITEMS} FROM s [ROWS 9]", [("a", odd, -1.0, 0), ("a", 2.0, 3.0, 0)]).rows(
            "q"
        )[0]
        assert all(math.isnan(row[name.lower()]) for name in OF_TWO)


def test_they_share_their_sums() -> None:
    engine = engine_with(f"SELECT {ITEMS} FROM s [ROWS 9]", ROWS)
    query = engine.query("q")
    assert len(query.calls) == 1 + 8 + 2 + 2  # pairs; four sums in two parts; squares; means
    assert set(COMPOSED) == set(_MAKERS)


def test_over_windows_joins_and_having() -> None:
    engine = Engine()
    engine.execute(
        f"{STREAM}; CREATE TABLE t (k VARCHAR PRIMARY KEY, least BIGINT); INSERT INTO t VALUES ('a', 2)"
    )
    texts = {
        "own": "SELECT COUNT_IF(n > 0) OVER [ROWS 2] AS v FROM s [ROWS 9]",
        "table": "SELECT t.k, COUNT_IF(s.n > 0) AS v FROM s [ROWS 9] JOIN t ON s.k = t.k GROUP BY t.k "
        "HAVING COUNT_IF(s.n > 0) >= t.least",
        "pairs": "SELECT REGR_SLOPE(a.y, b.x) AS v FROM s [RANGE 1 HOUR] AS a JOIN s [RANGE 1 HOUR] AS b ON a.k = b.k",
        "having": "SELECT k, BOOL_OR(y > 3) AS v FROM s [ROWS 9] GROUP BY k HAVING v",
    }
    engine.register_many(texts)
    columns = dict(zip("kyxn", map(list, zip(*ROWS, strict=True)), strict=True))
    engine.push("s", {"ts": list(range(len(ROWS))), **columns})
    assert (engine.value("own"), engine.value("table", key="a"), engine.value("having", key="a")) == (
        1,
        2,
        True,
    )
    pairs = [(a[1], b[2]) for a in ROWS for b in ROWS if a[0] == b[0] and None not in (a[1], b[2])]
    assert engine.rows("pairs")[0]["v"] == pytest.approx(float(exactly(pairs)["regr_slope"]), rel=1e-9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("COUNT_IF(n)", "n is BIGINT"),
        ("BOOL_AND(n)", "n"),
        ("COUNT_IF(*)", "COUNT_IF takes 1 argument: write COUNT_IF(condition)"),
        ("CORR(y)", "CORR takes 2 arguments: write CORR(y, x)"),
        ("CORR(y, k)", "k is VARCHAR; a number is needed here"),
        ("COVAR_POP(DISTINCT y, x)", "COVAR_POP takes 2 arguments"),
        ("CORR(SUM(y), x)", "an aggregate cannot stand in the argument of another"),
        ("CORRR(y, x)", "did you mean 'CORR'?"),
    ],
)
def test_refused(text: str, said: str) -> None:
    engine = Engine()
    engine.execute(STREAM)
    with pytest.raises(SqlError) as caught:
        engine.register(f"SELECT {text} AS v FROM s [ROWS 9]", "q")
    assert said in str(caught.value)
    assert "^" in str(caught.value)
