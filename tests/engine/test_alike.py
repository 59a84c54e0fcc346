"""Queries that differ only in their threshold are answered together, each as if it were alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine
from muntin.operator import alike

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT) TIMESTAMP BY ts"
SECOND = 1_000_000
QUERIES = {
    f"{shape} {limit}": text.format(limit)
    for shape, text in {
        "total": "SELECT k, SUM(v) AS total FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING SUM(v) > {}",
        "half": "SELECT k, SUM(v) / 2 AS half, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k "
        "HAVING SUM(v) > {}",
        "few": "SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS SLIDE 3 SECONDS] GROUP BY k HAVING COUNT(*) < {}",
    }.items()
    for limit in range(-5, 60, 3)
}


def engine_of(queries: dict[str, str]) -> Engine:
    engine = Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def batches(seed: int) -> list[pa.Table]:
    """Events of a few keys, NULL among keys and values, with a silence in the middle."""
    random = np.random.default_rng(seed)
    found = []
    for begin in (0, 5, 20):
        at = np.sort(random.integers(begin * SECOND, (begin + 5) * SECOND, 60))
        keys = [None if i == 3 else "abc"[i] for i in random.integers(0, 4, 60)]
        values = [None if i == 0 else int(i) for i in random.integers(0, 9, 60)]
        found.append(
            pa.table({"ts": at, "k": pa.array(keys, pa.string()), "v": pa.array(values, pa.int64())})
        )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_together_as_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    answer = alike._answer

    def counted(shard, readings, *rest):  # type: ignore[no-untyped-def]
        sizes.append(len(readings))
        return answer(shard, readings, *rest)

    monkeypatch.setattr(alike, "_answer", counted)
    together = engine_of(QUERIES)
    alone = {name: engine_of({name: text}) for name, text in QUERIES.items()}
    for batch in batches(seed):
        together.push("s", batch)
        emitted = together.advance()
        for name, engine in alone.items():
            engine.push("s", batch)
            wanted = engine.advance().get(name)
            assert emitted.get(name, None) == wanted, name
    assert set(sizes) == {len(QUERIES) // 3}


def test_a_sum_that_does_not_fit_is_complained_about_by_each() -> None:
    """And the other windows of all of them are answered."""
    text = "SELECT k, SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k HAVING SUM(v) > {}"
    engine = engine_of({f"q{limit}": text.format(limit) for limit in range(20)})
    at = np.array([0, 1, SECOND, 3 * SECOND])
    engine.push("s", {"ts": at, "k": ["a"] * 4, "v": np.array([2**62, 2**62, 50, 1])})
    with pytest.warns(RuntimeWarning, match="has no answer for the window"):
        emitted = engine.advance()
    for name in engine.queries:
        assert emitted[name]["total"].to_pylist() == [50]
        assert engine.stats()["queries"][name]["missed"] == 1
