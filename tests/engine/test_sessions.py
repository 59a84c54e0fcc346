"""Sessions: like the reference however events are cut into batches, from one store for all gaps, and forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import muntin
from casefile import Advance, Checkpoint, Push
from effort import some_of
from muntin.errors import MuntinError, WindowTooLarge
from queries import SECOND, session_question
from replay import assert_agreement
from scenario import SeededDice, from_the_start, random_case

STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts"
MANY = some_of(1600, 5)


@pytest.mark.parametrize("first", range(0, MANY, 40))
def test_like_the_reference(first: int) -> None:
    """Ties, silence, late events, any batching; look-ups at any instant; queries that come, go and are restored."""
    for seed in range(first, first + 40):
        assert_agreement(random_case(SeededDice(seed), f"sessions {seed}", 48, 4, session_question))


@pytest.mark.parametrize("first", range(0, MANY // 2, 40))
def test_changes_like_the_reference(first: int) -> None:
    """EMIT CHANGES beside sessions that are emitted whole."""
    for seed in range(first, first + 40):
        case = random_case(
            SeededDice(seed), f"changes of sessions {seed}", 40, 3, lambda dice: session_question(dice, True)
        )
        assert_agreement(from_the_start(case))


def test_cutting_batches_changes_nothing() -> None:
    """The same events one by one, with a checkpoint after each, as all at once."""
    for seed in range(some_of(40, 10)):
        case = from_the_start(random_case(SeededDice(seed), f"cut {seed}", 30, 3, session_question))
        steps: list[Any] = []
        for step in case.steps:
            if isinstance(step, Push):
                many = len(step.batch["ts"])
                for i in range(many):
                    steps += [Push("s", {name: [each[i]] for name, each in step.batch.items()}), Advance()]
                steps += [Checkpoint()] if many else []
            else:
                steps.append(step)
        assert_agreement(replace(case, steps=tuple(steps)))


# -- sharing -----------------------------------------------------------------------------------------


def engine_with(*queries: str, delay: str = "", **settings: Any) -> muntin.Engine:
    engine = muntin.Engine(**settings)
    engine.execute(STREAM + delay)
    for number, sql in enumerate(queries):
        engine.register(sql, name=f"q{number}")
    return engine


def events(*rows: tuple[float, str, int]) -> dict[str, list[Any]]:
    at, keys, values = zip(*rows, strict=True)
    return {"ts": [int(each * SECOND) for each in at], "k": list(keys), "v": list(values)}


def rows_of(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_all_gaps_share_one_store() -> None:
    """Gaps, aggregates, FILTER and HAVING may differ; keys and WHERE may not."""
    engine = engine_with(
        "SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k",
        "SELECT k, MAX(v) AS a FROM s [SESSION 1 HOUR] GROUP BY k HAVING COUNT(*) > 3",
        "SELECT k, AVG(v) FILTER (WHERE v > 2) AS a FROM s [SESSION 90 SECONDS] GROUP BY k",
    )
    assert len(engine.sharing().stores) == 1
    assert "3 queries in 1 group" in engine.explain()
    engine.register("SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] WHERE v > 1 GROUP BY k", name="other")
    assert len(engine.sharing().stores) == 2
    engine.drop("other")
    engine.push("s", events((1, "a", 1), (2, "b", 2)))
    engine.register("SELECT k, SUM(v) AS a FROM s [SESSION 10 SECONDS] GROUP BY k", name="between")
    assert len(engine.sharing().stores) == 1
    assert engine.lookup("between")["complete"].to_pylist() == [True, True]
    engine.check()


def test_what_is_over_takes_no_room() -> None:
    """Sessions that were given out go; so do the keys that only they had. A session that never ends by a long gap is
    few cells, however many sessions of a short gap it is made of."""
    engine = engine_with(
        "SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM s [SESSION 60 SECONDS] GROUP BY k",
    )
    most_bytes = most_keys = 0
    for minute in range(60):
        at = minute * 60 + np.arange(600) / 10
        rows = [(float(each), f"{minute}/{i % 300}", 1) for i, each in enumerate(at)]
        rows += [(minute * 60 + each, "always", 1) for each in range(0, 60, 10)]
        engine.push("s", events(*sorted(rows)))
        engine.advance()
        told = engine.stats()["streams"]["s"]
        most_keys = max(most_keys, told["keys"])
        if minute == 10:
            most_bytes = told["bytes"]
        engine.check()
    told = engine.stats()["streams"]["s"]
    assert told["bytes"] <= 3 * most_bytes
    assert most_keys < 6_000  # of 18,001
    assert rows_of(engine.lookup("q1", key="always"), "n", "complete") == [(360, True)]
    engine.drop("q1")
    engine.push("s", events((4000, "b", 1)))
    engine.advance()
    engine.push("s", events((5000, "b", 1)))
    engine.check()


def test_a_session_that_never_ends_is_few_cells() -> None:
    """Those of the short gap have been given out: nobody tells them apart any more."""
    engine = engine_with(
        "SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k",
        "SELECT k, SUM(v) AS a FROM s [SESSION 20 SECONDS] GROUP BY k",
        "SELECT k, SUM(v) AS a FROM s [SESSION 60 SECONDS] GROUP BY k",
    )
    for second in range(0, 10_000, 100):
        engine.push("s", events(*((second + each, "a", 1) for each in (0, 3, 10, 20, 55, 60, 90))))
        engine.advance()
    (store,) = engine._shards["s"].state.stores.values()
    assert len(store) < 20  # of 700 events
    assert rows_of(engine.lookup("q2"), "a", "complete") == [(700, True)]


def test_backlog_is_bounded() -> None:
    """Sessions that nobody asks for are lost once they take too much room, with a warning."""
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 1 SECOND] GROUP BY k", backlog_bytes=20_000)
    for second in range(0, 3000, 100):
        engine.push("s", events(*((second + i, f"{i % 3}", 1) for i in range(0, 100, 2))))
        engine.lookup("q0")
    with pytest.warns(RuntimeWarning, match="has lost windows that closed so long ago"):
        answers = engine.advance()
    assert answers["q0"].num_rows < 1500
    assert set(answers["q0"]["a"].to_pylist()) == {1}


# -- what is known -----------------------------------------------------------------------------------


def test_a_shorter_gap_while_the_stream_runs() -> None:
    """Cells that are too coarse for it are no part of its sessions; it is complete from a gap after it came on."""
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 10 SECONDS] GROUP BY k")
    engine.push("s", events((1, "a", 1), (5, "a", 2), (9, "a", 4), (10, "b", 8)))
    engine.advance()
    engine.push("s", events((10, "c", 16)))  # what a had before is put together now
    engine.register("SELECT k, SUM(v) AS a FROM s [SESSION 3 SECONDS] GROUP BY k", name="short")
    assert rows_of(engine.lookup("short"), "k", "a", "complete") == [("b", 8, True), ("c", 16, True)]
    engine.push("s", events((11, "a", 32)))
    assert rows_of(engine.lookup("short", key="a"), "a", "complete") == [(32, False)]
    engine.push("s", events((20, "a", 64)))
    assert rows_of(engine.lookup("short"), "k", "a", "complete") == [("a", 64, True)]
    answers = engine.advance(until=60 * SECOND)
    assert rows_of(answers["q0"], "k", "a") == [("b", 8), ("c", 16), ("a", 103)]
    assert rows_of(answers["short"], "k", "a", "complete") == [
        ("b", 8, True), ("c", 16, True), ("a", 32, False), ("a", 64, True)
    ]  # fmt: skip
    engine.check()


def test_a_longer_gap_while_the_stream_runs() -> None:
    """What was dropped may have been part of its sessions: those are not complete."""
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 2 SECONDS] GROUP BY k")
    for second in range(0, 40, 5):
        engine.push("s", events((second, "a", 1), (second + 1, "b", 1)))
        engine.advance()
    engine.register("SELECT k, SUM(v) AS a FROM s [SESSION 8 SECONDS] GROUP BY k", name="long")
    assert rows_of(engine.lookup("long"), "complete") == [(False,), (False,)]
    engine.push("s", events((60, "a", 5)))
    assert rows_of(engine.lookup("long"), "a", "complete") == [(5, True)]


def test_a_new_component_is_known_from_then_on() -> None:
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k")
    engine.push("s", events((1, "a", 1), (2, "a", 2)))
    engine.register(
        "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM s [SESSION 5 SECONDS] GROUP BY k", name="late"
    )
    engine.register(
        "SELECT k, AVG(v) AS mean, COUNT(v) AS n FROM s [SESSION 5 SECONDS] GROUP BY k", name="mean"
    )
    engine.push("s", events((3, "a", 3)))
    assert rows_of(engine.lookup("late"), "n", "most", "complete") == [(3, 3, False)]
    assert rows_of(engine.lookup("mean"), "mean", "n", "complete") == [(2.0, 3, True)]
    assert engine.coverage("late").complete is False
    engine.push("s", events((9, "a", 4)))
    assert rows_of(engine.lookup("late"), "n", "most", "complete") == [(1, 4, True)]


def test_a_session_ends_with_the_year_9999() -> None:
    """What is later no time stamp can say."""
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 30 MINUTES] GROUP BY k")
    engine.push("s", {"ts": [datetime(9999, 12, 31, 23, 50)], "k": ["a"], "v": [1]})
    (row,) = engine.lookup("q0").to_pylist()
    assert (row["a"], row["window_end"]) == (1, datetime.max)
    assert not engine.advance(datetime.max)


def test_the_past_is_refused() -> None:
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k")
    for second in range(0, 100, 2):
        engine.push("s", events((second, "a", 1)))
        engine.advance()
    with pytest.raises(
        WindowTooLarge, match=r"\[SESSION 5 SECONDS\] at 1970-01-01T00:00:10.000000 needs events one by"
    ):
        engine.lookup("q0", at=10 * SECOND)


def test_single_answers() -> None:
    """The shorter ways of look-ups lead to the same."""
    engine = engine_with(
        "SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k",
        "SELECT SUM(v) AS a FROM s [SESSION 5 SECONDS]",
        threads=2,
    )
    engine.push("s", events((1, "a", 1), (2, "b", 2), (3, "a", 4)))
    assert engine.value("q0", key="a") == 5
    assert engine.value("q1") == 7
    assert engine.value("q1", at=9 * SECOND) is None
    assert rows_of(engine.lookup("q0", key=["b", "nobody"]), "k", "a") == [("b", 2)]
    assert engine.advance(until=20 * SECOND, together=True)


def test_history() -> None:
    """A query that is filled from a history goes on with the session that was open at its end."""
    engine = engine_with("SELECT SUM(v) AS a FROM s [SESSION 5 SECONDS]")
    engine.push("s", events((100, "a", 1)))
    history = [(second, "a", 1) for second in range(0, 50, 10)] + [(97, "a", 10), (99, "b", 20)]
    engine.register(
        "SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k", name="filled",
        backfill=pa.table({"ts": pa.array([int(each[0] * SECOND) for each in history], pa.timestamp("us")),
                           "k": [each[1] for each in history], "v": [each[2] for each in history]}),
    )  # fmt: skip
    engine.push("s", events((101, "a", 2)))
    assert rows_of(engine.lookup("filled"), "k", "a", "complete") == [("a", 12, True), ("b", 20, True)]
    answers = engine.advance(until=200 * SECOND)
    assert rows_of(answers["filled"], "k", "a") == [("b", 20), ("a", 12)]
    engine.check()


# -- second opinion ----------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1, 3, 40])
def test_second_opinion(gap: int) -> None:
    """DuckDB finds sessions by LAG and a running sum."""
    random = np.random.default_rng(gap)
    many = 4000
    at = np.cumsum(random.choice([0, 10_000, 400_000, 2_000_000], many)) + 1_700_000_000 * SECOND
    table = pa.table({
        "ts": pa.array(at, pa.timestamp("us")), "k": random.choice(list("abcdef"), many),
        "v": random.integers(-9, 9, many),
    })  # fmt: skip
    engine = engine_with(
        f"SELECT k, COUNT(*) AS n, SUM(v) AS sum, MIN(v) AS least, STDDEV(v) AS spread FROM s [SESSION {gap} SECONDS] "
        "WHERE v <> 3 GROUP BY k HAVING COUNT(*) > 1",
        "SELECT k, SUM(v) AS sum FROM s [SESSION 7 SECONDS] WHERE v <> 3 GROUP BY k",
    )
    found = []
    for begin in range(0, many, 700):
        engine.push("s", table.slice(begin, 700))
        found += engine.advance().get("q0", pa.table({})).to_pylist()
    found += engine.advance(until=int(at[-1]) + 1000 * SECOND).get("q0", pa.table({})).to_pylist()
    wanted = duckdb.sql(f"""
        WITH gaps AS (SELECT *, ts - LAG(ts) OVER (PARTITION BY k ORDER BY ts) AS gap FROM "table" WHERE v <> 3),
        numbered AS (SELECT *, SUM(CASE WHEN gap IS NULL OR gap >= INTERVAL {gap} SECOND THEN 1 ELSE 0 END)
                               OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session FROM gaps)
        SELECT k, COUNT(*) AS n, SUM(v)::BIGINT AS sum, MIN(v) AS least, STDDEV(v) AS spread, MIN(ts) AS window_start,
               MAX(ts) + INTERVAL {gap} SECOND AS window_end
        FROM numbered GROUP BY k, session HAVING COUNT(*) > 1 ORDER BY window_end, k
    """).fetchall()
    names = ("k", "n", "sum", "least", "spread", "window_start", "window_end")
    got = sorted((tuple(row[name] for name in names) for row in found), key=lambda row: (row[6], row[0]))
    assert [row[:4] + row[5:] for row in got] == [row[:4] + row[5:] for row in wanted]
    assert [row[4] for row in got] == pytest.approx([row[4] for row in wanted])
    assert all(row["complete"] for row in found)


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "word", "told"),
    [
        ("SELECT MEDIAN(v) FROM s [SESSION 5 SECONDS]", "MEDIAN(v)", "needs single values"),
        ("SELECT COUNT(DISTINCT v) FROM s [SESSION 5 SECONDS]", "COUNT(DISTINCT v)", "needs single values"),
        ("SELECT APPROX_QUANTILE(v, 0.5, 0.01) FROM s [SESSION 5 SECONDS]", "APPROX_QUANTILE", "needs single values"),
        ("SELECT MAX(k) FROM s [SESSION 5 SECONDS]", "MAX(k)", "use FIRST(k) or LAST(k)"),
        ("SELECT SUM(v) OVER [ROWS 5] FROM s [SESSION 5 SECONDS]", "SUM(v) OVER", "leave out OVER"),
        ("SELECT SUM(v) OVER [SESSION 5 SECONDS] FROM s [ROWS 5]", "[", "a window of the whole query"),
        ("SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k ORDER BY a LIMIT 3", "ORDER BY", "by events"),
        ("SELECT DISTINCT k FROM s [SESSION 5 SECONDS]", "DISTINCT", "takes a time window"),
        ("SELECT SUM(v) FROM s [SESSION 5 SECONDS SLIDE 1 SECOND]", "SLIDE", "leave out SLIDE"),
        ("SELECT SUM(v) FROM s [SESSION 5 SECONDS TO 1 SECOND]", "TO", "leave out TO"),
        ("SELECT SUM(v) FROM s [SESSION 0 SECONDS]", "0", "a length of time above 0"),
        ("SELECT SUM(v) FROM s [SESSION 5]", "5", "needs a unit"),
        ("SELECT SUM(v) FROM s [SESION 5 SECONDS]", "SESION", "expected RANGE, ROWS, SINCE or SESSION"),
        ("SELECT SUM(v) FROM s [SESSION 5 SECONDS] EMIT CHANGES", "EMIT", "needs GROUP BY or HAVING"),
        ("SELECT a.v FROM s [SESSION 5 SECONDS] AS a JOIN s [RANGE 5 SECONDS] AS b ON a.k = b.k", "s [", "join takes"),
    ],
)  # fmt: skip
def test_refused_at_the_word(sql: str, word: str, told: str) -> None:
    engine = engine_with()
    with pytest.raises(MuntinError) as caught:
        engine.register(sql, name="q")
    message = str(caught.value)
    assert told in message
    column = message.splitlines()[-1].index("^")
    assert message.splitlines()[-2][column:].startswith(word)


def test_refused_calls() -> None:
    engine = engine_with("SELECT k, SUM(v) AS a FROM s [SESSION 5 SECONDS] GROUP BY k")
    with pytest.raises(MuntinError, match=r"is over .SESSION 5 SECONDS., of which the past is not kept"):
        engine.lookup_at("q0", pa.table({"k": ["a"], "at": pa.array([1], pa.timestamp("us"))}))
    with pytest.raises(MuntinError, match="closes its sessions one by one"):
        engine.execute("CREATE STREAM t FROM QUERY q0")
    with pytest.raises(MuntinError, match="sessions have a synopsis of their own"):
        engine.register("SELECT /*+ SYNOPSIS(b_int) */ SUM(v) FROM s [SESSION 5 SECONDS]", name="hinted")
    with pytest.raises(MuntinError, match="it is for sessions"):
        engine.register("SELECT /*+ SYNOPSIS(sessions) */ SUM(v) FROM s [RANGE 5 SECONDS]", name="hinted")
    engine.register("SELECT /*+ SYNOPSIS(sessions) */ SUM(v) FROM s [SESSION 5 SECONDS]", name="hinted")
