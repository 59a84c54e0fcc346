"""Aggregates that differ in the constants of FILTER share a store, and answer as if each had state of its own.

Lanes are used from one constant on here, so that short random cases meet them: equalities, ranges, both and neither,
with and without WHERE and GROUP BY, several FILTERs in a query; queries that come and go, and restarts.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import muntin
from effort import some_of
from muntin.plan import choices
from muntin.window import Window
from queries import KEY_EXPRESSIONS, KEYS, SIZES, SLIDES, OwnWindows, Question, random_output, random_question
from replay import assert_agreement, disagreement
from scenario import SeededDice, random_case, random_crowd

FILTERS = (
    "k = 'a'", "k = 'b'", "k = 'never'", "k IN ('a', 'c')", "j = 1", "j = 2 AND k = 'a'", "j IN (1, 3)", "NOT b",
    "k IS NULL", "j = 2 OR j IS NULL", "n = 2.5", "y = 0.25", "x = CAST('NaN' AS DOUBLE)", "n % 3 = 1",
    "n > 1", "n >= 2", "n < 4", "n BETWEEN 1 AND 3", "y > 0.5", "y <= 1.0", "k = 'a' AND n > 1", "k = 'b' AND n > 2",
    "w = 'ask' AND y < 1.5", "n > j", "k <> 'a'", "w LIKE 'a%'", "k = 'a' AND w LIKE 'b%'", "k = 'a' AND k = 'b'",
)  # fmt: skip
CALLS = (
    "COUNT(*)", "SUM(n)", "MAX(n)", "MIN(y)", "AVG(n)", "LAST(k)", "FIRST(n)", "COUNT(w)", "SUM(y)", "VAR_POP(y)",
    "MEDIAN(n)", "COUNT(DISTINCT k)",
)  # fmt: skip
THRESHOLDS = ("SUM(n) >= 3", "COUNT(*) > 1", "COUNT(*) FILTER (WHERE k = 'a') > 0", "MAX(n) < 5")


def _lanes_from(patch: pytest.MonkeyPatch, many: int) -> None:
    for name in ("MANY_LANES", "MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY"):
        patch.setattr(choices, name, many)


@pytest.fixture(autouse=True)
def _from_one_constant_on() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        _lanes_from(patch, 1)
        yield


def question_with_filters(dice) -> Question:
    """Mostly windows with SLIDE, which lanes serve; now and then anything."""
    if dice.chance(10):
        return random_question(dice)
    keys = dice.pick(KEYS) if dice.chance(60) else ()
    size = dice.pick(SIZES)
    window = Window("time", size, 0, dice.pick((*SLIDES, size)) if size >= 500_000 else 500_000)
    over = OwnWindows(dice, window)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    for number in range(dice.whole(1, 5)):
        call = f"{dice.pick(CALLS)} FILTER (WHERE {dice.pick(FILTERS)})"
        call += over.clause()
        items.append(f"{call if dice.chance(80) else random_output(dice, over)} AS a{number}")
    sql = f"SELECT {', '.join(items)} FROM s {window}"
    if dice.chance(30):
        sql += f" WHERE {dice.pick(FILTERS)}"
    if keys:
        sql += f" GROUP BY {', '.join(KEY_EXPRESSIONS.get(key, key) for key in keys)}"
    if dice.chance(40):
        sql += f" HAVING {dice.pick(THRESHOLDS)}"
    return Question(sql, keys)


@pytest.mark.parametrize("first", range(0, some_of(2_000, 2), 50))
def test_pairs(first: int) -> None:
    for seed in range(first, first + 50):
        case = random_case(
            SeededDice(seed), f"filters {seed}", most_queries=4, question=question_with_filters
        )
        assert_agreement(case)


@pytest.mark.parametrize("seed", range(some_of(16, 7)))
def test_crowds(seed: int) -> None:
    case = random_crowd(SeededDice(seed), f"crowd of filters {seed}", question=question_with_filters)
    if error := disagreement(case):
        raise error


STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, c VARCHAR, n BIGINT) TIMESTAMP BY ts"
MINUTE = 60_000_000


def features(many: int, keys: str = "k") -> str:
    """One query with many FILTERs."""
    calls = ", ".join(f"SUM(n) FILTER (WHERE c = 'c{i}') AS s{i}" for i in range(many))
    items, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    return f"SELECT {items}COUNT(*) AS events, {calls} FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE]{by}"


def engine_with(queries: dict[str, str]) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def events(at: int, many: int) -> dict[str, list]:
    return {
        "ts": [at * MINUTE + i * MINUTE // (many + 1) for i in range(many)],
        "k": [i % 11 for i in range(many)],
        "c": [f"c{i % 7}" for i in range(many)],
        "n": [i % 5 for i in range(many)],
    }


def test_explain_tells_what_is_indexed() -> None:
    engine = engine_with({"q": features(3)})
    engine.push("s", events(0, 70))
    told = engine.explain()
    assert "  lanes    by the value of c: 3 are asked for, 30 of 70 events passed\n" in told
    assert "because  many filters compare the same attributes with constants" in told


@pytest.mark.parametrize("keys", ["", "k"])
def test_all_ways_to_read_agree(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lookup` of all keys and of one, `value`, `lookup_many` and `advance`, beside filters with state of their own."""
    query = features(9, keys)
    with_lanes = engine_with({"q": query, "plain": query.replace("COUNT(*) AS events, ", "")})
    _lanes_from(monkeypatch, 10**9)
    alone = engine_with({"q": query, "plain": query.replace("COUNT(*) AS events, ", "")})
    assert with_lanes._shards["s"].state.lanes
    assert not alone._shards["s"].state.lanes
    for at in range(5):
        for engine in (with_lanes, alone):
            engine.push("s", events(at, 100 if at < 3 else 3))
        one, other = with_lanes.advance(), alone.advance()
        assert one.keys() == other.keys()
        assert all(one[name].equals(other[name]) for name in one)
        for name in ("q", "plain"):
            assert with_lanes.lookup(name).equals(alone.lookup(name))
            for key in range(12) if keys else (None,):
                assert with_lanes.lookup(name, key=key).equals(alone.lookup(name, key=key))
                assert with_lanes.value(name, key=key) == alone.value(name, key=key)
        if not keys:
            assert with_lanes.lookup_many(["plain", "q"]).equals(alone.lookup_many(["plain", "q"]))
        assert with_lanes.coverage("q") == alone.coverage("q")
        with_lanes.check()


