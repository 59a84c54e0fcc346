"""Queries that differ in the constants of WHERE share a store, and answer as if each had its own.

Lanes are used from one constant on here, so that short random cases meet them: equalities and IN over every type, NULL
and NaN among the constants, with and without GROUP BY; queries that come and go, and restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

import muntin
from casefile import Drop, Lookup, Push, Register
from effort import some_of
from muntin.plan import choices
from muntin.structure import key_runs
from muntin.window import Window
from queries import KEY_EXPRESSIONS, KEYS, SIZES, SLIDES, OwnWindows, Question, random_output, random_question
from replay import assert_agreement, disagreement
from scenario import SeededDice, random_case, random_crowd

CONSTANTS = (
    "k = 'a'", "k = 'b'", "k = 'never'", "k IN ('a', 'c')", "j = 1", "j = 2 AND k = 'a'", "j IN (1, 3)", "NOT b", "b",
    "k IS NULL", "j = 2 OR j IS NULL", "k = '' OR k = 'b'", "n = 1000000000000", "n = 2.0", "n = 2.5", "y = 0.25",
    "y = 0.0", "y = -0.0", "x = 0.1", "x = CAST('NaN' AS DOUBLE)", "w = 'ask' AND n > 1", "w = 'bid' AND y < 1.5",
    "w = 'ask' AND n > j", "k = 'a' AND w LIKE 'a%'", "n % 3 = 1", "n + 1 = 3", "k = 'a' AND k = 'b'",
    "k = 'a' AND j = 1 AND b", "NOT (k <> 'a' OR j <> 1)", "k IN ('a', 'b') AND j IN (1, 2)", "n > 1", "k <> 'a'",
)  # fmt: skip
MANY, MANY_PER_KEY = choices.MANY_LANES, choices.MANY_LANES_PER_KEY  # as they are without the fixture
THRESHOLDS = ("SUM(n) >= 3", "COUNT(*) > 1", "COUNT(*) > 0", "MAX(n) < 5", "MIN(y) IS NULL")


@pytest.fixture(autouse=True)
def _from_one_constant_on() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        _lanes_from(patch, 1)
        yield


def _lanes_from(patch: pytest.MonkeyPatch, many: int) -> None:
    patch.setattr(choices, "MANY_LANES", many)
    patch.setattr(choices, "MANY_LANES_PER_KEY", many)
    patch.setattr(choices, "MANY_RANGES_PER_KEY", many)


def filtered_question(dice) -> Question:
    """Mostly windows with SLIDE, which lanes of cells serve; now and then anything."""
    if dice.chance(10):
        return random_question(dice)
    size = dice.pick(SIZES)
    slide = dice.pick((*SLIDES, size)) if size >= 500_000 else 500_000
    return _question_over(dice, Window("time", size, 0, slide))


def loose_question(dice) -> Question:
    """Windows without SLIDE and ROWS windows, which lanes of events serve; now and then any of the others."""
    if dice.chance(25):
        return filtered_question(dice)
    if dice.chance(40):
        return _question_over(dice, Window("rows", dice.pick((1, 2, 4, 9)), dice.pick((0, 0, 0, 1))))
    size = dice.pick(SIZES)
    return _question_over(dice, Window("time", size, size // 3 if dice.chance(20) else 0))


def _question_over(dice, window: Window) -> Question:
    keys = dice.pick(KEYS) if dice.chance(50) else ()
    over = OwnWindows(dice, window)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    calls = ["COUNT(*)", "SUM(n)", "MAX(n)", "MIN(y)", "AVG(n)", "LAST(k)", "FIRST(n)", "COUNT(w)", "SUM(y)"]
    items += [
        f"{dice.pick(calls) if dice.chance(85) else random_output(dice, over)} AS a{number}"
        for number in range(dice.whole(1, 3))
    ]
    sql = f"SELECT {', '.join(items)} FROM s {window} WHERE {dice.pick(CONSTANTS)}"
    if keys:
        sql += f" GROUP BY {', '.join(KEY_EXPRESSIONS.get(key, key) for key in keys)}"
    if dice.chance(50):
        sql += f" HAVING {dice.pick(THRESHOLDS)}"
    return Question(sql, keys)


def changing_question(dice) -> Question:
    sql, keys = "", ()
    while " HAVING " not in sql:
        made = filtered_question(dice)
        sql, keys = made.sql, made.keys
    follows_time = "[ROWS" not in sql.partition(" FROM s ")[2]
    return Question(f"{sql} EMIT CHANGES" if follows_time else sql, keys)


@pytest.mark.parametrize("first", range(0, some_of(2_000, 2), 50))
def test_pairs(first: int) -> None:
    for seed in range(first, first + 50):
        case = random_case(SeededDice(seed), f"lanes {seed}", most_queries=5, question=filtered_question)
        assert_agreement(case)


@pytest.mark.parametrize("is_fed", [True, False])
@pytest.mark.parametrize("first", range(0, some_of(1_000, 5), 50))
def test_windows_without_slide(first: int, is_fed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By runs, which small cases would hardly ever feed, and by scans."""
    monkeypatch.setattr(key_runs, "_FEED", 0.0 if is_fed else 1e9)
    monkeypatch.setattr(key_runs, "_READ", 0.0)
    for seed in range(first, first + 50):
        case = random_case(SeededDice(seed), f"loose lanes {seed}", most_queries=5, question=loose_question)
        assert_agreement(case)


