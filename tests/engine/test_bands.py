"""Many filters that are bands of one attribute: served together, and answered as each on its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from casefile import Case, Checkpoint, Drop, Lookup, Push, Register, Step
from effort import some_of
from muntin import Engine
from muntin.plan.choices import MANY_BANDS, MANY_BANDS_ON_SLICES
from queries import Question
from replay import assert_agreement
from scenario import SECOND, SeededDice, random_batches, random_looks, random_stream

NUMBERS = ("0", "1", "2", "-3", "0.1", "1.5", "5", "1000000000000", "1e16", "-1e300", "CAST('NaN' AS DOUBLE)")
TIMES = ("'1970-01-01 00:00:12'", "'1970-01-01 00:00:20.5'", "'2023-11-14 22:13:25'")
ATTRIBUTES = {"n": NUMBERS, "x": NUMBERS, "y": NUMBERS, "n + 1": NUMBERS, "ts": TIMES}
FORMS = ("{a} > {b}", "{a} >= {b}", "{b} > {a}", "{a} <= {b}", "{a} = {b}", "{a} BETWEEN {b} AND {c}",
         "{a} >= {b} AND {a} < {c}")  # fmt: skip
CALLS = ("SUM(n)", "SUM(x)", "AVG(y)", "COUNT(*)", "COUNT(x)", "MIN(x)", "MAX(n)", "FIRST(w)", "LAST(n)", "VAR_POP(y)",
         "FIRST(x)", "MAX(w)", "MEDIAN(y)", "COUNT(DISTINCT n)")  # fmt: skip
UNSERVED = ("MEDIAN", "COUNT(DISTINCT")  # by a range tree: a hint that serves nothing is refused
WINDOWS = ("[RANGE 5 SECONDS]", "[RANGE 20 SECONDS TO 2 SECONDS]", "[RANGE 1 MINUTE]",
           "[RANGE 6 SECONDS SLIDE 2 SECONDS]", "[RANGE 10 SECONDS SLIDE 5 SECONDS]")  # fmt: skip


def random_band(dice: SeededDice, attribute: str) -> str:
    low, high = (dice.pick(ATTRIBUTES[attribute]) for _ in range(2))
    return dice.pick(FORMS).format(a=attribute, b=low, c=high)


def random_question(dice: SeededDice, attribute: str) -> str:
    """A band in WHERE, in FILTER, or in both; by hint or by rule."""
    hint = "/*+ SYNOPSIS(range_tree) */ " if dice.chance(50) else ""
    where = f" WHERE {random_band(dice, attribute)}" if dice.chance(60) else ""
    calls = []
    for number in range(dice.whole(1, 3)):
        kept = f" FILTER (WHERE {random_band(dice, attribute)})" if dice.chance(50) or not where else ""
        calls.append(f"{dice.pick(CALLS)}{kept} AS a{number}")
    sql = f"SELECT {hint}{', '.join(calls)} FROM s {dice.pick(WINDOWS)}{where}"
    is_served = "CAST" not in sql and not all(call.startswith(UNSERVED) for call in calls)
    return sql if is_served and "MAX(w)" not in sql else sql.replace(hint, "")


def random_case_of_bands(seed: int) -> Case:
    """Dozens of bands of one attribute, registered before and while events come, looked up in between."""
    dice = SeededDice(seed)
    delay = dice.pick((0, 2 * SECOND))
    stream = random_stream(dice, delay)
    attribute = dice.pick([each for each in ATTRIBUTES if each != "ts" or "ts TIMESTAMP" in stream])
    texts = {f"q{number}": random_question(dice, attribute) for number in range(dice.whole(10, 30))}
    questions = {name: Question(sql, ()) for name, sql in texts.items()}
    steps: list[Step] = [Register(name, question.sql) for name, question in questions.items()]
    times: list[int] = []
    for batch in random_batches(dice, delay, dice.whole(20, 60)):
        times += batch["ts"]
        steps.append(Push("s", batch))
        steps += random_looks(dice, questions, times)
        change = dice.pick(("none", "register", "drop", "checkpoint"))
        if change == "register":
            name = f"late{len(steps)}"
            questions[name] = Question(random_question(dice, attribute), ())
            steps.append(Register(name, questions[name].sql))
        elif change == "drop" and len(questions) > 1:
            steps.append(Drop(dice.pick(list(questions))))
            del questions[steps[-1].name]  # type: ignore[union-attr]
        elif change == "checkpoint":
            steps.append(Checkpoint())
    steps += [Lookup(name) for name in questions]
    return Case(f"bands, seed {seed}", (stream,), tuple(steps))


@pytest.mark.parametrize("first", range(0, some_of(60, 33), 10))
def test_agrees_with_the_reference(first: int) -> None:
    """Every look-up and emitted window, for NULL, NaN, integers, doubles and times, in and out of order."""
    for seed in range(first, first + 10):
        assert_agreement(random_case_of_bands(seed))


def engine_of_bands(count: int, window: str = "[RANGE 10 SECONDS]", hint: str = "") -> Engine:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, b DOUBLE, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND")
    rules = {f"q{i}": f"SELECT {hint}SUM(x) AS v FROM s {window} WHERE b > {i / 100}" for i in range(count)}
    engine.register_many(rules)
    return engine


def one_by_one(count: int, window: str = "[RANGE 10 SECONDS]") -> Engine:
    """The same, registered one after the other while the stream runs."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, b DOUBLE, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND")
    engine.push("s", events(0))
    for i in range(count):
        engine.register(f"SELECT SUM(x) AS v FROM s {window} WHERE b > {i / 100}", f"q{i}")
    return engine


