"""Windows since a landmark, and slides with an offset: what they share, when they are complete, and what is refused.

Their answers are compared with the reference wherever random windows are (`tests/queries.py`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import muntin
from muntin.errors import MuntinError, SqlError

HOUR = 3_600_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts"
TODAY = "SELECT k, SUM(v) AS v FROM s [SINCE DAY SLIDE 1 HOUR] GROUP BY k"


def engine_with(**queries: str) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    for name, sql in queries.items():
        engine.register(sql, name=name)
    return engine


def push_hours(engine: muntin.Engine, first: int, last: int) -> None:
    """An event of 1 at half past every hour from one to another, both included."""
    hours = np.arange(first, last + 1)
    engine.push(
        "s", {"ts": (hours * HOUR + HOUR // 2).tolist(), "k": ["a"] * len(hours), "v": [1] * len(hours)}
    )


def test_landmarks_share_slices() -> None:
    """A day so far, the last hours, and hours with an offset are look-ups into one store."""
    engine = engine_with(
        today=TODAY,
        hours="SELECT k, SUM(v) AS v FROM s [RANGE 5 HOURS SLIDE 1 HOUR] GROUP BY k",
        morning="SELECT k, SUM(v) AS v FROM s [RANGE 1 DAY SLIDE 1 DAY OFFSET 9 HOURS] GROUP BY k",
        week="SELECT k, SUM(v) AS v FROM s [SINCE WEEK SLIDE 1 DAY OFFSET 9 HOURS] GROUP BY k",
    )
    push_hours(engine, 0, 100)
    explained = str(engine.explain())
    assert "4 queries in 1 group" in explained
    assert "[SINCE WEEK SLIDE 1 DAY OFFSET 9 HOURS]" in explained
    assert [engine.value(name, key="a") for name in ("today", "hours", "morning", "week")] == [4, 5, 24, 81]
    engine.check()


def test_a_day_is_kept_and_no_more() -> None:
    engine = engine_with(today=TODAY)
    for day in range(20):
        push_hours(engine, 24 * day, 24 * day + 23)
        engine.advance()
    assert "26 slices of 1 HOUR" in str(
        engine.explain()
    )  # a day and a slide before the last instant, and since then


def test_complete_from_the_next_landmark_on() -> None:
    """A query that comes in the middle of a day has seen all of the next one."""
    engine = engine_with()
    push_hours(engine, 0, 5)
    engine.register(TODAY, name="today")
    push_hours(engine, 6, 50)
    rows = engine.advance()["today"].select(["window_end", "v", "complete"]).to_pylist()
    assert [row["complete"] for row in rows] == [False] * (24 - 6) + [True] * (50 - 24)
    assert [row["v"] for row in rows[-3:]] == [24, 1, 2]


def test_silence_after_a_landmark() -> None:
    """Of the instants of a long silence only those of the day of the last event have rows."""
    engine = engine_with(
        keys="SELECT k, COUNT(*) AS v FROM s [SINCE DAY SLIDE 1 SECOND] GROUP BY k",
        changes="SELECT k, COUNT(*) AS v FROM s [SINCE DAY SLIDE 1 SECOND OFFSET 500 MILLISECONDS] GROUP BY k "
        "EMIT CHANGES",
    )
    second, day = 1_000_000, 24 * HOUR
    engine.push("s", {"ts": [day - 10 * second, 9 * day], "k": ["a", "b"], "v": [1, 1]})
    emitted = engine.advance()
    ends = emitted["keys"].column("window_end").cast("int64").to_pylist()
    assert ends == list(range(day - 9 * second, day + 1, second))
    changes = emitted["changes"].select(["k", "window_end", "change"])
    assert [(row["k"], row["change"]) for row in changes.to_pylist()] == [("a", "enter"), ("a", "leave")]
    assert changes.column("window_end").cast("int64").to_pylist() == [
        day - 19 * second // 2,
        day + second // 2,
    ]


@pytest.mark.parametrize("window", ["[SINCE DAY SLIDE 1 HOUR]", "[SINCE DAY]"])
def test_what_does_not_merge(window: str) -> None:
    """Quantiles, distinct values and sketches of a day so far."""
    engine = engine_with(
        all=f"SELECT MEDIAN(v) AS m, COUNT(DISTINCT k) AS d, APPROX_QUANTILE(v, 0.5, 0.1) AS q FROM s {window}",
        keys=f"SELECT DISTINCT k FROM s {window}",
    )
    day = 24 * HOUR
    engine.push("s", {"ts": [0, day - 1], "k": ["a", "b"], "v": [1, 2]})
    (whole,) = engine.lookup("all", at=day).to_pylist()
    assert (whole["m"], whole["d"], whole["q"]) == (1, 2, pytest.approx(1.5, abs=0.5))
    assert engine.lookup("keys", at=day).column("k").to_pylist() == ["a", "b"]
    engine.push("s", {"ts": [day, day + HOUR], "k": ["c", "a"], "v": [3, 4]})
    (begun,) = engine.lookup("all", at=day + HOUR).to_pylist()
    assert (begun["m"], begun["d"], begun["q"]) == (3, 1, 3)
    assert engine.lookup("keys", at=day + HOUR).column("k").to_pylist() == ["c"]


def test_looked_up_together() -> None:
    engine = engine_with(
        day="SELECT SUM(v) AS v FROM s [SINCE DAY]", hour="SELECT SUM(v) AS v FROM s [SINCE HOUR SLIDE 30 MINUTES]",
        nine="SELECT SUM(v) AS v FROM s [RANGE 2 HOURS SLIDE 1 DAY OFFSET 9 HOURS]",
    )  # fmt: skip
    push_hours(engine, 0, 34)
    names = ["day", "hour", "nine"]
    together = engine.lookup_many(names).to_pylist()
    assert [row["value"] for row in together] == [11, None, 2]
    for name, row in zip(names, together, strict=True):
        (alone,) = engine.lookup(name).to_pylist()
        assert [alone[side] for side in ("v", "window_start", "window_end")] == [
            row[side] for side in ("value", "window_start", "window_end")
        ]


@pytest.mark.parametrize("hint", ["l_int", "materialize_all", "panes", "paired_windows"])
def test_structures_of_fixed_widths_are_refused(hint: str) -> None:
    with pytest.raises(MuntinError, match=r"fixed width|RANGE windows with SLIDE"):
        engine_with(q=f"SELECT /*+ SYNOPSIS({hint}) */ MAX(v) AS v FROM s [SINCE DAY SLIDE 1 HOUR]")


@pytest.mark.parametrize(
    "window", ["[SINCE DAY SLIDE 1 HOUR]", "[RANGE 1 DAY SLIDE 1 HOUR OFFSET 9 MINUTES]"]
)
@pytest.mark.parametrize(
    "statement",
    [
        "REGISTER QUERY q AS SELECT a.v FROM s {} AS a JOIN s [RANGE 1 HOUR] AS b ON a.k = b.k",
        "CREATE MATERIALIZED VIEW w AS SELECT v, k FROM s {} EXCEPT SELECT k FROM s [RANGE 1 HOUR] EVERY 1 HOUR",
        "CREATE MATERIALIZED VIEW w AS SELECT a.v FROM s {} AS a JOIN s [RANGE 1 HOUR] AS b ON a.k = b.k "
        "JOIN s [RANGE 1 HOUR] AS c ON b.k = c.k EVERY 1 HOUR",
    ],
)
def test_joins_and_views_refuse_both(window: str, statement: str, tmp_path: Path) -> None:
    engine = muntin.Engine(archive=tmp_path)
    engine.execute(STREAM)
    with pytest.raises(SqlError, match="joins of streams and views"):
        engine.execute(statement.format(window))
