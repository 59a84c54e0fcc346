"""Queries that come and go while events are pushed: from any thread, all or none, and nothing is left behind."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin.errors import MuntinError, NameTaken
from muntin.shard.state import State

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
KINDS = (
    "SELECT SUM(n) AS v, COUNT(*) AS c FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS]",
    "SELECT k, MAX(x) AS v FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k HAVING MAX(x) > 0.{size}",
    "SELECT k, AVG(n) AS v FROM s [RANGE {size} SECONDS] WHERE x < 0.7 GROUP BY k",
    "SELECT AVG(x) AS v FROM s [RANGE {size} SECONDS] WHERE n BETWEEN {slide} AND {size}",
    "SELECT MAX(n) FILTER (WHERE k = 'a') AS v, MEDIAN(x) AS m FROM s [RANGE {size} SECONDS]",
    "SELECT k, LAST(n) AS v FROM s [ROWS {size} SLIDE {slide}] GROUP BY k",
    "SELECT SUM(x) AS v FROM s [ROWS {size}]",
    "SELECT /*+ SYNOPSIS(l_int) */ MIN(x) AS v FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS]",
    "SELECT FIRST(k) AS v FROM s [RANGE {size} SECONDS TO {slide} SECONDS SLIDE 1 SECOND]",
)


def make_engine() -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    return engine


def shard_of(engine: muntin.Engine) -> State:
    return engine._shards["s"].state


def query(random: Random) -> str:
    slide = random.choice((1, 2, 3, 5, 10))
    return random.choice(KINDS).format(size=slide * random.randint(1, 9), slide=slide)


def push(engine: muntin.Engine, random: Random, start: int, count: int = 30) -> int:
    """Some seconds of events, a few of them out of order; returns where they end."""
    at = start + np.sort(np.array([random.randrange(4 * SECOND) for _ in range(count)]))
    at[count // 2] -= SECOND
    columns: dict[str, Any] = {
        "ts": at, "k": [random.choice("abc") for _ in at], "n": [random.randrange(20) for _ in at],
        "x": [random.random() for _ in at],
    }  # fmt: skip
    engine.push("s", columns)
    return start + 4 * SECOND


@settings(max_examples=settings().max_examples // 3)
@given(st.integers(0, 10**9))
def test_counts_do_not_drift(seed: int) -> None:
    """Whatever came and went, what is kept is what the queries that are there need; at last nothing."""
    random, engine, end = Random(seed), make_engine(), 0
    names: list[str] = []
    for step in range(random.randint(4, 14)):
        turn = random.random()
        if turn < 0.25:
            end = push(engine, random, end)
        elif turn < 0.6:
            some = {f"q{step} {number}": query(random) for number in range(random.randint(1, 4))}
            engine.register_many(some)
            names += some
        elif turn < 0.7:
            engine.advance()
        elif turn < 0.8:
            engine.execute(query(random))
        elif names:
            engine.drop(names.pop(random.randrange(len(names))))
        for name in names:
            engine.lookup(name)
        engine.check()
    for name in names:
        engine.drop(name)
    engine.check()
    shard = shard_of(engine)
    assert not shard.stores
    assert not shard.synopses
    assert not shard.keys
    assert not shard.texts
    assert shard.nbytes() == 0
    assert not shard.prepared.readings


@settings(max_examples=settings().max_examples // 3)
@given(st.integers(0, 10**9))
def test_the_others_change_nothing(seed: int) -> None:
    """Queries that stay answer as if nobody else had ever been there: by look-up, key by key, and by advance."""
    random, joined, alone, end = Random(seed), make_engine(), make_engine(), 0
    stay = {f"stay {number}": query(random) for number in range(4)}
    for engine in (joined, alone):
        engine.register_many(stay)
    others: list[str] = []
    for step in range(5):
        seed = random.randrange(10**9)
        for engine in (joined, alone):
            new_end = push(engine, Random(seed), end)
        end = new_end
        for number in range(random.randint(0, 3)):
            others.append(f"other {step} {number}")
            joined.register(query(random), others[-1])
            joined.lookup(others[-1])
        if random.random() < 0.5:
            joined.execute(query(random))
        while others and random.random() < 0.5:
            joined.drop(others.pop(random.randrange(len(others))))
        for name in stay:
            assert joined.lookup(name).equals(alone.lookup(name)), stay[name]
            key = "a" if "GROUP BY" in stay[name] else None
            assert joined.value(name, key) == alone.value(name, key)
        if random.random() < 0.4:
            given_out, expected = joined.advance(), alone.advance()
            assert all(given_out[name].equals(expected[name]) for name in stay if name in expected)
        joined.check()


def test_prepared_readers_stay() -> None:
    """A query more or less does not undo what others have prepared."""
    engine = make_engine()
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 5 SECONDS]", "point")
    engine.register("SELECT k, MAX(n) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k", "keyed")
    push(engine, Random(1), 0)
    engine.value("point"), engine.value("keyed", "a"), engine.lookup_many(["point"])
    prepared = shard_of(engine).prepared
    before = (prepared.readers["point"], prepared.key_readers["keyed"], prepared.bundles[("point",)])
    engine.register("SELECT SUM(n) AS v, MIN(x) AS m FROM s [RANGE 9 SECONDS] WHERE k = 'a'", "other")
    engine.register("SELECT k, MAX(n) AS v FROM s [RANGE 7 SECONDS SLIDE 1 SECOND] GROUP BY k", "another")
    engine.drop("other")
    engine.drop("another")
    after = (prepared.readers["point"], prepared.key_readers["keyed"], prepared.bundles[("point",)])
    assert all(one is other for one, other in zip(before, after, strict=True))


def test_a_name_can_be_used_again() -> None:
    """What was prepared for the query that had it before is not mixed up with the new one."""
    engine = make_engine()
    engine.push("s", {"ts": [0, SECOND], "k": ["a", "b"], "n": [1, 2], "x": [0.5, 0.25]})
    for text, expected in (("SUM(n)", 3), ("MAX(x)", 0.5), ("COUNT(*)", 2)) * 2:
        engine.register("SELECT COUNT(n) AS v FROM s [RANGE 5 SECONDS]", "other")
        engine.register(f"SELECT {text} AS v FROM s [RANGE 5 SECONDS]", "q")
        engine.push("s", {"ts": [], "k": [], "n": [], "x": []})
        engine.drop("other")
        kept = make_engine()
        kept.register(f"SELECT {text} AS v FROM s [RANGE 5 SECONDS]", "q")
        for each in (engine, kept):
            each.push("s", {"ts": [2 * SECOND] * 2, "k": ["a", "b"], "n": [1, 2], "x": [0.5, 0.25]})
        assert kept.value("q") == expected
        assert engine.lookup_many(["q"])["value"][0].as_py() == engine.value("q")
        engine.drop("q")


def test_a_select_leaves_the_grid_as_it_was() -> None:
    """Slices are no finer, afterwards, than the standing queries need them."""
    engine = make_engine()
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 60 SECONDS SLIDE 20 SECONDS]", "coarse")
    end = push(engine, Random(1), 0)
    engine.execute("SELECT SUM(n) AS v FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    (store,) = shard_of(engine).stores.values()
    assert store.grid.step == 20 * SECOND
    assert store.grid.is_uniform
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 1 SECOND SLIDE 1 SECOND]", "fine")
    for _ in range(10):
        end = push(engine, Random(end), end)
    assert store.grid.step == SECOND
    engine.drop("fine")
    for _ in range(30):
        end = push(engine, Random(end), end)
        engine.advance()
    assert store.grid.step == 20 * SECOND
    assert len(store) <= 6


def test_all_or_none() -> None:
    engine = make_engine()
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 5 SECONDS]", "there")
    many = {f"q{number}": "SELECT SUM(n) AS v FROM s [RANGE 5 SECONDS]" for number in range(200)}
    with pytest.raises(NameTaken):
        engine.register_many(many | {"there": "SELECT COUNT(*) FROM s [ROWS 5]"})
    with pytest.raises(MuntinError, match="nothing"):
        engine.register_many(many | {"wrong": "SELECT SUM(nothing) FROM s [ROWS 5]"})
    with pytest.raises(MuntinError, match="synopsis"):
        engine.register_many(many | {"wrong": "SELECT /*+ SYNOPSIS(rescan) */ SUM(n) FROM s [ROWS 5]"})
    assert list(engine.queries) == ["there"]
    engine.register_many(many)
    assert len(engine.queries) == 201
    engine.check()


def test_threads() -> None:
    """Some register and drop, one pushes, one looks up: every answer is of a query that is there."""
    engine, stop, faults, turns = make_engine(), threading.Event(), list[BaseException](), list[int]()
    engine.register("SELECT COUNT(*) AS c FROM s [RANGE 1 DAY]", "all")

    def until_stopped(work: Any) -> threading.Thread:
        turns.append(0)

        def run(number: int = len(turns) - 1) -> None:
            try:
                while not stop.is_set():
                    work()
                    turns[number] += 1
            except BaseException as fault:
                faults.append(fault)

        return threading.Thread(target=run)

    def come_and_go(number: int) -> None:
        random = Random(number)
        names = [f"{number} {each}" for each in range(100)]
        engine.register_many({name: query(random) for name in names})
        for name in names:
            engine.lookup(name)
            engine.drop(name)

    random, end = Random(5), 0

    def push_more() -> None:
        nonlocal end
        end = push(engine, random, end)

    threads = [
        until_stopped(lambda: come_and_go(1)),
        until_stopped(lambda: come_and_go(2)),
        until_stopped(push_more),
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 300
    while min(turns) < 3 and not faults and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert min(turns) >= 3
    engine.check()
    assert engine.value("all") == engine.stats()["streams"]["s"]["events"]


def test_queries_are_given_by_name() -> None:
    with pytest.raises(MuntinError, match=r"queries is a dict .*, not"):
        muntin.Engine().register_many(["SELECT 1"])  # type: ignore[arg-type]


def test_ten_thousand_windows_take_at_most_twice_the_widest() -> None:
    """Without keys, on state that is large beside what an empty store sets aside."""
    random, reach = Random(5), 20_000
    windows = {(reach, 1)} | {(random.randint(1, reach), random.choice([1, 2, 5, 60])) for _ in range(11_000)}
    texts = [f"SELECT SUM(n) FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS]" for size, slide in windows]
    held = {}
    for many in (1, 10_000):
        engine = muntin.Engine(backlog_bytes=0)
        engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts")
        engine.register_many({"widest": f"SELECT SUM(n) FROM s [RANGE {reach} SECONDS SLIDE 1 SECOND]"})
        engine.register_many({f"q{n}": text for n, text in enumerate(texts[: many - 1])})
        for begin in range(0, 2 * reach, 5_000):
            at = np.arange(begin, begin + 5_000)
            engine.push("s", {"ts": at * SECOND, "n": at})
        held[many] = engine.stats()["streams"]["s"]["bytes"]
    assert held[1] > 16 * reach
    assert held[10_000] <= 2 * held[1]


@pytest.mark.parametrize("by", ["", "k"])
@pytest.mark.parametrize("call", ["SUM(n)", "MAX(x)", "MEDIAN(n)", "LAST(n)", "VAR_POP(x)"])
def test_who_comes_later_is_answered_now(call: str, by: str) -> None:
    """The default instant can be answered, also if the slide of a new query has it stand further back than others."""
    for seed in range(6):
        random, now, engine = Random(seed), 0, make_engine()
        item, keys = (f"{by}, {call}", f"GROUP BY {by}") if by else (call, "")
        first = random.choice(["ROWS 3", "RANGE 4 SECONDS", "RANGE 3 SECONDS SLIDE 1 SECOND"])
        engine.register(f"SELECT {item} AS v FROM s [{first}] {keys}", "0")
        for number in range(1, 5):
            for _ in range(random.randint(1, 4)):
                now = push(engine, random, now, 8)
            if random.random() < 0.5:
                engine.advance()
            slide = random.randint(2, 9)
            window = f"[RANGE {random.randint(slide, 20)} SECONDS SLIDE {slide} SECONDS]"
            engine.register(f"SELECT {item} AS v FROM s {window} {keys}", str(number))
            instant = engine._shards["s"].state.clock.now
            for name, each in engine.queries.items():
                found = engine.lookup(name)
                if each.window.is_time:
                    ends = set(found["window_end"].cast("int64").to_pylist())
                    assert ends <= {each.window.settle(instant)}
                assert found.num_rows or by
        engine.check()
