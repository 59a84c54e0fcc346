"""Of a crowd only those pairs are read whose bounds say that they may pass: no row differs for it.

Each case runs in two engines: in one the rules gather in crowds and keep bounds, in the other each rule is emitted by
itself, from what it reads of all keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import muntin
from effort import some_of
from muntin.plan import choices
from muntin.shard.pair_table import PairTable
from muntin.shard.read import crowd_watch
from scenario import SeededDice

MINUTE = 60_000_000
STREAM = (
    "CREATE STREAM s (ts BIGINT, k BIGINT, c VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 30 SECONDS"
)
CALLS = ("COUNT(*)", "COUNT(x)", "SUM(n)", "SUM(x)", "MAX(n)", "MAX(x)", "MIN(n)", "MIN(x)")
PLAIN = (0.0, 1.0, 2.5, -3.0, 0.1, 40.0, None)
WILD = (
    *PLAIN,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e300,
    -1e300,
    1e16,
    -1e16,
    3e38,
    1e39,
    -1e39,
    1e-60,
)


@pytest.fixture(autouse=True)
def _always_by_bounds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "MANY_LANES", 1)
        patch.setattr(choices, "MANY_LANES_PER_KEY", 1)
        patch.setattr(crowd_watch, "FEW_PAIRS", 0)
        patch.setattr(crowd_watch, "MOST_READ", 2)
        yield


@pytest.fixture
def found_few(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each look at a crowd was at few pairs."""
    seen: list[bool] = []
    find = crowd_watch.CrowdWatch.find

    def spy(self: Any, *given: Any) -> Any:
        few = find(self, *given)
        seen.append(few is not None)
        return few

    monkeypatch.setattr(crowd_watch.CrowdWatch, "find", spy)
    return seen


class Twins:
    def __init__(self, queries: dict[str, str]):
        self.names = list(queries)
        self.together, self.alone = muntin.Engine(), muntin.Engine()
        for engine in (self.together, self.alone):
            engine.execute(STREAM)
            engine.register_many(queries)
        self._keep_apart()

    def _keep_apart(self) -> None:
        self.alone._shards["s"].state.crowds.gather = lambda alike: None  # type: ignore[method-assign]

    def both(self, do: Any) -> None:
        for engine in (self.together, self.alone):
            do(engine)

    def assert_same(self) -> int:
        answers, expected = self.together.advance(), self.alone.advance()
        self.together.check()
        for each in self.together._shards["s"].state.prepared.lane_orders.values():
            if each.grid is not None:
                each.grid.follow()
                each.grid.check()
        # NaN is not equal to itself, its text is
        assert [(name, str(table.to_pylist())) for name, table in answers.items()] == [
            (name, str(table.to_pylist())) for name, table in expected.items()
        ]
        return sum(table.num_rows for table in answers.values())

    def restore(self, path: Any) -> None:
        self.together.checkpoint(path)
        self.together = muntin.Engine.restore(path)


class Life:
    """Rules of one shape that come and go, over a stream of some values."""

    def __init__(self, dice: SeededDice, call: str, is_wild: bool):
        self.dice, self.call = dice, call
        self.values = WILD if is_wild else PLAIN
        self.lanes = dice.pick((("c = '{}'", ""), ("c = '{}' AND n > ", "n"), ("n > ", "n"), ("x <= ", "x")))
        self.way = ">" if call[:3] != "MIN" else "<"
        if dice.chance(25):
            self.way = dice.pick(("<", ">=", "<="))
        self.changes = dice.pick((" EMIT CHANGES", ""))
        self.keys_from = 0
        self.twins = Twins({f"q{i}": self.rule() for i in range(8)})

    def rule(self) -> str:
        dice, (lane, bound) = self.dice, self.lanes
        where = lane.format(f"c{dice.whole(0, 4)}") + (str(dice.whole(-3, 6)) if bound else "")
        window = dice.pick(
            ("2 MINUTES SLIDE 1 MINUTE", "5 MINUTES SLIDE 1 MINUTE", "20 MINUTES SLIDE 1 MINUTE")
        )
        floor = dice.pick((0, 1, 2, 3, 7, -2, 0.3, "1e-61", 1e16, -1e300))
        if dice.chance(5):
            window = "3 MINUTES SLIDE 4 MINUTES"
        return (
            f"SELECT k, {self.call} AS v, COUNT(*) AS many FROM s [RANGE {window}] WHERE {where} GROUP BY k "
            f"HAVING {self.call} {self.way} {floor}{self.changes}"
        )

    def events(self, minute: int, many: int) -> dict[str, list[Any]]:
        dice = self.dice
        return {
            # some come out of order, and some too late
            "ts": [minute * MINUTE + dice.whole(0, MINUTE - 1) for _ in range(many)],
            "k": [self.keys_from + dice.whole(0, 9) for _ in range(many)],
            "c": [f"c{dice.whole(0, 5)}" for _ in range(many)],
            "n": [dice.whole(-4, 9) for _ in range(many)],
            "x": [dice.pick(self.values) for _ in range(many)],
        }

    def live(self, steps: int, path: Any) -> int:
        dice, minute, rows = self.dice, 0, 0
        for step in range(steps):
            minute += dice.pick((1, 1, 1, 1, 1, 2, 9))
            if dice.chance(10):
                self.keys_from += dice.pick((5, 3000))
            batch = self.events(minute, dice.pick((0, 5, 40, 40)))
            self.twins.both(lambda engine, batch=batch: engine.push("s", batch))
            if dice.chance(10):
                text, name = self.rule(), f"late{step}"
                self.twins.both(lambda engine, text=text, name=name: engine.register(text, name=name))
                self.twins.names.append(name)
            if dice.chance(10) and len(self.twins.names) > 4:
                gone = self.twins.names.pop(dice.whole(0, len(self.twins.names) - 1))
                self.twins.both(lambda engine, gone=gone: engine.drop(gone))
            if dice.chance(5):
                self.twins.restore(path)
            if dice.chance(85):
                rows += self.twins.assert_same()
        return rows


