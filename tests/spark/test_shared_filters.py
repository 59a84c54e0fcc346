"""Filters that compare with constants are folded by lanes on Spark, whatever plan the shards have for them.

Random conditions with and without GROUP BY, in WHERE and in FILTER; queries that come and go between runs and by
statements; shards that serve some by lanes and some by filters of their own; checkpoints from before there were lanes.
All against the reference.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards, split

import muntin
from answers import assert_same_answer
from effort import some_of
from muntin.errors import CheckpointError
from muntin.plan import choices
from muntin.plan.lanes import LanesOf
from muntin.spark.answers import unpack_answers
from muntin.spark.flow import run_table
from muntin.spark.job import plan_job
from muntin.spark.ledger import FORMAT
from muntin.spark.pack import pack_events
from muntin.spark.shard import SparkShard
from muntin.store.saved import pack, unpack
from reference import ReferenceEngine, declared
from scenario import SECOND, VALUES, WILD, SeededDice

DELAY = 2 * SECOND
STREAM = (
    "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, j BIGINT, n BIGINT, x DOUBLE, y DOUBLE, w VARCHAR, b BOOLEAN) "
    "TIMESTAMP BY ts DELAY 2 SECONDS"
)
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


def lanes_from(patch: pytest.MonkeyPatch, many: int) -> None:
    for name in ("MANY_LANES", "MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY"):
        patch.setattr(choices, name, many)


class Run:
    """Shards and the reference, given the same."""

    def __init__(self, dice: SeededDice, routes: list[str], **options: Any):
        self.dice, self.routes, self.now = dice, routes, 10 * SECOND
        self.stream = declared(STREAM)
        self.queries = self._some({})
        self.shards = Shards(self.stream, self.queries, shards=dice.whole(1, 3), **options)
        self.reference = ReferenceEngine()
        self.reference.execute(STREAM)
        self._register(self.queries)

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


@pytest.mark.parametrize("seed", range(some_of(300, 5)))
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


@pytest.mark.parametrize("seed", range(some_of(60, 10)))
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


@pytest.mark.parametrize("seed", range(some_of(40, 12)))
def test_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered in one go, in the order of their slices."""
    dice = SeededDice(seed)
    lanes_from(monkeypatch, dice.pick((1, 3, 10**9)))
    monkeypatch.setattr("muntin.spark.flow._HELD", dice.pick((1, 2_000, 1 << 23)))
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


SUBSCRIBED = (
    "SELECT {}SUM(n) AS total FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE {}{} HAVING COUNT(*) >= 0"
)


def subscriptions(keys: str, conditions: list[str]) -> dict[str, str]:
    items, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    return {f"q{i}": SUBSCRIBED.format(items, each, by) for i, each in enumerate(conditions)}


