"""Queries that came before their constants were many move to the lanes of their like, and no answer tells.

Lanes are used from three constants on here. Each case has queries that are apart, others whose constants make them
many, and enough of the stream afterwards to arrive: in batches of any size, with ties, silence and late events, while
queries come and go and the engine is restarted. Answers are those of the reference, and those of an engine that has no
lanes at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from casefile import Advance, Case, Checkpoint, Drop, Lookup, Push, Register, Step
from effort import every_second, some_of
from muntin.arrays import LONG_AGO
from muntin.errors import WindowTooLarge
from muntin.plan import choices
from muntin.shard.moving import Movers
from muntin.shard.shard import Shard
from queries import Question
from replay import Pair
from runtimes import as_table, checkpointed
from scenario import CALM, SECOND, SeededDice, random_events, random_lookup, random_stream

# by what the queries of a case differ in: a condition, and its constants
SUBJECTS = (
    ("k = '{}'", ("a", "b", "c", "", "never")),
    ("j = {}", (1, 2, 3, 4)),
    ("k = '{}' AND n > 0", ("a", "b", "c", "")),
    ("j IN ({}, 3)", (1, 2, 4, 5)),
    ("n > {}", (0, 1, 2, -3)),
    ("b AND n <= {}", (0, 1, 2, 5)),
)
CALLS = ("COUNT(*)", "SUM(n)", "MAX(n)", "MIN(y)", "AVG(n)", "COUNT(w)", "SUM(y)", "LAST(n)", "FIRST(k)")
SIZES = (SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND)


@pytest.fixture(autouse=True)
def _from_three_constants_on() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MANY_LANES", "MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY"):
            patch.setattr(choices, name, 3)
        yield


def window_of(dice) -> str:
    size = dice.pick(SIZES)
    slide = dice.pick((size, SECOND, SECOND // 2, 2 * SECOND))
    if dice.chance(30):
        return f"[RANGE {size} MICROSECONDS]"
    to = f" TO {size // 2} MICROSECONDS" if dice.chance(10) else ""
    return f"[RANGE {size} MICROSECONDS{to} SLIDE {slide} MICROSECONDS]" if dice.chance(95) else "[ROWS 3]"


def question_about(
    dice, subject: tuple[str, tuple[Any, ...]], keys: tuple[str, ...], as_filter: bool, many: int = 9
) -> Question:
    """Of one of the first so many constants."""
    condition = subject[0].format(dice.pick(subject[1][:many]))
    calls = [dice.pick(CALLS) for _ in range(dice.whole(1, 2))]
    if as_filter:
        calls = [f"{call} FILTER (WHERE {condition})" for call in calls]
    items = [*keys, *(f"{call} AS a{number}" for number, call in enumerate(calls))]
    sql = f"SELECT {', '.join(items)} FROM s {window_of(dice)}"
    sql += "" if as_filter else f" WHERE {condition}"
    sql += f" GROUP BY {', '.join(keys)}" if keys else ""
    return Question(sql + (" HAVING SUM(n) > 1" if dice.chance(40) else ""), keys)


def moving_case(dice, title: str) -> Case:
    """Queries of two constants, and later on of as many more as it takes; then they come and go."""
    delay = dice.pick((0, 2 * SECOND, 1))
    keys, as_filter = dice.pick(((), ("k",), ("j",), ("w", "b"))), dice.chance(15)
    ask = partial(question_about, dice, dice.pick(SUBJECTS), keys, as_filter)
    questions = {f"q{number}": ask(many=2) for number in range(4)}
    early = set(questions)
    emits = dice.chance(
        30
    )  # queries that are there from the start, and stay: others need not have seen who enters
    steps: list[Step] = []
    for name, each in questions.items():
        sql = each.sql
        if emits and "HAVING" in sql and "[ROWS" not in sql:
            sql += " EMIT CHANGES"
        steps.append(Register(name, sql))
    many = dice.whole(40, 80)
    columns = random_events(dice, delay, many, 10 * SECOND, CALM)
    edges = sorted([0, many, *(dice.whole(0, many) for _ in range(dice.whole(8, 16)))])
    times: list[int] = []
    made, joins = 4, dice.whole(0, 3)
    for number, (start, end) in enumerate(pairwise(edges)):
        if number == joins or dice.chance(10):
            for _ in range(5 if number == joins else 1):
                questions[f"q{made}"] = ask()
                steps.append(Register(f"q{made}", questions[f"q{made}"].sql))
                made += 1
        steps.append(Push("s", {name: values[start:end] for name, values in columns.items()}))
        times += columns["ts"][start:end]
        names = [name for name in questions if not emits or name not in early]
        if dice.chance(10) and names:
            gone = dice.pick(names)
            steps.append(Drop(gone))
            if dice.chance(50):
                del questions[gone]
            else:
                questions[gone] = ask()
                steps.append(Register(gone, questions[gone].sql))
        if dice.chance(15):
            steps.append(Checkpoint())
        steps += [
            random_lookup(dice, name, each, times) for name, each in questions.items() if dice.chance(30)
        ]
        if dice.chance(80):
            steps.append(Advance())
    steps += [*(Lookup(name) for name in questions), Advance(max(times) + 20 * SECOND)]
    return Case(title, (random_stream(dice, delay),), tuple(steps))


class Twins(Pair):
    """As a pair, with an engine beside it that has no lanes: queries that came before lanes are compared with it."""

    def __init__(self, case: Case):
        super().__init__(case)
        self.plain = muntin.Engine()
        for sql in case.streams:
            self.plain.execute(sql)
        self.plain._shards["s"].has_lanes = False
        self.early: set[str] = set()
        self.arrived = self.refused = 0
        self.given: dict[str, pa.Table] = {}

    @property
    def plan(self) -> Any:
        return self.engine._shards["s"].state.manager

    def take(self, step: Step) -> None:
        engine = self.engine
        if isinstance(step, Advance):
            advance = engine.advance
            engine.advance = lambda **given: self.given.update(advance(**given)) or self.given  # type: ignore[method-assign]
        before = {name: each.answers_from for name, each in self.plan.placements.items()}
        super().take(step)
        if isinstance(step, Advance):
            del engine.advance  # type: ignore[method-assign]
        self._take_beside(step)
        if isinstance(step, Push):
            self.arrived += sum(
                each.answers_from > before[name] for name, each in self.plan.placements.items()
            )
            self.engine.check()
            for name in self.early:
                assert self.engine.coverage(name).complete == self.plain.coverage(name).complete, name

    def _take_beside(self, step: Step) -> None:
        match step:
            case Register(name, sql):
                self.plain.register(sql, name)
                if not self.plan.lanes.read:  # later on, what others have kept before is not the same
                    self.early.add(name)
            case Push(_, batch):
                self.plain.push("s", as_table(batch, self.reference.logs["s"].stream))
            case Drop(name):
                self.plain.drop(name)
                self.early.discard(name)
            case Lookup(name) if name in self.early:
                self._compare(step)
            case Advance(until):
                plain = self.plain.advance(until=until)
                for name in self.early:
                    assert _rows(self.given.get(name)) == _rows(plain.get(name)), (step, name)
                self.given = {}

    def _compare(self, step: Lookup) -> None:
        keys = None if step.keys is None else list(step.keys)
        found = []
        for engine in (self.engine, self.plain):
            try:
                found.append(_rows(engine.lookup(step.query, key=keys, at=step.at)))
            except WindowTooLarge:
                self.refused += 1
                if self._must_answer(step):
                    raise
                return
        assert found[0] == found[1], step


def _rows(table: pa.Table | None) -> Counter[str]:
    """Those that are complete: before that, what there is may be more in one engine than in the other. Keys that were
    forgotten in between may come in another order."""
    rows = [] if table is None else table.to_pylist()
    return Counter(str(row) for row in rows if row["complete"])


@pytest.mark.parametrize("first", range(0, some_of(1_000, 1), 10))
def test_no_answer_tells(first: int) -> None:
    arrived = 0
    for seed in range(first, first + 10):
        case = moving_case(SeededDice(seed), f"moving {seed}")
        pair = Twins(case)
        for number, step in enumerate(case.steps):
            try:
                pair.take(step)
            except Exception as error:
                raise AssertionError(f"{case.title}, step {number}: {step}") from error
        arrived += pair.arrived
    assert arrived > 8, "hardly any query has moved"


STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, c VARCHAR, n BIGINT) TIMESTAMP BY ts"
WINDOWS = (
    "[RANGE 4 SECONDS SLIDE 2 SECONDS]",
    "[RANGE 4 SECONDS]",
    "[RANGE 4 SECONDS TO 1 SECOND SLIDE 2 SECONDS]",
)


def subscription(constant: str, keys: str = "", window: str = WINDOWS[0]) -> str:
    items, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    return f"SELECT {items}SUM(n) AS total, COUNT(*) AS many FROM s {window} WHERE c = '{constant}'{by}"


def make_engine(**settings: Any) -> muntin.Engine:
    engine = muntin.Engine(**settings)
    engine.execute(STREAM)
    return engine


def push(engine: muntin.Engine, *times: int) -> None:
    """An event of each of three constants and two keys at each time."""
    at = [time for time in times for _ in range(6)]
    each = [number % 6 for number in range(len(at))]
    rows = {
        "ts": at,
        "k": [i % 2 for i in each],
        "c": [f"c{i % 3}" for i in each],
        "n": [1 + i for i in each],
    }
    engine.push("s", rows)


def manager_of(engine: muntin.Engine) -> Any:
    return engine._shards["s"].state.manager


def reads_lanes(engine: muntin.Engine, name: str) -> bool:
    return bool(manager_of(engine).placements[name].is_among_lanes)


def begun(keys: str = "", window: str = WINDOWS[0], **settings: Any) -> tuple[muntin.Engine, muntin.Engine]:
    """Two queries that begin to move at 10.5 seconds and 1 us, and an engine without lanes that has the same."""
    engines = make_engine(**settings), make_engine(**settings)
    engines[1]._shards["s"].has_lanes = False
    for engine in engines:
        engine.register_many({f"q{i}": subscription(f"c{i}", keys, window) for i in range(2)})
        push(engine, 7 * SECOND, 10 * SECOND, 21 * SECOND // 2)
        engine.register(subscription("c2", keys, window), "q2")
    return engines


@pytest.mark.parametrize(
    ("keys", "restarts"), every_second([("", False), ("", True), ("k", True), ("k", False)])
)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_query_arrives_at_the_first_instant_at_which_no_answer_tells(
    keys: str, window: str, restarts: bool
) -> None:
    """Not a microsecond, nor a slide, before: events just before its lanes began are in its windows."""
    moving, plain = begun(keys, window)
    began = 21 * SECOND // 2 + 1
    arrives = 16 * SECOND if "SLIDE" in window else began + 4 * SECOND
    assert (
        f"q0: moves to lanes that its like share, which answer from {_instant(arrives)} on"
        in moving.explain("q0")
    )
    assert moving.stats()["streams"]["s"]["moving"] == 2
    for at, has_arrived in (
        (12 * SECOND, False), (14 * SECOND, False), (arrives - 1, False), (arrives, False), (arrives, True),
        (30 * SECOND, True),
    ):  # fmt: skip
        moving = checkpointed(moving) if restarts else moving
        for engine in (moving, plain):
            engine.advance()  # up to the batch before, which can be forgotten then
            push(engine, at)
        now = moving._shards["s"].clock.watermark
        for name, instant in product(("q0", "q1"), (None, now, now + 1)):
            found = [engine.lookup(name, at=instant) for engine in (moving, plain)]
            assert found[0].equals(found[1]), (at, name, instant)
            assert reads_lanes(moving, name) == has_arrived, at
    assert moving.coverage("q0").complete
    assert "moves" not in moving.explain("q0")
    assert moving.stats()["streams"]["s"]["moving"] == 0
    (store,) = moving._shards["s"].state.stores
    assert store.where is not None  # the one of the lanes
    for engine in (moving, checkpointed(moving)):
        for look in (engine.lookup, engine.value) if not keys else (engine.lookup,):
            with pytest.raises(WindowTooLarge, match=f"query 'q0' .* instants from {_instant(arrives)} on"):
                look("q0", at=arrives - 1)
    if not keys:
        with pytest.raises(WindowTooLarge, match="query 'q0'"):
            moving.lookup_many(["q0", "q2"], at=arrives - 1)


def _instant(at: int) -> str:
    return str(np.datetime64(at, "us"))


@pytest.mark.parametrize("keys", ["", "k"])
def test_look_ups_alone_let_queries_arrive(keys: str) -> None:
    """Nobody calls `advance`: what is owed is forgotten for lack of room, and counted as missed."""
    moving, plain = begun(keys, backlog_bytes=0)
    for at in range(12, 30):
        for engine in (moving, plain):
            push(engine, at * SECOND)
        assert moving.lookup("q0").equals(plain.lookup("q0"))
    assert reads_lanes(moving, "q0")
    with pytest.warns(RuntimeWarning, match="has lost"):
        given, expected = moving.advance()["q0"], plain.advance()["q0"]
    assert given.equals(expected)
    assert moving.stats()["queries"]["q0"]["missed"] == plain.stats()["queries"]["q0"]["missed"]


def test_a_query_that_owes_answers_stays_until_they_are_given() -> None:
    moving, plain = begun()
    for at in range(12, 60, 3):
        for engine in (moving, plain):
            push(engine, at * SECOND)
    assert not reads_lanes(moving, "q0")
    given, expected = moving.advance(), plain.advance()
    assert given["q0"].equals(expected["q0"])
    push(moving, 60 * SECOND)
    assert reads_lanes(moving, "q0")


def test_a_query_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push costs nothing while queries wait for their time."""
    looked, arrives = Counter[str](), Movers.arrives
    monkeypatch.setattr(Movers, "arrives", lambda self, name: looked.update([name]) or arrives(self, name))
    moving, _ = begun("k", "[RANGE 100 SECONDS SLIDE 1 SECOND]")
    for at in range(11, 200):
        push(moving, at * SECOND)
        moving.advance()
    assert reads_lanes(moving, "q0")
    assert looked == {"q0": 2, "q1": 2}


