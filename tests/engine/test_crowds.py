"""Queries that differ in lane, window and threshold are emitted as a crowd, with the rows that each has alone.

Every random case has queries of one shape, so that they gather: with and without keys, HAVING and EMIT CHANGES, over
several slides. They come and go, are restored from checkpoints, and are looked up in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import muntin
from effort import some_of
from muntin.plan import choices
from muntin.shard.emit import crowd_emission, gathering
from muntin.shard.read import prepared
from queries import Question, often_landmark
from replay import assert_agreement
from scenario import SeededDice, from_the_start, random_case

SECOND, MINUTE = 1_000_000, 60_000_000
SHAPES = (
    ("", "SUM(n) AS v"), ("", "COUNT(*) AS v, MAX(y) AS w"), ("", "AVG(n) AS v"), ("k, ", "SUM(n) AS v"),
    ("j, ", "COUNT(w) AS v, MIN(n) AS least"), ("k, j, ", "MAX(n) AS v"), ("", "COUNT(*) AS v, LAST(k) AS last"),
)  # fmt: skip
LANES = (
    ("k = 'a'", "k = 'b'", "k = 'c'", "k = 'never'", "k IS NULL"), ("w = 'ask'", "w = 'bid'"),
    ("n > 0", "n > 1", "n >= 3", "n > 100", "n > -5.5"), ("y < 0", "y <= 1.5", "y < 100"),
    ("w = 'ask' AND n > 0", "w = 'bid' AND n > 1", "w = 'ask' AND n >= 3", "w = 'never' AND n > 2"),
    ("j = 1 AND y <= 0.25", "j = 2 AND y < 2.0", "j = 1 AND y < 0"),
)  # fmt: skip
PAY_IN_LANES = gathering._pay_in_lanes
HAVINGS = ("SUM(n) >= {}", "COUNT(*) > {}", "COUNT(*) < {}", "MAX(n) <= {}", "MIN(y) > {} - 1.5")


@pytest.fixture(autouse=True)
def _from_one_constant_on() -> Iterator[None]:
    """And crowds of few, whatever they owe: the cases here have few queries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "MANY_LANES", 1)
        patch.setattr(choices, "MANY_LANES_PER_KEY", 1)
        patch.setattr(gathering, "_pay_in_lanes", lambda *given: True)
        yield