def test_few_filters_keep_state_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in 0026: below 24 constants a store of lanes does not pay per key."""
    monkeypatch.undo()
    for many, has_lanes in ((23, False), (24, True)):
        monkeypatch.setattr(choices, "MANY_LANES_PER_KEY", 24)
        engine = engine_with({"q": features(many)})
        assert bool(engine._shards["s"].state.lanes) == has_lanes


def test_a_lane_that_comes_later_is_not_complete_at_first() -> None:
    engine = engine_with({"q": features(3)})
    engine.push("s", events(0, 70))
    engine.register(features(5), "later")
    engine.push("s", events(1, 70))
    assert set(engine.lookup("q", at=2 * MINUTE).column("complete").to_pylist()) == {True}
    assert set(engine.lookup("later", at=2 * MINUTE).column("complete").to_pylist()) == {False}
    engine.push("s", events(4, 70))
    assert set(engine.lookup("later", at=5 * MINUTE).column("complete").to_pylist()) == {True}


CASES = (
    "SUM(CASE WHEN c = 'c1' THEN n END)", "SUM(CASE WHEN c = 'c2' THEN n ELSE NULL END)",
    "MAX(CASE WHEN n > 2 THEN k END)", "COUNT(CASE WHEN c IN ('c1', 'c3') THEN n END) FILTER (WHERE n > 1)",
    "SUM(CASE WHEN c = 'c1' THEN n ELSE 0 END)", "SUM(CASE c WHEN 'c1' THEN n END)",
    "MIN(CASE WHEN c = 'c1' THEN n WHEN c = 'c2' THEN -n END)",
    "SUM(CASE WHEN n > 0 THEN 61 % n END)", "COUNT(CASE WHEN n > 3 OR c = 'c1' THEN c END)",
)  # fmt: skip


@pytest.mark.parametrize("many", [1, 10**9])
def test_case_is_what_duckdb_says(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """CASE in an argument may be read as FILTER; a branch is not evaluated where it is not taken."""
    _lanes_from(monkeypatch, many)
    calls = ", ".join(f"{case} AS v{number}" for number, case in enumerate(CASES))
    engine = engine_with(
        {"q": f"SELECT k, {calls} FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k HAVING COUNT(*) > 0"}
    )
    batches = [pa.table(events(at, 90)) for at in range(3)]
    for batch in batches:
        engine.push("s", batch)
    got = engine.lookup("q", at=3 * MINUTE).drop_columns(["window_start", "window_end", "complete"])
    held = pa.concat_tables(batches).filter(pc.field("ts") >= MINUTE)
    wanted = duckdb.sql(f"SELECT k, {calls} FROM held GROUP BY k ORDER BY k").to_arrow_table()
    assert held.num_rows
    assert got.sort_by("k").to_pylist() == wanted.to_pylist()
