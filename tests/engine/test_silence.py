"""Silence costs nothing where it has nothing to say, and comes in portions where it has."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from effort import some_of
from muntin.shard.emit import silence
from muntin.shard.emit.portion import portions
from muntin.sketch.kinds import SKETCHES

YEAR = 365 * 86_400 * 10**6
SECOND = 10**6
CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
CREATE_OTHER = "CREATE STREAM r (ts TIMESTAMP, k VARCHAR, w BIGINT) TIMESTAMP BY ts"

KEYED = {
    "keyed": "SELECT k, SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "historical": "SELECT k, COUNT(*) AS n FROM s [RANGE 9 SECONDS TO 3 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "two": "SELECT k, MAX(v) OVER [RANGE 5 SECONDS SLIDE 1 SECOND] AS a, "
    "SUM(v) OVER [RANGE 20 SECONDS SLIDE 1 SECOND] AS b FROM s GROUP BY k",
    "distinct": "SELECT DISTINCT k FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]",
    "filtered": "SELECT k, SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE v > 2 GROUP BY k",
    "texts": "SELECT k, COUNT(DISTINCT v) AS n, MEDIAN(v) AS m FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "rows over": "SELECT k, SUM(v) OVER [ROWS 2] AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "approximate": "SELECT k, APPROX_COUNT(v = 3, 0.1) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "nested": "SELECT k, SUM(v) AS n, SUM(v) OVER [RANGE 1 MINUTE SLIDE 1 MINUTE] AS m "
    "FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "steps": "SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY k",
}
CHANGES = {
    "changes": "SELECT k, SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING SUM(v) > 2 EMIT CHANGES",
    "fewer": "SELECT k, COUNT(*) AS n FROM s [RANGE 9 SECONDS TO 3 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING COUNT(*) < 2 EMIT CHANGES",
    "all": "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] HAVING COUNT(*) = 0 EMIT CHANGES",
    "long": "SELECT SUM(v) AS n FROM s [RANGE 1 HOUR SLIDE 1 SECOND] HAVING SUM(v) > 3 EMIT CHANGES",
    "compared": "SELECT k, SUM(v) AS n FROM s [RANGE 30 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING SUM(v) > SUM(v) OVER [RANGE 20 SECONDS SLIDE 10 SECONDS] EMIT CHANGES",
    "last": "SELECT SUM(v) OVER [ROWS 2] AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] "
    "HAVING SUM(v) OVER [ROWS 2] > 5 EMIT CHANGES",
    "sketched": "SELECT k, APPROX_COUNT(v = 3, 0.1) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING APPROX_COUNT(v = 3, 0.1) > 0 EMIT CHANGES",
}  # fmt: skip
UNKEYED = {
    "silent": "SELECT SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "slow": "SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR SLIDE 10 SECONDS]",
    "when empty": "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] HAVING COUNT(*) = 0",
    "rough": "SELECT APPROX_COUNT(v = 3, 0.1) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "counted": "SELECT SUM(v) AS n FROM s [ROWS 2 SLIDE 2]",
}
JOINS = {
    "pairs": "SELECT s.k AS k, v, w FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN r [RANGE 9 SECONDS] ON s.k = r.k",
    "pair count": "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN r [RANGE 9 SECONDS] ON s.k = r.k",
    "by key": "SELECT s.k AS k, SUM(w) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN r [RANGE 9 SECONDS] "
    "ON s.k = r.k GROUP BY s.k",
    "pair changes": "SELECT s.k AS k, v, w FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN r [RANGE 9 SECONDS] "
    "ON s.k = r.k EMIT CHANGES",
}  # fmt: skip


def _engine(queries: dict[str, str], **options: Any) -> muntin.Engine:
    engine = muntin.Engine(**options)
    engine.execute(CREATE)
    engine.execute(CREATE_OTHER)
    engine.register_many(queries)
    return engine


def _bursts(seed: int, gap: int) -> list[tuple[str, dict[str, list[Any]]]]:
    """Some events at a time, and then a gap."""
    random_ = random.Random(seed)
    batches: list[tuple[str, dict[str, list[Any]]]] = []
    now = random_.randrange(10**9)
    for _ in range(4):
        times = sorted(now + random_.randrange(20 * SECOND) for _ in range(random_.randrange(1, 8)))
        keys, values = [random_.choice("abc") for _ in times], [random_.randrange(5) for _ in times]
        batches.append(("s", {"ts": times, "k": keys, "v": values}))
        batches.append(("r", {"ts": times, "k": keys[::-1], "w": values}))
        now = times[-1] + random_.randrange(gap)
    return batches


def _run(engine: muntin.Engine, batches: Any, until: int | None = None) -> dict[str, list[dict[str, Any]]]:
    """All that is emitted, push by push, portion by portion."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for stream, batch in batches:
        engine.push(stream, batch)
        for portion in portions(engine):
            for name, table in portion.items():
                rows.setdefault(name, []).extend(table.to_pylist())
    for portion in portions(engine, until) if until is not None else ():
        for name, table in portion.items():
            rows.setdefault(name, []).extend(table.to_pylist())
    return rows