@pytest.mark.filterwarnings("ignore:.*SUM")
@pytest.mark.parametrize("call", CALLS)
def test_no_row_differs(call: str, tmp_path: Any, found_few: list[bool]) -> None:
    rows = 0
    for seed in range(some_of(40, 5)):
        dice = SeededDice(seed)
        rows += Life(dice, call, dice.chance(50)).live(30, tmp_path / "checkpoint")
    assert rows > 50
    assert sum(found_few) > 15


@pytest.mark.parametrize("call", ["COUNT(*)", "SUM(x)", "MAX(n)"])
@pytest.mark.parametrize("rest", ["", " AND n > 1"])
def test_lanes_and_keys_that_come_late(rest: str, call: str, found_few: list[bool]) -> None:
    """The grid gets columns and rows while bounds are kept in it: each minute has a constant more, and a key more."""
    rules = {
        f"q{i}": f"SELECT k, {call} AS v FROM s [RANGE 4 MINUTES SLIDE 1 MINUTE] WHERE c = 'c{i}'{rest} "
        f"GROUP BY k HAVING {call} > 2"
        for i in range(16)
    }
    twins = Twins(rules)
    rows = 0
    for minute in range(20):
        # from key to key and lane to lane another minute has the greatest value
        pairs = [
            (k, c) for k in range(minute + 1) for c in range(min(minute + 1, 16)) if (k + c + minute) % 3
        ]
        batch = {
            "ts": [minute * MINUTE + i for i in range(len(pairs))],
            "k": [k for k, _ in pairs],
            "c": [f"c{c}" for _, c in pairs],
            "n": [2 + (k * c + minute) % 4 for k, c in pairs],
            "x": [1.0 + (k + c + minute) % 2 for k, c in pairs],
        }
        twins.both(lambda engine, batch=batch: engine.push("s", batch))
        rows += twins.assert_same()
    assert rows > 20
    assert sum(found_few) > 12


@pytest.mark.filterwarnings("ignore:.*SUM")
def test_sums_that_have_no_value() -> None:
    """A sum that overflows takes part though it passes no threshold, on either side: its row is counted as left out."""
    rules = {f"q{i}": f"SELECT k, SUM(n) AS v FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE] WHERE c = 'c{i}' GROUP BY k "
             "HAVING SUM(n) > 10" for i in range(3)}  # fmt: skip
    twins = Twins(rules)
    for minute in range(8):
        sign = -1 if minute < 4 else 1
        many = 4 if minute in (1, 5) else 1
        batch = {
            "ts": [minute * MINUTE + i for i in range(3 * many)],
            "k": [1] * (3 * many),
            "c": [f"c{i % 3}" for i in range(3 * many)],
            "n": [sign * 2**61 if i % 3 == 1 else 11 for i in range(3 * many)],
            "x": [0.0] * (3 * many),
        }
        twins.both(lambda engine, batch=batch: engine.push("s", batch))
        twins.assert_same()
    left_out = [each._shards["s"].overflows for each in (twins.together, twins.alone)]
    assert left_out[0] == left_out[1] > 0


@pytest.mark.parametrize("span", [3, 40, 10**6])
def test_pairs_are_known_again(span: int) -> None:
    """By place or by hash, whichever it is, and when lanes get other numbers."""
    random = np.random.default_rng(span)
    table, known, room = PairTable(4), dict[tuple[int, int], int](), 4
    for step in range(40):
        key, lane = random.integers(0, span * (step + 1), 300), random.integers(0, room, 300)
        given = list(zip(key.tolist(), lane.tolist(), strict=True))

        def make(some: Any, given: Any = given, known: Any = known, step: int = step) -> Any:
            first = [given[place] for place in some.tolist()]
            assert not known.keys() & set(first)
            known.update({pair: 1000 * step + number for number, pair in enumerate(first)})
            return np.array([known[pair] for pair in first])

        assert table.ids(key, lane, make).tolist() == [known[pair] for pair in given]
        assert len(table) == len(known)
        if step % 15 == 14:
            new = np.array([2, -1, 0, *range(3, room)])
            table, room = table.renumbered(new, room + 1), room + 1
            known = {(k, int(new[each])): id for (k, each), id in known.items() if new[each] >= 0}