@pytest.fixture
def rows_of_crowds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each crowd had at each instant."""
    seen: list[int] = []
    rows_of = crowd_emission.rows_of

    def spy(*given: Any) -> Any:
        found = rows_of(*given)
        seen.append(len(found.member))
        return found

    monkeypatch.setattr(crowd_emission, "rows_of", spy)
    return seen


def of_one_shape(dice: Any, emits_changes: bool) -> Callable[[Any], Question]:
    """Makes queries that differ in lane, window and threshold."""
    keys, items = dice.pick(SHAPES)
    slide = dice.pick((500_000, SECOND, 2 * SECOND))
    having = dice.pick(HAVINGS) if emits_changes or dice.chance(70) else None
    lanes = dice.pick(LANES)

    def question(dice: Any) -> Question:
        window = often_landmark(dice, slide * dice.whole(1, 6), slide)
        sql = f"SELECT {keys}{items} FROM s {window} WHERE {dice.pick(lanes)}"
        names = tuple(keys.replace(" ", "").split(",")[:-1])
        if names:
            sql += f" GROUP BY {', '.join(names)}"
        if having is not None:
            sql += f" HAVING {having.format(dice.whole(0, 4))}"
        return Question(sql + (" EMIT CHANGES" if emits_changes else ""), names)

    return question


@pytest.mark.parametrize("first", range(0, some_of(600, 8), 50))
def test_random_crowds(first: int, rows_of_crowds: list[int]) -> None:
    for seed in range(first, first + 50):
        dice = SeededDice(seed)
        question = of_one_shape(dice, emits_changes=False)
        assert_agreement(random_case(dice, f"crowds {seed}", most_queries=8, question=question))
    assert sum(rows_of_crowds) > 50


@pytest.mark.parametrize("first", range(0, some_of(400, 12), 50))
def test_random_crowds_that_emit_changes(first: int, rows_of_crowds: list[int]) -> None:
    """Of queries that are there from the start: others need not have seen who enters."""
    for seed in range(first, first + 50):
        dice = SeededDice(seed)
        question = of_one_shape(dice, emits_changes=True)
        case = random_case(dice, f"crowds {seed}", most_queries=8, question=question)
        assert_agreement(from_the_start(case))
    assert sum(rows_of_crowds) > 50


STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, c VARCHAR, n BIGINT) TIMESTAMP BY ts"


def rule(
    constant: int, keys: str, floor: int, minutes: int = 2, rest: str = "", above: int | None = None
) -> str:
    also = "" if above is None else f" AND n > {above}"
    by = f" GROUP BY {keys}" if keys else ""
    return (
        f"SELECT {keys + ', ' if keys else ''}SUM(n) AS v FROM s [RANGE {minutes} MINUTES SLIDE 1 MINUTE] "
        f"WHERE c = 'c{constant}'{also}{by} HAVING SUM(n) > {floor}{rest}"
    )


def events(minute: int, dice: SeededDice, many: int = 60) -> dict[str, list[Any]]:
    return {
        "ts": sorted(minute * MINUTE + dice.whole(0, MINUTE - 1) for _ in range(many)),
        "k": [dice.whole(0, 9) for _ in range(many)],
        "c": [f"c{dice.whole(0, 5)}" for _ in range(many)],
        "n": [dice.whole(-3, 9) for _ in range(many)],
    }


class Twins:
    """Two engines with the same queries: in one they gather in crowds, in the other each is emitted by itself."""

    def __init__(self, queries: dict[str, str]):
        self.names = list(queries)
        self.together, self.alone = muntin.Engine(), muntin.Engine()
        for engine in (self.together, self.alone):
            engine.execute(STREAM)
            engine.register_many(queries)
        self.alone._shards["s"].state.crowds.gather = lambda alike: None  # type: ignore[method-assign]

    def register(self, name: str, text: str) -> None:
        self.names.append(name)
        for engine in (self.together, self.alone):
            engine.register(text, name=name)

    def drop(self, name: str) -> None:
        self.names.remove(name)
        for engine in (self.together, self.alone):
            engine.drop(name)

    def push(self, batch: dict[str, list[Any]]) -> None:
        for engine in (self.together, self.alone):
            engine.push("s", batch)

    def assert_same(self, until: int | None = None) -> int:
        answers, expected = self.together.advance(until), self.alone.advance(until)
        self.together.check()
        assert [(name, table.to_pylist()) for name, table in answers.items()] == [
            (name, table.to_pylist()) for name, table in expected.items()
        ]
        assert self._emitted(self.together) == self._emitted(self.alone)
        return sum(table.num_rows for table in answers.values())

    def _emitted(self, engine: muntin.Engine) -> dict[str, int]:
        return {name: each["emitted"] for name, each in engine.stats()["queries"].items()}

    def restore(self, path: Any) -> None:
        self.together.checkpoint(path)
        self.together = muntin.Engine.restore(path)


@pytest.mark.parametrize("rest", ["", " EMIT CHANGES"])
@pytest.mark.parametrize("keys", ["", "k"])
@pytest.mark.parametrize("is_banded", [False, True])
def test_a_long_life(is_banded: bool, keys: str, rest: str, tmp_path: Any, rows_of_crowds: list[int]) -> None:
    """Rules come, go and come back, time stands still and jumps, the engine is restored; no row differs."""
    dice = SeededDice(5)

    def any_rule() -> str:
        above = dice.whole(-2, 6) if is_banded else None
        return rule(dice.whole(0, 5), keys, dice.whole(0, 4), dice.whole(1, 3), rest, above)

    twins = Twins({f"q{i}": any_rule() for i in range(12)})
    minute = rows = 0
    for step in range(60):
        minute += dice.pick((1, 1, 1, 1, 2, 7, 90))
        twins.push(events(minute, dice))
        if dice.chance(20):
            twins.register(
                f"late{step}", rule(dice.whole(0, 5), keys, dice.whole(0, 4), dice.whole(1, 3), rest)
            )
        if dice.chance(20):
            twins.drop(dice.pick(twins.names))
        if dice.chance(10):
            twins.restore(tmp_path / "checkpoint")
        if dice.chance(70):
            rows += twins.assert_same(minute * MINUTE if dice.chance(20) else None)
    assert rows > 300
    assert sum(rows_of_crowds) > 100


@pytest.mark.parametrize("rest", ["", " EMIT CHANGES"])
def test_few_that_owe_many_instants_are_emitted_one_by_one(rest: str, rows_of_crowds: list[int]) -> None:
    """A crowd of six pays at an instant or six; at thirty its members are read sooner alone. The rows are the same."""
    twins, dice = Twins({f"q{each}": rule(each, "k", each, rest=rest) for each in range(6)}), SeededDice(3)
    twins.push(events(0, dice))
    twins.assert_same(until=MINUTE)
    now, rows = 1, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_pay_in_lanes", PAY_IN_LANES)
        for minutes, is_read in ((1, True), (30, False), (1, True), (6, True), (7, False), (2, True)):
            rows_of_crowds.clear()
            for minute in range(now, now + minutes):
                twins.push(events(minute, dice))
            now += minutes
            rows += twins.assert_same(until=now * MINUTE)
            assert bool(rows_of_crowds) == is_read, minutes
    assert rows > 100


@pytest.mark.parametrize("rest", ["", " EMIT CHANGES"])
def test_keys_that_are_forgotten_get_other_ids(rest: str, rows_of_crowds: list[int]) -> None:
    dice = SeededDice(7)
    twins = Twins({f"q{i}": rule(i % 6, "k", i % 4, 1, rest) for i in range(8)})
    rows = 0
    for minute in range(12):
        batch = events(minute, dice, many=900)
        batch["k"] = [key + 400 * minute + dice.whole(0, 400) for key in batch["k"]]
        twins.push(batch)
        rows += twins.assert_same()
    assert rows > 1_000
    assert sum(rows_of_crowds) > 1_000


def test_a_row_without_a_value_takes_no_other_with_it() -> None:
    """The crowd of a query whose SUM overflows is dissolved, and gathers again."""
    queries = {f"q{i}": rule(i % 3, "k", 0) for i in range(6)}
    twins = Twins(queries)
    dice = SeededDice(3)
    for minute in range(6):
        batch = events(minute, dice)
        if minute == 2:
            batch["n"][:9], batch["c"][:9], batch["k"][:9] = [2**62] * 9, ["c1"] * 9, [4] * 9
        twins.push(batch)
        if minute in (3, 4):
            with pytest.warns(RuntimeWarning, match="SUM"):
                assert twins.assert_same()
        else:
            assert twins.assert_same() or minute == 0


def test_portions_of_a_crowd() -> None:
    """No more rows are given out at once than a portion has, about, and none is lost, whichever crowd is due."""
    queries = {f"q{i}": rule(i % 6, "k", -100) for i in range(40)}
    queries |= {f"slow{i}": rule(i, "k", -100).replace("SLIDE 1", "SLIDE 16") for i in range(3)}
    whole, parts = muntin.Engine(), muntin.Engine(portion_rows=50)
    for engine in (whole, parts):
        engine.execute(STREAM)
        engine.register_many(queries)
        dice = SeededDice(9)
        for minute in range(20):
            engine.push("s", events(minute, dice))
    expected = whole.advance()
    found: dict[str, list[pa.Table]] = {}
    calls, is_done = 0, False
    while not is_done:
        answers = parts.advance()
        calls, is_done = calls + 1, not answers.more
        assert sum(table.num_rows for table in answers.values()) < 50 + 40 * 10
        for name, table in answers.items():
            found.setdefault(name, []).append(table)
    assert calls > 5
    assert {name: pa.concat_tables(tables).to_pylist() for name, tables in found.items()} == {
        name: table.to_pylist() for name, table in expected.items()
    }


@pytest.mark.parametrize("most", [0, 25, 150])
def test_crowds_that_are_read_in_portions(
    most: int, rows_of_crowds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd that memory could not hold is emitted query by query, others not all at once."""
    monkeypatch.setattr(crowd_emission, "MOST_SLOTS", most)
    queries = {f"q{i}": rule(i % 6, "k", i % 4, 1 + i % 3) for i in range(9)}
    queries |= {f"u{i}": rule(i % 6, "", i % 4, 1 + i % 3) for i in range(6)}
    twins, dice = Twins(queries), SeededDice(11)
    for minute in range(6):
        twins.push(events(minute, dice))
        twins.assert_same()
    read = sum(rows_of_crowds)
    assert (read == 0) if most == 0 else read > 10


def test_a_crowd_stays_when_a_member_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared for queries is forgotten when most of it is nobody's, not because they are in a crowd."""
    monkeypatch.setattr(prepared, "_SPARE", 4)
    engine, dice = muntin.Engine(), SeededDice(13)
    engine.execute(STREAM)
    engine.register_many({f"q{i}": rule(i % 6, "k", i, 1 + i % 3) for i in range(60)})
    for minute in range(2):
        engine.push("s", events(minute, dice))
    engine.advance()
    crowds = engine._shards["s"].state.crowds
    assert crowds.members == 60
    engine.drop("q7")
    assert crowds.members == 59
    engine.check()
