"""APPROX_COUNT_DISTINCT: what HyperLogLog says of the values in the window, however they came; its error; its room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from effort import some_of
from muntin import Engine
from muntin.errors import MuntinError, SqlError
from muntin.sketch.sliding_registers import error_of, precision_for
from queries import FILTERS, KEY_EXPRESSIONS, KEYS, NUMBERS, OTHERS, Question, random_window
from replay import assert_agreement
from scenario import Dice, SeededDice, random_case

SECOND = 1_000_000


def question(dice: Dice) -> Question:
    """Over time windows; beside exact aggregates, too, and of several errors."""
    window = random_window(dice)
    while not window.is_time:
        window = random_window(dice)
    keys = dice.pick(KEYS) if dice.chance(60) else ()
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    for number in range(dice.whole(1, 2)):
        eps = dice.pick(("", ", 0.02", ", 0.25", ", 0.1", ", 0.005"))
        kept = f" FILTER (WHERE {dice.pick(FILTERS)})" if dice.chance(30) else ""
        items.append(f"APPROX_COUNT_DISTINCT({dice.pick((*NUMBERS, *OTHERS))}{eps}){kept} AS a{number}")
    items += ["SUM(n) AS total"] if dice.chance(20) else []
    sql = f"SELECT {', '.join(items)} FROM s {window}"
    sql += f" WHERE {dice.pick(FILTERS)}" if dice.chance(30) else ""
    if keys:
        sql += f" GROUP BY {', '.join(KEY_EXPRESSIONS.get(key, key) for key in keys)}"
    sql += " HAVING APPROX_COUNT_DISTINCT(n) > 1" if dice.chance(20) else ""
    return Question(sql, keys)


def test_agreement() -> None:
    """Registers are those of the paper, whatever the batches, late events, restarts and queries that come and go."""
    for seed in range(some_of(600, 20)):
        assert_agreement(random_case(SeededDice(seed), f"seed {seed}", question=question))


def counted(values: np.ndarray, eps: float, keys: np.ndarray | None = None, batches: int = 7) -> Any:
    """Of all values; their times are their numbers, and some of each batch are out of order."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts DELAY 1 SECOND")
    by = ("k, ", " GROUP BY k") if keys is not None else ("", "")
    engine.register(f"SELECT {by[0]}APPROX_COUNT_DISTINCT(x, {eps}) AS n FROM s [RANGE 1 HOUR]{by[1]}", "q")
    at = np.arange(len(values)) ^ 5
    given = np.zeros(len(values), np.int64) if keys is None else keys
    for part in np.array_split(np.arange(len(values)), min(batches, len(values))):
        engine.push("s", {"ts": at[part], "k": given[part], "x": values[part]})
        engine.advance(until=int(at[part].max()) - SECOND // 2)
    engine.check()
    return engine


@pytest.mark.parametrize("count", [1, 10, 1_000, 3_000, 12_000, 200_000])
def test_error(count: int) -> None:
    """Within what chance allows: the mean of some counts of different values, and each of them."""
    eps, wrong = 0.05, []
    for seed in range(8):
        values = np.random.default_rng(seed).integers(-(2**62), 2**62, count)
        (row,) = counted(np.concatenate([values, values[: count // 2]]), eps).rows("q")
        wrong.append(row["n"] / count - 1)
        assert row["n_error"] == pytest.approx(row["n"] * error_of(precision_for(eps)), abs=0.51)
    assert np.abs(wrong).max() <= 4 * eps
    assert abs(np.mean(wrong)) <= 4 * eps / np.sqrt(len(wrong)) if count > 10 else wrong == [0.0] * len(wrong)


def test_small_keys_take_little_room() -> None:
    """Twenty thousand keys with few values each: about as many entries as there are values."""
    random = np.random.default_rng(1)
    keys, values = random.integers(0, 20_000, 100_000), random.integers(0, 4, 100_000)
    engine = counted(values, 0.02, keys)
    different = len(set(zip(keys.tolist(), values.tolist(), strict=True)))
    (synopsis,) = engine._shards["s"].state.synopses.values()
    (track,) = synopsis._all()
    track.compact()
    assert track.entries() <= different
    assert engine.lookup("q")["n"].to_numpy().sum() == pytest.approx(different, rel=0.005)


def test_one_log_for_every_error() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, x BIGINT) TIMESTAMP BY ts")
    for number, eps in enumerate((0.02, 0.1, 0.25)):
        engine.register(
            f"SELECT APPROX_COUNT_DISTINCT(x, {eps}) AS n FROM s [RANGE {number + 1} SECONDS]", f"q{number}"
        )
    engine.push("s", {"ts": range(1000), "x": range(1000)})
    plan = engine.explain()
    assert plan.count("standard error") == 1
    assert "HASH OF x: standard error 0.016" in plan
    engine.advance(until=1000)  # what is settled cannot be made finer
    engine.register("SELECT APPROX_COUNT_DISTINCT(x, 0.01) AS n FROM s [RANGE 1 SECOND]", "late")
    assert engine.explain().count("standard error") == 2
    engine.advance(until=2 * SECOND)
    engine.push("s", {"ts": [2 * SECOND + 5], "x": [1]})
    assert [row["complete"] for row in engine.rows("late")] == [True]


def test_for_lack_of_room_errors_grow() -> None:
    engine = Engine(sketch_bytes=40_000)
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT k, APPROX_COUNT_DISTINCT(x) AS n FROM s [RANGE 1 HOUR] GROUP BY k", "q")
    random = np.random.default_rng(3)
    for start in range(0, 60_000, 5_000):
        engine.push(
            "s",
            {
                "ts": start + np.arange(5_000),
                "k": np.arange(5_000) % 4,
                "x": random.integers(0, 2**60, 5_000),
            },
        )
        engine.advance()
    assert "for lack of room" in engine.explain()
    for row in engine.rows("q"):
        assert row["n_error"] > 0.02 * row["n"]
        assert abs(row["n"] - 15_000) <= 4 * row["n_error"]
        assert row["complete"]
    engine.check()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("APPROX_COUNT_DISTINCT(*)", "APPROX_COUNT_DISTINCT(*) is not supported"),
        ("APPROX_COUNT_DISTINCT(x, 0.5)", "eps must lie between 0.002 and 0.25"),
        ("APPROX_COUNT_DISTINCT(x, ts)", "eps must be a constant number"),
        ("APPROX_COUNT_DISTINCT(x, 0.1, 0.1)", "takes 1 argument: write APPROX_COUNT_DISTINCT(x [, eps])"),
        ("APPROX_COUNT_DISTINCT(DISTINCT x)", "DISTINCT stands only in COUNT(DISTINCT x)"),
        ("HLL(x)", "use APPROX_COUNT_DISTINCT(x)"),
    ],
)
def test_refused(text: str, said: str) -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, x BIGINT) TIMESTAMP BY ts")
    with pytest.raises(SqlError) as caught:
        engine.register(f"SELECT {text} AS v FROM s [RANGE 1 SECOND]", "q")
    assert said in str(caught.value)
    assert "^" in str(caught.value)


def test_rows_are_refused() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, x BIGINT) TIMESTAMP BY ts")
    with pytest.raises(MuntinError, match=r"use RANGE, or COUNT\(DISTINCT x\), which is exact"):
        engine.register("SELECT APPROX_COUNT_DISTINCT(x) AS v FROM s [ROWS 5]", "q")
