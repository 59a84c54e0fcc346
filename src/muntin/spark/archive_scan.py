"""Scanning an archive with Spark: a task a run, rows as they lie in their segments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from muntin.archive import Definition, View
from muntin.archive.invalidations import Invalidations
from muntin.archive.liveness import Liveness
from muntin.archive.stored import Stored
from muntin.errors import ArchiveError
from muntin.spark.stream_of import to_spark_type
from muntin.view_query import HIDDEN


def scan_archive(session: SparkSession, folder: str) -> DataFrame:
    """The results of a view, as of the update published last, with `generated_at` and `expires_at`.

    A writer that goes on meanwhile removes segments that it has replaced; a scan that has not come to one by
    then fails, and is to be repeated.
    """
    view = View.open(folder)
    definition = view.definition
    if definition.by_count or len(view.epoch.invalidations):
        raise ArchiveError(f"'{folder}' has results that do not expire by time alone; read it with View.scan")
    now = view.now or 0
    runs = [
        json.dumps({"run": run.describe(), "sorted": index.indexing.variant.layout.is_sorted})
        for index in view.epoch.indexes
        for run in index.runs()
    ]
    told = json.dumps({"folder": str(folder), "definition": definition.describe(), "now": now})
    shown = [field for field in definition.schema if not field.name.startswith(HIDDEN)]
    schema = spark.StructType([spark.StructField(field.name, to_spark_type(field.type)) for field in shown])
    named = session.createDataFrame(
        [(number, run) for number, run in enumerate(runs)], "number INT, run STRING"
    )
    dealt = named.repartitionById(max(1, len(runs)), F.col("number"))
    return dealt.mapInArrow(lambda batches: _read(told, [field.name for field in shown], batches), schema)


def _read(told: str, names: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plain = json.loads(told)
    definition = Definition.from_description(plain["definition"])
    liveness = Liveness(definition, plain["now"], Invalidations(definition))
    for text in (text for batch in batches for text in batch.column("run").to_pylist()):
        run = json.loads(text)
        stored = Stored.from_description(Path(plain["folder"]), run["run"], definition, run["sorted"])
        for block in stored.segment.between(0, stored.rows):
            yield block.filter(pa.array(liveness.is_alive(block))).select(names)
