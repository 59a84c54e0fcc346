"""Stairs in the engine: whatever windows come and go, answers are those of the reference.

By hint, and by the planner's own choice: here it moves windows per key to stairs at once, however few granules
that saves, in the middle of the stream too.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import muntin
from casefile import Advance, Case, Checkpoint, Drop, Lookup, Push, Register, Step
from effort import some_of
from muntin.errors import WindowTooLarge
from muntin.plan import choices
from muntin.store import granularity
from muntin.store.aging_slices import AgingSlices
from queries import Question
from replay import assert_agreement
from scenario import DELAYS, SECOND, Dice, SeededDice, random_batches, random_lookup, random_stream

# sets in which slides divide each other and sizes are multiples of them, but granules by slide would not do
TRAPS = (((6, 2), (12, 4)), ((5, 2), (8, 2)), ((6, 3), (12, 6), (15, 6)), ((4, 2), (8, 2), (12, 4)))
SIZES = (4, 6, 1, 5, 8, 12, 15, 20, 60)
SLIDES = (2, 1, 3, 4, 6, 7, 10, 30)
CALLS = (
    "COUNT(*)", "SUM(n)", "SUM(y)", "MIN(n)", "MAX(y)", "FIRST(n)", "LAST(y)", "AVG(y)", "VAR_POP(y)",
    "COUNT(*) FILTER (WHERE b)", "LAST(w)", "COUNT(x)",
)  # fmt: skip


def random_window(dice: Dice) -> str:
    size = dice.pick(SIZES)
    to = f" TO {dice.whole(1, size)} SECONDS" if dice.chance(15) else ""
    return f"[RANGE {size} SECONDS{to} SLIDE {dice.pick(SLIDES)} SECONDS]"


def random_stair_question(dice: Dice, hint: str, window: str) -> Question:
    """A query by key over a window with SLIDE, sometimes over others too."""
    items = []
    for number in range(dice.whole(1, 3)):
        over = f" OVER {random_window(dice)}" if dice.chance(20) else ""
        items.append(f"{dice.pick(CALLS)}{over} AS a{number}")
    where = " WHERE n > 0" if dice.chance(20) else ""
    having = " HAVING COUNT(*) > 1" if dice.chance(20) else ""
    sql = f"SELECT {hint} k, {', '.join(items)} FROM s {window}{where} GROUP BY k{having}"
    return Question(sql, ("k",))


def random_stair_case(dice: Dice, title: str, hint: str = "") -> Case:
    """Some queries to begin with, others that come and go, and looks at all of them in between."""
    delay = dice.pick(DELAYS)
    if dice.chance(50):
        windows = [f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]" for size, slide in dice.pick(TRAPS)]
    else:
        windows = [random_window(dice) for _ in range(dice.whole(1, 4))]
    questions = {f"q{i}": random_stair_question(dice, hint, window) for i, window in enumerate(windows)}
    steps: list[Step] = [Register(name, question.sql) for name, question in questions.items()]
    made, times = len(questions), []
    for batch in random_batches(dice, delay, dice.whole(0, 60)):
        times += batch["ts"]
        steps.append(Push("s", batch))
        if dice.chance(60):
            steps.append(Advance())
        steps += [
            random_lookup(dice, name, each, times) for name, each in questions.items() if dice.chance(70)
        ]
        change = dice.pick(("none", "none", "register", "drop", "checkpoint"))
        if change == "register":
            questions[f"q{made}"] = random_stair_question(dice, hint, random_window(dice))
            steps.append(Register(f"q{made}", questions[f"q{made}"].sql))
            made += 1
        elif change == "drop" and len(questions) > 1:
            name = dice.pick(list(questions))
            del questions[name]
            steps.append(Drop(name))
        elif change == "checkpoint":
            steps.append(Checkpoint())
    steps += [Lookup(name) for name in questions]
    steps.append(Advance())
    if times:
        steps.append(Advance(max(times) + dice.pick((1, SECOND, 90 * SECOND))))
        steps += [Lookup(name) for name in questions]
    return Case(title, (random_stream(dice, delay),), tuple(steps))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows per key move to stairs whenever they can, and these have all the levels they could have."""
    monkeypatch.setattr(choices, "FEW_GRANULES", 0)
    monkeypatch.setattr(choices, "CLEAR_MARGIN", 1e-9)
    monkeypatch.setattr(choices, "MOST_FOR_ONE_FOLD", 1e9)
    monkeypatch.setattr(granularity, "_WORTH", 0)
    monkeypatch.setattr(granularity, "_FEW_WAIT", 1)