def events_of(begin: int, end: int) -> pa.Table:
    """Four a second."""
    at = np.arange(begin * SECOND, end * SECOND, SECOND // 4)
    number = np.arange(len(at)) + 4 * begin
    columns: dict[str, Any] = {
        "ts": pa.array(at, pa.timestamp("us")), "k": [f"k{i % 7}" for i in number], "j": number % 5, "n": number % 30,
        "x": np.sin(number), "y": number / 4, "w": ["ask"] * len(at), "b": number % 2 == 0,
    }  # fmt: skip
    return pa.table(columns, schema=declared(STREAM).schema)


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
    reference = ReferenceEngine()
    reference.execute(STREAM)
    for name, sql in queries.items():
        reference.register(sql, name=name)
    for at in range(0, 40, 10):
        assert _send(shards, reference, at)
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


@pytest.mark.parametrize("many", [1, 10**9])
@pytest.mark.parametrize("keys", ["", "k"])
def test_an_event_is_late_when_the_slice_that_filters_share_has_ended(
    keys: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices are of two seconds; of two events behind the watermark, one lies in a slice that has not ended."""
    lanes_from(monkeypatch, many)
    shards = Shards(declared(STREAM), subscriptions(keys, [f"k = 'k{i}'" for i in range(3)]), shards=1)
    shards.send([events_of(0, 10).to_batches()])  # the greatest time is 9.75, so the watermark 7.75
    late = events_of(0, 1).slice(1, 1)  # of k1, n = 1
    for at, total in ((5_900_000, 0), (7_000_000, 1)):
        events = late.set_column(0, "ts", pa.array([at], pa.timestamp("us")))
        before = _held(shards, "q1")
        shards.send([events.to_batches()])
        assert _held(shards, "q1") - before == total
    assert shards.late == 1


def _held(shards: Shards, name: str) -> int:
    """The sum that one query has from the fourth second to the eighth."""
    found = [
        each._shard.lookup(name, None, 8 * SECOND) for each in shards.of_route(shards.job.routes[0].name)
    ]
    return sum(pa.concat_tables(found)["total"].to_pylist())


def test_a_shard_without_lanes_has_none_after_it_was_rewound() -> None:
    """The log from before there were any may have a REWIND STREAM in it."""
    shards = Shards(declared(STREAM), subscriptions("j", [f"k = 'k{i}'" for i in range(30)]), shards=1)
    shard = SparkShard(shards.job, shards.job.routes[0])
    shard.has_lanes = False
    shard.register(shards.job.routes[0].queries)
    shard.skip(20 * SECOND, None)
    shard.rewind(5 * SECOND)
    assert len(shard._shard.state.stores) == 30
    shard.has_lanes = True
    shard.rewind(4 * SECOND)
    assert len(shard._shard.state.stores) == 1


@pytest.mark.parametrize("keys", ["", "j"])
@pytest.mark.parametrize("base", [True, False])
def test_a_checkpoint_from_before_there_were_lanes(
    keys: str, base: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every filter has a store there, and cells in the log of its own; more filters come later."""
    conditions = [f"k = 'k{i % 7}' AND n > {i}" for i in range(80)]
    queries = subscriptions(keys, ["k IN ('k1', 'k2')", *conditions[:40]])
    with monkeypatch.context() as before:
        before.setattr("muntin.spark.job.lanes_of", lambda query, is_by_demand: LanesOf(None, ()))
        before.setattr("muntin.shard.shard.Shard.has_lanes", property(lambda shard: False, _without_lanes))
        if base:
            before.setattr("muntin.spark.ledger._SMALL", 0)
        shards = Shards(declared(STREAM), queries, shards=2)
        reference = ReferenceEngine()
        reference.execute(STREAM)
        for name, sql in queries.items():
            reference.register(sql, name=name)
        for at in range(0, 30, 10):
            _send(shards, reference, at)
    _write_as_format_3(shards)
    shards.restart(queries)
    _send(shards, reference, 30)
    later = subscriptions(keys, ["k IN ('k1', 'k2')", *conditions])
    for name in later.keys() - queries.keys():
        reference.register(later[name], name=name)
    shards.restart(later)
    for at in range(40, 60, 10):
        assert _send(shards, reference, at)
    for shard in shards.of_route(keys):
        assert len(shard._shard.state.stores) == (42 if keys else 2)
        assert "  lanes    by the value of k" in shard._shard.explain("q80")
        assert "  lanes " not in shard._shard.explain("q3")
        shard.check()


def _without_lanes(shard: Any, has_lanes: bool) -> None:
    shard.state.manager.has_lanes = False


def _send(shards: Shards, reference: ReferenceEngine, at: int) -> dict[str, pa.Table]:
    events = events_of(at, at + 10)
    reference.push("s", {name: events[name].to_pylist() for name in events.column_names})
    found, wanted = (
        shards.send([events.slice(0, 17).to_batches(), events.slice(17).to_batches()]),
        reference.advance(),
    )
    for name in reference.standing:
        assert_same_answer(wanted.get(name) or reference.nothing(name), found.get(name), name)
    return found


def _write_as_format_3(shards: Shards) -> None:
    for shard in (each for route in shards.job.routes for each in route.ids):
        (text,) = shards.tester.peekValueState("head", shard)
        assert json.loads(text)["format"] == FORMAT
        shards.tester.updateValueState("head", shard, (json.dumps(json.loads(text) | {"format": 3}),))
        log = shards.tester.peekMapState("log", shard)
        for entry, (data,) in log.items():
            description, arrays = unpack(data)
            del description["lanes"]
            log[entry] = (pack(description, arrays).to_pybytes(),)
        shards.tester.updateMapState("log", shard, log)


def _put(name: str, first: int) -> Any:
    """Another number in the first place."""
    return lambda arrays: arrays | {name: np.append(first, arrays[name][1:])}


@pytest.mark.parametrize(
    ("damage", "how"),
    [
        (_put("0 pair lane", -1), "pair lane' has -1"),
        (_put("0 pair lane", 7), "pair lane' has 7"),
        (_put("0 pair key", 99), "pair key' has 99"),
        (_put("0 key", -5), "0 key' has -5"),
        (_put("0 at", 2**60), "0 at' does not ascend"),
        (
            lambda arrays: arrays | {"0 pair key": arrays["0 pair key"][1:]},
            "pair key' has 34 elements instead of 35",
        ),
        (lambda arrays: arrays | {"0 lane 0": pa.array([1, 2])}, "lane 0' is of int64, not of string"),
        (lambda arrays: arrays | {"key 0": pa.array(["a"])}, "key 0' is of string, not of int64"),
        (lambda arrays: {name: each for name, each in arrays.items() if " sum of " not in name}, "sum of n"),
        (
            lambda arrays: {
                name: each.astype("f8") if "count of" in name else each for name, each in arrays.items()
            },
            "count",
        ),
    ],
)
def test_a_damaged_entry_of_the_log_is_refused(damage: Any, how: str) -> None:
    """As a damaged snapshot is: what is replayed came from outside."""
    shards = Shards(declared(STREAM), subscriptions("j", [f"k = 'k{i}'" for i in range(30)]), shards=1)
    shards.send([events_of(0, 10).to_batches()])
    shards.send([events_of(10, 20).to_batches()])
    (shard,) = shards.job.routes[0].ids
    log = shards.tester.peekMapState("log", shard)
    entry, (data,) = next(each for each in log.items() if each[0] == (2,))
    description, arrays = unpack(data)
    place = str(description["kinds"].index("cells"))
    told, cells = unpack(arrays[place].data)
    damaged = np.frombuffer(pack(told, damage(cells)).to_pybytes(), np.uint8)
    log[entry] = (pack(description, {**arrays, place: damaged}).to_pybytes(),)
    shards.tester.handle.setGroupingKey(shard)
    shards.tester.handle.map_states["log"].updateValue(entry, log[entry])
    shards.restart()
    with pytest.raises(CheckpointError, match=how):
        shards.send([events_of(20, 30).to_batches()])


def test_a_query_that_came_by_a_statement_is_not_forgotten() -> None:
    """Without the control stream nobody would fold events for it."""
    queries = subscriptions("", [f"k = 'k{i}'" for i in range(10)])
    shards = Shards(declared(STREAM), queries, keys=[""], is_controlled=True)
    shards.send([events_of(0, 10).to_batches()])
    more = SUBSCRIBED.format("", "k = 'another'", "")
    shards.tell(f"REGISTER QUERY more AS {more}")
    shards.options = {"zone": None}
    shards.restart(queries)
    with pytest.raises(CheckpointError, match="query 'more' came by a statement"):
        shards.send([events_of(10, 20).to_batches()])
    shards.restart(queries | {"more": more})
    assert "more" in shards.send([events_of(10, 20).to_batches()])
