"""Two small streams in files, a view of their join kept by Spark, and what it must hold, found by looking at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from flow import write_files

import muntin

SECOND = 1_000_000
SCHEMAS = {"a": "ts TIMESTAMP, k STRING, x BIGINT", "b": "ts TIMESTAMP, k STRING, y BIGINT"}
VIEW = """CREATE MATERIALIZED VIEW v AS SELECT a.k, x, x + y AS total FROM a [RANGE 20 SECONDS] JOIN b [RANGE 8 SECONDS]
ON a.k = b.k WHERE y <> 3 EVERY 2 SECONDS INDEX 'rebuild 2x2'"""


def tables(rows: int = 240, seed: int = 1) -> dict[str, pa.Table]:
    """Four events a second of each stream, in order within a second."""
    made, random = {}, np.random.default_rng(seed)
    for name, column in (("a", "x"), ("b", "y")):
        at = np.arange(rows) * 250_000 + random.integers(0, 750_000, rows) + SECOND
        keys = np.array(["p", "q", "r", None], object)[random.integers(0, 4, rows)]
        made[name] = pa.table({"ts": pa.array(at, pa.timestamp("us", tz="UTC")), "k": pa.array(keys, pa.string()),
                               column: pa.array(random.integers(0, 6, rows))})  # fmt: skip
    return made


def write(made: dict[str, pa.Table], folder: Path, files: range, many: int) -> None:
    for name, table in made.items():
        write_files(table, folder / name, files, many)


def start(spark, folder: Path, **trigger):
    streams = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        .withWatermark("ts", "1 second")
        for name, schema in SCHEMAS.items()
    }  # fmt: skip
    writer = muntin.spark.keep_view(
        VIEW, streams, time="ts", archive=str(folder / "views"), checkpoint=str(folder / "checkpoint")
    )
    return (writer.trigger(**trigger) if trigger else writer).start()


def held(folder: Path) -> tuple[Counter, int | None]:
    """What an embedded engine finds, and as of when."""
    view = muntin.archive.View.open(folder / "views" / "v")
    found = muntin.Engine(archive=folder / "views").execute("SELECT k, x, total FROM v")
    later = muntin.archive.View.open(folder / "views" / "v")
    if later.now != view.now:
        return held(folder)
    return Counter(zip(*(found[name].to_pylist() for name in ("k", "x", "total")), strict=True)), view.now


def expected(made: dict[str, pa.Table], now: int) -> Counter:
    """The pairs whose events are both in their windows."""
    left, right = ([(*row.values(),) for row in made[name].set_column(0, "ts", made[name]["ts"].cast(pa.int64()))
                    .to_pylist() if now - size * SECOND <= row["ts"] < now]
                   for name, size in (("a", 20), ("b", 8)))  # fmt: skip
    return Counter(
        (k, x, x + y) for _, k, x in left for _, other, y in right if k is not None and k == other and y != 3
    )
