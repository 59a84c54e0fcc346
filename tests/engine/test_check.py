"""`engine.check()` accepts healthy state: after every step of random scenarios, for every synopsis by its hint.

Events come out of order within the delay; values are floats of both signs, the greatest and least there are, NaN,
infinities, zeros and NULL, and many are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muntin import Engine
from muntin.errors import MuntinError
from muntin.plan.request import Threshold, threshold_of
from muntin.plan.synopses import INDEXES, SYNOPSES
from muntin.sketch.kinds import SKETCHES
from runtimes import checkpointed

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
FLOATS = np.array([-1e308, -2.5, -1e-300, -0.0, 0.0, 0.25, 1.0, 3e5, 1.7e308, np.nan, np.inf, -np.inf])
WHOLE = np.array([-(2**62), -7, -1, 0, 1, 2, 3, 2**40, 2**62])
# neighbours in order that differ by more than 64 bits hold, also as codes
FAR_FLOATS = np.array([-1e300, -3e5, 4e5, 1e301, np.nan])
FAR_WHOLE = np.array([-(2**63), -(2**62) - 1, 2**62 + 1, 2**63 - 1])
CALLS = (
    "SUM({})", "MIN({})", "MAX({})", "COUNT({})", "VAR_POP({})", "LAST({})", "QUANTILE({}, 0.3)", "COUNT(DISTINCT {})",
    "APPROX_QUANTILE({}, 0.5, 0.1)", "APPROX_QUANTILE({}, 0.5, 0.2, 0.1)", "APPROX_COUNT({} = 1, 0.1)",
    "APPROX_FREQUENT({}, 0.4, 0.2, 0.1)", "APPROX_COUNT_DISTINCT({}, 0.2)", "ARG_MAX(x, {})", "MODE({})",
    "APPROX_FREQUENT({}, 0.4, 0.2, weight => n)",
)  # fmt: skip
WINDOWS = (
    "[RANGE 3 SECONDS]", "[RANGE 3 SECONDS SLIDE 1 SECOND]", "[RANGE 5 SECONDS TO 1 SECOND SLIDE 2 SECONDS]",
    "[RANGE 2500 MILLISECONDS SLIDE 2 SECONDS]", "[ROWS 7]", "[ROWS 40 SLIDE 3]", "[SESSION 500 MILLISECONDS]",
)  # fmt: skip
TAILS = (
    "",
    " WHERE x > 0.25",
    " GROUP BY k",
    " GROUP BY k HAVING {c} > 0",
    " GROUP BY k HAVING {c} BETWEEN 1 AND 3",
)


def accepted(engine: Engine, hint: str, rng: np.random.Generator, most: int = 6) -> list[str]:
    """Register queries with a hint, as far as it goes with them."""
    texts = [
        f"SELECT /*+ SYNOPSIS({hint}) */ {'k, ' if 'GROUP' in tail else ''}{call.format(column)} AS v FROM s {window}"
        + tail.replace("{c}", call.format(column))
        for call in CALLS
        for column in ("x", "n")
        for window in WINDOWS
        for tail in TAILS
    ]
    names = []
    for number in rng.permutation(len(texts)):
        try:
            engine.register(texts[number], f"q{number}")
        except MuntinError:
            continue
        if not is_served(engine, f"q{number}", hint):
            engine.drop(f"q{number}")
            continue
        names.append(f"q{number}")
        if len(names) == most:
            break
    return names


def is_served(engine: Engine, name: str, hint: str) -> bool:
    """Whether the hint has been followed, not just accepted."""
    if hint in INDEXES:
        return isinstance(threshold_of(engine.queries[name]), Threshold)
    manager = engine._shards["s"].state.manager
    return any(manager.groups[number].synopsis == hint for number in manager.placements[name].groups())


def random_batch(rng: np.random.Generator, now: int, count: int, is_far: bool) -> dict[str, Any]:
    """Out of order within the delay, and now and then beyond it."""
    times = now + np.sort(rng.integers(0, 2 * SECOND, count))
    back = rng.integers(0, 2 * SECOND, count) * (rng.random(count) < 0.4)
    return {
        "ts": times - back - 9 * SECOND * (rng.random(count) < 0.01),
        "k": rng.integers(0, 5, count),
        "n": rng.choice(FAR_WHOLE if is_far else WHOLE, count),
        "x": rng.choice(FAR_FLOATS, count) * (1 + np.round(rng.random(count), 3))
        if is_far
        else np.where(rng.random(count) < 0.5, rng.choice(FLOATS, count), rng.normal(0, 1e3, count)),
    }


@pytest.mark.filterwarnings("ignore:query .* leaves out")
@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("hint", [*SYNOPSES, *INDEXES])
def test_healthy_state_is_accepted(hint: str, is_far: bool) -> None:
    """After registrations, events, look-ups, advances, checkpoints and drops."""
    rng = np.random.default_rng(is_far)
    engine = Engine()
    engine.execute(STREAM)
    names = accepted(engine, hint, rng)
    assert names, f"nothing takes the hint {hint}"
    now = 20 * SECOND
    for step in range(6):
        many = 20_000 if hint in SKETCHES else 120  # a sketch keeps fewer as they are
        engine.push("s", random_batch(rng, now, int(rng.choice([1, 3, 40, many])), is_far))
        engine.check()
        now += int(rng.choice([0, 1, 2])) * SECOND
        for name in rng.choice(names, 2):
            if engine.queries[name].keys:
                engine.lookup(name)
            else:
                ask(engine, name)
            engine.check()
        if rng.random() < 0.5:
            engine.advance()
            engine.check()
        if step == 2:
            engine = checkpointed(engine)
            engine.check()
        if step == 4 and len(names) > 1:
            engine.drop(names.pop())
            engine.check()


def ask(engine: Engine, name: str) -> None:
    """The huge integers have no sum, which is told; nothing else may fail."""
    try:
        engine.lookup(name)
    except MuntinError as error:
        assert "does not fit 64 bits" in str(error)


@pytest.mark.parametrize("hint", ["panes", "paired_windows"])
def test_events_out_of_order_make_no_more_fragments(hint: str) -> None:
    """As many as the same events make in order, however they come."""
    rng = np.random.default_rng(1)
    counts = []
    times = np.sort(rng.integers(0, 60 * SECOND, 600))
    for order in (np.arange(600), np.argsort(times + rng.integers(0, SECOND, 600), kind="stable")):
        engine = Engine()
        engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS")
        for size, slide in ((60, 30), (50, 20), (7, 5)):
            window = f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]"
            engine.register(f"SELECT /*+ SYNOPSIS({hint}) */ SUM(n) AS v FROM s {window}", f"{size} {slide}")
        for part in np.array_split(order, 150):
            engine.push("s", {"ts": times[part], "n": part})
            engine.check()
        (shard,) = engine._shards.values()
        synopses = shard.state.synopses.values()
        counts.append([len(each) for synopsis in synopses for each in synopsis.slicings.values()])
    assert counts[0] == counts[1]
