"""Runs of many events per key: pools that grow and shrink, trees of several levels, events out of order.

Random cases of the engine have a handful of events per key; here a key has hundreds, and answers are compared with
those of a plain list.
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from effort import some_of
from muntin import Engine, MuntinError
from muntin.expression import Expression
from muntin.query import Input
from muntin.store.batch import Batch, Column
from muntin.store.key_runs import KeyRuns
from muntin.store.needs import Need
from muntin.store.ring import EventRing, key_column
from muntin.structure import key_runs

SECOND = 1_000_000
CALLS = "COUNT(*) AS c, COUNT(x) AS cx, SUM(n) AS sn, SUM(x) AS sx, MIN(n) AS least, MAX(x) AS most, FIRST(n) AS f, "
CALLS += "LAST(n) AS l, VAR_POP(x) AS v, QUANTILE(n, 0.5) AS q, COUNT(DISTINCT n) AS d, MAX(w) AS w"
WINDOWS = {
    "minute": ("time", 60 * SECOND, 0), "past": ("time", 40 * SECOND, 25 * SECOND), "short": ("time", 2 * SECOND, 0),
    "rows": ("rows", 100, 0), "past rows": ("rows", 70, 33), "few rows": ("rows", 3, 0),
}  # fmt: skip
N, K = (Expression(name, pa.int64(), (name,), lambda columns: None, lambda: None) for name in ("n", "k"))
Event = tuple[int, int, int, "float | None", str]  # time, key, n, x, w


@pytest.fixture(autouse=True)
def _fed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_runs, "_FEED", 0)
    monkeypatch.setattr(key_runs, "_READ", 0)


def engine_of() -> Engine:
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE, w VARCHAR) TIMESTAMP BY ts DELAY 5 SECONDS"
    )
    for name, (unit, size, to) in WINDOWS.items():
        bounds = (
            f"RANGE {size} MICROSECONDS TO {to} MICROSECONDS" if unit == "time" else f"ROWS {size} TO {to}"
        )
        engine.register(f"SELECT k, {CALLS} FROM s [{bounds}] WHERE n <> 7 GROUP BY k", name)
    return engine


def batch_of(rng: np.random.Generator, since: int, keys: int) -> list[Event]:
    many = int(rng.choice([1, 5, 60, 400]))
    span = int(rng.choice([1, 3, 20]))
    at = since + rng.integers(0, span * SECOND, many) // 50_000 * 50_000 - int(rng.choice([0, 0, 2 * SECOND]))
    if rng.random() < 0.6:
        at.sort()
    skewed = (rng.random(many) ** 3 * keys).astype(int)
    return [
        (
            int(t), int(k), int(rng.integers(-9, 10)), None if rng.random() < 0.1 else float(rng.normal()),
            "abcde"[rng.integers(5)],
        )
        for t, k in zip(at, skewed, strict=True)
    ]  # fmt: skip


def push(engine: Engine, events: list[Event]) -> None:
    columns = zip(*events, strict=True)
    engine.push("s", dict(zip(["ts", "k", "n", "x", "w"], map(list, columns), strict=True)))


def expected(events: list[Event], window: tuple[str, int, int], instant: int) -> dict[int, dict[str, Any]]:
    unit, size, to = window
    answers = {}
    for key in dict.fromkeys(event[1] for event in events):
        mine = [event for event in events if event[1] == key and event[0] < instant and event[2] != 7]
        if unit == "time":
            mine = [event for event in mine if instant - size <= event[0] < instant - to]
        else:
            mine = mine[max(0, len(mine) - size) : max(0, len(mine) - to)]
        if mine:
            answers[key] = answer_of(mine)
    return answers


def answer_of(mine: list[Event]) -> dict[str, Any]:
    n = [event[2] for event in mine]
    x = [event[3] for event in mine if event[3] is not None]
    mean = fsum(x) / len(x) if x else None
    return {
        "c": len(mine), "cx": len(x), "sn": sum(n), "sx": fsum(x) if x else None, "least": min(n),
        "most": max(x, default=None), "f": n[0], "l": n[-1],
        "v": fsum((each - mean) ** 2 for each in x) / len(x) if x else None,
        "q": sorted(n)[(len(n) + 1) // 2 - 1], "d": len(set(n)), "w": max(event[4] for event in mine),
    }  # fmt: skip


def agrees(found: dict[str, Any], answer: dict[str, Any]) -> bool:
    return all(
        found[name] == (pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value)
        for name, value in answer.items()
    )


@pytest.mark.parametrize("seed", range(some_of(100, 3)))
def test_windows_are_those_of_a_plain_list(seed: int, tmp_path) -> None:
    rng = np.random.default_rng(seed)
    engine, events, latest = engine_of(), list[Event](), 0
    keys = int(rng.choice([1, 4, 50, 600]))
    for _ in range(30):
        batch, admitted = batch_of(rng, latest, keys), list[Event]()
        for event in batch:  # late ones are left out, event by event
            if event[0] >= latest - 5 * SECOND:
                admitted.append(event)
                latest = max(latest, event[0])
        push(engine, batch)
        events = sorted(events + admitted, key=lambda event: event[0])
        if rng.random() < 0.2:
            engine.checkpoint(tmp_path / "state")
            engine = Engine.restore(tmp_path / "state")
        if rng.random() < 0.3:
            engine.advance()  # what nobody is owed any more is forgotten
        if rng.random() < 0.6:
            name = str(rng.choice(list(WINDOWS)))
            instant = latest + 1 - int(rng.choice([0, 0, 1, 700_000, 30 * SECOND]))
            try:
                table = engine.lookup(name, at=instant).to_pylist()
            except MuntinError as error:
                assert "dropped" in str(error)
                assert instant < latest - 5 * SECOND
                with pytest.raises(MuntinError, match="dropped"):
                    engine.value(name, key=0, at=instant)
                continue
            answers = expected(events, WINDOWS[name], instant)
            assert {row["k"] for row in table} == answers.keys()
            for row in table:
                assert agrees(row, answers[row["k"]]), (name, instant, row, answers[row["k"]])
            for key in rng.choice(list(answers), 3).tolist() if answers else []:
                assert engine.lookup(name, key=key, at=instant).to_pylist() == [
                    r for r in table if r["k"] == key
                ]
                assert engine.value(name, key=key, at=instant) == answers[key]["c"]
        engine.check()


def batch(at: np.ndarray, key: np.ndarray, n: np.ndarray) -> Batch:
    return Batch(at, {(K,): key}, {N: Column(n, n % 5 != 0)}, {})


@pytest.mark.parametrize("seed", range(some_of(40, 13)))
def test_runs_of_a_ring(seed: int) -> None:
    """Many keys of all sizes, few events at a time: runs move within the pool, and are read in between."""
    rng = np.random.default_rng(seed)
    ring = EventRing()
    ring.keep([N], [], [(K,)], None)
    runs = KeyRuns(ring, None, (K,))
    runs.fit([Need(Input(N), "sum"), Need(Input(N), "max"), Need(Input(None), "count")])
    keys, now = int(rng.choice([3, 40])), 0
    for _ in range(150):
        many = int(rng.integers(1, 300))
        at = np.sort(now + rng.integers(-3, 12, many))
        now = max(now, int(at[-1]))
        ring.insert(batch(at, (rng.random(many) ** 2 * keys).astype(int), rng.integers(-50, 50, many)))
        runs.follow()
        if rng.random() < 0.5:
            ring.drop_first(max(0, ring.find(now - 200)))
            runs.shed()
        if rng.random() < 0.6:
            runs.catch_up(int(ring.at[0]))
            begin = int(ring.at[0]) + int(rng.integers(0, 60))
            end = now - int(rng.choice([-1, 0, 1, 30]))
            spans = runs.locate(np.arange(keys), np.array([begin]), np.array([end]))
            key, n = ring[key_column((K,))], ring[f"value {N.sql}"]
            inside = (ring.at >= begin) & (ring.at < end)
            for k in range(keys):
                mine = n[inside & (key == k)]
                valid = mine[mine % 5 != 0]
                assert runs.read(Need(Input(None), "count"), spans)[0][k] == len(mine)
                assert runs.read(Need(Input(N), "sum"), spans)[0][k] == valid.sum()
                if len(valid):
                    assert runs.read(Need(Input(N), "max"), spans)[0][k] == valid.max()
        if rng.random() < 0.1:
            new_id = rng.permutation(keys)
            ring.renumber_keys((K,), new_id)
            runs.renumber(new_id)
        runs.check()


def test_a_pool_follows_what_is_kept() -> None:
    """A burst makes the runs large; they are small again once it has left the windows."""
    engine = engine_of()
    for name in list(WINDOWS)[3:]:
        engine.drop(name)
    for turn in range(60):
        many = 20_000 if turn == 3 else 100
        at = turn * 10 * SECOND + np.sort(np.arange(many) * 10 * SECOND // many)
        rows = np.arange(many)
        engine.push("s", {"ts": at, "k": rows % 50, "n": rows, "x": rows / 7, "w": ["a"] * many})
        engine.lookup("minute")
        engine.advance()
        if turn == 3:
            large = engine.stats()["streams"]["s"]["bytes"]
    engine.check()
    assert engine.stats()["streams"]["s"]["bytes"] < large / 8


@pytest.mark.parametrize(
    "window", ["[RANGE 1 MINUTE]", "[RANGE 1 MINUTE TO 20 SECONDS]", "[ROWS 90]", "[ROWS 90 SLIDE 7]"]
)
def test_one_value_is_that_of_the_row(window: str) -> None:
    """`value` reads a run by itself; `lookup` reads those of all keys."""
    calls = [
        "COUNT(x)",
        "SUM(x)",
        "AVG(n)",
        "MIN(n)",
        "MAX(x)",
        "FIRST(n)",
        "LAST(x)",
        "VAR_POP(x)",
        "MAX(w)",
    ]
    engine, rng = engine_of(), np.random.default_rng(5)
    for call in calls:
        engine.register(f"SELECT k, {call} AS found FROM s {window} GROUP BY k HAVING COUNT(*) > 1", call)
        engine.register(f"SELECT k, {call} AS found FROM s {window} GROUP BY k", f"all {call}")
    for turn in range(12):
        push(engine, batch_of(rng, turn * 9 * SECOND, 6))
        for name in (*calls, *(f"all {call}" for call in calls)):
            found = {row["k"]: row["found"] for row in engine.lookup(name).to_pylist()}
            for key in range(7):
                value = found.get(key)
                assert engine.value(name, key=key) == (
                    pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
                )


@pytest.mark.filterwarnings("ignore:query .moves. has lost windows")
@pytest.mark.parametrize("often", [1, 4, 11])
def test_rows_are_counted_after_they_have_left(often: int) -> None:
    """`SLIDE 7` rounds the number of all events of a key, of which the last 37 are kept; look-ups come often or not."""
    rng, events = np.random.default_rng(3), list[Event]()
    engine = Engine(backlog_bytes=0)
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    queries = {"moves": "[ROWS 30 SLIDE 7]", "last": "[ROWS 30]"}
    for name, window in queries.items():
        engine.register(f"SELECT k, SUM(n) AS total FROM s {window} GROUP BY k", name)
    for turn in range(60):
        many = int(rng.integers(1, 400))
        at = turn * 100 + np.sort(rng.integers(0, 100, many))
        key, n = (rng.random(many) ** 2 * 9).astype(int), rng.integers(0, 100, many)
        events += zip(at.tolist(), key.tolist(), n.tolist(), [None] * many, [""] * many, strict=True)
        engine.push("s", {"ts": at, "k": key, "n": n})
        if turn % often == 0:
            engine.advance()
            for name, slide in (("moves", 7), ("last", 1)):
                found = engine.lookup(name)
                for k, total in zip(found["k"].to_pylist(), found["total"].to_pylist(), strict=True):
                    mine = [event[2] for event in events if event[1] == k]
                    rounded = len(mine) - len(mine) % slide
                    assert total == sum(mine[max(0, rounded - 30) : rounded]), (turn, name, k)
            engine.check()