CHUNK, QUICK, PAIRS = 25, 100, some_of(300, 25)
CHUNKS = [
    pytest.param(first, marks=pytest.mark.slow if first >= QUICK else ()) for first in range(0, PAIRS, CHUNK)
]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("first", CHUNKS)
def test_pairs_by_rule(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert_agreement(random_stair_case(SeededDice(seed), f"seed {seed}"))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("first", CHUNKS[::2])
def test_pairs_by_hint(first: int) -> None:
    for seed in range(-first - CHUNK, -first):
        assert_agreement(random_stair_case(SeededDice(seed), f"seed {seed}", "/*+ SYNOPSIS(stairs) */"))


AGGREGATES = (
    "COUNT(*)", "COUNT(x)", "SUM(n)", "SUM(x)", "AVG(x)", "MIN(n)", "MAX(x)", "FIRST(n)", "LAST(x)", "VAR_POP(x)",
)  # fmt: skip


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_values_are_those_of_lookups(aggregate: str) -> None:
    """One key's value, read level by level, is what the table has; at instants that several levels answer."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
    for name, (size, slide) in {"short": (3, 1), "long": (60, 12)}.items():
        window = f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]"
        text = f"SELECT /*+ SYNOPSIS(stairs) */ k, {aggregate} AS v FROM s {window} GROUP BY k"
        engine.register(text, name)
    rng = np.random.default_rng(0)
    for second in range(0, 150, 5):
        at = np.sort(rng.integers(second * SECOND, (second + 5) * SECOND, 12))
        x = pa.array(rng.normal(size=12), mask=rng.random(12) < 0.2)
        engine.push("s", {"ts": at, "k": rng.integers(0, 5, 12), "n": rng.integers(-9, 9, 12), "x": x})
        engine.advance()
        for name in ("short", "long"):
            found = {row["k"]: row["v"] for row in engine.lookup(name).to_pylist()}
            for key in range(6):
                value, expected = engine.value(name, key=key), found.get(key)
                assert value == (None if expected is None else pytest.approx(expected, rel=1e-12))
    (store,) = engine._shards["s"].state.stores.values()
    assert [len(level) > 0 for level in store.levels] == [True, True]


def test_a_running_grid_becomes_the_youngest_level() -> None:
    """A month by hours comes to a minute by seconds: what was complete stays so, and no event is folded twice."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    minute = "SELECT k, COUNT(*) AS v FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k"
    engine.register(minute, "minute")
    engine.push("s", {"ts": np.arange(1, 200) * SECOND, "k": np.zeros(199, np.int64)})
    assert "slices by k" in engine.explain("minute")
    before = engine.lookup("minute")
    engine.register("SELECT k, COUNT(*) AS v FROM s [RANGE 30 DAYS SLIDE 1 HOUR] GROUP BY k", "month")
    engine.check()
    assert engine.lookup("minute") == before
    for name in ("minute", "month"):
        explained = engine.explain(name)
        assert "stairs by k" in explained
        assert (
            "1 SECOND up to 61 SECONDS back, 1 MINUTE to fill the next, 1 HOUR up to 721 HOURS back"
            in explained
        )
    (store,) = engine._shards["s"].state.stores.values()
    assert isinstance(store, AgingSlices)
    engine.push("s", {"ts": np.array([7300]) * SECOND, "k": np.zeros(1, np.int64)})
    (row,) = engine.lookup("month").to_pylist()
    assert (row["v"], row["complete"]) == (199, True)  # the grid had not forgotten anything yet


@pytest.mark.parametrize("hint", ["slices", "collective_index"])
def test_who_asks_for_slices_keeps_them(hint: str) -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    for name, window in (("hour", "1 HOUR SLIDE 1 SECOND"), ("day", "1 DAY SLIDE 1 HOUR")):
        text = f"SELECT /*+ SYNOPSIS({hint}) */ k, COUNT(*) AS v FROM s [RANGE {window}] GROUP BY k HAVING COUNT(*) > 3"
        engine.register(text, name)
    groups = engine._shards["s"].state.manager.groups.values()
    assert {group.synopsis for group in groups} == {"slices"}


def test_what_is_too_coarse_by_now_is_refused() -> None:
    """Not answered from the granules that happen to lie in the window."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    for name, window in (("minute", "1 MINUTE SLIDE 1 SECOND"), ("day", "1 DAY SLIDE 1 HOUR")):
        engine.register(
            f"SELECT /*+ SYNOPSIS(stairs) */ k, COUNT(*) AS v FROM s [RANGE {window}] GROUP BY k", name
        )
    engine.push("s", {"ts": np.arange(2 * 3600) * SECOND, "k": np.zeros(2 * 3600, np.int64)})
    engine.advance()
    assert engine.lookup("minute", at=2 * 3600 * SECOND)["v"].to_pylist() == [60]
    for ask in (engine.lookup, partial(engine.value, key=0)):
        with pytest.raises(WindowTooLarge, match="the state answers instants from 1970-01-01T01:59:00"):
            ask("minute", at=3605 * SECOND)
    assert engine.lookup("day", at=2 * 3600 * SECOND)["v"].to_pylist() == [2 * 3600]


def test_a_query_alone_can_be_explained() -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    calls = "COUNT(*) OVER [RANGE 1 HOUR SLIDE 1 SECOND] AS a, COUNT(*) AS b"
    explained = engine.execute(f"EXPLAIN SELECT k, {calls} FROM s [RANGE 30 DAYS SLIDE 1 HOUR] GROUP BY k")
    assert "per key  at most" in explained


def test_a_refused_registration_moves_nothing() -> None:
    """All or none: the query that would have brought stairs is taken back with the one that fails."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT k, COUNT(*) AS v FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k", "minute")
    plan = engine.explain()
    good = "SELECT k, COUNT(*) AS v FROM s [RANGE 30 DAYS SLIDE 1 HOUR] GROUP BY k"
    with pytest.raises(muntin.MuntinError):
        engine.register_many({"good": good, "bad": "SELECT /*+ SYNOPSIS(stairs) */ COUNT(*) FROM s [ROWS 3]"})
    assert engine.explain() == plan
    engine.check()


