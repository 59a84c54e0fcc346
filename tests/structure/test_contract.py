"""What every synopsis promises, for every one that is registered.

A synopsis joins by being in SYNOPSES and having an entry in SUBJECTS: which windows and aggregates
it is asked for here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from effort import THOROUGH, some_of
from muntin import Engine
from muntin.arrays import Arrays
from muntin.plan.cost import COMBINES
from muntin.plan.synopses import SYNOPSES

MERGED = "COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x), MAX(x), FIRST(x), LAST(x), VAR_POP(x), STDDEV_SAMP(x)"
# what baselines merge, of all kinds, and L-INT, which takes longest: others compile for many seconds
FEW = "COUNT(*), SUM(x), MAX(n), LAST(x)"
FEWEST = "SUM(x), MAX(n)"
VALUES = "QUANTILE(x, 0.3), MODE(n), COUNT(DISTINCT x)"
TIME = ("[RANGE 7 SECONDS]", "[RANGE 20 SECONDS TO 3 SECONDS]", "[RANGE 1 HOUR]")
ROWS = ("[ROWS 5]", "[ROWS 40 TO 3]", "[ROWS 10000]", "[ROWS 30 SLIDE 7]")
GRID = ("[RANGE 8 SECONDS SLIDE 2 SECONDS]", "[RANGE 1 HOUR TO 4 SECONDS SLIDE 1 SECOND]")
NOW = ("[RANGE 7 SECONDS]", "[RANGE 1 HOUR]", "[RANGE 8 SECONDS SLIDE 2 SECONDS]")
UNKEYED = ("",)
KEYED = ("", "k", "k, w")
PER_KEY = ("k", "k, w")


class Subject(NamedTuple):
    """Queries that are given to a synopsis, by rule or by hint."""

    windows: tuple[str, ...]
    calls: str
    keys: tuple[str, ...]


SUBJECTS = {
    "rescan": Subject(TIME, f"{MERGED}, {VALUES}", KEYED),
    "rescan_rows": Subject(ROWS, f"{MERGED}, {VALUES}", UNKEYED),
    "key_runs": Subject(TIME, f"{MERGED}, {VALUES}", PER_KEY),
    "key_runs_rows": Subject(ROWS, f"{MERGED}, {VALUES}", PER_KEY),
    "slices": Subject(GRID, MERGED, KEYED),
    "stairs": Subject((*GRID, "[RANGE 1 MINUTE SLIDE 12 SECONDS]"), MERGED, KEYED),
    "sessions": Subject(
        ("[SESSION 300 MILLISECONDS]", "[SESSION 2 SECONDS]", "[SESSION 1 HOUR]"), MERGED, KEYED
    ),
    "r_int": Subject(TIME + ROWS + GRID, "COUNT(*), COUNT(n), SUM(n), AVG(n)", UNKEYED),
    "b_int": Subject(TIME + ROWS + GRID, MERGED, UNKEYED),
    "l_int": Subject(ROWS + GRID, MERGED if THOROUGH else FEWEST, UNKEYED),
    "psoup": Subject(TIME + ROWS + GRID, FEW, UNKEYED),
    "materialize_all": Subject(ROWS + GRID, "COUNT(*), SUM(n), MIN(x), MAX(n)", UNKEYED),
    "materialize_none": Subject(TIME + ROWS + GRID, FEW, UNKEYED),
    "monotone_deque": Subject(TIME + ROWS + GRID, "MIN(x), MAX(x), MIN(n), MAX(n)", UNKEYED),
    "panes": Subject(GRID, FEW, UNKEYED),
    "paired_windows": Subject(GRID, FEW, UNKEYED),
    "quantile_tree": Subject(TIME + ROWS, "QUANTILE(x, 0.3), QUANTILE(n, 0.99), MEDIAN(x)", UNKEYED),
    "range_tree": Subject(
        TIME + GRID,
        "COUNT(*) FILTER (WHERE n > 0), SUM(x) FILTER (WHERE n BETWEEN -50 AND 20), AVG(x) FILTER (WHERE x < 0.5), "
        "MIN(n) FILTER (WHERE x >= 0), MAX(x) FILTER (WHERE n = 7), FIRST(x) FILTER (WHERE n < 0), "
        "LAST(w) FILTER (WHERE n < 0), VAR_POP(x) FILTER (WHERE n > 0)",
        UNKEYED,
    ),
    "sliding_quantiles": Subject(
        NOW,
        "APPROX_QUANTILE(x, 0.3, 0.1), APPROX_QUANTILE(n, 0.99, 0.05), APPROX_QUANTILE(x, 0.5, 0.2)",
        KEYED,
    ),
    "sliding_counts": Subject(
        NOW, "APPROX_FREQUENT(n, 0.2, 0.1), APPROX_COUNT(w = 'a', 0.1), APPROX_FREQUENT(w, 0.3, 0.2)", KEYED
    ),
    "weighted_counts": Subject(
        NOW,
        "APPROX_FREQUENT(n, 0.2, 0.1, weight => n + 100), APPROX_FREQUENT(w, 0.3, 0.2, weight => k)",
        KEYED,
    ),
    "sampled_quantiles": Subject(NOW, "APPROX_QUANTILE(x, 0.3, 0.4, 0.2)", KEYED),
    "sampled_counts": Subject(
        NOW, "APPROX_FREQUENT(n, 0.4, 0.2, 0.1), APPROX_COUNT(w = 'a', 0.1, 0.1)", KEYED
    ),
    "sliding_registers": Subject(NOW, "APPROX_COUNT_DISTINCT(n), APPROX_COUNT_DISTINCT(w, 0.1)", KEYED),
    "value_order": Subject(TIME + ROWS, "MODE(x), MODE(n), MODE(w)", UNKEYED),
    "distinct": Subject(TIME + ROWS, "COUNT(DISTINCT x), COUNT(DISTINCT w)", UNKEYED),
}
EVENTS = 100  # that are also pushed one by one
PAIRS = [(name, keys) for name in SYNOPSES for keys in SUBJECTS[name].keys]


def engine_of(name: str, keys: str) -> Engine:
    subject = SUBJECTS[name]
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k BIGINT, w VARCHAR, x DOUBLE, n BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
    )
    chosen, group_by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    for number, window in enumerate(subject.windows):
        engine.register(
            f"SELECT /*+ SYNOPSIS({name}) */ {chosen}{subject.calls} FROM s {window}{group_by}", f"q{number}"
        )
    return engine


def events(seed: int, count: int, disorder: int = 1_000_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, 60_000_000, count) // 100_000 * 100_000)  # many ties
    if disorder:
        at = at + rng.integers(-disorder, disorder, count)  # out of order, within the delay
    x = rng.normal(size=count)
    x[rng.random(count) < 0.02] = np.nan
    return {
        "ts": at,
        "k": rng.integers(0, 4, count),
        "n": rng.integers(-100, 100, count),
        "w": np.array(["a", "b"])[rng.integers(0, 2, count)],
        "x": x,
    }


def push_in_cuts(engine: Engine, columns: dict[str, np.ndarray], cuts: list[int]) -> None:
    for lo, hi in zip([0, *cuts], [*cuts, len(columns["ts"])], strict=True):
        engine.push("s", {name: column[lo:hi] for name, column in columns.items()})


def states(engine: Engine) -> list[Arrays]:
    state = engine._shards["s"].state
    return [each.snapshot() for each in [*state.synopses.values(), *state.stores.values()]]


def test_every_synopsis_has_a_subject() -> None:
    assert SYNOPSES.keys() == SUBJECTS.keys()


def test_every_synopsis_says_what_a_look_up_costs() -> None:
    """Else `explain` and `stats` would fail for the queries that it serves."""
    assert SYNOPSES.keys() == COMBINES.keys()


@pytest.mark.parametrize(("name", "keys"), PAIRS)
class TestContract:
    def test_plan_uses_it(self, name: str, keys: str) -> None:
        """The subjects below really exercise the synopsis they are listed under."""
        engine = engine_of(name, keys)
        groups = engine._shards["s"].state.manager.groups.values()
        assert name in {group.synopsis for group in groups}

    @pytest.mark.parametrize("seed", range(some_of(2, 50)))
    def test_batches_leave_the_same_state(self, name: str, keys: str, seed: int) -> None:
        """However events in order are cut into batches, bit for bit."""
        columns = events(seed, EVENTS, disorder=0)
        whole, single, random = (engine_of(name, keys) for _ in range(3))
        cuts = sorted(np.random.default_rng(seed).integers(0, EVENTS, 9).tolist())
        push_in_cuts(whole, columns, [])
        push_in_cuts(single, columns, list(range(1, EVENTS)))
        push_in_cuts(random, columns, cuts)
        for one, *others in zip(states(whole), states(single), states(random), strict=True):
            for other in others:
                assert one.keys() == other.keys()
                for part in one.keys() - {"kept_from", "meta"}:  # when it was last told to forget
                    np.testing.assert_array_equal(one[part], other[part], err_msg=part)

    @pytest.mark.parametrize("seed", range(some_of(2, 50)))
    def test_batches_give_the_same_answers(self, name: str, keys: str, seed: int) -> None:
        """Nor does it matter when they come out of order, but for the rounding of float sums."""
        columns = events(seed, EVENTS)
        whole, single = engine_of(name, keys), engine_of(name, keys)
        push_in_cuts(whole, columns, [])
        push_in_cuts(single, columns, list(range(1, EVENTS)))
        for query in whole.queries:
            columns_of, others = (each.lookup(query).to_pydict() for each in (whole, single))
            for column, values in columns_of.items():
                assert [value is None for value in values] == [value is None for value in others[column]]
                for value, other in zip(values, others[column], strict=True):
                    is_float = isinstance(value, float)
                    assert value == (pytest.approx(other, rel=1e-12, nan_ok=True) if is_float else other)

    def test_restored_goes_on_alike(self, name: str, keys: str, tmp_path: Any) -> None:
        """After a snapshot and restore in the middle, answers and state are as without."""
        columns = events(7, 400)
        first, second = (
            {part: column[some] for part, column in columns.items()}
            for some in (slice(0, 250), slice(250, None))
        )
        straight = engine_of(name, keys)
        straight.push("s", first)
        straight.checkpoint(tmp_path / "state")
        restored = Engine.restore(tmp_path / "state")
        for engine in (straight, restored):
            engine.push("s", second)
            engine.check()
        for query in straight.queries:
            left, right = (each.lookup(query).to_pydict() for each in (straight, restored))
            np.testing.assert_equal(left, right)

    def test_memory_does_not_grow_with_the_stream(self, name: str, keys: str) -> None:
        """State after ten times the events is the same size, once windows are full (spec 1.6 v)."""
        engine = engine_of(name, keys)
        for query in [
            each for each, query in engine.queries.items() if "1 HOUR" in query.text or "10000" in query.text
        ]:
            engine.drop(query)
        sizes = []
        for turn in range(24):
            columns = events(turn, 300)
            columns["ts"] = columns["ts"] + turn * 60_000_000
            engine.push("s", columns)
            engine.advance()
            sizes.append(engine.stats()["streams"]["s"]["bytes"])
        engine.check()
        assert max(sizes[12:]) <= max(sizes[:12])
