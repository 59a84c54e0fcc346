"""Rows come in the order semantics.md gives, which the comparison with the reference leaves open."""

from __future__ import annotations

import random

import muntin
from casefile import seconds

STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts"


def make_engine(*queries: str) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    for number, sql in enumerate(queries):
        engine.register(sql, name=f"q{number}")
    return engine


def shuffled_keys(seed: int, many: int) -> list[str | None]:
    keys: list[str | None] = [f"key{number}" for number in range(many)] + [None]
    random.Random(seed).shuffle(keys)
    return keys


def events(keys: list[str | None], start: int = 0) -> dict[str, list[object]]:
    return {
        "ts": [(start + number) * 1_000_000 for number in range(len(keys))],
        "k": list(keys),
        "v": list(range(len(keys))),
    }


def test_lookup_in_order_of_first_appearance() -> None:
    """Not by key, not by latest event: as the keys first came, over several batches."""
    keys = shuffled_keys(1, 50)
    engine = make_engine(
        "SELECT k, COUNT(*) AS n FROM s [RANGE 10 MINUTES] GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM s [ROWS 2] GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM s [RANGE 10 MINUTES SLIDE 1 SECOND] GROUP BY k",
    )
    engine.push("s", events(keys[:20]))
    engine.push("s", events(keys[20:], 20))
    engine.push("s", events(keys[::-1], len(keys)))
    for name in ("q0", "q1", "q2"):
        assert engine.lookup(name, at=200_000_000)["k"].to_pylist() == keys


def test_having_keeps_the_order() -> None:
    """Rows that HAVING leaves out change nothing about the others."""
    keys = shuffled_keys(2, 40)
    engine = make_engine("SELECT k, SUM(v) AS v FROM s [RANGE 1 HOUR] GROUP BY k HAVING SUM(v) % 3 = 0")
    engine.push("s", events(keys))
    assert engine.lookup("q0")["k"].to_pylist() == keys[::3]


def test_advance_by_instant_then_key() -> None:
    """Windows in the order in which they closed; in each, keys by first appearance."""
    engine = make_engine("SELECT k, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k")
    engine.push("s", events(["c", "a", "b", "a", "c", "b"]))
    answer = engine.advance(until=8_000_000)["q0"]
    rows = [(seconds(int(end)), key) for end, key in zip(answer["window_end"].cast("int64").to_pylist(),
                                                         answer["k"].to_pylist(), strict=True)]  # fmt: skip
    assert rows == [
        ("2", "c"), ("2", "a"),
        ("4", "c"), ("4", "a"), ("4", "b"),
        ("6", "c"), ("6", "a"), ("6", "b"),
        ("8", "c"), ("8", "b"),
    ]  # fmt: skip


def test_counts_by_completing_event() -> None:
    """[ROWS … SLIDE]: by the time of the event that completed the count, ties by arrival."""
    engine = make_engine("SELECT k, LAST(v) AS v FROM s [ROWS 2 SLIDE 2] GROUP BY k")
    keys = ["a", "b", "c", "c", "b", "a"]
    engine.push("s", {"ts": [1, 1, 1, 2, 2, 2], "k": keys, "v": [0, 1, 2, 3, 4, 5]})
    answer = engine.advance(until=10)["q0"]
    assert answer["k"].to_pylist() == ["c", "b", "a"]
    assert answer["v"].to_pylist() == [3, 4, 5]
