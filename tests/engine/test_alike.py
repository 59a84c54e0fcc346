"""Queries that differ in threshold, or in threshold and window, are answered together, each as if it were alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine
from muntin.shard.emit import emission
from muntin.shard.read import alike, answers

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT) TIMESTAMP BY ts"
SECOND = 1_000_000
QUERIES = {
    f"{shape} {limit}": text.format(limit)
    for shape, text in {
        "total": "SELECT k, SUM(v) AS total FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING SUM(v) > {}",
        "half": "SELECT k, SUM(v) / 2 AS half, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k "
        "HAVING SUM(v) > {}",
        "few": "SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS SLIDE 3 SECONDS] GROUP BY k HAVING COUNT(*) < {}",
    }.items()
    for limit in range(-5, 60, 3)
}


def engine_of(queries: dict[str, str]) -> Engine:
    engine = Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def batches(seed: int) -> list[pa.Table]:
    """Events of a few keys, NULL among keys and values, with a silence in the middle."""
    random = np.random.default_rng(seed)
    found = []
    for begin in (0, 5, 20):
        at = np.sort(random.integers(begin * SECOND, (begin + 5) * SECOND, 60))
        keys = [None if i == 3 else "abc"[i] for i in random.integers(0, 4, 60)]
        values = [None if i == 0 else int(i) for i in random.integers(0, 9, 60)]
        found.append(
            pa.table({"ts": at, "k": pa.array(keys, pa.string()), "v": pa.array(values, pa.int64())})
        )
    return found


def count_calls(monkeypatch: pytest.MonkeyPatch, function: str) -> list[int]:
    """How many queries each call of a function answers."""
    sizes: list[int] = []
    answer = getattr(alike, function)

    def counted(shard, some, *rest):  # type: ignore[no-untyped-def]
        sizes.append(len(some))
        return answer(shard, some, *rest)

    monkeypatch.setattr(alike, function, counted)
    return sizes


def check_as_alone(queries: dict[str, str], some: list[pa.Table]) -> None:
    """Answers of queries together are those of engines that have one each."""
    together = engine_of(queries)
    alone = {name: engine_of({name: text}) for name, text in queries.items()}
    for batch in some:
        together.push("s", batch)
        emitted = together.advance()
        for name, engine in alone.items():
            engine.push("s", batch)
            assert emitted.get(name, None) == engine.advance().get(name), name


@pytest.mark.parametrize("seed", range(3))
def test_together_as_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = count_calls(monkeypatch, "_of_one_window")
    check_as_alone(QUERIES, batches(seed))
    assert set(sizes) == {len(QUERIES) // 3}


WINDOWS = {
    f"{shape} {number}": text.format(window, limit)
    for shape, text in {
        "total": "SELECT k, SUM(v) AS total FROM s [{}] GROUP BY k HAVING SUM(v) > {}",
        "mean": "SELECT k, AVG(v) AS mean, COUNT(*) AS n FROM s [{}] GROUP BY k HAVING AVG(v) < {} / 10",
        "few": "SELECT k, COUNT(*) + 1 AS more FROM s [{}] GROUP BY k HAVING COUNT(*) BETWEEN 2 AND {}",
        "least": "SELECT k, MIN(v) AS least FROM s [{}] GROUP BY k HAVING MIN(v) <= {} - 30",
    }.items()
    for number, (window, limit) in enumerate(
        (f"RANGE {size} SECONDS {to}SLIDE {slide} SECONDS", limit)
        for size, to, slide in [
            (1, "", 1), (2, "", 1), (2, "", 2), (3, "TO 1 SECOND ", 1), (4, "", 1), (6, "", 3), (9, "", 1),
        ]
        for limit in (9, 40)
    )
}  # fmt: skip


@pytest.mark.parametrize("slots", [1, 40, 1 << 21])
@pytest.mark.parametrize("seed", range(3))
def test_windows_together_as_alone(seed: int, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the window and the slide, and however many of them are taken at once."""
    monkeypatch.setattr(alike, "_SLOTS", slots)
    sizes = count_calls(monkeypatch, "_of_windows")
    check_as_alone(WINDOWS, batches(seed))
    assert max(sizes, default=0) > 1 if slots > 1 else not sizes