def test_dropped_on_the_way() -> None:
    """What was kept for it goes, and its name is free."""
    moving, _ = begun("k")
    moving.drop("q0")
    moving.register(subscription("c0", "k", "[RANGE 9 SECONDS SLIDE 3 SECONDS]"), "q0")
    assert reads_lanes(moving, "q0")
    moving.check()
    moving.drop("q1")
    push(moving, 12 * SECOND)
    moving.drop("q2")
    moving.drop("q0")
    moving.check()
    state = moving._shards["s"].state
    assert not state.stores
    assert not state.lanes
    assert not state.keys
    for at in range(13, 20):
        push(moving, at * SECOND)


def test_a_filter_that_is_kept_takes_newcomers_along() -> None:
    """They find what is known there, and move, too."""
    moving, plain = begun("k")
    for engine in (moving, plain):
        engine.register(subscription("c0", "k", "[RANGE 6 SECONDS SLIDE 1 SECOND]"), "late")
    assert not reads_lanes(moving, "late")
    for at in range(11, 30):
        for engine in (moving, plain):
            push(engine, at * SECOND)
            engine.advance()
        assert moving.lookup("late").equals(plain.lookup("late"))
    assert reads_lanes(moving, "late")


def test_few_lanes_stay_lanes() -> None:
    moving, _ = begun()
    for at in range(11, 30):
        push(moving, at * SECOND)
        moving.advance()
    moving.drop("q1")
    moving.drop("q2")
    push(moving, 30 * SECOND)
    assert reads_lanes(moving, "q0")