@pytest.mark.parametrize("first", range(0, some_of(1_000, 5), 50))
def test_changes(first: int) -> None:
    """EMIT CHANGES of queries that are there from the start: others need not have seen who enters."""
    for seed in range(first, first + 50):
        case = random_case(SeededDice(seed), f"lanes {seed}", most_queries=5, question=changing_question)
        begins = next((i for i, step in enumerate(case.steps) if isinstance(step, Push)), len(case.steps))
        steps = [
            step
            for i, step in enumerate(case.steps)
            if not isinstance(step, Drop) and (i < begins or not isinstance(step, Register))
        ]
        there = {step.name for step in steps if isinstance(step, Register)}
        steps = [step for step in steps if not isinstance(step, Lookup) or step.query in there]
        assert_agreement(replace(case, steps=tuple(steps)))


@pytest.mark.parametrize("seed", range(some_of(24, 5)))
def test_crowds(seed: int) -> None:
    case = random_crowd(SeededDice(seed), f"crowd of lanes {seed}", question=filtered_question)
    if error := disagreement(case):
        raise error


STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, c VARCHAR, n BIGINT) TIMESTAMP BY ts"
MINUTE = 60_000_000


def engine_with(queries: dict[str, str]) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def subscription(constant: str, keys: str = "", having: str = "") -> str:
    items, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    window = "[RANGE 2 MINUTES SLIDE 1 MINUTE]"
    return f"SELECT {items}SUM(n) AS total FROM s {window} WHERE c = '{constant}'{by}{having}"


