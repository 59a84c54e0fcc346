"""A value that does not exist takes nothing with it: random streams of huge integers, on the engine and the reference.

Sums beyond 64 bits, and expressions of HAVING and SELECT that overflow, for every kind of window and query. The row
is left out alone, counted and warned of once; who asks for that row alone is refused (semantics.md, "Rows without a
value").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import muntin
from casefile import Advance, Case, Checkpoint, Lookup, Push, Register, Step
from effort import some_of
from muntin.errors import NoValue
from overflows import HUGE, STREAM, random_sql
from replay import Pair
from scenario import SECOND, Dice, SeededDice, random_times


def random_overflows(dice: Dice) -> Case:
    """Queries from the start on, and one that comes later; look-ups and advances between batches."""
    queries = {f"q{number}": random_sql(dice) for number in range(5)}
    late_comer = random_sql(dice).removesuffix(" EMIT CHANGES")  # who is in depends on what was seen
    steps: list[Step] = [Register(*each) for each in queries.items()]
    now = 10 * SECOND
    for batch in range(5):
        count = dice.whole(2, 8)
        times = random_times(dice, 2 * SECOND, count, now)
        now = max(times)
        columns: dict[str, list[Any]] = {
            "ts": times,
            "k": [dice.pick(("a", "b", "c", None)) for _ in times],
            "j": [dice.pick((1, 2)) for _ in times],
            "n": [dice.pick(HUGE) for _ in times],
        }
        steps.append(Push("s", columns))
        if batch == 2:
            steps.append(Register("late", late_comer))
        if dice.chance(20):
            steps.append(Checkpoint())
        steps += [Lookup(name, None, None) for name in queries]
        steps += [
            Lookup(name, tuple(("a", "b") if "k, j" not in sql else (("a", 1), ("b", 2))), None)
            for name, sql in queries.items()
            if "GROUP BY" in sql
        ]
        if dice.chance(60):
            steps.append(Advance(None))
    steps.append(Advance(now + 90 * SECOND))
    return Case("overflows", (STREAM,), tuple(steps))


@pytest.mark.parametrize("first", range(0, some_of(36, 66), 12))
def test_only_the_row_without_a_value_is_left_out(first: int) -> None:
    """Rows, how many are left out, and the warnings, at every step."""
    left_out = 0
    for seed in range(first, first + 12):
        pair = Pair(case := random_overflows(SeededDice(seed)))
        for step in case.steps:
            pair.take(step)
        ask_for_one(pair)
        left_out += sum(pair.left_out.values())
    assert left_out > 150  # or nothing was tried


def ask_for_one(pair: Pair) -> None:
    """Every key by itself, and every query without keys: who asks for one row is refused if it has no value."""
    for name, standing in pair.reference.standing.items():
        keys: dict[int, tuple[Any, ...]] = {0: (None,), 1: ("a", "b", "c"), 2: (("a", 1), ("b", 2))}
        for key in keys[len(standing.query.keys)]:
            if name == "late":
                continue
            expected = pair.reference.lookup(name, None if key is None else [key])
            assert is_refused(pair, "lookup", name, key) == bool(expected.left_out)
            if not expected.left_out:
                assert not is_refused(pair, "value", name, key)


def is_refused(pair: Pair, call: str, name: str, key: Any) -> bool:
    try:
        getattr(pair.engine, call)(name, key=key)
    except NoValue as error:
        assert f"'{name}'" in str(error)
        assert key is None or repr(key) in str(error)
        return True
    return False


def test_many_at_once_leave_out_the_one_without_a_value() -> None:
    """`lookup_many` has a row for each query but that one, and says which it is."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    for seconds in range(1, 9):
        engine.register(f"SELECT SUM(n) AS v FROM s [RANGE {seconds} SECONDS]", f"sum {seconds}")
        engine.register(f"SELECT AVG(n) AS v FROM s [RANGE {seconds} SECONDS]", f"avg {seconds}")
    times = [second * SECOND for second in range(10)]
    values = [*[2**62] * 5, *[1] * 5]
    engine.push("s", {"ts": times, "k": ["a"] * 10, "j": [1] * 10, "n": values})
    names = list(engine.queries)
    with pytest.warns(RuntimeWarning) as caught:
        rows = {row["query"]: row["value"] for row in engine.lookup_many(names).to_pylist()}
    held = {seconds: values[10 - seconds :] for seconds in range(1, 9)}
    exists = {seconds for seconds, some in held.items() if sum(some) < 2**63}
    assert {name for name in rows if "sum" in name} == {f"sum {seconds}" for seconds in exists}
    assert len(caught) == 8 - len(exists) == 2
    for seconds, some in held.items():
        assert rows[f"avg {seconds}"] == pytest.approx(sum(some) / seconds, rel=1e-15)
        assert engine.value(f"avg {seconds}") == pytest.approx(sum(some) / seconds, rel=1e-15)


@pytest.mark.parametrize("many", [1, 6, 1000, 100_000])
def test_the_mean_of_integers_exists_however_large_their_sum(many: int) -> None:
    """Times in nanoseconds since the epoch, and the largest integers there are."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register("SELECT AVG(n) AS v FROM s [RANGE 1 HOUR]", "all")
    engine.register("SELECT k, AVG(n) AS v FROM s [RANGE 1 HOUR SLIDE 1 SECOND] GROUP BY k", "by key")
    at = np.arange(many) * 10
    for n in (np.full(many, 2**63 - 1), np.full(many, -(2**63)), 1_790_000_000_000_000_000 + np.arange(many)):
        at = at + SECOND
        engine.push("s", {"ts": at, "k": np.full(many, str(n[0])), "j": at, "n": n})
        mean = sum(n.tolist()) / many
        answer = engine.lookup("by key", key=str(n[0]), at=int(at[-1]) + SECOND)
        assert answer["v"][0].as_py() == pytest.approx(mean, rel=1e-14)
    assert -(2**63) < engine.value("all") < 2**63
