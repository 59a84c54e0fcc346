"""Events far ahead: left out with AHEAD, warned of without, and a stream that they have spoilt can be rewound."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin
from answers import assert_same_answer
from effort import some_of
from muntin.errors import MuntinError
from muntin.shard.clock import Clock
from muntin.testing import WallClock
from reference import ReferenceEngine

SECOND = 10**6
CREATE = (
    "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 3 SECONDS AHEAD 20 SECONDS"
)
QUERIES = {
    "all": "SELECT SUM(v) AS n, COUNT(*) AS m FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "keyed": "SELECT k, SUM(v) AS n FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "free": "SELECT k, MAX(v) AS n FROM s [RANGE 7 SECONDS] GROUP BY k",
    "last": "SELECT SUM(v) AS n FROM s [ROWS 3]",
    "counted": "SELECT SUM(v) AS n FROM s [ROWS 3 SLIDE 2]",
    "passing": "SELECT k, COUNT(*) AS n FROM s [ROWS 3 SLIDE 2] WHERE v > 1 GROUP BY k",
}


@given(
    st.lists(st.lists(st.integers(-20, 60), max_size=12), max_size=4),
    st.integers(0, 15),
    st.integers(0, 15),
    st.integers(-30, 40),
    st.integers(-30, 40),
)
def test_each_event_is_judged_by_those_before_it(
    batches: list[list[int]], delay: int, ahead: int, wall: int, promised: int
) -> None:
    """Batches are judged as their events one by one: cutting one in two changes nothing."""
    whole, single = Clock(delay, ahead, lambda: wall), Clock(delay, ahead, lambda: wall)
    whole.promise(promised)
    single.promise(promised)
    for times in batches:
        at = np.array(times, np.int64)
        ascends, kept, late, beyond = whole.judge(at)
        expected = []
        for t in times:
            known = [wall, promised] + ([] if single.greatest is None else [single.greatest])
            is_ahead = t > max(known) + ahead
            is_late = not is_ahead and single.watermark is not None and t < single.watermark
            expected.append(not (is_ahead or is_late))
            single.observe(np.array([t] * expected[-1], np.int64), True, is_late, is_ahead)
        assert (kept is None) == all(expected)
        assert kept is None or kept.tolist() == expected
        chosen = at if kept is None else at[kept]
        whole.observe(chosen, ascends, late, beyond)
        assert whole.state() == single.state()


def _batch(dice: random.Random, now: int) -> dict[str, list[Any]]:
    """Around an instant, with some events late and some that are ahead, a little or by years."""
    size = dice.randrange(1, 8)
    times = []
    for _ in range(size):
        now += dice.randrange(2 * SECOND)
        jump = dice.choice([0] * 8 + [-6 * SECOND, 15 * SECOND, 40 * SECOND, 10**15])
        times.append(now + jump)
    return {"ts": times, "k": [dice.choice("abc") for _ in times], "v": [dice.randrange(4) for _ in times]}


@pytest.mark.parametrize("seed", range(some_of(30, 50)))
def test_answers_with_ahead_and_rewind_are_the_references(seed: int, tmp_path: Path) -> None:
    """Random batches, clocks, promises, rewinds and restarts: every answer and counter is what semantics.md says."""
    dice = random.Random(seed)
    clock = WallClock(0)
    engine, reference = muntin.Engine(clock=clock), ReferenceEngine(clock)
    for each in (engine, reference):
        each.execute(CREATE)
        for name, text in QUERIES.items():
            each.register(text, name=name)
    now, lost = 100 * SECOND, 0
    for _ in range(14):
        match dice.choice(["push"] * 5 + ["advance", "promise", "wall", "rewind", "restore"]):
            case "push":
                batch = _batch(dice, now)
                now += dice.randrange(10) * SECOND
                reference.push("s", batch)
                cut = dice.randrange(len(batch["ts"]))
                for part in (slice(0, cut), slice(cut, None)):
                    engine.push("s", {name: column[part] for name, column in batch.items()})
            case "advance":
                _compare(reference.advance(), engine.advance())
            case "promise":
                until = now + dice.randrange(-5, 40) * SECOND
                _compare(reference.advance(until), engine.advance(until))
            case "wall":
                now += dice.randrange(300) * SECOND
                clock.set(now)
            case "rewind":
                watermark = reference.logs["s"].watermark
                if watermark is not None:
                    now = watermark - dice.randrange(40) * SECOND
                    reference.rewind("s", now)
                    engine.rewind("s", now)
                    lost += 1
            case "restore":
                engine.checkpoint(tmp_path / "checkpoint")
                engine = muntin.Engine.restore(tmp_path / "checkpoint", clock=clock)
        for name in QUERIES:
            assert_same_answer(reference.lookup(name), engine.lookup(name), name)
        stats, log = engine.stats()["streams"]["s"], reference.logs["s"]
        assert (stats["late"], stats["ahead"]) == (log.late, log.ahead)
        engine.check()
    _compare(reference.advance(), engine.advance())


def _compare(expected: dict[str, Any], found: dict[str, Any]) -> None:
    for name, answer in expected.items():
        assert_same_answer(answer, found.get(name), name)
    for name in found.keys() - expected.keys():
        assert not found[name].num_rows, name


def test_complete_from_the_rewound_instant_on() -> None:
    """Windows that begin at the instant or after it are complete, others are not; all instants are owed again."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts")
    engine.register(QUERIES["all"], "all")
    seconds = {"ts": [i * SECOND for i in range(1, 31)], "k": ["a"] * 30, "v": [1] * 30}
    engine.push("s", seconds)
    emitted = engine.advance()["all"].num_rows
    engine.push("s", {"ts": [10**16], "k": ["a"], "v": [1]})  # the year 2286
    engine.execute("REWIND STREAM s TO TIMESTAMP '1970-01-01 00:00:10'")
    engine.push("s", seconds)
    rows = engine.advance()["all"].to_pylist()
    assert [row["window_end"].second for row in rows] == list(range(11, 31))
    assert [row["complete"] for row in rows] == [False] * 4 + [True] * 16
    assert all(row["n"] == 5 for row in rows if row["complete"])
    assert engine.stats()["streams"]["s"]["late"] == 9
    assert engine.stats()["queries"]["all"]["emitted"] == emitted + 20


