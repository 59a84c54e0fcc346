"""Filters that compare with constants are folded by lanes on Spark, whatever plan the shards have for them.

Random conditions with and without GROUP BY, in WHERE and in FILTER; queries that come and go between runs and by
statements; shards that serve some by lanes and some by filters of their own. All against the reference.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from filters import STREAM, events_of, lanes_from, reference_of, send_both, subscriptions
from shards import Shards, split

import muntin
from answers import assert_same_answer
from effort import some_of
from muntin.plan import choices
from muntin.spark.answers import unpack_answers
from muntin.spark.pack import pack_events
from muntin.spark.plan_job import plan_job
from muntin.spark.run_table import run_table
from muntin.store.saved import unpack
from reference import declared
from scenario import SECOND, VALUES, WILD, SeededDice

DELAY = 2 * SECOND
CONDITIONS = (
    "k = 'a'", "k = 'b'", "k = 'never'", "k IN ('a', 'c')", "k = 'a' OR k = 'b'", "k IS NULL", "k = '' OR k IS NULL",
    "j = 1", "j = 2 AND k = 'a'", "j IN (1, 3)", "NOT b", "b", "n = 2.5", "n = 2.0", "y = -0.0", "y = 0.25",
    "x = CAST('NaN' AS DOUBLE)", "x = 0.1", "n > 1", "n > 0", "n <= 2", "n BETWEEN 0 AND 4", "n > 1 AND n <= 5",
    "n > 5 AND n < 2", "n > 1000000000000", "x > 0.5", "x > 1e16", "y >= 0.25", "y < 0.25", "y > -2 AND y < 1.5",
    "k = 'a' AND n > 1", "k = 'a' AND n > 0", "k = 'b' AND n > 1", "k IN ('a', 'b') AND y <= 1.5",
    "k = 'a' AND k = 'b'", "w = 'ask' AND n > j", "k = 'a' AND w LIKE 'a%'", "n % 3 = 1", "n + 1 = 3", "k <> 'a'",
    "n > 1 OR y > 0", "k = 'a' AND x > 0.5 AND y > 0", "j = 1 AND x <> 1.0",
)  # fmt: skip
CALLS = (
    "COUNT(*)",
    "SUM(n)",
    "MAX(n)",
    "MIN(y)",
    "AVG(n)",
    "LAST(n)",
    "FIRST(y)",
    "SUM(x)",
    "COUNT(w)",
    "VAR_POP(y)",
)
WINDOWS = (
    "[RANGE 2 SECONDS SLIDE 1 SECOND]", "[RANGE 6 SECONDS SLIDE 3 SECONDS]", "[RANGE 1 SECOND SLIDE 500 MILLISECONDS]",
    "[RANGE 5 SECONDS TO 1 SECOND SLIDE 1 SECOND]", "[RANGE 20 SECONDS SLIDE 10 SECONDS]",
)  # fmt: skip
ROUTES = ("", "k", "j", "k, j", "y", "n % 2")
NAMED = {"n % 2": "n % 2 AS parity"}


def random_sql(dice: SeededDice, keys: str) -> str:
    """A query that can be folded: WHERE, or FILTERs, or both, or neither."""
    items = [NAMED.get(keys, keys)] if keys else []
    many = dice.pick((1, 1, 2, 3, 10))
    filtered = dice.chance(40) or many == 10
    for number in range(many):
        kept = f" FILTER (WHERE {dice.pick(CONDITIONS)})" if filtered and dice.chance(80) else ""
        items.append(f"{dice.pick(CALLS)}{kept} AS a{number}")
    where = f" WHERE {dice.pick(CONDITIONS)}" if dice.chance(20 if filtered else 90) else ""
    by = f" GROUP BY {keys}" if keys else ""
    having = f" HAVING {dice.pick(('COUNT(*) > 1', 'SUM(n) >= 3', 'MAX(n) < 5'))}" if dice.chance(40) else ""
    return f"SELECT {', '.join(items)} FROM s {dice.pick(WINDOWS)}{where}{by}{having}"


def random_events(dice: SeededDice, now: int) -> dict[str, list[Any]]:
    """Ties, silence, disorder within the delay."""
    times = []
    for _ in range(dice.whole(0, 14)):
        now += dice.pick((0, 0, SECOND, SECOND // 2, 1, 3 * SECOND, 9 * SECOND))
        times.append(now - dice.pick((0, 0, 1, SECOND, DELAY)))
    columns: dict[str, list[Any]] = {"ts": times}
    for name, options in {**VALUES, "x": WILD}.items():
        columns[name] = [dice.pick(options) for _ in times]
    return columns


class Run:
    """Shards and the reference, given the same."""

    def __init__(self, dice: SeededDice, routes: list[str], **options: Any):
        self.dice, self.routes, self.now = dice, routes, 10 * SECOND
        self.stream = declared(STREAM)
        self.queries = self._some({})
        self.shards = Shards(self.stream, self.queries, shards=dice.whole(1, 3), **options)
        self.reference = reference_of(self.queries)

    def _some(self, kept: dict[str, str]) -> dict[str, str]:
        """Queries, of each route at least one."""
        made = {
            f"q{self.dice.whole(0, 99)}": random_sql(self.dice, self.dice.pick(self.routes)) for _ in range(6)
        }
        for route in self.routes:
            made.setdefault(f"always {route}", f"{random_sql(self.dice, route)}")
        return {**made, **kept}

    def _register(self, queries: dict[str, str]) -> None:
        for name, sql in queries.items():
            self.reference.register(sql, name=name)

    def change(self) -> dict[str, str]:
        """Some queries go, and others come: those at work from now on."""
        kept = {name: sql for name, sql in self.queries.items() if self.dice.chance(70)}
        before, self.queries = self.queries, self._some(kept)
        for name in before:
            if self.queries.get(name) != before[name]:
                self.reference.drop(name)
        fresh = {name: sql for name, sql in self.queries.items() if before.get(name) != sql}
        self._register(fresh)
        return fresh

    def next_events(self) -> dict[str, list[Any]]:
        """Told to the reference already."""
        batch = random_events(self.dice, self.now)
        self.now = max([self.now, *(at + DELAY for at in batch["ts"])])
        self.reference.push("s", batch)
        return batch

    def send(self) -> None:
        table = pa.table(self.next_events(), schema=self.stream.schema)
        size = -(-table.num_rows // self.dice.whole(1, 3)) or 1
        tasks = [table.slice(lo, size).to_batches() for lo in range(0, table.num_rows, size)]
        self.compare(self.shards.send(tasks))

    def compare(self, actual: dict[str, pa.Table]) -> None:
        expected = self.reference.advance()
        for name in self.reference.standing:
            wanted = expected.get(name) or self.reference.nothing(name)
            assert_same_answer(wanted, actual.get(name), name)

    def check(self) -> None:
        for route in self.shards.job.routes:
            for shard in self.shards.of_route(route.name):
                shard.check()


@pytest.mark.parametrize("seed", range(some_of(300, 1)))
def test_any_plan_takes_what_is_folded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts with other queries; from how many constants on there are lanes, is another number at each."""
    dice = SeededDice(seed)
    if dice.chance(50):
        monkeypatch.setattr("muntin.spark.ledger._SMALL", 2_000)
    if dice.chance(30):  # so that windows move to stairs when they can
        for name, value in (("FEW_GRANULES", 0), ("CLEAR_MARGIN", 1e-9), ("MOST_FOR_ONE_FOLD", 1e9)):
            monkeypatch.setattr(choices, name, value)
    many = (1, 1, 3, 10**9)
    lanes_from(monkeypatch, dice.pick(many))
    run = Run(dice, list({dice.pick(ROUTES) for _ in range(2)}), fold=dice.chance(85))
    for _ in range(8):
        if dice.chance(35):
            lanes_from(monkeypatch, dice.pick(many))
            run.change()
            run.shards.restart(run.queries, is_warm=dice.chance(50))
        elif dice.chance(20):
            run.shards.restart()
        run.send()
    run.check()