def events(at: int, keys: range) -> dict[str, list]:
    many = len(keys)
    return {
        "ts": [at * MINUTE + i * MINUTE // (many + 1) for i in range(many)],
        "k": list(keys),
        "c": [f"c{key % 7}" for key in keys],
        "n": [key % 5 for key in keys],
    }


def test_explain_tells_what_is_indexed_and_what_is_evaluated() -> None:
    engine = engine_with({f"q{i}": f"{subscription(f'c{i}')} AND n % 5 <> 1" for i in range(3)})
    engine.push("s", events(0, range(70)))
    told = engine.explain()
    assert "1 group" in told.splitlines()[0]
    passed = sum(1 for key in range(70) if key % 7 < 3 and key % 5 != 1)
    assert f"  lanes    by the value of c: 3 are asked for, {passed} of 70 events passed\n" in told
    assert "  evaluated n % 5 <> 1\n" in told
    assert "because  many filters compare the same attributes with constants" in told


def test_a_condition_that_is_never_true_is_said_to_be_so() -> None:
    engine = engine_with({"never": f"{subscription('a')} AND c = 'b'", "some": subscription("a")})
    engine.push("s", events(0, range(7)))
    engine.push("s", events(2, range(7)))
    assert engine.lookup("never").column("total").to_pylist() == [None]
    assert "never: no event can pass its WHERE, which is never true" in engine.explain("never")
    assert "never true" not in engine.explain("some")
    assert "no event can pass" in engine.execute(f"EXPLAIN {subscription('a')} AND c IN ('b', 'd')")


def test_first_values_of_many_lanes_are_those_of_each() -> None:
    """One lane or several, a silent one, one that nobody has seen, and a query without lanes between them."""
    queries = {f"q{i}": subscription(f"c{i}") for i in range(9)}
    queries["both"] = subscription("c1").replace("c = 'c1'", "c IN ('c1', 'c3')")
    queries["all"] = "SELECT SUM(n) AS total FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE]"
    engine = engine_with(queries)
    for at in range(4):
        engine.push("s", events(at, range(40 if at < 2 else 5)))
        table = engine.lookup_many(list(queries)).to_pylist()
        for row in table:
            (alone,) = engine.lookup(row["query"]).to_pylist()
            assert row["value"] == alone["total"]
            assert {**row, **alone} == {**row, **alone, "complete": row["complete"]}
        assert [row["query"] for row in table] == list(queries)


@pytest.mark.parametrize("keys", ["", "k"])
def test_keys_and_constants_that_come_and_go(keys: str, monkeypatch) -> None:
    """Keys are forgotten and numbered anew while queries with other constants come; answers are those of filters of
    their own."""
    having = " HAVING SUM(n) > 1"
    with_lanes = engine_with({f"q{i}": subscription(f"c{i}", keys, having) for i in range(4)})
    _lanes_from(monkeypatch, 10**9)
    alone = engine_with({f"q{i}": subscription(f"c{i}", keys, having) for i in range(4)})
    for at in range(12):
        batch = events(at, range(at * 3_000, at * 3_000 + 4_000))
        for engine, many in ((with_lanes, 1), (alone, 10**9)):
            _lanes_from(monkeypatch, many)
            if at == 3:
                engine.drop("q1")
                engine.register(subscription("c6", keys, having), "q6")
            if at == 6:
                engine.register(subscription("c1", keys, having), "q1")
            engine.push("s", batch)
        got, expected = with_lanes.advance(), alone.advance()
        with_lanes.check()
        assert got.keys() == expected.keys()
        order = [("window_end", "ascending"), *([("k", "ascending")] if keys else [])]
        for name in expected:  # keys that were forgotten in between may come in another order
            assert got[name].sort_by(order).equals(expected[name].sort_by(order)), (at, name)
    shard = with_lanes._shards["s"].state
    assert len(shard.keys[next(iter(shard.lanes)).store_keys]) < 20_000  # of 36,000


def test_keys_that_another_query_kept_before_there_were_lanes() -> None:
    """Pairs of a key and a constant have ids already, and their keys get theirs only when an event comes."""
    engine = engine_with(
        {"pairs": "SELECT k, c, COUNT(*) AS n FROM s [RANGE 9 MINUTES SLIDE 1 MINUTE] GROUP BY k, c"}
    )
    engine.push("s", events(0, range(20)))
    engine.register_many({f"q{i}": subscription(f"c{i}", "k") for i in range(3)})
    for at, keys in ((1, range(8, 9)), (2, range(5)), (3, range(20))):
        engine.push("s", events(at, keys))
        for i in range(3):
            assert engine.lookup(f"q{i}").num_rows >= 0
    engine.push("s", events(4, range(1)))
    for i in range(3):
        found = engine.lookup(f"q{i}")
        expected = {key: key % 5 for key in range(20) if key % 7 == i}
        recent = {key: 2 * n if key < 5 else n for key, n in expected.items()}
        assert dict(zip(found["k"].to_pylist(), found["total"].to_pylist(), strict=True)) == recent
    engine.check()


def test_windows_so_different_that_they_go_to_stairs() -> None:
    """Lanes of slices that get coarser with age answer as filters of their own do."""
    texts = {
        f"{size} {slide} {i}": f"SELECT k, SUM(n) AS total, MAX(n) AS most FROM s [RANGE {size} SLIDE {slide}] "
        f"WHERE c = 'c{i}' GROUP BY k"
        for size, slide in (("30 DAYS", "1 HOUR"), ("2 MINUTES", "1 SECOND"))
        for i in range(3)
    }
    with_lanes = engine_with(texts)
    with pytest.MonkeyPatch.context() as patch:
        _lanes_from(patch, 10**9)
        alone = engine_with(texts)
        alone.push("s", events(0, range(50)))
    with_lanes.push("s", events(0, range(50)))
    assert ": stairs by k\n" in with_lanes.explain()
    for at in (1, 2, 50, 200, 3_000, 3_001):
        for engine in (with_lanes, alone):
            engine.push("s", events(at, range(at, at + 40)))
        for name in texts:
            assert with_lanes.lookup(name).equals(alone.lookup(name)), (at, name)
    with_lanes.check()


def test_a_snapshot_with_other_lanes_is_refused() -> None:
    engine = engine_with({f"q{i}": subscription(f"c{i}") for i in range(3)})
    engine.push("s", events(0, range(20)))
    description, arrays = engine._shards["s"].snapshot()
    (name,) = (each for each in arrays if each.startswith("lanes ") and each.endswith("/0"))
    queries = {name: each.query for name, each in engine._shards["s"].registrations.items()}
    fresh = engine_with({})._shards["s"]
    with pytest.raises(muntin.CheckpointError, match="other values than the queries ask for"):
        fresh.restore(description, {**arrays, name: pa.array(["c0", "c1", "c9"])}, queries)


def test_a_store_of_lanes_has_to_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Per key it takes more constants than without keys; then all go there, those that came before included."""
    for keys, many in (("", MANY), ("k", MANY_PER_KEY)):
        monkeypatch.setattr(choices, "MANY_LANES", MANY)
        monkeypatch.setattr(choices, "MANY_LANES_PER_KEY", MANY_PER_KEY)
        few = engine_with({f"q{i}": subscription(f"c{i}", keys) for i in range(many - 1)})
        few.push("s", events(0, range(20)))
        assert "lanes " not in few.explain()
        few.register(subscription("one more", keys), "more")
        few.register(subscription("and another", keys), "another")
        told = few.explain("another")
        assert f"lanes    by the value of c: {many + 1} are asked for" in told
        assert "q0: moves to lanes" in few.explain("q0")


@pytest.mark.parametrize("keys", ["", "k"])
@pytest.mark.parametrize(
    "window", ["[RANGE 3 MINUTES]", "[RANGE 4 MINUTES TO 1 MINUTE]", "[ROWS 3]", "[ROWS 4 TO 2]"]
)
@pytest.mark.parametrize("is_fed", [True, False])
def test_coverage_without_slide_is_that_of_filters_of_their_own(
    window: str, keys: str, is_fed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants that come while the stream runs, go, and come back: what is known is known per constant."""
    monkeypatch.setattr(key_runs, "_FEED", 0.0 if is_fed else 1e9)
    monkeypatch.setattr(key_runs, "_READ", 0.0)

    def text(constant: str) -> str:
        return subscription(constant, keys).replace("[RANGE 2 MINUTES SLIDE 1 MINUTE]", window)

    engines = {}
    for many in (1, 10**9):
        _lanes_from(monkeypatch, many)
        engines[many] = engine_with({f"q{i}": text(f"c{i}") for i in range(3)})
        engines[many].push("s", events(0, range(6)))
    for at in range(1, 14):
        for many, engine in engines.items():
            _lanes_from(monkeypatch, many)
            if at in (3, 8):
                engine.register(text("c4"), "q4")
            if at == 6:
                engine.drop("q4")
            engine.push("s", events(at, range(at % 4, 8 if at % 3 else 3)))
        with_lanes, alone = engines.values()
        names = [name for name in with_lanes.queries if name != "q4" or at < 8]
        for name in names:
            assert with_lanes.lookup(name).equals(alone.lookup(name)), (at, name)
            assert with_lanes.coverage(name) == alone.coverage(name), (at, name)
        if "q4" in with_lanes.queries:  # of what came before it was back, its lane may know more
            complete = [engine.lookup("q4").column("complete").to_pylist() for engine in engines.values()]
            assert complete[0] == complete[1] or at >= 8
            if all(complete[0]):
                assert with_lanes.lookup("q4").equals(alone.lookup("q4")), at
        with_lanes.check()
    assert "lanes    by the value of c: 4 are asked for" in with_lanes.explain("q4")
    assert "lanes " not in alone.explain("q4")


def test_rows_of_several_constants_have_filters_of_their_own() -> None:
    """The last rows of two lanes together are no part of the last rows of each."""
    text = subscription("c1").replace("[RANGE 2 MINUTES SLIDE 1 MINUTE]", "[ROWS 3]")
    engine = engine_with({"one": text, "two": text.replace("c = 'c1'", "c IN ('c1', 'c2')")})
    engine.register(text.replace("[ROWS 3]", "[ROWS 4 SLIDE 2]"), "moves")
    engine.register("SELECT SUM(n) FILTER (WHERE c = 'c1') AS total FROM s [ROWS 3]", "filter")
    engine.push("s", events(0, range(40)))
    assert [name for name in engine.queries if "lanes " in engine.explain(name)] == ["one"]
