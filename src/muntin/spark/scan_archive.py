"""Scanning an archive with Spark: a task a run that may hold what is asked for, rows as they lie in their segments."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from muntin.archive import EXPIRES, View
from muntin.archive.lock import Lease
from muntin.archive.scan import Bounds, RunScan
from muntin.errors import ArchiveError, NotFound, WindowTooLarge
from muntin.spark.shared_path import shared_path
from muntin.spark.stream_of import to_spark_type
from muntin.view.materialized_view import known_of
from muntin.view_query import HIDDEN
from muntin.window import span

_KEPT = 4
_leases: dict[str, deque[Lease]] = {}  # of the last scans, by archive
Size = timedelta | int


def scan_archive(
    session: SparkSession,
    folder: str,
    *,
    key: Any = None,
    low: Any = None,
    high: Any = None,
    sizes: Size | Sequence[Size] | None = None,
) -> DataFrame:
    """The results of a view, as of the update published last, with `generated_at` and, if windows are by time,
    `expires_at`.

    `key` asks for the results with one key (a tuple has values of its first columns), `low` and `high` for those with
    keys from `low` to below `high`. `sizes` asks for the same join over windows of at most that size, as
    `FROM v [RANGE …]` does; a list has a size for each window. Sizes are timedeltas, or numbers of events.
    Runs that cannot hold any of it are not opened, and of the others only the blocks between the keys are read.

    It stays that version, however often it is read and whatever a writer does meanwhile, until this process has
    scanned the archive four more times, or ends. For that it needs to write to the folder; where it may not, it
    warns, and a scan that comes to a segment after an update has replaced it fails.

        scan_archive(session, "/shared/views/crossed", key="IBM", sizes=timedelta(minutes=5))
    """
    if key is not None and (low is not None or high is not None):
        raise ArchiveError("give either a key, or the ends of a range of keys")
    at, view = _leased(str(shared_path("folder", folder)))
    scan, runs = RunScan.plan(at, view, Bounds.of(view, key, low, high), sizes_of(view, sizes))
    definition = view.definition
    shown = [
        field
        for field in definition.schema
        if not field.name.startswith(HIDDEN) and not (definition.by_count and field.name == EXPIRES)
    ]
    names = [field.name for field in shown]
    schema = spark.StructType([spark.StructField(field.name, to_spark_type(field.type)) for field in shown])
    named = session.createDataFrame(
        [(number, json.dumps(run)) for number, run in enumerate(runs)], "number INT, run STRING"
    )
    dealt = named.repartitionById(max(1, len(runs)), F.col("number"))
    return dealt.mapInArrow(lambda batches: read_runs(scan, names, batches), schema)


def sizes_of(view: View, sizes: Size | Sequence[Size] | None) -> tuple[int, ...] | None:
    """Of smaller windows, as the view counts; an error if it cannot answer for them."""
    if sizes is None:
        return None
    definition = view.definition
    if not known_of(view).sizes:
        raise WindowTooLarge(
            "the view answers for its own windows only: those of a negation, or of aggregates, cannot be cut"
        )
    given = list(sizes) if isinstance(sizes, Sequence) else [sizes]
    plain = []
    for each in given:
        if isinstance(each, timedelta) and not definition.by_count:
            each = each // timedelta(microseconds=1)
        if type(each) is not int or each < 1:
            unit = "a number of events" if definition.by_count else "a timedelta"
            raise ArchiveError(f"the size of a window of this view is {unit}, not {each!r}")
        plain.append(each)
    if isinstance(sizes, Sequence):
        return tuple(plain)
    longest = max(definition.sizes)
    if plain[0] > longest:
        shown = f"{longest} events" if definition.by_count else span(longest)
        raise WindowTooLarge(f"the windows of the view are {shown} at most: what they have lost is gone")
    return tuple(min(size, plain[0]) for size in definition.sizes)


def _leased(folder: str) -> tuple[Path, View]:
    """What is to be scanned, and where its segments will be."""
    try:
        lease = Lease.take(folder)
    except ArchiveError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        warnings.warn(f"{error}; a scan of it fails if an update comes between", RuntimeWarning, stacklevel=3)
        return Path(folder), View.open(folder)
    _leases.setdefault(os.path.realpath(folder), deque(maxlen=_KEPT)).append(lease)
    return lease.folder, View(lease.epoch)


def read_runs(scan: RunScan, names: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the runs have that a task was dealt."""
    for text in (text for batch in batches for text in batch.column("run").to_pylist()):
        try:
            for block in scan.read(json.loads(text)):
                yield block.select(names)
        except NotFound as error:
            raise NotFound(f"{error}: the archive has gone on since it was scanned; scan it again") from None
