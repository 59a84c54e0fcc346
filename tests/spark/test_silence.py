"""A long silence on Spark: a shard sends its answers on in portions, and all of them in the same micro-batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from shards import Shards

import muntin
from muntin.spark import shard as spark_shard
from muntin.stream import Stream

SECOND = 10**6
STREAM = Stream("s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())]), "ts")
QUERIES = {
    "silent": "SELECT SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "keyed": "SELECT k, SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "changes": "SELECT k, SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING SUM(v) > 1 EMIT CHANGES",
}


@pytest.mark.parametrize("fold", [True, False])
def test_portions_of_a_shard_are_the_whole(fold: bool, monkeypatch: Any) -> None:
    """Portions of 100 rows: the same answers as embedded in one call, also from shards that were rebuilt."""
    monkeypatch.setattr(spark_shard, "_PORTION_ROWS", 100)
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts")
    engine.register_many(QUERIES)
    shards = Shards(STREAM, QUERIES, fold=fold)
    sizes: list[int] = []
    advance = spark_shard.SparkShard.advance

    def counted(self: Any, greatest: int) -> Any:
        for portion in advance(self, greatest):
            sizes.append(sum(table.num_rows for table in portion.values()))
            yield portion

    monkeypatch.setattr(spark_shard.SparkShard, "advance", counted)
    for number, at in enumerate((0, 2_000, 2_003, 5_000)):
        batch = pa.record_batch({"ts": [at * SECOND, (at + 7) * SECOND], "k": ["a", "b"], "v": [1, 2]})
        batch = batch.cast(STREAM.schema)
        engine.push("s", batch)
        wanted, found = engine.advance(), shards.send([[batch]])
        assert found.keys() == wanted.keys()
        for name, table in wanted.items():
            order = [(each, "ascending") for each in ("window_end", "k") if each in table.column_names]
            assert found[name].sort_by(order).to_pylist() == table.sort_by(order).to_pylist()
        if number == 1:
            shards.restart()
    assert len(sizes) > 40
    assert max(sizes) <= 300