def test_queries_filled_from_a_history_move() -> None:
    """Each had a store of its own, whatever its like."""
    past = pa.table({"ts": [6 * SECOND], "k": [1], "c": ["c0"], "n": [7]})
    queries = {f"h{i}": subscription(f"c{i}", "k", "[RANGE 9 SECONDS SLIDE 1 SECOND]") for i in range(3)}
    moving, plain = make_engine(), make_engine()
    plain._shards["s"].has_lanes = False
    for engine in (moving, plain):
        push(engine, 7 * SECOND, 8 * SECOND)
        engine.register_many(queries, backfill=past)
    assert moving.stats()["streams"]["s"]["moving"] == 3
    for at in range(9, 40):
        for engine in (moving, plain):
            push(engine, at * SECOND)
        given, expected = moving.advance(), plain.advance()
        assert given.keys() == expected.keys()
        for name in queries:
            assert moving.lookup(name).equals(plain.lookup(name)), (at, name)
            assert name not in given or given[name].equals(expected[name])
        moving.check()
    assert all(reads_lanes(moving, name) for name in queries)
    assert not any(store.generation for store in moving._shards["s"].state.stores)


SECONDS_9, OTHER = "[RANGE 9 SECONDS SLIDE 1 SECOND]", "[RANGE 5 SECONDS SLIDE 3 SECONDS]"