@pytest.mark.parametrize("most", [1, 9, 20])
def test_in_portions_as_alone(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is for few windows at a time, answers are the same."""
    monkeypatch.setattr(emission, "_SLOTS", 1)
    monkeypatch.setattr(answers, "MOST_SLOTS", most)
    portions: list[int] = []
    answer = answers._answer_portion

    def counted(shard, due, shared):  # type: ignore[no-untyped-def]
        portions.append(len(due))
        return answer(shard, due, shared)

    monkeypatch.setattr(answers, "_answer_portion", counted)
    check_as_alone(WINDOWS | QUERIES, batches(1))
    assert 1 < max(portions) < len(WINDOWS | QUERIES)


def test_windows_of_numbers_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN is above all numbers, -0.0 is 0.0, and infinities are numbers."""
    sizes = count_calls(monkeypatch, "_of_windows")
    stream = "CREATE STREAM s (ts BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts"
    inf, nan = float("inf"), float("nan")
    values = [0.0, -0.0, 1.5, -1.5, inf, -inf, nan, -nan, None]
    conditions = ["> 0.0", ">= 0.0", "< 0.0", "<= -0.0", "= 0.0", "> 1.5", "< -1.5", "> 1e308"]
    queries = {
        f"{size} {condition}": f"SELECT k, MAX(v) AS v FROM s [RANGE {size} SECONDS SLIDE 1 SECOND] GROUP BY k "
        f"HAVING MAX(v) {condition}"
        for size, condition in enumerate(conditions, 1)
    }
    engine = Engine()
    engine.execute(stream)
    engine.register_many(queries)
    at = np.zeros(len(values), np.int64)
    engine.push("s", {"ts": at, "k": np.arange(len(values)), "v": pa.array(values, pa.float64())})
    engine.push("s", {"ts": np.array([SECOND]), "k": np.array([99]), "v": pa.array([None], pa.float64())})
    emitted = engine.advance()
    passing = [
        {2, 4, 6, 7}, {0, 1, 2, 4, 6, 7}, {3, 5}, {0, 1, 3, 5}, {0, 1}, {4, 6, 7}, {5}, {4, 6, 7},
    ]  # fmt: skip
    for name, wanted in zip(queries, passing, strict=True):
        assert set(emitted[name]["k"].to_pylist()) == wanted, name
    assert sizes == [len(queries)]


def test_a_sum_that_does_not_fit_is_complained_about_by_each() -> None:
    """And the other windows of all of them are answered."""
    text = "SELECT k, SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k HAVING SUM(v) > {}"
    engine = engine_of({f"q{limit}": text.format(limit) for limit in range(20)})
    at = np.array([0, 1, SECOND, 3 * SECOND])
    engine.push("s", {"ts": at, "k": ["a"] * 4, "v": np.array([2**62, 2**62, 50, 1])})
    with pytest.warns(RuntimeWarning, match="leaves out 1 row"):
        emitted = engine.advance()
    for name in engine.queries:
        assert emitted[name]["total"].to_pylist() == [50]
        assert engine.stats()["queries"][name]["overflows"] == 1


def test_a_sum_that_does_not_fit_one_of_many_windows() -> None:
    text = (
        "SELECT k, SUM(v) AS total FROM s [RANGE {0} SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(v) > {0}"
    )
    engine = engine_of({f"q{size}": text.format(size) for size in range(1, 21)})
    at = np.array([0, 4 * SECOND, 5 * SECOND])
    engine.push("s", {"ts": at, "k": ["a"] * 3, "v": np.array([2**62, 2**62, 1])})
    with pytest.warns(RuntimeWarning, match="leaves out 1 row"):
        emitted = engine.advance()
    for size in range(1, 21):
        overflows = size >= 5
        assert emitted[f"q{size}"]["total"].to_pylist() == [2**62] * (4 if overflows else size + 1), size
        assert engine.stats()["queries"][f"q{size}"]["overflows"] == overflows
