"""Within a budget errors grow first, what is said of them is true, and values go only when there is no room left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from effort import THOROUGH
from muntin import Engine
from muntin.sketch.keyed_sketches import KeyedSketches
from tests.sketch.streams import rank_error

EVENTS = 60_000
CALLS = {
    "quantiles": "APPROX_QUANTILE(x, 0.4, 0.01)",
    "sampled quantiles": "APPROX_QUANTILE(x, 0.4, 0.2, 0.2)",
    "counts": "APPROX_FREQUENT(n, 0.3, 0.01)",
    "weights": "APPROX_FREQUENT(n, 0.3, 0.01, weight => n + 1)",
    "sampled": "APPROX_FREQUENT(n, 0.3, 0.1, 0.01)",
}


class Run:
    """A stream of keys, evenly or not, that an engine with a budget has taken in."""

    def __init__(self, call: str, budget: int, keys: int, is_skewed: bool):
        random = np.random.default_rng(keys)
        self.k = random.zipf(1.5, EVENTS) % keys if is_skewed else np.arange(EVENTS) % keys
        self.x, self.n = random.random(EVENTS), random.zipf(1.5, EVENTS) % 40
        self.engine = Engine(sketch_bytes=budget)
        self.engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE, n BIGINT) TIMESTAMP BY ts")
        self.engine.register(f"SELECT k, {CALLS[call]} AS a FROM s [RANGE 1 HOUR] GROUP BY k", "q")
        at = np.arange(EVENTS) * 10_000
        for lo in range(0, EVENTS, 7_000):
            part = slice(lo, lo + 7_000)
            batch = {"ts": at[part], "k": self.k[part], "x": self.x[part], "n": self.n[part]}
            self.engine.push("s", batch)
            self.engine.advance()
        self.engine.check()
        self.rows = self.engine.lookup("q").to_pylist()
        (self.kept,) = (
            each
            for each in self.engine._shards["s"].state.synopses.values()
            if isinstance(each, KeyedSketches)
        )


KEYS = ((3, False), (40, False), (40, True), (2000, True))
BUDGETS = (20_000, 400_000, 1_500_000, 40_000_000)
# a Latin square: any two of a call, keys and a budget meet in an ordinary run, though not every three
TRIED = [
    (call, *keys, budget)
    for i, call in enumerate(CALLS)
    for j, keys in enumerate(KEYS)
    for k, budget in enumerate(BUDGETS)
    if THOROUGH or (i + j + k) % 4 == 0
]


@pytest.mark.parametrize(("call", "keys", "is_skewed", "budget"), TRIED)
def test_errors_grow_before_values_go(call: str, keys: int, is_skewed: bool, budget: int) -> None:
    run = Run(call, budget, keys, is_skewed)
    used = run.kept._settled_bytes()
    assert used <= budget
    whole = [row for row in run.rows if row["complete"]]
    for row in whole:
        check_row(call, row, run)
    if len(whole) < len(run.rows):  # there was no room for more, at any error
        assert all(not track.coarsen() for track in run.kept._all())
        assert used >= 0.6 * budget
    if budget == 40_000_000:
        assert len(whole) == len(run.rows)


def check_row(call: str, row: dict[str, Any], run: Run) -> None:
    """The answer is as wrong as it says, at most."""
    mine = run.k == row["k"]
    if call == "quantiles":
        values = np.sort(run.x[mine])
        assert rank_error(values, 0.4, row["a"]) <= row["a_error"] * len(values) + 1e-6
        assert row["a_error"] <= 0.5
        return
    if call == "sampled quantiles":  # may fail, but not by much
        assert rank_error(np.sort(run.x[mine]), 0.4, row["a"]) <= 0.5 * mine.sum()
        return
    truth = Counter(run.n[mine].tolist())
    if call == "weights":
        truth = Counter({item: often * (item + 1) for item, often in truth.items()})
    for item in row["a"]:
        assert item["lower"] <= truth[item["item"]]
        assert call == "sampled" or truth[item["item"]] <= item["upper"]


def test_a_backfill_keeps_to_the_budget() -> None:
    """A query that is filled from a history has the budget of its engine, as any other has."""
    engine = Engine(sketch_bytes=300_000)
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x DOUBLE) TIMESTAMP BY ts")
    at = np.arange(EVENTS) * 10_000
    history = {"ts": at, "k": at % 40, "x": np.random.default_rng(1).random(EVENTS)}
    text = "SELECT k, APPROX_QUANTILE(x, 0.4, 0.01) AS a FROM s [RANGE 1 HOUR] GROUP BY k"
    engine.register(text, "q", backfill=history)
    (kept,) = (
        each for each in engine._shards["s"].state.synopses.values() if isinstance(each, KeyedSketches)
    )
    assert kept.budget == 300_000
    assert kept.nbytes() <= 1.1 * 300_000
