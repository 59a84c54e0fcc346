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
from muntin.spark.view_pairs import PairKeeper

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SECOND = 1_000_000
SIZES = {"a": 5 * SECOND, "b": 3 * SECOND}
VIEW = """CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y FROM a [RANGE 5 SECONDS] JOIN b [RANGE 3 SECONDS]
ON a.k = b.k EVERY 1 SECOND INDEX 'rebuild 2x2'"""
REACHED = [10_000_000, 10_000_000, 10_000_000, 11_000_000, 11_000_400, 11_000_400, 13_000_000, 14_000_000]
FIRST, FILES = 6, len(REACHED)  # micro-batches before the restart, and in all


def streams(delay: int) -> dict[str, pa.Table]:
    """Times that mostly stand still: three events of each stream a micro-batch. `a` is in order, `b` within its delay
    to the last microsecond."""
    made, random = {}, np.random.default_rng(4)
    at = np.repeat(REACHED, 3)
    for name, column in (("a", "x"), ("b", "y")):
        back = np.tile([0, delay, delay // 2], FILES) if name == "b" else 0
        made[name] = pa.table({
            "ts": pa.array(at - back, pa.timestamp("us", tz="UTC")),
            "k": np.array(["p", "q"])[random.integers(0, 2, len(at))], column: np.arange(len(at)),
        })  # fmt: skip
    return made


def watermarks(made: dict[str, pa.Table], delay: int) -> list[int]:
    """That each micro-batch begins with, in whole milliseconds, and one more."""
    found = [0]
    for end in range(3, 3 * FILES + 1, 3):
        reached = [
            int(table["ts"].cast(pa.int64()).to_numpy()[:end].max()) // 1000 * 1000 for table in made.values()
        ]
        found.append(min(reached[0], reached[1] - delay))
    return found


def by_sparks_rule(made: dict[str, pa.Table], delay: int) -> dict[str, pa.Table]:
    """What is left if events at the watermark, that of the micro-batch before, are dropped."""
    bound = np.repeat([0, *watermarks(made, delay)[: FILES - 1]], 3)
    return {
        name: each.filter(pa.array(each["ts"].cast(pa.int64()).to_numpy() > bound))
        for name, each in made.items()
    }


def expected(made: dict[str, pa.Table], now: int) -> Counter[Any]:
    rows = {
        name: [row for row in zip(*(table[each].to_pylist() for each in ("k", table.column_names[2])),
                                  table["ts"].cast(pa.int64()).to_pylist(), strict=True)
               if now - SIZES[name] <= row[2] < now]
        for name, table in made.items()
    }  # fmt: skip
    return Counter((k, x, y) for k, x, _ in rows["a"] for other, y, _ in rows["b"] if k == other)


def start(spark: SparkSession, folder: Path, delay: int, checkpoint: str = "checkpoint") -> Any:
    read = {
        name: spark.readStream.schema(f"ts TIMESTAMP, k STRING, {column} BIGINT").option("maxFilesPerTrigger", 1)
        .parquet(str(folder / name))
        for name, column in (("a", "x"), ("b", "y"))
    }  # fmt: skip
    if delay:  # `a` has none: its delay is 0
        read["b"] = read["b"].withWatermark("ts", f"{delay} microseconds")
    writer = muntin.spark.keep_view(
        VIEW, read, time="ts", archive=str(folder / "views"), checkpoint=str(folder / checkpoint)
    )
    return writer.trigger(availableNow=True).start()


@pytest.mark.parametrize("delay", [0, 2 * SECOND])
def test_ties_and_restarts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: int
) -> None:
    """After each micro-batch; the query is stopped and started again in this process, and a new checkpoint refused."""
    made = streams(delay)
    instants = [each // SECOND * SECOND for each in watermarks(made, delay)[:FILES]]
    left = by_sparks_rule(made, delay)
    assert any(expected(left, now) != expected(made, now) for now in instants), "these streams would show it"
    seen: list[tuple[int | None, Counter[Any]]] = []
    take = PairKeeper.take

    def watched(self: Any, pairs: Any, batch: int) -> None:
        take(self, pairs, batch)
        view = muntin.archive.View.open(tmp_path / "views" / "v")
        found = view.read_all()
        seen.append(
            (view.now, Counter(zip(*(found[name].to_pylist() for name in ("k", "x", "y")), strict=True)))
        )

    monkeypatch.setattr(PairKeeper, "take", watched)
    for files in (range(FIRST), range(FIRST, FILES)):
        for name, table in made.items():
            write_files(table, tmp_path / name, files, FILES)
        start(spark, tmp_path, delay).awaitTermination()
    for now, found in seen:
        assert now is None or found == expected(made, now)
    assert [now or 0 for now, _ in seen] == instants
    assert max(len(found) for _, found in seen) > 10
    with pytest.raises(Exception, match="is kept by Spark's streaming query"):
        start(spark, tmp_path, delay, "another").awaitTermination()
    engine = muntin.Engine(archive=tmp_path / "views")
    for name, column in (("a", "x"), ("b", "y")):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k VARCHAR, {column} BIGINT) TIMESTAMP BY ts")
    with pytest.raises(NameTaken, match="is kept by Spark's streaming query"):
        engine.execute(VIEW)
    engine.execute("DROP MATERIALIZED VIEW v")  # nobody holds it any more
