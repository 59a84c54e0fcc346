"""Scanning an archive with Spark: a task a run, rows as they lie in their segments."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from muntin.archive import Definition, View
from muntin.archive.liveness import Invalidations, Liveness
from muntin.archive.lock import Lease
from muntin.archive.stored import Stored
from muntin.errors import ArchiveError, NotFound
from muntin.spark.stream_of import to_spark_type
from muntin.view_query import HIDDEN

_KEPT = 4
_leases: dict[str, deque[Lease]] = {}  # of the last scans, by archive


def scan_archive(session: SparkSession, folder: str) -> DataFrame:
    """The results of a view, as of the update published last, with `generated_at` and `expires_at`.

    It stays that version, however often it is read and whatever a writer does meanwhile, until this process has
    scanned the archive four more times, or ends. For that it needs to write to the folder; where it may not, it
    warns, and a scan that comes to a segment after an update has replaced it fails.
    """
    at, view = _leased(folder)
    definition, now = view.definition, view.now or 0
    runs = [
        json.dumps({"run": run.describe(), "sorted": index.indexing.variant.layout.is_sorted})
        for index in view.epoch.indexes
        for run in index.runs()
    ]
    told = json.dumps({"folder": str(at), "definition": definition.describe(), "now": now})
    shown = [field for field in definition.schema if not field.name.startswith(HIDDEN)]
    schema = spark.StructType([spark.StructField(field.name, to_spark_type(field.type)) for field in shown])
    named = session.createDataFrame(
        [(number, run) for number, run in enumerate(runs)], "number INT, run STRING"
    )
    dealt = named.repartitionById(max(1, len(runs)), F.col("number"))
    return dealt.mapInArrow(lambda batches: _read(told, [field.name for field in shown], batches), schema)


def _leased(folder: str) -> tuple[Path, View]:
    """What is to be scanned, and where its segments will be."""
    try:
        lease = Lease.take(folder)
    except ArchiveError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        warnings.warn(f"{error}; a scan of it fails if an update comes between", RuntimeWarning, stacklevel=3)
        return Path(folder), _scanned(folder, View.open(folder))
    view = _scanned(folder, View(lease.epoch))
    _leases.setdefault(os.path.realpath(folder), deque(maxlen=_KEPT)).append(lease)
    return lease.folder, view


def _scanned(folder: str, view: View) -> View:
    if view.definition.by_count or len(view.epoch.invalidations):
        raise ArchiveError(f"'{folder}' has results that do not expire by time alone; read it with View.scan")
    return view


def _read(told: str, names: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plain = json.loads(told)
    definition = Definition.from_description(plain["definition"])
    liveness = Liveness(definition, plain["now"], Invalidations(definition))
    for text in (text for batch in batches for text in batch.column("run").to_pylist()):
        run = json.loads(text)
        try:
            stored = Stored.from_description(Path(plain["folder"]), run["run"], definition, run["sorted"])
        except NotFound as error:
            raise NotFound(f"{error}: the archive has gone on since it was scanned; scan it again") from None
        for block in stored.segment.between(0, stored.rows):
            yield block.filter(pa.array(liveness.is_alive(block))).select(names)