@pytest.mark.parametrize("seed", range(some_of(4, 50)))
def test_instants_that_are_not_visited_had_nothing_to_say(seed: int, monkeypatch: Any) -> None:
    """Visiting every instant, and only those that what is stored points at, emits the same rows."""
    queries = KEYED | CHANGES | UNKEYED | JOINS
    batches = _bursts(seed, 200 * SECOND)
    monkeypatch.setattr(silence, "_FEW", 2**62)
    every = _run(_engine(queries), batches)
    assert len(every) > 20
    monkeypatch.setattr(silence, "_FEW", 0)
    assert _run(_engine(queries), batches) == every


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_portions_add_up_to_the_whole(rows: int) -> None:
    """However small portions are: the same rows in the same order."""
    queries = KEYED | CHANGES | UNKEYED | JOINS
    batches = _bursts(5, 60 * SECOND)
    whole = _run(_engine(queries), batches)
    assert _run(_engine(queries, portion_rows=rows), batches) == whole


def test_portions_go_on_after_restore(tmp_path: Any) -> None:
    """A checkpoint between two portions: the restored engine has the rest to give."""
    queries = UNKEYED | JOINS | CHANGES
    batches = _bursts(6, 15 * SECOND)
    end = batches[-1][1]["ts"][-1] + 40 * SECOND
    whole = _run(_engine(queries), batches, end)
    engine, rows = _engine(queries, portion_rows=10), {}
    for stream, batch in batches:
        engine.push(stream, batch)
    left, until = True, None
    while left or until is None:
        if not left:
            until = end
        answers = engine.advance(until)
        for name, table in answers.items():
            assert table.num_rows <= 120  # a pair has its rows of one instant at once
            rows.setdefault(name, []).extend(table.to_pylist())
        left = answers.more
        assert left == any(each["owed"] for name, each in engine.stats()["queries"].items())
        engine.checkpoint(tmp_path / "checkpoint")
        engine = muntin.Engine.restore(tmp_path / "checkpoint", portion_rows=10)
    assert {name: len(each) for name, each in rows.items()} == {
        name: len(each) for name, each in whole.items()
    }
    assert rows == whole


@pytest.mark.parametrize("seed", range(some_of(4, 50)))
def test_which_windows_are_said_to_hold_events(seed: int) -> None:
    """All that do; and of those that lie in silence from edge to edge none, unless a sketch is asked."""
    engine = _engine(KEYED | UNKEYED)
    times = []
    for stream, batch in _bursts(seed, 60 * SECOND):
        engine.push(stream, batch)
        times += batch["ts"] if stream == "s" else []
    state, at, silent = engine._shards["s"].state, np.array(times), 0
    for number, group in state.manager.groups.items():
        for window in (
            each for each in group.needs.windows if each.is_time and each.slide and not group.where
        ):
            last = window.settle(times[-1]) + window.size
            instants = np.arange(window.settle(times[0]), last + 90 * SECOND, window.slide)
            held = state.synopses[number].holds_events(window, instants)
            holds = np.array([((at >= t - window.size) & (at < t - window.to)).any() for t in instants])
            assert held[holds].all()
            if group.synopsis not in SKETCHES:
                assert not held[~holds].any(), group.synopsis
                silent += int((~holds).sum())
    assert silent > 100


