"""Queries that differ in windows and constants are emitted as a crowd, with the rows that each has alone.

The oracles: the reference, an engine in which nobody gathers, and an engine of its own for every query.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import muntin
from effort import some_of
from muntin.shard import crowd as crowd_module
from muntin.shard.emit import crowd_emission, gathering
from muntin.shard.read import crowd_whole
from queries import Question, often_landmark
from replay import assert_agreement
from scenario import SeededDice, from_the_start, random_case

SECOND = 1_000_000
SHAPES = (  # of keys, items and HAVING: {} is a constant, [] a window in the place of that after FROM
    ("k, ", "SUM(n) AS v", "SUM(n) OVER [] > {}.5 * SUM(n)"),
    ("j, ", "SUM(y) AS v, SUM(y) * {}.25 AS w", "SUM(y) / COUNT(*) > {}"),
    ("k, j, ", "COUNT(*) AS v", "SUM(n) > {} AND COUNT(*) > {}"),
    ("j, ", "MAX(y) - {} AS v", "MAX(y) BETWEEN {} AND {} + 2 OR MIN(y) < {} - 3"),
    ("k, ", "AVG(n) AS v", "NOT (AVG(n) <= {} OR COUNT(y) = {})"),
    ("j, ", "LAST(w) AS v", "COUNT(w) IN ({}, {}, 5) AND SUM(n) IS NOT NULL"),
    ("k, ", "SUM(n) AS v", "SUM(n) * {} - COUNT(*) >= -{} * MIN(n)"),
    ("j, ", "SUM(n) AS v", "j > {} AND ROUND(AVG(y), 1) > {}"),
    ("k, ", "FIRST(w) AS v", "MAX(w) >= 'ask' AND ABS(SUM(n)) > {}"),
    ("k, ", "MIN(y) AS v", "SUM(n) > {}"),
    ("j, ", "SUM(n) OVER [] AS v, MAX(y) OVER [] + {} AS w", "SUM(n) OVER [] > {}"),
    ("j, ", "COUNT(*) AS v", "AVG(y) < {} - 1.5"),
    ("", "SUM(n) AS v, COUNT(*) - {} AS w", "COUNT(*) > {}"),
    ("", "SUM(n) OVER [] AS v", "SUM(n) OVER [] > {}.5 * SUM(n)"),
    ("", "MAX(y) AS v, LAST(k) AS w", None),
    ("", "SUM(n) AS v, AVG(y) OVER [] * {} AS w", None),
    ("j, ", "COUNT(*) AS v, SUM(n) OVER [] AS w", None),
    ("b, ", "SUM(n) / {} AS v", None),
)
# after HAVING; of queries whose aggregates have one window, and some have none
RANKS = (
    "",
    "ORDER BY SUM(n) DESC LIMIT {}",
    "ORDER BY COUNT(*), MAX(w) DESC LIMIT {}",
    "ORDER BY MIN(y) + 1 LIMIT {}",
)


@pytest.fixture(autouse=True)
def _from_two_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd_module, "FEW_ALIKE", 2)
    monkeypatch.setattr(gathering, "_PER_INSTANT", 0)
    monkeypatch.setattr(gathering, "MANY", 0)


@pytest.fixture(params=["blocks of many", "blocks of few"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of different windows are compared together, or each run of equal windows by itself."""
    if request.param == "blocks of few":
        monkeypatch.setattr(crowd_whole, "_RUN", 0)
        monkeypatch.setattr(crowd_whole, "_BLOCK", 6)


