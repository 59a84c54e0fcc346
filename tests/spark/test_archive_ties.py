"""A view kept by Spark over streams with equal times and few events a micro-batch holds the naive join."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from flow import write_files
from pyspark.sql import SparkSession

import muntin.spark
from muntin.errors import NameTaken
from muntin.spark.archive_join import _Keeper

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECOND = 1_000_000
SIZES = {"a": 5 * SECOND, "b": 3 * SECOND}
DELAYS = {"a": 0, "b": 2 * SECOND}
VIEW = """CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y FROM a [RANGE 5 SECONDS] JOIN b [RANGE 3 SECONDS]
ON a.k = b.k EVERY 1 SECOND INDEX 'rebuild 2x2'"""
FIRST, FILES = 6, 9  # micro-batches before the restart, and in all


def streams(seed: int) -> dict[str, pa.Table]:
    """Times that mostly stand still, and else move by a microsecond, half a millisecond or seconds; `a` is in order,
    `b` within its delay. Three events of each stream a micro-batch."""
    made, random = {}, np.random.default_rng(seed)
    steps = random.choice([0, 0, 0, 0, 1, 500, SECOND, SECOND, 2 * SECOND], FILES)
    at = np.repeat(10 * SECOND + np.cumsum(steps), 3)
    for name, column in (("a", "x"), ("b", "y")):
        back = random.choice([0, 0, 0, 1, SECOND, 2 * SECOND], len(at)) * (DELAYS[name] > 0)
        made[name] = pa.table({
            "ts": pa.array(at - back, pa.timestamp("us", tz="UTC")),
            "k": np.array(["p", "q"])[random.integers(0, 2, len(at))], column: np.arange(len(at)),
        })  # fmt: skip
    return made


def expected(made: dict[str, pa.Table], now: int) -> Counter[Any]:
    rows = {
        name: [row for row in zip(*(table[each].to_pylist() for each in ("k", table.column_names[2])),
                                  table["ts"].cast(pa.int64()).to_pylist(), strict=True)
               if now - SIZES[name] <= row[2] < now]
        for name, table in made.items()
    }  # fmt: skip
    return Counter((k, x, y) for k, x, _ in rows["a"] for other, y, _ in rows["b"] if k == other)


def start(spark: SparkSession, folder: Path, checkpoint: str = "checkpoint") -> Any:
    read = {
        name: spark.readStream.schema(f"ts TIMESTAMP, k STRING, {column} BIGINT").option("maxFilesPerTrigger", 1)
        .parquet(str(folder / name))
        for name, column in (("a", "x"), ("b", "y"))
    }  # fmt: skip
    read["b"] = read["b"].withWatermark("ts", "2 seconds")  # `a` has none: its delay is 0
    writer = muntin.spark.archive_join(
        VIEW, read, time="ts", archive=str(folder / "views"), checkpoint=str(folder / checkpoint)
    )
    return writer.trigger(availableNow=True).start()


def test_ties_and_restarts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each micro-batch; the query is stopped and started again in this process, and a new checkpoint refused."""
    made = streams(seed=4)
    seen: list[tuple[int | None, Counter[Any]]] = []
    take = _Keeper.take

    def watched(self: Any, pairs: Any, batch: int) -> None:
        take(self, pairs, batch)
        view = muntin.archive.View.open(tmp_path / "views" / "v")
        found = view.read_all()
        seen.append(
            (view.now, Counter(zip(*(found[name].to_pylist() for name in ("k", "x", "y")), strict=True)))
        )

    monkeypatch.setattr(_Keeper, "take", watched)
    for files in (range(FIRST), range(FIRST, FILES)):
        for name, table in made.items():
            write_files(table, tmp_path / name, files, FILES)
        start(spark, tmp_path).awaitTermination()
    assert len(seen) >= FILES
    for now, found in seen:
        assert now is None or found == expected(made, now)
    last = seen[-1][0]
    times = [made[name]["ts"].cast(pa.int64()).to_numpy() for name in ("a", "b")]
    kept = min(
        int(at[: -len(at) // FILES].max()) - DELAYS[name] for name, at in zip("ab", times, strict=True)
    )
    assert last == kept // SECOND * SECOND, (
        "as far as the micro-batches before the last have brought the watermark"
    )
    assert sum(len(found) for _, found in seen) > 50
    with pytest.raises(Exception, match="is kept by Spark's streaming query"):
        start(spark, tmp_path, "another").awaitTermination()
    engine = muntin.Engine(archive=tmp_path / "views")
    for name, column in (("a", "x"), ("b", "y")):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k VARCHAR, {column} BIGINT) TIMESTAMP BY ts")
    with pytest.raises(NameTaken, match="is kept by Spark's streaming query"):
        engine.execute(VIEW)
    engine.execute("DROP MATERIALIZED VIEW v")  # nobody holds it any more
