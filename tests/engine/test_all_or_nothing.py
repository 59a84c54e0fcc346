"""A call that raises has changed nothing; what is kept together began together."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from muntin import Engine
from muntin.errors import MuntinError, SchemaError, WindowTooLarge

SECOND = 1_000_000


def make_engine(*queries: str, backlog_bytes: int = 2**28) -> Engine:
    engine = Engine(backlog_bytes=backlog_bytes)
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
    for number, sql in enumerate(queries):
        engine.register(sql, f"q{number}")
    return engine


def push(engine: Engine, *seconds: float) -> None:
    at = [int(second * SECOND) for second in seconds]
    engine.push("s", {"ts": at, "k": ["a"] * len(at), "n": [7] * len(at), "x": [0.5] * len(at)})


def test_a_refused_hint_leaves_no_half_placed_query() -> None:
    """Also when only the count that decides about keys cannot be served."""
    engine = make_engine("SELECT COUNT(*) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]")
    push(engine, 0)
    bad = "SELECT /*+ SYNOPSIS(b_int) */ k, MEDIAN(x) AS v FROM s [RANGE 5 SECONDS] GROUP BY k"
    with pytest.raises(MuntinError, match="it has no keys"):
        engine.register(bad, "bad")
    with pytest.raises(MuntinError, match="it has no keys"):
        engine.register_many({"good": "SELECT SUM(n) AS v FROM s [ROWS 5]", "bad": bad})
    with pytest.raises(MuntinError, match="it has no keys"):
        engine.execute(
            f"REGISTER QUERY fine AS SELECT SUM(n) AS v FROM s [ROWS 5]; REGISTER QUERY bad AS {bad}"
        )
    assert list(engine.queries) == ["q0"]
    push(engine, 1, 2)
    engine.check()
    assert engine.value("q0") == 3 - 1  # the window stands at second 2


def test_components_of_a_late_query_begin_together() -> None:
    """A count that an older query has kept all along says nothing about values it did not keep."""
    window = "FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]"
    engine = make_engine(f"SELECT COUNT(n) AS c {window}", f"SELECT k, COUNT(k) AS c {window} GROUP BY k")
    push(engine, 0, 1)
    engine.register(f"SELECT MIN(n) AS low, MAX(x) AS high, FIRST(n) AS f, AVG(n) AS a {window}", "late")
    engine.register("SELECT k, MAX(k) AS last FROM s [RANGE 10 SECONDS] GROUP BY k", "text")
    (row,) = engine.lookup("late", at=2 * SECOND).to_pylist()
    assert [row[name] for name in ("low", "high", "f", "a", "complete")] == [None, None, None, None, False]
    push(engine, 2, 3)
    (row,) = engine.lookup("late", at=3 * SECOND).to_pylist()
    assert [row[name] for name in ("low", "high", "f", "a", "complete")] == [7, 0.5, 7, 7.0, False]
    engine.lookup("text")
    assert engine.advance()["late"].num_rows == 2
    engine.check()


def test_an_instant_in_the_wrong_unit_changes_nothing() -> None:
    """Nanoseconds taken for microseconds would end the stream in the year 55840."""
    engine = make_engine("SELECT k, SUM(n) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k")
    push(engine, 0, 1)
    before = engine.stats()
    for call in (engine.advance, lambda at: engine.lookup("q0", at=at)):
        with pytest.raises(MuntinError, match="outside the years 1 to 9999; integers are microseconds"):
            call(1_700_000_000_000_000_000)
    with pytest.raises(SchemaError, match="'ts' lies outside the years 1 to 9999 in row 1"):
        push(engine, 2, 1_700_000_000_000)
    assert engine.stats() == before


def test_checkpoint_keeps_what_was_forgotten(tmp_path: Path) -> None:
    """A restored engine refuses and owes what the original does."""
    engine = make_engine("SELECT SUM(n) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]", backlog_bytes=100_000)
    for second in range(100):
        push(engine, second)
    engine.checkpoint(tmp_path / "state")
    restored = Engine.restore(tmp_path / "state", backlog_bytes=100_000)
    for each in (engine, restored):
        each.register("SELECT MAX(n) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]", "more")
        push(each, 100, 101)
    assert engine.advance()["q0"].equals(restored.advance()["q0"])
    for each in (engine, restored):
        push(each, 400)
        each.advance()
        with pytest.raises(WindowTooLarge):
            each.lookup("q0", at=50 * SECOND)


def test_the_epoch_is_an_instant_like_any_other() -> None:
    """After a promise, the default look-up stands just after the last event, be it at 0."""
    engine = make_engine("SELECT COUNT(*) AS v FROM s [RANGE 5 SECONDS]")
    engine.push("s", {"ts": [-11, -1], "k": ["a", "a"], "n": [1, 1], "x": [1.0, 1.0]})
    engine.advance(until=100 * SECOND)
    assert engine.value("q0") == 2


def test_names_can_be_listed_while_queries_come_and_go() -> None:
    engine = make_engine()
    failures: list[BaseException] = []

    def list_names() -> None:
        try:
            for _ in range(2000):
                list(engine.queries), list(engine.streams)
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=list_names)
    reader.start()
    for turn in range(100):
        engine.register("SELECT COUNT(*) AS v FROM s [RANGE 5 SECONDS]", f"n{turn}")
        engine.drop(f"n{turn}")
    reader.join()
    assert not failures


def test_rows_windows_that_lost_events_are_not_made_up() -> None:
    """Beyond the backlog, windows by count are given up with a warning, not answered in part."""
    engine = make_engine("SELECT SUM(n) AS v, COUNT(*) AS c FROM s [ROWS 4 SLIDE 2]", backlog_bytes=0)
    for start in range(0, 4000, 100):
        push(engine, *np.arange(start, start + 100))
    with pytest.warns(RuntimeWarning, match="query 'q0' has lost windows that closed so long ago"):
        answers = engine.advance()["q0"]
    assert set(answers["c"].to_pylist()) == {4}
    assert engine.stats()["queries"]["q0"]["missed"] > 0


def test_explain_plans_without_touching_anything() -> None:
    """Not even the grid of slices that the query would share."""
    engine = make_engine("SELECT k, SUM(n) AS v FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY k")
    push(engine, *range(0, 600, 7))
    before = engine.explain()
    plan = engine.execute(
        "EXPLAIN SELECT k, SUM(n) AS v FROM s [RANGE 1 SECOND SLIDE 50 MILLISECONDS] GROUP BY k"
    )
    assert "slices by k" in plan
    assert engine.explain() == before
