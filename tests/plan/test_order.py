"""The plan depends on which queries there are, not on how they came and went; where it does, `explain` says so."""

from __future__ import annotations

import random
from typing import Any

import pytest

from muntin import Engine
from muntin.plan.choices import MANY_BANDS

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
Plan = set[tuple[Any, ...]]


def random_queries(dice: random.Random) -> dict[str, str]:
    """Some with many keys, some with many bands of one attribute."""
    keyed = dice.choice([0.1, 0.7, 1.0])
    return {f"q{i}": random_query(dice, keyed) for i in range(dice.randrange(1, 14 if keyed > 0.5 else 30))}


def random_query(dice: random.Random, keyed: float = 0.7) -> str:
    """Windows from seconds to weeks, with and without keys, filters, bands and hints."""
    size, slide = dice.choice(
        [("10 SECONDS", "1 SECOND"), ("10 SECONDS", "3 SECONDS"), ("1 MINUTE", "1 SECOND"), ("1 HOUR", "1 MINUTE"),
         ("30 DAYS", "1 HOUR"), ("27 HOURS", "1 SECOND"), ("99999 SECONDS", "1 SECOND"),
         ("700000 SECONDS", "7 SECONDS"), ("1100000 SECONDS", "11 SECONDS"), ("90 SECONDS", "90 SECONDS")]
    )  # fmt: skip
    call = dice.choice(["SUM(n)", "MAX(n)", "COUNT(n)", "AVG(x)", "COUNT(*)", "LAST(x)", "VAR_POP(x)"])
    hint = dice.choice(["", "", "", "", "", "/*+ SYNOPSIS(slices) */ ", "/*+ SYNOPSIS(stairs) */ "])
    window = f"[RANGE {size} SLIDE {slide}]" if dice.random() < max(0.2, keyed) else f"[RANGE {size}]"
    if dice.random() < keyed:
        where = dice.choice(["", "", " WHERE n > 3"])
        return f"SELECT {hint if 'SLIDE' in window else ''}k, {call} AS v FROM s {window}{where} GROUP BY k"
    return f"SELECT {call} AS v FROM s {window} WHERE x > {dice.randrange(2 * MANY_BANDS)}"


def plan_of(engine: Engine) -> Plan:
    """Groups as sets: what serves which demands of which queries."""
    manager = engine._shards["s"].state.manager
    served: dict[int, list[tuple[str, str]]] = {}
    for name, placement in manager.placements.items():
        for number, demand in placement.all():
            served.setdefault(number, []).append((name, str((demand.window, demand.need))))
    return {_shown(engine, number, served[number]) for number in manager.groups}


def _shown(engine: Engine, number: int, served: list[tuple[str, str]]) -> tuple[Any, ...]:
    group = engine._shards["s"].state.manager.groups[number]
    return (group.planned, str(group.where), str(group.keys), group.store.kind, tuple(sorted(served)))


def begun(engine: Engine, at: int = 0) -> None:
    engine.push("s", {"ts": [at], "k": ["a"], "n": [5], "x": [1.0]})


def empty() -> Engine:
    engine = Engine()
    engine.execute(STREAM)
    return engine


def planned_together(queries: dict[str, str]) -> Plan:
    engine = empty()
    engine.register_many(queries)
    begun(engine)
    return plan_of(engine)


def wander(dice: random.Random, engine: Engine, queries: dict[str, str], is_running: bool) -> None:
    """Register and drop, in any order and in calls of any size, until just `queries` are there; with `is_running`
    events come in between."""
    others = {f"other {i}": random_query(dice) for i in range(dice.randrange(5))}
    # a query may have had another text under its name before
    before = {name: random_query(dice) for name in queries if dice.random() < 0.2}
    there: dict[str, str] = {}
    while there != queries:
        if is_running and dice.random() < 0.4:
            begun(engine, at=(engine.stats()["streams"]["s"]["events"] + 1) * SECOND)
        if dice.random() < 0.2:
            engine.explain()  # which settles the plan as it is now
        wrong = [name for name, text in there.items() if queries.get(name) != text]
        if wrong and dice.random() < 0.5:
            name = dice.choice(wrong)
            engine.drop(name)
            del there[name]
            continue
        pool = [(name, text) for some in (queries, others, before) for name, text in some.items()]
        some = dict(dice.sample(pool, min(len(pool), dice.randrange(1, 6))))
        new = {name: text for name, text in some.items() if name not in there}
        if dice.random() < 0.2:
            others, before = {}, {}  # so that it ends
        if new:
            engine.register_many(new)
            there |= new


def wandered(seed: int, is_running: bool) -> tuple[random.Random, dict[str, str], Engine]:
    """Random queries, and an engine that has come to them by a way of its own."""
    dice = random.Random(seed)
    queries, engine = random_queries(dice), empty()
    wander(dice, engine, queries, is_running)
    return dice, queries, engine


@pytest.mark.parametrize("seed", range(30))
def test_before_the_first_event_the_plan_depends_on_the_queries_alone(seed: int) -> None:
    dice, queries, engine = wandered(seed, is_running=False)
    engine.check()
    assert "a new plan would have" not in engine.explain()
    assert plan_of(engine) == planned_together(queries)
    engine.register_many({"more": random_query(dice), "most": random_query(dice)})
    engine.explain()
    engine.drop("more")
    engine.drop("most")
    assert "a new plan would have" not in engine.explain()
    assert plan_of(engine) == planned_together(queries)
    begun(engine)
    engine.check()
    assert plan_of(engine) == planned_together(queries)
    shuffled = dice.sample(list(queries.items()), len(queries))
    assert planned_together(dict(shuffled)) == planned_together(queries)


@pytest.mark.parametrize("seed", range(30))
def test_in_a_running_stream_explain_names_every_group_that_a_new_plan_would_not_have(seed: int) -> None:
    _, queries, engine = wandered(seed, is_running=True)
    begun(engine, at=10**12)
    engine.check()
    wanted, manager = planned_together(queries), engine._shards["s"].state.manager
    for number in manager.groups:
        served = [
            (name, str((demand.window, demand.need)))
            for name, placement in manager.placements.items()
            for group, demand in placement.all()
            if group == number
        ]
        is_told = (
            "a new plan would have"
            in engine.explain(served[0][0]).split(f"group {number}: ")[1].split("\n")[1]
        )
        assert is_told == (_shown(engine, number, served) not in wanted)


@pytest.mark.parametrize("is_running", [False, True])
def test_what_is_registered_together_shares_one_grid(is_running: bool) -> None:
    """Two aggregates of one window, in place of a query that has been dropped, need no second grid."""
    window = "FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k"
    engine = empty()
    engine.register(f"SELECT k, SUM(n) AS v {window}", "q")
    if is_running:
        begun(engine)
    engine.drop("q")
    engine.register_many({"q": f"SELECT k, MAX(n) AS v {window}", "n": f"SELECT k, SUM(n) AS v {window}"})
    assert "1 group" in engine.explain()
    assert "slices by k" in engine.explain()
    assert "a new plan" not in engine.explain()
