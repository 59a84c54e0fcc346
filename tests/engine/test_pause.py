"""Look-ups between the steps of an `advance`: they see what they would see before it, and change nothing of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine

SECOND = 1_000_000
SCRIPT = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
QUERIES = {
    **{
        f"above{i}": f"SELECT k, SUM(n) AS n FROM s [RANGE {1 + i % 4} SECONDS SLIDE 1 SECOND] GROUP BY k "
        f"HAVING SUM(n) > {40 * (1 + i)}"
        for i in range(12)
    },
    **{
        f"of{i}": f"SELECT SUM(n) AS n FROM s [RANGE {1 + i % 3} SECONDS SLIDE 1 SECOND] WHERE k = {i % 5} "
        f"HAVING SUM(n) > {20 * i} EMIT CHANGES"
        for i in range(40)
    },
    "most": "SELECT k, MAX(x) AS x, MIN(x) AS least FROM s [RANGE 5 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "top": "SELECT k, SUM(n) AS n FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k ORDER BY n DESC LIMIT 3",
    "any": "SELECT k, COUNT(*) AS many FROM s [RANGE 4 SECONDS] GROUP BY k",
    "usual": "SELECT k, MODE(n) AS n FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "rows": "SELECT k, SUM(n) AS n FROM s [ROWS 7 SLIDE 3] GROUP BY k",
    "all": "SELECT SUM(n) AS n, COUNT(*) AS many FROM s [RANGE 6 SECONDS SLIDE 1 SECOND]",
}


def batches(seed: int) -> list[pa.Table]:
    """Eight seconds and a half, in batches of very different sizes, each of some instants."""
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, 17 * SECOND // 2, 4_000))
    cuts = np.sort(random.choice(4_000, 12, replace=False))
    columns = {"ts": at, "k": random.integers(0, 9, 4_000), "n": random.integers(0, 30, 4_000),
               "x": random.normal(size=4_000)}  # fmt: skip
    parts = [np.split(column, cuts) for column in columns.values()]
    return [
        pa.table({**dict(zip(columns, part, strict=True)), "ts": pa.array(part[0], pa.timestamp("us"))})
        for part in zip(*parts, strict=True)
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threads", [1, 2])
def test_look_ups_in_between(seed: int, threads: int) -> None:
    interrupted, quiet = Engine(threads=threads), Engine(threads=threads)
    for engine in (interrupted, quiet):
        engine.execute(SCRIPT)
        engine.register_many(QUERIES)
    random, seen = np.random.default_rng(seed), list[tuple[str, Any, Any]]()

    def pause() -> None:
        for name in random.choice(list(QUERIES), 5).tolist():
            key = (
                None
                if " GROUP BY " not in QUERIES[name] or random.random() < 0.3
                else int(random.integers(9))
            )
            seen.append((name, key, interrupted.rows(name, key)))

    interrupted.pause = pause
    pauses = 0
    for batch in batches(seed):
        for engine in (interrupted, quiet):
            engine.push("s", batch)
        found, expected = interrupted.advance(), quiet.advance()
        assert list(found) == list(expected)
        for name in expected:
            assert found[name].equals(expected[name]), name
        pauses += len(seen)
        for name, key, rows in seen:  # nothing was pushed since: they have seen what there is now
            assert rows == quiet.rows(name, key), (name, key)
        seen.clear()
    assert pauses > 200