@pytest.mark.parametrize(
    ("there", "coming"),
    [
        # lanes know another aggregate, other constants, a shorter window, or more of the past than the history does
        (subscription("c{}", "k", SECONDS_9).replace("SUM(n)", "MAX(n)"), subscription("c0", "k", SECONDS_9)),
        (subscription("x{}", "k", SECONDS_9), subscription("c0", "k", SECONDS_9)),
        (subscription("c{}", "k"), subscription("c0", "k", SECONDS_9)),
        (subscription("c{}", "k", SECONDS_9), subscription("c0", "k", SECONDS_9)),
        # slices are too coarse at first
        (subscription("x{}", "k", "[RANGE 10 SECONDS SLIDE 5 SECONDS]"), subscription("c0", "k", SECONDS_9)),
        # a window with instants of its own
        (
            subscription("x{}", "k", SECONDS_9),
            subscription("c0", "k").replace("SUM(n)", f"SUM(n) OVER {OTHER}"),
        ),
    ],
)
def test_lanes_that_know_less_or_more_than_a_history(there: str, coming: str) -> None:
    moving, plain = make_engine(), make_engine()
    plain._shards["s"].has_lanes = False
    for engine in (moving, plain):
        engine.register_many({f"q{i}": there.format(i) for i in range(3)})
        for at in range(1, 9):
            push(engine, at * SECOND)
            engine.advance()
        engine.register(coming, "h", backfill=pa.table({"ts": [5 * SECOND], "k": [1], "c": ["c0"], "n": [7]}))
    assert manager_of(moving).moving.to.keys() == {"h"}
    for at in range(9, 40):
        for engine in (moving, plain):
            push(engine, at * SECOND)
        assert moving.lookup("h").equals(plain.lookup("h")), at
        given, expected = moving.advance(), plain.advance()
        assert _rows(given.get("h")) == _rows(expected.get("h")), at
        assert moving.coverage("h").complete == plain.coverage("h").complete
    assert reads_lanes(moving, "h")


