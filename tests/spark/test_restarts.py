"""A restart with other queries goes on as the engine does: whatever was there before, and however it was planned."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from test_shards import same, shards_and_engine, tasks_of

from effort import some_of

WINDOWS = (
    "[RANGE 2 SECONDS SLIDE 1 SECOND]", "[RANGE 6 SECONDS SLIDE 3 SECONDS]",
    "[RANGE 5 SECONDS TO 1 SECOND SLIDE 1 SECOND]",
    "[RANGE 40 SECONDS SLIDE 10 SECONDS]", "[RANGE 2 DAYS SLIDE 1 HOUR]", "[RANGE 30 SECONDS SLIDE 2 SECONDS]",
)  # fmt: skip
CALLS = ("SUM(v)", "MAX(v)", "COUNT(v)", "AVG(x)", "COUNT(*)", "LAST(v)", "MIN(x) FILTER (WHERE v > 3)")


def random_query(dice: random.Random, keys: str) -> str:
    window, call = dice.choice(WINDOWS), dice.choice(CALLS)
    where = dice.choice(["", "", " WHERE v > 2", f" WHERE x > {dice.randrange(70) / 10}"])
    if dice.random() < 0.08:
        call = "MEDIAN(v)"  # which needs events: nothing of its route is folded then
    by = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {keys + ', ' if keys else ''}{call} AS a FROM s {window}{where}{by}"


def events(dice: random.Random, begin: int, end: int) -> pa.Table:
    rows = dice.randrange(40)
    rng = np.random.default_rng(dice.randrange(2**32))
    at = np.sort(rng.integers(begin * 1_000_000, end * 1_000_000, rows))
    return pa.table(
        {"ts": pa.array(at, pa.timestamp("us")), "k": [f"k{i}" for i in rng.integers(0, 4, rows)],
         "j": rng.integers(0, 2, rows).astype(float), "v": rng.integers(0, 9, rows),
         "x": rng.normal(size=rows).round(2)}
    )  # fmt: skip


def other_queries(dice: random.Random, before: dict[str, str], routes: list[str]) -> dict[str, str]:
    """Some dropped, some new, some with another text under the same name; of each route at least one."""
    kept = {name: text for name, text in before.items() if dice.random() < 0.6}
    changed = {name: random_query(dice, dice.choice(routes)) for name in before if dice.random() < 0.3}
    new = {
        f"q{dice.randrange(100)}": random_query(dice, dice.choice(routes)) for _ in range(dice.randrange(4))
    }
    queries = kept | changed | new
    for route in routes:
        if not any(
            text.endswith(f"GROUP BY {route}") if route else "GROUP BY" not in text
            for text in queries.values()
        ):
            queries[f"always {route}"] = random_query(dice, route)
    return queries


@pytest.mark.parametrize("seed", range(some_of(150, 16)))
def test_restarts_with_other_queries_answer_as_the_engine(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries added, dropped and changed under the same name, at random; every plan that they lead to takes what the
    driver sends."""
    dice = random.Random(seed)
    if dice.random() < 0.5:  # so that windows move to stairs when they can
        for name, value in (("FEW_GRANULES", 0), ("CLEAR_MARGIN", 1e-9), ("MOST_FOR_ONE_FOLD", 1e9)):
            monkeypatch.setattr(f"muntin.plan.choices.{name}", value)
    if dice.random() < 0.5:
        monkeypatch.setattr("muntin.spark.ledger._SMALL", 2_000)
    routes = dice.choice([["k"], [""], ["k", ""], ["j, k", "k"]])
    queries = other_queries(dice, {}, routes)
    shards, engine = shards_and_engine(queries, dice.randrange(1, 4))
    at = 0
    for _ in range(12):
        if dice.random() < 0.4:
            before, queries = queries, other_queries(dice, queries, routes)
            for name in [name for name, text in before.items() if queries.get(name) != text]:
                engine.drop(name)
            engine.register_many({name: text for name, text in queries.items() if before.get(name) != text})
            shards.restart(queries, is_warm=dice.random() < 0.5)
        begin, at = at, at + dice.choice([1, 5, 20])
        part = events(dice, begin, at)
        engine.push("s", part)
        same(engine.advance(), shards.send(tasks_of(part, dice.randrange(1, 3))))
    for route in shards.job.routes:
        plans = set()
        for shard in shards.of_route(route.name):
            shard.check()
            manager = shard._shard.state.manager
            plans.add(
                str([(each.planned, each.store, sorted(each.queries)) for each in manager.groups.values()])
            )
        assert len(plans) == 1  # all shards of a route have the same plan