@pytest.fixture
def rows_of_crowds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each crowd had at each instant."""
    seen: list[int] = []
    rows_of = crowd_emission.rows_of

    def spy(*given: Any) -> Any:
        found = rows_of(*given)
        assert not given[1].is_laned
        seen.append(len(found.member))
        return found

    monkeypatch.setattr(crowd_emission, "rows_of", spy)
    return seen


def filled(text: str, dice: Any, slide: int, least: int = 0) -> str:
    while "{}" in text:
        text = text.replace("{}", str(dice.whole(least, 4)), 1)
    while "[]" in text:
        text = text.replace("[]", str(often_landmark(dice, slide * dice.whole(1, 6), slide)), 1)
    return text


def query(
    shape: tuple[str, str, str | None], dice: Any, slide: int, emits_changes: bool, ranks: str = ""
) -> Question:
    keys, items, having = shape
    names = tuple(keys.replace(" ", "").split(",")[:-1])
    sql = f"SELECT {keys}{filled(items, dice, slide, 1)} FROM s"
    text = f"{items} {having}"
    if text.count("(") > text.count("OVER"):  # not every call has a window of its own
        sql += f" {often_landmark(dice, slide * dice.whole(1, 6), slide)}"
    if names:
        sql += f" GROUP BY {', '.join(names)}"
    if having is not None:
        sql += f" HAVING {filled(having, dice, slide)}"
    if names and "OVER" not in text:
        sql += f" {filled(ranks, dice, slide, 1)}"
    return Question(sql + (" EMIT CHANGES" if emits_changes else ""), names)


def of_one_shape(dice: Any, emits_changes: bool) -> Callable[[Any], Question]:
    """Makes queries that differ in windows and constants."""
    shape = dice.pick([each for each in SHAPES if each[2] is not None] if emits_changes else SHAPES)
    slide, ranks = dice.pick((500_000, SECOND, 2 * SECOND)), dice.pick(RANKS)
    return lambda dice: query(shape, dice, slide, emits_changes, ranks)


@pytest.mark.parametrize("first", range(0, some_of(900, 4), 36))
def test_random_crowds(first: int, rows_of_crowds: list[int], blocks: None) -> None:
    for seed in range(first, first + 36):
        dice = SeededDice(seed)
        question = of_one_shape(dice, emits_changes=False)
        assert_agreement(random_case(dice, f"alike {seed}", most_queries=6, question=question))
    assert sum(rows_of_crowds) > 50


@pytest.mark.parametrize("first", range(0, some_of(600, 6), 36))
def test_random_crowds_that_emit_changes(first: int, rows_of_crowds: list[int]) -> None:
    """Of queries that are there from the start: others need not have seen who enters."""
    for seed in range(first, first + 36):
        dice = SeededDice(seed)
        question = of_one_shape(dice, emits_changes=True)
        case = random_case(dice, f"alike {seed}", most_queries=6, question=question)
        assert_agreement(from_the_start(case))
    assert sum(rows_of_crowds) > 50


STREAM = (
    "CREATE STREAM s (ts BIGINT, k VARCHAR, j BIGINT, n BIGINT, y DOUBLE, w VARCHAR, b BOOLEAN) "
    "TIMESTAMP BY ts DELAY 1 SECOND"
)
WILD = (0.25, 1.5, -2.0, None, float("nan"), float("inf"), float("-inf"), 1e300)


def events(second: int, dice: SeededDice, many: int = 40) -> dict[str, Any]:
    """In no order within a second and a half: some of them are late."""
    columns = {
        "ts": [second * SECOND + dice.whole(-SECOND // 2, SECOND - 1) for _ in range(many)],
        "k": [dice.pick(("a", "b", "c", None, "d")) for _ in range(many)],
        "j": [dice.pick((1, 2, 3, None)) for _ in range(many)],
        "n": [dice.pick((1, 2, 0, 5, -3, None)) for _ in range(many)],
        "y": [dice.pick(WILD if dice.chance(5) else WILD[:4]) for _ in range(many)],
        "w": [dice.pick(("ask", "bid", None)) for _ in range(many)],
        "b": [dice.pick((True, False, None)) for _ in range(many)],
    }
    if dice.chance(6):  # sums of a window that has two of them do not exist
        columns["n"][:4] = [2**62, 2**62, 2**62, 1]
    return columns


def play(queries: dict[str, str], seed: int, path: Any, together: bool = False) -> Any:
    """All that is emitted, step by step, of queries of which some come later and some go."""
    dice, engine, found = SeededDice(seed), muntin.Engine(), []
    engine.execute(STREAM)
    names, later = list(queries)[:-3], list(queries)[-3:]
    engine.register_many({name: queries[name] for name in names if queries[name]})
    second = 0
    for step in range(30):
        second += dice.pick((1, 1, 1, 2, 9))
        engine.push("s", events(second, dice))
        if step in (8, 15, 22):
            name = later.pop()
            if queries[name]:
                engine.register(queries[name], name=name)
        if step in (12, 13, 20):
            name = names.pop(dice.whole(0, len(names) - 1))
            if queries[name]:
                engine.drop(name)
        if step == 17:
            engine.checkpoint(path)
            engine = muntin.Engine.restore(path)
        if dice.chance(75):
            answers = by_name(engine.advance(together=True)) if together else engine.advance()
            engine.check()
            found.append({name: repr(table.to_pylist()) for name, table in answers.items()})
    counts = {name: (each["emitted"], each["overflows"]) for name, each in engine.stats()["queries"].items()}
    return found, counts


def by_name(tables: list[pa.Table]) -> dict[str, pa.Table]:
    found: dict[str, pa.Table] = {}
    for table in tables:
        assert table.column_names[0] == "query"
        for name in dict.fromkeys(table["query"].to_pylist()):
            assert name not in found
            found[name] = table.filter(pa.compute.equal(table["query"], name)).drop_columns(["query"])
    return found


def some_queries(seed: int) -> dict[str, str]:
    dice = SeededDice(seed)
    shapes = [dice.pick(SHAPES) for _ in range(2)]
    changes = [shape[2] is not None and dice.chance(40) for shape in shapes]
    ranks = ["" if each else dice.pick(RANKS) for each in changes]
    return {
        f"q{number}": query(shapes[number % 2], dice, SECOND, changes[number % 2], ranks[number % 2]).sql
        for number in range(12)
    }


@pytest.mark.parametrize("seed", range(some_of(120, 4)))
def test_nobody_notices_the_crowd(
    seed: int, tmp_path: Any, rows_of_crowds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries come and go, values are NULL, NaN or do not exist, events are late, the engine is restored."""
    queries = some_queries(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found, counts = play(queries, seed, tmp_path / "checkpoint")
        assert rows_of_crowds
        assert play(queries, seed, tmp_path / "checkpoint", together=True) == (found, counts)
        crowds = len(rows_of_crowds)
        with monkeypatch.context() as patch:
            patch.setattr(crowd_module.Crowds, "gather", lambda self, alike: None)
            assert play(queries, seed, tmp_path / "checkpoint") == (found, counts)
        for name in list(queries)[:2]:
            alone = {each: sql if each == name else "" for each, sql in queries.items()}
            steps, count = play(alone, seed, tmp_path / "checkpoint")
            assert [step.get(name) for step in steps] == [step.get(name) for step in found]
            assert count == {each: count for each, count in counts.items() if each == name}
        assert len(rows_of_crowds) == crowds


def test_constants_stay_where_they_must() -> None:
    """Digits of ROUND are no column, and neither are texts; queries that differ in them do not gather."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    for number in range(6):
        having = f"ROUND(AVG(y), {number % 2}) > {number} AND MAX(w) > '{number}'"
        engine.register(
            f"SELECT j, SUM(n) FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY j HAVING {having}",
            f"q{number}",
        )
    engine.push("s", events(1, SeededDice(1)))
    engine.push("s", events(9, SeededDice(2)))
    engine.advance()
    assert not engine._shards["s"].state.crowds.members


def test_schemas_that_differ_are_tables_of_their_own() -> None:
    engine = muntin.Engine()
    engine.execute(STREAM)
    window = "[RANGE 2 SECONDS SLIDE 1 SECOND]"
    for number in range(3):
        engine.register(f"SELECT SUM(n) + {number} AS v FROM s {window}", f"sum{number}")
    engine.register(f"SELECT AVG(n) AS v FROM s {window}", "mean")
    engine.register("SELECT COUNT(*) AS v FROM s [ROWS 7 SLIDE 7]", "rows")
    assert engine.advance(together=True) == []
    engine.push("s", events(1, SeededDice(1)))
    engine.push("s", events(5, SeededDice(2)))
    tables = engine.advance(together=True)
    assert sorted(set(table["query"].to_pylist()) for table in tables) == [
        {"mean"},
        {"sum0", "sum1", "sum2", "rows"},
    ]
    assert not tables.more
