"""Many windows in one query: lowered at once, they give what they give one by one; and keys of any window are there."""

from __future__ import annotations

import random
import warnings
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from muntin import Engine
from muntin.plan.demand import Demand
from muntin.query import Input
from muntin.shard.read import reading
from muntin.store.needs import Need
from muntin.window import Window

SECOND = 1_000_000
CREATE = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE, b BOOLEAN, d DATE) TIMESTAMP BY ts"
CALLS = ("SUM(n)", "AVG(x)", "MAX(x)", "COUNT(n)", "MIN(b)", "LAST(d)", "MAX(k)")
WINDOWS = (
    "[RANGE 1 SECOND SLIDE 1 SECOND]", "[RANGE 3 SECONDS SLIDE 1 SECOND]", "[RANGE 7 SECONDS SLIDE 1 SECOND]",
    "[RANGE 9 SECONDS TO 4 SECONDS SLIDE 1 SECOND]", "[RANGE 6 SECONDS SLIDE 2 SECONDS]",
)  # fmt: skip


def events(dice: random.Random, first: int, count: int, large: bool) -> dict[str, Any]:
    at = sorted(first + dice.randrange(2 * SECOND) for _ in range(count))
    most = 2**62 if large else 100
    return {
        "ts": at,
        "k": [dice.choice("abcdefgh") for _ in at],
        "n": pa.array([dice.choice([None, dice.randrange(most)]) for _ in at], pa.int64()),
        "x": [dice.choice([0.25, -1e300, float("nan"), 3.5]) for _ in at],
        "b": pa.array([dice.choice([None, True, False]) for _ in at], pa.bool_()),
        "d": pa.array([dice.randrange(20_000) for _ in at], pa.int32()).cast(pa.date32()),
    }


def answers(seed: int, calls: tuple[str, ...], having: str = "") -> tuple[list[pa.Table], list[tuple]]:
    """Tables that are pushed and looked up, and the events."""
    dice = random.Random(seed)
    engine, found, pushed = Engine(), [], []
    engine.execute(CREATE)
    items = [f"{call} OVER {window}" for call in calls for window in WINDOWS]
    named = ", ".join(f"{item} AS v{number}" for number, item in enumerate(items))
    engine.register(f"SELECT k, {named} FROM s GROUP BY k {having}", "over")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that are left out
        for step in range(12):
            batch = events(
                dice, (2 * step + (10 if step > 7 else 0)) * SECOND, dice.randrange(1, 12), seed % 3 == 2
            )
            pushed += zip(batch["ts"], batch["k"], batch["n"].to_pylist(), strict=True)
            engine.push("s", batch)
            if dice.random() < 0.7:
                found += engine.advance().values()
            found.append(engine.lookup("over"))
            found.append(engine.lookup("over", key=["a", "b", "zz"]))
    return found, pushed


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("having", ["", "HAVING SUM(n) OVER [RANGE 3 SECONDS SLIDE 1 SECOND] > 40"])
def test_calls_lowered_at_once_are_as_one_by_one(
    seed: int, having: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every type, with NULL and NaN, where sums do not fit, and with keys that have no event in most windows."""
    together, _ = answers(seed, CALLS, having)
    monkeypatch.setattr(reading, "_FEW", 10**9)
    monkeypatch.setattr(reading, "outermost", lambda presence: presence)
    alone, _ = answers(seed, CALLS, having)
    assert len(together) == len(alone) > 20
    for one, other in zip(together, alone, strict=True):
        assert one.schema == other.schema
        assert str(one.to_pydict()) == str(other.to_pydict())  # NaN is NaN
        one.validate(full=True)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_sums_of_many_windows(seed: int) -> None:
    """Against a sum over all events, of each key that has an event in any window."""
    found, pushed = answers(seed, ("SUM(n)",))
    spans = [(1, 0, 1), (3, 0, 1), (7, 0, 1), (9, 4, 1), (6, 0, 2)]
    seen = 0
    for table in found:
        for row in table.to_pylist():
            instant = (row["window_end"] - datetime(1970, 1, 1)) // timedelta(microseconds=1)
            for number, (size, to, slide) in enumerate(spans):
                stands = instant // (slide * SECOND) * slide * SECOND
                lo, hi = stands - size * SECOND, stands - to * SECOND
                held = [n for at, key, n in pushed if key == row["k"] and lo <= at < hi and n is not None]
                assert row[f"v{number}"] == (sum(held) if held else None)
                seen += 1
    assert seen > 500


def test_outermost_windows_are_those_that_lie_in_no_other() -> None:
    """Of one group, pace and component; a window since a landmark or by count speaks for itself."""
    need = Need(Input(None), "count")
    hour = 3_600 * SECOND

    def placed(group: int, *window: Any, **more: Any) -> Any:
        return group, Demand(None, (), Window(*window, **more), need)

    inner, outer = placed(1, "time", 3, slide=1), placed(1, "time", 5, slide=1)
    past, partly = placed(1, "time", 5, 2, slide=1), placed(1, "time", 9, 4, slide=1)
    slow, other = placed(1, "time", 4, slide=2), placed(2, "time", 3, slide=1)
    since, rows = placed(1, "time", hour, slide=1, since=True), placed(1, "rows", 5)
    found = reading.outermost([inner, outer, past, partly, slow, other, since, rows])
    assert sorted(map(str, found)) == sorted(map(str, [outer, partly, slow, other, since, rows]))
    assert reading.outermost([outer, inner]) == reading.outermost([inner, outer]) == [outer]