def test_joins_start_again_and_views_that_are_too_far_refuse(tmp_path: Path) -> None:
    """A join pairs what comes after the rewind; a view beyond it keeps the stream as it is, and one before goes on."""
    engine = muntin.Engine(archive=tmp_path)
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts")
    pairs = "SELECT a.k AS k FROM a [RANGE 9 SECONDS SLIDE 1 SECOND] JOIN b [RANGE 9 SECONDS] ON a.k = b.k"
    engine.register(pairs + " EMIT CHANGES", "pairs")
    engine.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT k FROM a [RANGE 9 SECONDS] EXCEPT SELECT k FROM b [RANGE 9 SECONDS] "
        "EVERY 1 SECOND"
    )

    def push(at: int) -> None:
        for name in "ab":
            engine.push(name, {"ts": [at * SECOND] * 2, "k": [at, ord(name)]})

    push(1)
    push(5)
    emitted = engine.advance()["pairs"]
    assert emitted["k"].to_pylist() == [1]
    engine.push("a", {"ts": [10**16], "k": [1]})
    before = engine.stats()["streams"]["a"]
    with pytest.raises(MuntinError, match="view 'v' has been updated"):
        engine.rewind("a", 2 * SECOND)
    assert engine.stats()["streams"]["a"]["watermark"] == before["watermark"]
    engine.rewind("a", 5 * SECOND)
    push(7)
    push(12)
    rows = engine.advance()["pairs"].to_pylist()
    assert [(row["k"], row["change"], row["complete"]) for row in rows] == [(7, "enter", False)]
    assert engine.stats()["queries"]["pairs"]["emitted"] == 2
    left = engine.execute("SELECT k FROM v").to_pylist()
    assert [(row["k"], row["complete"]) for row in left] == [(97, False)]
    push(30)
    engine.advance()
    push(50)
    engine.advance()
    assert engine.execute("SELECT k FROM v")["complete"].to_pylist() in ([], [True])
    engine.check()
    engine.close()


@pytest.mark.parametrize(
    ("to", "message"),
    [(10 * SECOND, "to go forward"), ("yesterday", "not an instant")],
)
def test_what_is_no_way_back_is_refused(to: Any, message: str) -> None:
    """Nothing changes."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts")
    with pytest.raises(MuntinError, match="no watermark"):
        engine.rewind("s", 1)
    engine.push("s", {"ts": [5 * SECOND], "k": ["a"], "v": [1]})
    with pytest.raises(MuntinError, match=message):
        engine.rewind("s", to)
    with pytest.raises(MuntinError, match="no stream 't'"):
        engine.execute("REWIND STREAM t TO '1970-01-01'")
    assert engine.stats()["streams"]["s"]["events"] == 1


@pytest.mark.parametrize("size", [1, 7, 500])
def test_a_stream_whose_events_are_nearly_all_late_warns_once(size: int) -> None:
    """Whatever the size of batches; again only after it has recovered; and not for some late events among others."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts")

    def push(times: list[int]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for lo in range(0, len(times), size):
                part = times[lo : lo + size]
                engine.push("s", {"ts": part, "k": ["a"] * len(part), "v": [1] * len(part)})
        told = [str(each.message) for each in caught]
        return [
            each for each in told if "is read as microseconds" not in each
        ]  # which is told once a process

    assert not push([i * SECOND + (i % 3) * -5 * SECOND for i in range(2_000)])
    assert not push([10**16])
    (told,) = push([(3_000 + i) * SECOND for i in range(2_000)])
    assert "watermark stands at 2286-11-20" in told
    assert "rewind('s', to)" in told
    assert not push([9_000 * SECOND] * 1_000)
    engine.rewind("s", 3_000 * SECOND)
    assert not push([(3_000 + i) * SECOND for i in range(2_000)])
    engine.advance(until=10**15)
    (told,) = push([9_000 * SECOND] * 1_000)
    assert "advance(until=…)" in told


def test_events_that_are_all_ahead_are_told_of() -> None:
    """A column of another unit, or a wrong clock, leaves everything out: that must not pass in silence."""
    engine = muntin.Engine(clock=WallClock("2020-01-01"))
    engine.execute(CREATE)
    with pytest.warns(RuntimeWarning, match="were ahead"):
        engine.push("s", {"ts": [10**16 + i for i in range(200)], "k": ["a"] * 200, "v": [1] * 200})
    assert engine.stats()["streams"]["s"]["ahead"] == 200
