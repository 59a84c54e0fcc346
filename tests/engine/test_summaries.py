"""Summaries through SQL: what several engines, or the keys of one, know of a window, merged elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine, MuntinError, merge_summaries
from tests.sketch.streams import rank_error

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, n SMALLINT, x DOUBLE, w VARCHAR) TIMESTAMP BY ts"
ASKED = "APPROX_QUANTILE_SUMMARY(x, {0}) AS q, APPROX_COUNT_SUMMARY(w, {0}) AS c, APPROX_COUNT_SUMMARY(n, {0}) AS d"

pytestmark = pytest.mark.usefixtures("small_blocks")


class Events:
    def __init__(self, seed: int, count: int, keys: int = 4):
        random = np.random.default_rng(seed)
        self.ts = np.sort(random.integers(0, 60 * SECOND, count))
        self.n = random.zipf(1.6, count) % 30
        self.k = random.zipf(1.5, count) % keys
        self.x = random.normal(size=count)
        self.w = np.array([f"word {number}" for number in self.n])

    def part(self, some: np.ndarray) -> dict[str, Any]:
        return {name: getattr(self, name)[some] for name in ("ts", "k", "n", "x", "w")}


def assert_merged(rows: list[dict[str, Any]], events: Events, some: np.ndarray, eps: float) -> None:
    """Of what each row says of its own events, and `some` of all."""
    quantiles, words, numbers = (merge_summaries(row[name] for row in rows) for name in "qcd")
    count = int(some.sum())
    for summary in (quantiles, words, numbers):
        assert summary.count <= count <= summary.count + summary.error
        assert summary.error <= eps * count + len(rows)  # of each, rounded up
    for phi in (0.01, 0.5, 0.9) if quantiles.count else ():
        assert rank_error(events.x[some], phi, quantiles.quantile(phi)) <= quantiles.error
    for true, summary in (
        (Counter(events.w[some].tolist()), words),
        (Counter(events.n[some].tolist()), numbers),
    ):
        for item, often in true.items():
            least, most = summary.bounds(item)
            assert least <= often <= most
        listed = {each.item for each in summary.frequent(0.4)}
        assert {item for item, often in true.items() if often > 0.4 * count} <= listed <= true.keys()
    assert words.bounds("nobody")[0] == 0


@settings(max_examples=15)
@given(seed=st.integers(0, 99), count=st.integers(1, 4000), shares=st.integers(1, 4), delta=st.booleans())
def test_engines_that_share_a_stream(seed: int, count: int, shares: int, delta: bool) -> None:
    """Dealt out to several, and asked about one window: the sum is within the error of one sketch of all."""
    events, owner = Events(seed, count), np.random.default_rng(seed).integers(0, shares, count)
    promise = "0.25, 0.0001" if delta else "0.25"
    rows = []
    for share in range(shares):
        engine = Engine()
        engine.execute(STREAM)
        engine.register(f"SELECT {ASKED.format(promise)} FROM s [RANGE 30 SECONDS]", "q")
        for half in (events.ts < 30 * SECOND, events.ts >= 30 * SECOND):
            engine.push("s", events.part((owner == share) & half))
            engine.advance()
        rows += engine.lookup("q", at=60 * SECOND).to_pylist()
    assert_merged(rows, events, events.ts >= 30 * SECOND, 0.25)


@settings(max_examples=10)
@given(seed=st.integers(0, 99), count=st.integers(1, 4000))
def test_keys_roll_up(tmp_path_factory: Any, seed: int, count: int) -> None:
    """The summaries of all keys, some exact and some in sketches, make up that of the whole window."""
    events, engine = Events(seed, count), Engine()
    engine.execute(STREAM)
    engine.register(f"SELECT k, {ASKED.format(0.25)} FROM s [RANGE 20 SECONDS] GROUP BY k", "q")
    for lo in range(0, 60, 20):
        engine.push("s", events.part((events.ts >= lo * SECOND) & (events.ts < (lo + 20) * SECOND)))
        engine.advance()
        path = tmp_path_factory.mktemp("state") / "state"
        engine.checkpoint(path)
        engine = Engine.restore(path)
    rows = engine.lookup("q").to_pylist()
    last = events.ts.max()
    assert_merged(rows, events, events.ts >= last + 1 - 20 * SECOND, 0.25)


def test_beside_other_approximate_aggregates(tmp_path: Path) -> None:
    """One sketch serves both, and what it gives out is the same."""
    events, engine = Events(1, 3000), Engine()
    engine.execute(STREAM)
    engine.register("SELECT APPROX_QUANTILE(x, 0.9, 0.1) AS p, APPROX_QUANTILE_SUMMARY(x, 0.2) AS q, "
                    "APPROX_COUNT(w = 'word 1', 0.1) AS one, APPROX_COUNT_SUMMARY(w, 0.1) AS c "
                    "FROM s [RANGE 30 SECONDS]", "q")  # fmt: skip
    engine.push("s", events.part(np.ones(3000, np.bool_)))
    assert engine.explain().count("sketch of") == 2
    (row,) = engine.lookup("q").to_pylist()
    assert merge_summaries([row["q"]]).quantile(0.9) == row["p"]
    assert merge_summaries([row["c"]]).bounds("word 1") == (row["one"], row["one"] + row["one_error"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "at least one"),
        (["no summary"], "this is no summary"),
        (["aGVsbG8="], "this is no summary"),
        ("qc", "a summary of counts, not of quantiles"),
        ("cd", "of different types"),
    ],
)
def test_what_does_not_merge(texts: Any, message: str) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.register(f"SELECT {ASKED.format(0.1)} FROM s [RANGE 9 SECONDS]", "q")
    engine.push("s", Events(1, 10).part(np.ones(10, np.bool_)))
    (row,) = engine.lookup("q").to_pylist()
    with pytest.raises(MuntinError, match=message):
        merge_summaries([row[name] for name in texts] if isinstance(texts, str) else texts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("APPROX_QUANTILE_SUMMARY(w, 0.1)", "takes a number"),
        ("APPROX_QUANTILE_SUMMARY(x)", r"write APPROX_QUANTILE_SUMMARY\(x, eps \[, delta\]\)"),
        ("APPROX_COUNT_SUMMARY(x, 0.9)", "eps must lie between"),
    ],
)
def test_what_cannot_be_asked(call: str, message: str) -> None:
    engine = Engine()
    engine.execute(STREAM)
    with pytest.raises(MuntinError, match=message):
        engine.register(f"SELECT {call} FROM s [RANGE 9 SECONDS]", "q")