HISTORY = np.arange(0, 3 * 86_400, 7) * SECOND  # three days


def history(at: np.ndarray) -> dict[str, np.ndarray]:
    return {"ts": at, "k": at // (7 * SECOND) % 3}


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_history_is_filled_in(has_begun: bool) -> None:
    """Long and short windows filled from history answer as if they had been there all along."""
    late, whole = muntin.Engine(), muntin.Engine()
    texts = {
        name: f"SELECT k, COUNT(*) AS v FROM s [RANGE {window}] GROUP BY k"
        for name, window in (("minute", "1 MINUTE SLIDE 1 SECOND"), ("days", "30 DAYS SLIDE 1 HOUR"))
    }
    for engine in (late, whole):
        engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    whole.register_many(texts)
    for part in np.array_split(HISTORY, 9):
        whole.push("s", history(part))
    if has_begun:
        late.push("s", history(HISTORY[-5:]))
    batches = [pa.RecordBatch.from_pydict(history(part)) for part in np.array_split(HISTORY, 9)]
    late.register_many(texts, backfill=pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    more = HISTORY[-1] + np.arange(1, 4000) * SECOND
    for engine in (late, whole):
        engine.push("s", history(more))
        engine.check()
    assert "stairs by k" in late.explain("days")
    for name in texts:
        assert late.lookup(name).drop(["complete"]) == whole.lookup(name).drop(["complete"])


def test_a_history_out_of_order_is_refused() -> None:
    """Rather than put where granules are too coarse for it; nothing is left of the query."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    engine.push("s", history(HISTORY[-5:]))
    calls = "COUNT(*) OVER [RANGE 1 MINUTE SLIDE 1 SECOND] AS a, COUNT(*) AS b"
    text = f"SELECT k, {calls} FROM s [RANGE 1 DAY SLIDE 1 HOUR] GROUP BY k"
    batches = [
        pa.RecordBatch.from_pydict(history(part)) for part in (HISTORY[20_000:], HISTORY[15_000:20_000])
    ]
    with pytest.raises(muntin.MuntinError, match=r"out of order .* sort it by time"):
        engine.register(text, "q", backfill=pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert not engine.queries
    engine.check()


@pytest.mark.usefixtures("eager")
def test_rows_of_a_component_go_with_its_last_query() -> None:
    """What is kept of others stays: it is not made again because a query went."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    for name, call in (("sums", "SUM(n)"), ("most", "MAX(n)")):
        for size, slide in ((5, 1), (60, 10)):
            window = f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]"
            engine.register(f"SELECT k, {call} AS v FROM s {window} GROUP BY k", f"{name} {size}")
    rng = np.random.default_rng(0)
    for second in range(90):
        at = np.sort(rng.integers(second * SECOND, (second + 1) * SECOND, 20))
        engine.push("s", {"ts": at, "k": rng.integers(0, 3, 20), "n": rng.integers(0, 9, 20)})
        for name in engine.queries:
            engine.lookup(name)
    (store,) = (each for each in engine._shards["s"].state.stores.values() if isinstance(each, AgingSlices))
    before = dict(store._rows)
    assert {need.component for _, need in before} == {"count", "sum", "max"}
    engine.drop("most 5")
    engine.drop("most 60")
    assert store._rows == {place: rows for place, rows in before.items() if place[1].component != "max"}
    engine.check()