def test_what_was_lost_before_it_arrived_stays_lost() -> None:
    """A longer slide makes lanes answer instants further back, of which they know too little for this query."""
    moving, _ = begun("k", backlog_bytes=0)
    for at in range(12, 30):
        push(moving, at * SECOND)
        if reads_lanes(moving, "q0"):
            break
    moving.register(subscription("c2", "k", "[RANGE 60 SECONDS SLIDE 60 SECONDS]"), "long")
    with pytest.warns(RuntimeWarning, match="has lost"):
        given = moving.advance()["q0"]
    assert set(given["complete"].to_pylist()) == {True}


def test_lanes_go_to_stairs_meanwhile() -> None:
    moving, plain = begun("k")
    for engine in (moving, plain):
        engine.register(subscription("c2", "k", "[RANGE 30 DAYS SLIDE 1 HOUR]"), "long")
    moving.check()
    assert {group.store.kind for group in manager_of(moving).groups.values()} == {"stairs", "slices"}
    for at in range(11, 30):
        for engine in (moving, plain):
            push(engine, at * SECOND)
            engine.advance()
        for name in ("q0", "q1"):
            assert moving.lookup(name).equals(plain.lookup(name))
    assert reads_lanes(moving, "q0")
    moving.check()


def test_windows_that_count_events_stay() -> None:
    moving, _ = begun("k", "[ROWS 2]")
    for at in range(11, 40):
        push(moving, at * SECOND)
        moving.advance()
    assert not reads_lanes(moving, "q0")
    assert reads_lanes(moving, "q2")


def test_a_snapshot_of_before_has_no_such_fields() -> None:
    _, plain = begun("k")
    description, arrays = plain._shards["s"].snapshot()
    for each in description["registrations"].values():
        assert each.pop("began") == each.pop("answers_from") == LONG_AGO
        assert "moving" not in each
    fresh = make_engine()
    fresh._shards["s"].restore(description, arrays, plain.queries)
    fresh.check()
    assert fresh._shards["s"].lookup("q0").equals(plain.lookup("q0"))


