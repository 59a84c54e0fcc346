"""What has left a window leaves no trace, after any number of events: Inf, NaN, 1e300 and 1e16 go as they came.

    events    … inf -inf nan 1e300 -1e300 …   1e16 | 1 1 1 … 1
                                                   [ window )

Answers are compared with exact arithmetic over the events in the window, to 1e-9 (spec 0.3 and 9.4).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from muntin import Engine

BATCH, BATCHES = 100_000, 20  # 2 million events, 1 ms apart
KEYS = 3
WINDOWS = {
    "[RANGE 1 SECOND]": 1_000,
    "[RANGE 2 SECONDS TO 1 SECOND]": 1_000,
    "[RANGE 1 SECOND SLIDE 1 SECOND]": 1_000,
    "[RANGE 2 SECONDS SLIDE 500 MILLISECONDS]": 2_000,
    "[ROWS 300]": 300,
    "[ROWS 300 SLIDE 100]": 300,
}
CALLS = "SUM(x) AS s, AVG(x) AS a, VAR_POP(x) AS v, STDDEV_SAMP(x) AS d"
POISONS = (math.inf, -math.inf, math.nan, 1e300, -1e300, math.inf, 1e16)


def batch_of(number: int) -> np.ndarray:
    """Every third batch has poisons, and after them nothing but ones for all windows."""
    x = np.random.default_rng(number).normal(50, 10, BATCH)
    if number % 3 == 1:
        x[-8_000 - len(POISONS) : -8_000] = POISONS
        x[-8_000:] = 1.0
    return x


@pytest.fixture(scope="module", params=["", "k"], ids=["un-keyed", "keyed"])
def checked(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Answers after every batch, beside the values they are about."""
    by = request.param
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE) TIMESTAMP BY ts")
    keys, group_by = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    engine.register_many({w: f"SELECT {keys}{CALLS} FROM s {w}{group_by}" for w in WINDOWS})
    found, before = [], np.zeros(0)
    for number in range(BATCHES):
        x, first = batch_of(number), number * BATCH
        event = np.arange(first, first + BATCH)
        engine.push("s", {"ts": event * 1_000, "k": event % KEYS, "x": x})
        recent = np.concatenate([before, x])[-20_000:]
        event = np.arange(first + BATCH - len(recent), first + BATCH)
        for window in WINDOWS:
            for row in engine.lookup(window).to_pylist():
                mine = event % KEYS == row["k"] if by else np.ones(len(event), np.bool_)
                values = values_of(window, row, event[mine], recent[mine])
                found.append({"batch": number, "window": window, "values": values} | row)
        before = x
    return found


def values_of(window: str, row: dict[str, Any], event: np.ndarray, x: np.ndarray) -> list[float]:
    start, end = (np.datetime64(row[side], "us").astype(int) for side in ("window_start", "window_end"))
    values = x[(event * 1_000 >= start) & (event * 1_000 < end)].tolist()
    assert "ROWS" not in window or len(values) == WINDOWS[window]
    return values


def test_answers_equal_a_fresh_computation(checked: list[dict[str, Any]]) -> None:
    """For every window and key, after each of 20 batches: in ordinary stretches and behind poisons."""
    assert {row["batch"] for row in checked} == set(range(BATCHES))
    for row in checked:
        values = row["values"]
        exact = [Fraction(value) for value in values]
        mean = sum(exact) / len(exact)
        squares = sum((value - mean) ** 2 for value in exact)
        assert row["s"] == pytest.approx(math.fsum(values), rel=1e-9), row["window"]
        assert row["a"] == pytest.approx(float(mean), rel=1e-9), row["window"]
        assert row["v"] == pytest.approx(float(squares / len(exact)), rel=1e-9, abs=1e-20), row["window"]
        deviation = math.sqrt(squares / (len(exact) - 1))
        assert row["d"] == pytest.approx(deviation, rel=1e-9, abs=1e-10), row["window"]


def test_ones_after_poison_add_up_exactly(checked: list[dict[str, Any]]) -> None:
    """1e16 + 1 is 1e16: a sum that had ever held both would be wrong now."""
    behind = [row for row in checked if row["batch"] % 3 == 1]
    assert len(behind) >= len(WINDOWS) * 6
    for row in behind:
        assert row["s"] == len(row["values"]), row["window"]
        assert (row["a"], row["v"], row["d"]) == (1, 0, 0)


@pytest.mark.parametrize(
    "window", ["[RANGE 1 SECOND]", "[RANGE 1 SECOND SLIDE 500 MILLISECONDS]", "[ROWS 1000]"]
)
@pytest.mark.parametrize("by", ["", "k"], ids=["un-keyed", "keyed"])
@pytest.mark.parametrize("poison", [math.inf, -math.inf, math.nan, 1e300], ids=str)
def test_poison_shows_while_it_is_there(window: str, by: str, poison: float) -> None:
    """Otherwise the tests above would pass on an engine that throws such values away."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE) TIMESTAMP BY ts")
    keys, group_by = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    engine.register(f"SELECT {keys}SUM(x) AS s FROM s {window}{group_by}", "q")
    x = np.ones(5_000)
    x[-700] = poison
    engine.push("s", {"ts": np.arange(5_000) * 1_000, "k": np.zeros(5_000, np.int64), "x": x})
    (total,) = engine.lookup("q", at=5_000_000)["s"].to_pylist()
    np.testing.assert_equal(total, poison + 999)