@pytest.mark.parametrize("years", [1, 200])
def test_a_gap_of_years_stops_nobody(years: int) -> None:
    """Two events years apart, SLIDE 1 SECOND: keyed queries, changes and joins get all their rows at the first call,
    though un-keyed queries owe billions of silent windows."""
    engine = _engine(KEYED | CHANGES | UNKEYED | JOINS, portion_rows=20_000)
    gap = [0, years * YEAR, years * YEAR + 30 * SECOND]
    for stream, value in (("s", "v"), ("r", "w")):
        engine.push(stream, {"ts": gap, "k": ["a", "b", "a"], value: [3, 4, 5]})
    first = engine.advance()
    assert first.more
    assert sum(table.num_rows for table in first.values()) < 100_000
    owed = {name: each["owed"] for name, each in engine.stats()["queries"].items()}
    assert {name for name in owed if owed[name]} == {*UNKEYED, "pair count"} - {"counted"}
    assert owed["silent"] > years * 31_000_000
    ends = {name: table["window_end"][-1].value for name, table in first.items()}
    for name in {*KEYED, "pairs", "by key", "pair changes"} - {"steps"}:  # its next minute is not over
        assert ends[name] >= years * YEAR
    keyed = [(row["k"], row["n"]) for row in first["keyed"].to_pylist()]
    assert keyed == [("a", 3)] * 5 + [("b", 4)] * 5
    assert [row["change"] for row in first["changes"].to_pylist()] == ["enter", "leave"] * 2
    again = engine.advance()
    assert again.more
    # what follows goes on where the first portion ended
    one = first["silent"]["window_end"][-1].value, again["silent"]["window_end"][0].value
    assert one[1] - one[0] == SECOND


def test_a_promise_far_ahead_costs_nothing() -> None:
    """advance(until=…) 200 years ahead: events go on to be answered there."""
    engine = _engine(KEYED | CHANGES)
    engine.push("s", {"ts": [0], "k": ["a"], "v": [3]})
    until = 200 * YEAR
    assert not engine.advance(until).more
    engine.push("s", {"ts": [until + SECOND, until + 9 * SECOND], "k": ["b", "b"], "v": [4, 4]})
    answers = engine.advance()
    assert not answers.more
    assert answers["keyed"]["n"].to_pylist() == [4] * 5


def test_one_query_with_a_long_silence_leaves_the_others_their_turn() -> None:
    """However many queries owe a long silence: one that owes little has all of it at the first call."""
    engine = _engine(
        {f"silent {i}": UNKEYED["silent"] for i in range(50)} | {"slow": UNKEYED["slow"]}, portion_rows=9_000
    )
    engine.push("s", {"ts": [0, 86_400 * SECOND], "k": ["a", "b"], "v": [3, 4]})
    answers = engine.advance()
    assert answers.more
    assert sum(table.num_rows for table in answers.values()) <= 2 * 9_000
    assert all(table.num_rows > 100 for table in answers.values())
    assert isinstance(answers, dict)
    assert isinstance(answers["slow"], pa.Table)
    rows = answers["slow"].num_rows
    while answers.more:
        answers = engine.advance()
        rows += answers["slow"].num_rows if "slow" in answers else 0
    assert rows == 8_639


VIEWS = {
    "joined": "SELECT s.k AS k, v, w FROM s [RANGE 1 MINUTE] JOIN r [RANGE 1 MINUTE] ON s.k = r.k",
    "alone": "SELECT k, v FROM s [RANGE 1 MINUTE] EXCEPT SELECT k FROM r [RANGE 1 MINUTE]",
    "latest": "SELECT s.k AS k, v, w FROM s [ROWS 2] JOIN r [ROWS 2] ON s.k = r.k",
}


def test_views_jump_over_a_gap(tmp_path: Any) -> None:
    """A view is brought from one side of 200 years to the other in one update."""
    engine = _engine({}, archive=tmp_path)
    for name, text in VIEWS.items():
        engine.execute(f"CREATE MATERIALIZED VIEW {name} KEY (k) AS {text} EVERY 1 SECOND")
    for at, key in ((SECOND, "a"), (200 * YEAR, "b"), (200 * YEAR + 30 * SECOND, "c")):
        engine.push("s", {"ts": [at, at], "k": [key, "alone"], "v": [1, 2]})
        engine.push("r", {"ts": [at], "k": [key], "w": [3]})
        assert not engine.advance().more
    assert engine.lookup("joined")["k"].to_pylist() == ["b"]
    assert engine.lookup("alone")["k"].to_pylist() == ["alone"]
    assert engine.lookup("latest")["k"].to_pylist() == ["b"]
    engine.check()
    engine.close()