def events(seed: int, count: int = 500) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, 10 * SECOND, count)) + seed * 10 * SECOND
    b = random.random(count)
    b[random.random(count) < 0.05] = math.nan
    return {"ts": at, "b": b, "n": random.integers(0, 9, count), "x": random.normal(size=count)}


def synopses_of(engine: Engine) -> dict[str, set[str]]:
    """Names of the synopses that serve the calls of each query."""
    manager = engine._shards["s"].state.manager
    return {
        name: {manager.groups[number].synopsis for call in placement.calls for number, _ in call}
        for name, placement in manager.placements.items()
    }


@pytest.mark.parametrize(
    ("window", "many"),
    [("[RANGE 10 SECONDS]", MANY_BANDS), ("[RANGE 10 SECONDS SLIDE 1 SECOND]", MANY_BANDS_ON_SLICES)],
)
def test_rule_counts_different_bands(window: str, many: int) -> None:
    """In a running stream the tree comes with the band that makes them many; queries before it stay where they are.
    Before the first event all bands go to the tree, or none."""
    assert set().union(*synopses_of(engine_of_bands(many, window)).values()) == {"range_tree"}
    served = synopses_of(one_by_one(many + 1, window))
    assert served[f"q{many - 2}"] == {"r_int", "b_int"}
    assert served[f"q{many - 1}"] == served[f"q{many}"] == {"range_tree"}
    again = engine_of_bands(many - 1, window)
    for number in range(3):
        again.register(f"SELECT MAX(x) FILTER (WHERE b > 0.0) AS v FROM s {window}", f"same {number}")
    assert "range_tree" not in set().union(*synopses_of(again).values())


def test_long_windows_on_slices_stay_there() -> None:
    """However many bands: their events would have to be kept, where slices do not grow with the rate."""
    served = synopses_of(engine_of_bands(MANY_BANDS_ON_SLICES + 1, "[RANGE 30 DAYS SLIDE 1 HOUR]"))
    assert "range_tree" not in set().union(*served.values())


