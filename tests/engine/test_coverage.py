"""What `coverage` says of a query is what `complete` says in its answers, or in those of a twin that has rows.

Queries of every kind of window come while the stream runs; at every step the call, `stats()` and the answers agree, and
the instant it names is the first from which on answers are complete.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from effort import some_of
from muntin import Engine
from runtimes import checkpointed

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 1 SECOND"
WINDOWS = (
    "[RANGE 3 SECONDS]", "[RANGE 4 SECONDS SLIDE 1 SECOND]", "[RANGE 7 SECONDS TO 2 SECONDS SLIDE 3 SECONDS]",
    "[RANGE 2500 MILLISECONDS TO 1 SECOND]", "[RANGE 5 SECONDS TO 5 SECONDS]",
    "[RANGE 6 SECONDS SLIDE 700 MILLISECONDS]",
)  # fmt: skip
COUNTS = ("[ROWS 5]", "[ROWS 4 TO 2]", "[ROWS 6 SLIDE 2]")
CALLS = (
    "COUNT(*)",
    "SUM(n)",
    "MAX(n)",
    "SUM(n) OVER [RANGE 9 SECONDS]",
    "MEDIAN(n)",
    "AVG(n) OVER [RANGE 2 SECONDS]",
)
WHERES = ("", "", " WHERE n > 4", " WHERE k < 3")


def random_window(rng: np.random.Generator) -> str:
    return str(rng.choice(WINDOWS if rng.random() < 0.75 else COUNTS))


@pytest.mark.parametrize("seed", range(some_of(10, 50)))
def test_coverage_is_what_complete_says(seed: int) -> None:
    """For queries without keys, which always have a row, and for their twins by keys that nobody passes."""
    rng = np.random.default_rng(seed)
    engine = Engine()
    engine.execute(STREAM)
    windows: dict[str, str] = {}
    now = 10 * SECOND
    for step in range(16):
        if rng.random() < 0.6:
            window, call, where = random_window(rng), str(rng.choice(CALLS)), str(rng.choice(WHERES))
            if "ROWS" in window:  # by key, sketches do not count events
                call = "MAX(n)" if "APPROX" in call else call.split(" OVER")[0]
            name = f"q{step}"
            engine.register(f"SELECT {call} AS v FROM s {window}{where}", name)
            keyed = f"SELECT k, {call} AS v FROM s {window}{where} GROUP BY k"
            engine.register(keyed, f"{name} by key")
            engine.register(f"{keyed} HAVING COUNT(*) > 1000000", f"{name} nobody")
            windows[name] = window
        count = int(rng.integers(1, 8))
        at = np.sort(rng.integers(now, now + 2 * SECOND, count))
        engine.push("s", {"ts": at, "k": rng.integers(0, 4, count), "n": rng.integers(0, 9, count)})
        now = int(at[-1]) + int(rng.choice([0, 1, 4])) * SECOND // 2
        if rng.random() < 0.3:
            engine.advance()
        if rng.random() < 0.15:
            engine = checkpointed(engine)
        for name, window in windows.items():
            agree(engine, name, "ROWS" in window or "ROWS" in engine.queries[name].text)


def agree(engine: Engine, name: str, is_by_count: bool) -> None:
    coverage = engine.coverage(name)
    context = f"{engine.queries[name].text}: {coverage}"
    (complete,) = engine.lookup(name)["complete"].to_pylist()
    assert coverage.complete == complete, context
    stats = engine.stats()["queries"]
    assert stats[name]["complete"] == complete, context
    assert stats[name]["complete_from"] == coverage.complete_from
    assert str(coverage) in engine.explain(name)
    by_key = engine.lookup(f"{name} by key")["complete"].to_pylist()
    if by_key:
        assert engine.coverage(f"{name} by key").complete == all(by_key), context
    assert engine.lookup(f"{name} nobody").num_rows == 0
    if "APPROX" not in engine.queries[name].text:  # else HAVING reads what SELECT does not
        assert engine.coverage(f"{name} nobody") == engine.coverage(f"{name} by key"), context
    if coverage.complete_from is None:
        assert coverage.complete or is_by_count, context
        return
    first = int(coverage.complete_from.astype(np.int64))
    greatest = int(engine.stats()["streams"]["s"]["greatest"].astype(np.int64))
    for at in (first - 1, first, first + SECOND, first + 10 * SECOND):
        if at > greatest:  # others may have been forgotten
            assert engine.lookup(name, at=at)["complete"].to_pylist() == [at >= first], f"{context} at {at}"


@pytest.mark.parametrize("seed", range(4))
def test_coverage_of_joins(seed: int) -> None:
    """Also of those that come while their streams run."""
    rng = np.random.default_rng(seed)
    engine = Engine()
    for name in ("a", "b"):
        engine.execute(f"CREATE STREAM {name} (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    now = 10 * SECOND
    names: list[str] = []
    for step in range(14):
        if rng.random() < 0.5:
            sizes: Any = rng.integers(1, 8, 2)
            slide = " SLIDE 2 SECONDS" if rng.random() < 0.5 else ""
            engine.register(
                f"SELECT COUNT(*) AS v FROM a [RANGE {sizes[0]} SECONDS{slide}] "
                f"JOIN b [RANGE {sizes[1]} SECONDS{slide}] ON a.k = b.k",
                f"j{step}",
            )
            names.append(f"j{step}")
        now += int(rng.integers(1, 2 * SECOND))
        engine.push(str(rng.choice(["a", "b"])), {"ts": [now], "k": [1], "n": [1]})
        for name in names:
            coverage = engine.coverage(name)
            assert engine.lookup(name)["complete"].to_pylist() == [coverage.complete], coverage
            assert str(coverage) in engine.explain(name)
            if coverage.complete_from is not None:
                first = int(coverage.complete_from.astype(np.int64))
                for at in (first - 1, first, first + SECOND):
                    if at > now:
                        assert engine.lookup(name, at=at)["complete"].to_pylist() == [at >= first], coverage


@pytest.mark.parametrize("call", ["MIN(w)", "COUNT(DISTINCT w)", "MAX(w) FILTER (WHERE n > 1)", "LAST(w)"])
def test_a_query_like_one_that_is_there_is_covered_at_once(call: str) -> None:
    """Also if a call needs slices and events: it has to find both, and nothing that is younger."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT, w VARCHAR) TIMESTAMP BY ts")
    query = f"SELECT {call} AS v, COUNT(*) AS c FROM s [RANGE 60 SECONDS SLIDE 1 SECOND]"
    engine.register(query, "before")
    engine.push("s", {"ts": [1, 5 * SECOND], "n": [1, 2], "w": ["a", "b"]})
    engine.register(query, "new")
    assert engine.coverage("new").complete
    assert engine.lookup("new").to_pylist() == engine.lookup("before").to_pylist()