def test_where_texts_alone_decide_nothing_moves() -> None:
    """As on Spark: tasks fold events before the plan of a shard is known."""
    stream = make_engine()._shards["s"].stream
    shard = Shard(stream, 0, is_planned_by_demand=True)
    parsed = make_engine()
    parsed.register_many({f"q{i}": subscription(f"c{i}", "k") for i in range(3)})
    shard.register({name: shard.request_of(parsed.queries[name]) for name in ("q0", "q1")})
    shard.insert(pa.table({"ts": [SECOND], "k": [1], "c": ["c0"], "n": [7]}))
    shard.register({"q2": shard.request_of(parsed.queries["q2"])})
    assert shard.state.manager.placements["q2"].is_among_lanes
    assert not shard.state.manager.moving.to


@pytest.mark.parametrize("keys", ["", "k"])
@pytest.mark.parametrize(("others", "moves"), [(97, True), (1, False)])
def test_where_few_events_pass_fewer_constants_are_enough(
    keys: str, others: int, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of eight are many if one event in ten or fewer passes. That is seen while the stream runs, and no answer
    tells; a restart sees it anew."""
    monkeypatch.setattr(choices, "MANY_LANES", 8)
    monkeypatch.setattr(choices, "MANY_LANES_PER_KEY", 8)
    monkeypatch.setattr("muntin.shard.moving.ENOUGH", 1_000)
    engines = make_engine(), make_engine()
    engines[1]._shards["s"].has_lanes = False
    random = np.random.default_rng(1)
    for engine in engines:
        engine.register_many({f"q{i}": subscription(f"c{i}", keys, WINDOWS[0]) for i in range(4)})
    for second in range(20):
        kinds = np.array([f"c{i}" for i in range(4 + others)])[random.integers(0, 4 + others, 200)]
        at = np.sort(random.integers(second * SECOND, (second + 1) * SECOND, 200))
        batch = {"ts": at, "k": random.integers(0, 2, 200), "c": kinds, "n": random.integers(0, 9, 200)}
        engines = (checkpointed(engines[0]) if second == 3 else engines[0], engines[1])
        given, expected = (
            {name: each.to_pydict() for name, each in engine.advance().items()} for engine in engines
        )
        assert given == expected
        for engine in engines:
            engine.push("s", batch)
    assert reads_lanes(engines[0], "q0") == moves


@pytest.mark.parametrize("keys", ["", "k"])
def test_queries_that_are_emitted_together_move(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries of one constant differ in their windows alone, so they are a crowd until they move."""
    monkeypatch.setattr(choices, "MANY_LANES", 8)
    monkeypatch.setattr(choices, "MANY_LANES_PER_KEY", 8)
    monkeypatch.setattr("muntin.shard.moving.ENOUGH", 1_000)
    engines = make_engine(), make_engine()
    engines[1]._shards["s"].has_lanes = False
    random = np.random.default_rng(1)
    windows = [f"[RANGE {seconds} SECONDS SLIDE 1 SECOND]" for seconds in range(3, 9)]
    queries = {
        f"q{i}-{n}": subscription(f"c{i}", keys, each) for i in range(4) for n, each in enumerate(windows)
    }
    for engine in engines:
        engine.register_many(queries)
    crowds = 0
    for second in range(12):
        kinds = np.array([f"c{i}" for i in range(101)])[random.integers(0, 101, 200)]
        at = np.sort(random.integers(second * SECOND, (second + 1) * SECOND, 200))
        batch = {"ts": at, "k": random.integers(0, 2, 200), "c": kinds, "n": random.integers(0, 9, 200)}
        given, expected = (
            {name: each.to_pydict() for name, each in engine.advance().items()} for engine in engines
        )
        assert given == expected
        if not reads_lanes(engines[0], "q0-0"):
            crowds = max(crowds, len(list(engines[0]._shards["s"].state.crowds)))
        for engine in engines:
            engine.push("s", batch)
            engine.check()
    assert crowds
    assert reads_lanes(engines[0], "q0-0")