def test_a_filter_that_is_kept_stays_where_it_is() -> None:
    """A query for a band that already has a structure joins it, however many bands there are by then."""
    engine = one_by_one(MANY_BANDS + 5)
    engine.register("SELECT AVG(x) FILTER (WHERE 0.0 < b) AS v FROM s [RANGE 3 SECONDS]", "joined")
    assert synopses_of(engine)["joined"] == {"r_int", "b_int"}


def test_events_are_not_filtered_one_by_one() -> None:
    """No predicate is evaluated for bands in a tree, and the ring keeps the attribute instead of masks."""
    engine = engine_of_bands(50, hint="/*+ SYNOPSIS(range_tree) */ ")
    state = engine._shards["s"].state
    assert not state.wanted.predicates
    engine.push("s", events(0))
    (ring,) = state.stores.values()
    assert set(ring.snapshot()) >= {"column value b", "column value x"}
    assert not [name for name in ring.snapshot() if "mask" in name]


def test_a_new_band_knows_the_past() -> None:
    """A query that comes while the stream runs is complete at once: its attribute has been kept."""
    engine = engine_of_bands(20)
    columns = events(0)
    engine.push("s", columns)
    engine.register("SELECT COUNT(x) AS v FROM s [RANGE 5 SECONDS] WHERE b BETWEEN 0.25 AND 0.5", "new")
    (row,) = engine.lookup("new").to_pylist()
    inside = (columns["ts"] > columns["ts"][-1] - 5 * SECOND) & (columns["b"] >= 0.25) & (columns["b"] <= 0.5)
    assert (row["v"], row["complete"]) == (int(inside.sum()), True)


def test_many_at_once_are_as_one_by_one() -> None:
    """lookup, value, lookup_many and advance give the same numbers."""
    engine = engine_of_bands(40)
    for turn in range(3):
        engine.push("s", events(turn))
    names = list(engine.queries)
    together = engine.lookup_many(names).to_pylist()
    instant = int(engine._shards["s"].state.clock.now or 0)
    emitted = engine.advance(until=instant)
    for name, row in zip(names, together, strict=True):
        values = [
            row["value"],
            engine.value(name),
            engine.lookup(name)["v"][0].as_py(),
            emitted[name]["v"][0].as_py(),
        ]
        np.testing.assert_allclose(values, values[0], rtol=1e-12)
    engine.check()


def test_what_nobody_needs_is_freed() -> None:
    """When the last band of an attribute goes, so do its tree and its column."""
    engine = engine_of_bands(0)
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 10 SECONDS]", "plain")
    engine.push("s", events(0))
    before = engine.stats()["streams"]["s"]["bytes"]
    hint = "/*+ SYNOPSIS(range_tree) */"
    for number in range(10):
        engine.register(
            f"SELECT {hint} MAX(x) AS v FROM s [RANGE 5 SECONDS] WHERE b < {number}", f"b{number}"
        )
    assert engine.stats()["streams"]["s"]["bytes"] > before
    for number in range(10):
        engine.drop(f"b{number}")
    assert engine.stats()["streams"]["s"]["bytes"] == before
    engine.check()


@pytest.mark.parametrize(
    "sql",
    ["SELECT {} SUM(x) AS v FROM s [ROWS 5] WHERE b > 1", "SELECT {} SUM(x) AS v FROM s [RANGE 5 SECONDS] WHERE b <> 1",
     "SELECT {} n, SUM(x) FILTER (WHERE b > 1) AS v FROM s [RANGE 5 SECONDS] GROUP BY n"],
)  # fmt: skip
def test_hint_that_cannot_be_served_is_refused(sql: str) -> None:
    """With the reason."""
    engine = engine_of_bands(0)
    with pytest.raises(Exception, match="range_tree"):
        engine.register(sql.format("/*+ SYNOPSIS(range_tree) */"), "q")
    assert not engine.queries


def test_explain_names_the_tree() -> None:
    """Synopsis, rule and members."""
    text = engine_of_bands(30).explain()
    assert "range_tree" in text
    assert "many filters are bands of one attribute" in text
    assert "30 queries: q0" in text
