"""Views of several kinds over two small streams in files, kept by Spark, and what they must hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from archive_flow import SCHEMAS, SECOND

import muntin.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 4
Row = tuple[int, str | None, int]
EXCEPT = """CREATE MATERIALIZED VIEW except_ AS SELECT k, x, x + 1 AS more FROM a [RANGE 20 SECONDS] WHERE x < 5
EXCEPT SELECT k FROM b [RANGE 300 MILLISECONDS] WHERE y < 3 EVERY 2 SECONDS"""
ROWS = """CREATE MATERIALIZED VIEW rows_ AS SELECT a.k, x, y FROM a [ROWS 30] JOIN b [ROWS 12] ON a.k = b.k
EVERY 2 SECONDS"""
PAIRS = """CREATE MATERIALIZED VIEW pairs_ AS SELECT one.k, one.x, two.x AS other
FROM a [RANGE 12 SECONDS TO 2 SECONDS] AS one JOIN a [RANGE 6 SECONDS] AS two ON one.x + 1 = two.x
AND UPPER(one.k) = UPPER(two.k) EVERY 2 SECONDS INDEX 'rebuild 2x2'"""
VIEWS = {"except_": EXCEPT, "rows_": ROWS, "pairs_": PAIRS}


def start(spark: SparkSession, folder: Path, view: str) -> Any:
    streams = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        .withWatermark("ts", "1 second")
        for name, schema in SCHEMAS.items()
    }  # fmt: skip
    places = {"archive": str(folder / "views"), "checkpoint": str(folder / f"checkpoint of {view}")}
    writer = muntin.spark.keep_view(VIEWS[view], streams, time={"a": "ts", "b": "ts"}, **places)
    return writer.trigger(availableNow=True).start()


def events(made: dict[str, pa.Table], name: str, now: int) -> list[Row]:
    """Before an instant, in order."""
    table = made[name].set_column(0, "ts", made[name]["ts"].cast(pa.int64()))
    return sorted(
        (row for row in zip(*(column.to_pylist() for column in table.columns), strict=True) if row[0] < now),
        key=lambda row: row[0],
    )


def expected(
    made: dict[str, pa.Table], view: str, now: int, rows: tuple[int, int] = (30, 12)
) -> Counter[Any]:
    a, b = (events(made, name, now) for name in "ab")

    def since(some: list[Row], span: float) -> list[Row]:
        return [row for row in some if row[0] >= now - span * SECOND]

    if view == "except_":
        blocked = {k for _, k, y in since(b, 0.3) if y < 3} - {None}
        return Counter((k, x, x + 1) for _, k, x in since(a, 20) if x < 5 and k not in blocked)
    if view == "rows_":
        return Counter(
            (k, x, y)
            for _, k, x in a[-rows[0] :]
            for _, other, y in b[-rows[1] :]
            if k is not None and k == other
        )
    one = [row for row in since(a, 12) if row[0] < now - 2 * SECOND]
    return Counter(
        (k, x, y)
        for _, k, x in one
        for _, other, y in since(a, 6)
        if k is not None and k == other and x + 1 == y
    )
