"""Answers from cohorts are those that are found anew at every instant, row for row: only the cost differs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from muntin import Engine
from muntin.join import cohorts, from_cohorts

SECOND = 1_000_000
SIZES = ((6, 6), (3, 3), (6, 4), (2, 5))
STREAMS = (
    "CREATE STREAM a (ts TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY ts DELAY {0} SECONDS;"
    "CREATE STREAM b (ts TIMESTAMP, k BIGINT, y BIGINT) TIMESTAMP BY ts DELAY {0} SECONDS"
)


def a_query(random: np.random.Generator) -> str:
    left, right = SIZES[random.integers(len(SIZES))]
    select = ("x, y", "x + y AS z", "10 / x AS z")[random.choice(3, p=[0.5, 0.4, 0.1])]  # x is 0 now and then
    constant = random.integers(4)
    where = (
        "", "WHERE x < y", f"WHERE y = {constant}", f"WHERE y = {constant} AND x > 4", f"WHERE y IN ({constant}, 7)",
        f"WHERE a.k = {constant} AND y = 3 AND x < y", f"WHERE 10 / x = {constant}",
    )[random.choice(7, p=[0.2, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1])]  # fmt: skip
    emit = ("", "EMIT CHANGES")[random.integers(2)]
    slide = (1, 2)[random.integers(2)]
    return (
        f"SELECT {select} FROM a [RANGE {left} SECONDS SLIDE {slide} SECONDS] "
        f"JOIN b [RANGE {right} SECONDS] ON a.k = b.k {where} {emit}"
    )


def events(random: np.random.Generator, now: int, delay: int, value: str) -> dict[str, np.ndarray]:
    many = int(random.integers(0, 30))
    at = now + random.integers(-delay * SECOND // 2, SECOND, many)
    return {"ts": np.maximum(at, 0), "k": random.integers(0, 3, many), value: random.integers(0, 10, many)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(6))
def test_as_found_anew(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    delay = (0, 2)[seed % 2]
    # slices of cohorts only, copies only, or some of each; a few queries at a time, and blocks of a few rows
    monkeypatch.setattr(from_cohorts, "_FEW", (0, 64, 3)[seed % 3])
    monkeypatch.setattr(from_cohorts, "_TOGETHER", (7, 1 << 16)[seed // 3])
    monkeypatch.setattr(from_cohorts, "_QUERIES", (2, 256)[seed // 3])
    monkeypatch.setattr(from_cohorts, "_SHORTEST", (1, 2048)[seed // 3])
    engines = [Engine(), Engine()]
    asked: list[int] = []

    def both(call: str, *args: object) -> list[object]:
        results = []
        for number, engine in enumerate(engines):
            monkeypatch.setattr(cohorts, "_MOST_KEYS", 4 if number else 0)
            results.append(getattr(engine, call)(*args))
        return results

    both("execute", STREAMS.format(delay))
    names: list[str] = []
    for step in range(60):
        if random.random() < 0.4 and len(names) < 12:
            names.append(f"q{step}")
            both("register", a_query(random), names[-1])
        if random.random() < 0.1 and names:
            both("drop", names.pop(int(random.integers(len(names)))))
        for stream, value in (("a", "x"), ("b", "y")):
            both("push", stream, events(random, step * SECOND, delay, value))
        if random.random() < 0.8:  # now and then several slides are owed at once
            alone, shared = both("advance")
            assert alone == shared
            asked.append(sum(table.num_rows for table in shared.values()))
        for name in names[:2]:
            alone, shared = both("lookup", name)
            assert alone == shared
        if random.random() < 0.05:
            both("checkpoint", str(tmp_path / "state"))
            engines[1] = Engine.restore(str(tmp_path / "state"))
    engines[1].check()
    assert sum(asked) > 500


def test_constants_of_one_side_share() -> None:
    """A thousand queries that differ in a constant have cohorts of one kind, and each pair is in them once."""
    engine = Engine()
    engine.execute(STREAMS.format(0))
    window = "FROM a [RANGE 9 SECONDS SLIDE 1 SECOND] JOIN b [RANGE 9 SECONDS] ON a.k = b.k"
    engine.register_many({f"of {n}": f"SELECT x, y {window} WHERE x = {n}" for n in range(1_000)})
    for second in range(3):
        engine.push("a", {"ts": [second * SECOND] * 500, "k": [1] * 500, "x": range(500)})
        engine.push("b", {"ts": [second * SECOND] * 2, "k": [1, 2], "y": [5, 6]})
        answers = engine.advance((second + 1) * SECOND)
    assert {name: each["y"].to_pylist() for name, each in answers.items()} == {
        f"of {n}": [5] * 9 for n in range(500)
    }
    (group,) = engine._joins.groups.values()
    (found,) = group.dealt_out
    assert len(found._pairs) == 4_500


def test_an_answer_shares_what_the_last_one_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a pair's values is the same at two slides that both see it, and for windows of different sizes."""
    monkeypatch.setattr(from_cohorts, "_FEW", 0)
    engine = Engine()
    engine.execute(STREAMS.format(0))
    for size in (9, 5):
        engine.register(
            f"SELECT x, y FROM a [RANGE {size} SECONDS SLIDE 1 SECOND] JOIN b [RANGE {size} SECONDS] ON a.k = b.k",
            f"of {size}",
        )
    places = []
    for second in range(8):
        for stream, value in (("a", "x"), ("b", "y")):
            engine.push(stream, {"ts": [second * SECOND], "k": [1], value: [second]})
        answers = engine.advance((second + 1) * SECOND)
        places.append(
            {chunk.buffers()[1].address for chunk in answers["of 9"]["x"].chunks}
            | {chunk.buffers()[1].address for chunk in answers["of 5"]["x"].chunks}
        )
    assert all(before <= after for before, after in pairwise(places))
    assert len(places[-1]) == 8


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("emit", ["", "EMIT CHANGES"])
def test_small_answers_are_slices_of_one_table(emit: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that see a few pairs of each cohort: these are copied once for all of them, values, bounds and words
    alike. Copied or cut, they are what is found anew for each window alone."""
    monkeypatch.setattr(from_cohorts, "_FEW", few)
    texts = {
        f"q{size}": f"SELECT x, y FROM a [RANGE {size} SECONDS SLIDE 1 SECOND] JOIN b [RANGE {size} SECONDS] "
        f"ON a.k = b.k WHERE a.k = {size % 3} {emit}"
        for size in range(1, 31)
    }
    found = []
    for keys in (0, 4):
        monkeypatch.setattr(cohorts, "_MOST_KEYS", keys)
        engine = Engine()
        engine.execute(STREAMS.format(0))
        for second in range(40):
            if second == 15:  # so that the longer ones are not complete
                engine.register_many(texts)
            keys = [0, 1, 2][second % 2 :]  # pairs of one lane leave when none of another does
            for stream, value in (("a", "x"), ("b", "y")):
                engine.push(
                    stream,
                    {"ts": [second * SECOND] * len(keys), "k": keys, value: [second, 7, 8][: len(keys)]},
                )
            answers = engine.advance((second + 1) * SECOND)
        found.append(answers)
    alone, together = found
    assert alone == together
    assert len(together) > 20
    for name in together["q9"].column_names if few else ():
        chunks = [table[name].chunk(0) for table in together.values()]
        assert len({chunk.buffers()[-1].address for chunk in chunks}) == 1
