"""Keys that nobody needs any more are forgotten, memory follows, and those who return are as new."""

from __future__ import annotations

import numpy as np
import pytest

from casefile import Register
from effort import some_of
from muntin import Engine
from muntin.keys import sweeper
from replay import disagreement
from scenario import SeededDice, random_case

SECOND = 1_000_000


def engine_of(*queries: str) -> Engine:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, w VARCHAR, n BIGINT) TIMESTAMP BY ts")
    for number, sql in enumerate(queries):
        engine.register(sql, f"q{number}")
    return engine


def pass_by(engine: Engine, keys: int, per_second: int = 2_000) -> None:
    """Every key once, one after the other."""
    for first in range(0, keys, per_second):
        key = np.arange(first, min(first + per_second, keys))
        at = first // per_second * SECOND + np.arange(len(key)) * (SECOND // per_second)
        words = np.char.add("w", key.astype(str))
        engine.push("s", {"ts": at, "k": key, "w": words, "n": key % 7})
        engine.advance()  # what is still owed is still needed


GRID = "FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, SUM(n) {GRID}",
        "SELECT k, SUM(n) FROM s [RANGE 3 SECONDS] GROUP BY k",
        f"SELECT k, w, MAX(n) {GRID}, w",
        "SELECT COUNT(DISTINCT w), LAST(w) FROM s [RANGE 3 SECONDS]",
        f"SELECT k, FIRST(w) {GRID}",
        f"SELECT /*+ SYNOPSIS(collective_index) */ k, COUNT(*) {GRID} HAVING COUNT(*) > 0",
        f"SELECT /*+ SYNOPSIS(staircase_index) */ k, MAX(n) {GRID} HAVING MAX(n) > 5 EMIT CHANGES",
    ],
)
def test_state_follows_the_keys_that_are_live(sql: str) -> None:
    """A hundred thousand keys pass by, a few thousand at a time: dictionaries and state stay small."""
    engine = engine_of(sql)
    peak = 0
    for lap in range(4):
        shift = lap * 60 * SECOND
        for first in range(0, 25_000, 2_500):
            key = lap * 25_000 + np.arange(first, first + 2_500)
            at = shift + first // 2_500 * SECOND + np.arange(2_500) * 400
            engine.push("s", {"ts": at, "k": key, "w": np.char.add("w", key.astype(str)), "n": key % 7})
            engine.advance()
            engine.lookup("q0")
            shard = engine._shards["s"].state
            known = [len(each) for each in (*shard.keys.values(), *shard.texts.values())]
            peak = max(peak, *known)
        engine.check()
    assert peak <= 40_000  # some 12,500 are live, twice as many at the next sweep, and a batch


def test_answers_after_a_sweep_are_those_of_the_keys() -> None:
    """Keys keep their values when they are numbered anew, and one that returns starts from nothing."""
    engine = engine_of("SELECT k, SUM(n) AS v FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k")
    pass_by(engine, 60_000)
    assert len(next(iter(engine._shards["s"].state.keys.values()))) < 60_000
    now, last = 30 * SECOND, 59_999
    engine.push("s", {"ts": [now, now + 1], "k": [3, last], "w": ["a", "b"], "n": [5, 1]})
    engine.advance(until=now + SECOND)
    assert engine.value("q0", key=3, at=now + SECOND) == 5
    assert engine.value("q0", key=last, at=now + SECOND) == 1 + last % 7
    assert engine.value("q0", key=4, at=now + SECOND) is None
    answers = {row["k"]: row["v"] for row in engine.lookup("q0", at=now + SECOND).to_pylist()}
    assert len(answers) == 2_001
    assert all(answers[key] == (5 if key == 3 else key % 7 + (key == last)) for key in answers)


@pytest.mark.parametrize("start", range(0, some_of(300, 40), 60))
def test_random_cases_agree_when_every_batch_sweeps(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference, which forgets nothing, agrees with an engine that sweeps after every batch."""
    monkeypatch.setattr(sweeper, "_FEW", 0)
    monkeypatch.setattr(sweeper, "_GROWTH", 0)
    for seed in range(start, start + 60):
        case = random_case(SeededDice(seed), f"seed {seed}")
        if not any(isinstance(step, Register) and "GROUP BY" in step.sql for step in case.steps):
            continue  # no keys to sweep
        difference = disagreement(case)
        assert difference is None or "must divide" in str(difference), f"seed {seed}: {difference}"


@pytest.mark.parametrize("by", ["k", "w"])
def test_keys_of_a_long_window_go_with_it(by: str) -> None:
    """When the query with the longest window is dropped, keys that it alone had are forgotten, though no more come."""
    short = f"SELECT {by}, SUM(n) AS v FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY {by}"
    engine = engine_of(short, short.replace("3 SECONDS", "1 HOUR"))
    pass_by(engine, 60_000)
    assert engine.stats()["streams"]["s"]["keys"] == 60_000
    engine.drop("q1")
    now = 40 * SECOND
    engine.push("s", {"ts": [now, now + 1], "k": [3, 7], "w": ["a", "b"], "n": [5, 1]})
    assert engine.stats()["streams"]["s"]["keys"] < 20_000
    engine.check()
    assert engine.lookup("q0", at=now + SECOND).column("v").to_pylist() == [5, 1]