@pytest.mark.parametrize("seed", range(some_of(60, 5)))
def test_statements(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a control stream events travel whole, and shards share what they keep of them."""
    dice = SeededDice(seed)
    lanes_from(monkeypatch, dice.pick((1, 3)))
    routes = list({dice.pick(ROUTES) for _ in range(2)})
    run = Run(dice, routes, keys=routes, is_controlled=True)
    gone: dict[str, str] = {}
    for turn in range(7):
        statements = []
        for name, sql in run.queries.items():
            if not dice.chance(60 if turn == 0 else 30):
                continue
            if name in gone:
                run.reference.register(gone.pop(name), name=name)
                statements.append(f'REGISTER QUERY "{name}" AS {sql}')
            else:
                gone[name] = sql
                run.reference.drop(name)
                statements.append(f'DROP QUERY "{name}"')
        run.shards.tell(*statements)
        if dice.chance(20):
            run.shards.restart()
        run.send()
    assert run.shards.refused == []
    run.check()


@pytest.mark.parametrize("seed", range(some_of(40, 8)))
def test_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered in one go, in the order of their slices."""
    dice = SeededDice(seed)
    lanes_from(monkeypatch, dice.pick((1, 3, 10**9)))
    monkeypatch.setattr("muntin.spark.run_table._HELD", dice.pick((1, 2_000, 1 << 23)))
    monkeypatch.setattr("muntin.spark.pack._MOST_CELLS", dice.pick((5, 1 << 18)))
    monkeypatch.setattr("muntin.spark.pack._AT_ONCE", 3)
    run = Run(dice, list({dice.pick(ROUTES) for _ in range(2)}))
    batches = [run.next_events() for _ in range(4)]
    job = plan_job(run.stream, run.queries, shards=2, zone=None)
    events = [each for batch in batches for each in pa.table(batch, schema=run.stream.schema).to_batches()]
    packed = pa.Table.from_batches(list(pack_events(job, events, 0)))
    order = [(name, "ascending") for name in ("shard", "start", "origin", "turn")]
    emitted = list(run_table(job, packed.sort_by(order).to_batches()))
    answers = [pa.Table.from_batches([each]) for each in unpack_answers(job, emitted)]
    run.compare(split(job, pa.concat_tables(answers)) if answers else {})


@pytest.mark.parametrize("keys", ["", "j"])
@pytest.mark.parametrize("condition", ["k = 'k{}'", "n > {}", "k = 'k1' AND n > {}"])
def test_filters_share_a_store_and_few_cells_travel(keys: str, condition: str) -> None:
    """As many constants as embedded plans lanes for; what is sent does not grow with them."""
    if not keys and condition.startswith("n >"):
        return  # a range of all events keeps a filter of its own, if windows have SLIDE
    queries = subscriptions(keys, [condition.format(i) for i in range(30)])
    shards = Shards(declared(STREAM), queries, shards=2)
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    for begin in range(0, 40, 10):
        events = events_of(begin, begin + 10)
        engine.push("s", events)
        wanted, found = engine.advance(), shards.send([events.to_batches()])
        assert wanted.keys() == found.keys()
        for name, table in wanted.items():
            order = [("window_end", "ascending"), *([(keys, "ascending")] if keys else [])]
            assert table.sort_by(order).equals(found[name].sort_by(order)), name
    for shard in shards.of_route(keys):
        assert len(shard._shard.state.stores) == 1
        assert "  lanes    by " in shard._shard.explain()
    chunk = next(
        row["data"]
        for batch in pack_events(shards.job, events_of(40, 50).to_batches(), 0)
        for row in batch.to_pylist()
        if row["kind"] == "cells"
    )
    description, _ = unpack(chunk)
    assert len(description["where"]) == (1 if keys else 2)  # without keys, one counts all events of a slice


@pytest.mark.parametrize("many", [1, 10**9])
@pytest.mark.parametrize("keys", ["", "j"])
def test_filters_in_where_and_in_calls(keys: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """WHERE decides by what events are folded, or FILTERs do, if a query has many: never both, and restarts agree."""
    lanes_from(monkeypatch, many)
    monkeypatch.setattr("muntin.spark.ledger._SMALL", 0)
    items, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    queries = {}
    for filters in (2, 12):
        calls = ", ".join(f"SUM(n) FILTER (WHERE n > {i}) AS a{i}" for i in range(filters))
        window = "[RANGE 4 SECONDS SLIDE 2 SECONDS]"
        queries[f"{filters}"] = f"SELECT {items}{calls}, COUNT(*) AS n FROM s {window} WHERE k = 'k3'{by}"
    shards = Shards(declared(STREAM), queries, shards=2)
    reference = reference_of(queries)
    for at in range(0, 40, 10):
        assert send_both(shards, reference, at)
        shards.restart()
    folded = shards.job.routes[0].fold.steps
    assert len([each for each in folded if each.startswith("k = ? AND n BETWEEN ? AND ?")]) == 1
    assert len([each for each in folded if each.startswith("k = ?")]) == 2
    for shard in shards.of_route(keys):
        shard.check()


def test_nobody_passes_and_windows_close_all_the_same() -> None:
    """Queries without keys have their row in silence, from the first event on, whether it passed or not."""
    queries = subscriptions("", [f"k = 'never {i}'" for i in range(20)])
    shards = Shards(declared(STREAM), queries)
    answers = shards.send([events_of(0, 20).to_batches()])
    assert answers.keys() == queries.keys()
    assert {row["total"] for row in answers["q7"].to_pylist()} == {None}
    assert answers["q7"].num_rows == 8  # up to 17.75 seconds
