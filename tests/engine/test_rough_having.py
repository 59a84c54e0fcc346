"""HAVING APPROX(condition, e): all keys that qualify, and others only if they miss its bounds by the part e of them.

Every aggregate that an index finds, every shape of condition, every type of number; with NULL, keys that have nothing
but NULL, both signs, events out of order, by look-up and by `advance`. The oracle reads the same aggregate without
HAVING.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, i INTEGER, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
CALLS = ("COUNT(*)", "COUNT({})", "SUM({})", "MIN({})", "MAX({})")
# text, least and greatest value that qualify
Shape = tuple[str, Callable[[float, float], tuple[float, float]]]
INF = float("inf")
SHAPES: tuple[Shape, ...] = (
    ("{c} > {a}", lambda a, b: (np.nextafter(a, INF), INF)),
    ("{c} >= {a}", lambda a, b: (a, INF)),
    ("{c} < {b}", lambda a, b: (-INF, np.nextafter(b, -INF))),
    ("{c} <= {b}", lambda a, b: (-INF, b)),
    ("{c} = {a}", lambda a, b: (a, a)),
    ("{c} BETWEEN {a} AND {b}", lambda a, b: (a, b)),
    ("{a} < {c}", lambda a, b: (np.nextafter(a, INF), INF)),
    ("{c} > {a} AND {c} < {b}", lambda a, b: (np.nextafter(a, INF), np.nextafter(b, -INF))),
    ("{c} BETWEEN {b} AND {a} - 1", lambda a, b: (b, a - 1)),
)
BOUNDS = ((3, 9), (20, 45), (1, 2), (-8, -2), (-3, 4), (0, 7))


@pytest.mark.parametrize("column", ["n", "i", "x"])
@pytest.mark.parametrize("call", CALLS)
def test_never_fewer_and_more_only_within_e(call: str, column: str) -> None:
    """At every look-up and every window that closes."""
    rng = np.random.default_rng(len(call) + ord(column))
    engine = Engine()
    engine.execute(STREAM)
    text = call.format(column)
    rest = f"{text} AS v FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] GROUP BY k"
    engine.register(f"SELECT k, {rest}", "all")
    asked: dict[str, tuple[float, float, float]] = {}
    for shape, qualifying in SHAPES:
        for a, b in [BOUNDS[number] for number in rng.permutation(len(BOUNDS))[:3]]:
            e = float(rng.choice([0.05, 0.25, 0.5, 1.0]))
            having = shape.format(c=text, a=a, b=b)
            engine.register(f"SELECT k, {rest} HAVING APPROX({having}, {e})", name := f"{having}, {e}")
            asked[name] = (*qualifying(a, b), e)
    is_below_zero = "SUM" not in call or rng.random() < 0.5
    for step in range(5):
        count = int(rng.choice([5, 60, 300]))
        at = np.sort(rng.integers(2 * step * SECOND, (2 * step + 2) * SECOND, count)) - rng.integers(
            0, SECOND, count
        )
        key = (rng.random(count) ** 2 * 25).astype(np.int64)
        value = rng.integers(-9 if is_below_zero else 0, 10, count) + (
            rng.choice([0, 0.25], count) if column == "x" else 0
        )
        known = (rng.random(count) < 0.7) & (key % 5 > 0)  # every fifth key has nothing but NULL
        columns = {
            name: pa.array(value.astype(float if name == "x" else int), mask=~known) for name in ("n", "x")
        }
        engine.push("s", {"ts": at, "k": key, **columns, "i": columns["n"].cast(pa.int32())})
        exact = values(engine.lookup("all"))
        for name, promise in asked.items():
            assert_promise(exact, values(engine.lookup(name)), promise, name)
    answers = engine.advance()
    exact = values(answers["all"])
    for name, promise in asked.items():
        assert_promise(exact, values(answers[name]) if name in answers else {}, promise, name)


def values(answer: pa.Table) -> dict[tuple[Any, Any], Any]:
    """By key and window."""
    return {(row["k"], row["window_end"]): row["v"] for row in answer.to_pylist()}


def assert_promise(
    exact: dict[Any, Any], found: dict[Any, Any], promise: tuple[float, float, float], name: str
) -> None:
    low, high, e = promise
    assert {
        key for key, value in exact.items() if value is not None and low <= value <= high
    } <= found.keys(), name
    for key, value in found.items():
        assert value == exact[key], name
        assert value is not None, name
        assert low <= high, f"nothing can qualify: {name}"
        least, most = (
            end if abs(end) == INF else end + way * e * abs(end) for end, way in ((low, -1), (high, 1))
        )
        slack = 1e-9 * abs(value)
        assert least - slack <= value <= most + slack, f"{name}: {value}"
