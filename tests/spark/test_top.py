"""ORDER BY … LIMIT on Spark's shards: the first keys of all shards together are those of one engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from shards import Shards

from muntin import Engine
from muntin.spark.explain import explain_job
from muntin.sql import parse_statements

SECOND = 1_000_000
CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
(_CREATED,) = parse_statements(CREATE, {})
STREAM = _CREATED.stream
W = "FROM s [RANGE 4 SECONDS SLIDE 1 SECOND]"
QUERIES = {
    "sums": f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v DESC LIMIT 3",
    "hidden": f"SELECT k, COUNT(*) AS v {W} GROUP BY k HAVING COUNT(*) > 1 ORDER BY MAX(x), SUM(n) DESC LIMIT 2",
    "all": f"SELECT k, SUM(n) AS v {W} GROUP BY k",
    "rows": "SELECT k, SUM(n) AS v FROM s [ROWS 2] GROUP BY k ORDER BY v LIMIT 2",
    "changes": f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v DESC LIMIT 3 EMIT CHANGES",
}


@pytest.mark.parametrize("count", [1, 3])
def test_first_keys_of_all_shards(count: int) -> None:
    rng = np.random.default_rng(count)
    engine, shards = Engine(), Shards(STREAM, QUERIES, shards=count)
    engine.execute(CREATE)
    for name, sql in QUERIES.items():
        engine.register(sql, name)
    for second in range(8):
        many = int(rng.integers(5, 30))
        events = pa.table(
            {
                "ts": pa.array(second * SECOND + np.sort(rng.integers(0, SECOND, many))).cast(
                    pa.timestamp("us")
                ),
                "k": pa.array(list("abcdefghij")).take(pa.array(rng.integers(0, 10, many))),
                "n": pa.array(rng.integers(-3, 9, many), mask=rng.random(many) < 0.2),
                "x": rng.integers(0, 3, many) / 2,
            }
        )
        engine.push("s", events)
        told, wanted = shards.send([events.to_batches()]), engine.advance()
        assert told.keys() == wanted.keys()
        for name, table in wanted.items():
            assert _rows(told[name]) == _rows(table), name
        if second == 4:
            shards.restart()


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def test_explain_tells_of_the_step() -> None:
    job = Shards(STREAM, QUERIES, shards=2).job
    assert "one more step ranks the first keys of all shards for sums, hidden, rows" in explain_job(job)


def test_statements_with_limit_need_the_step() -> None:
    shards = Shards(STREAM, {"all": QUERIES["all"]}, shards=2, is_controlled=True)
    shards.tell(f"REGISTER QUERY sums AS {QUERIES['sums']}")
    assert "the job has no step that ranks the rows of all its shards" in shards.refused[0]
    with_step = Shards(STREAM, {"sums": QUERIES["sums"]}, shards=2, is_controlled=True)
    with_step.tell(f"REGISTER QUERY hidden AS {QUERIES['hidden']}")
    assert not with_step.refused
