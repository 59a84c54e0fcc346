"""A folder of Parquet or Arrow files as a source that packs: events never pass through the JVM.

Spark's own Parquet source decodes files in the JVM and sends every row to Python. Here the tasks that fold
events read the files themselves. Files are taken in the order of their names, and a file that comes later
must have a later name: the name of the last one taken is all that a checkpoint needs to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from muntin.errors import MuntinError, NotFound
from muntin.fixed_point import is_decimal, is_kept
from muntin.shard.clock import wall_clock
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.spark.bad_events import FAIL
from muntin.spark.delta import is_delta
from muntin.spark.job import Job
from muntin.spark.pack import pack_events
from muntin.spark.packed_source import PackedSource
from muntin.spark.shared_path import shared_path
from muntin.spark.stream_of import find_time
from muntin.stream import Stream

FORMATS = (".parquet", ".arrow", ".feather")
_PART = 500_000  # events that are worth a task
_BATCH = 131_072  # events read at once


@dataclass(frozen=True)
class EventFolder:
    """Events in files, to be given to `shared_windows` in place of a DataFrame.

    `delay` is how far events may come out of order; events more than `ahead` beyond the clock on the wall when their
    micro-batch was planned are left out. A folder that is watched as a stream takes up to
    `files_per_batch` files at a time, 0 for all that are there; otherwise it is read once, as it is.
    """

    session: SparkSession
    path: str
    delay: timedelta = timedelta(0)
    is_streaming: bool = True
    files_per_batch: int = 0
    schema: pa.Schema | None = None  # by default that of the first file
    ahead: timedelta | None = None

    def __post_init__(self) -> None:
        shared_path("folder", self.path)  # tasks would find out, much later

    def stream(self, name: str, time: str) -> Stream:
        """The stream whose events are in the files."""
        schema = self._columns()
        fields = [pa.field(field.name, _plain(field.type)) for field in schema if not _is_foreign(field.type)]
        left_out = tuple(
            (field.name, f"in the files it is {field.type}, a type that muntin does not have")
            for field in schema
            if _is_foreign(field.type)
        )
        delay = self.delay // timedelta(microseconds=1)
        ahead = None if self.ahead is None else self.ahead // timedelta(microseconds=1)
        return Stream(name, pa.schema(fields), find_time(time, schema.names), delay, ahead, left_out)

    def zones(self) -> dict[str, str | None]:
        """The time zone of each column of timestamps. Times without one are taken for UTC, as embedded, so all answers
        are instants."""
        return {field.name: "UTC" for field in self._columns() if pa.types.is_timestamp(field.type)}

    def _columns(self) -> pa.Schema:
        schema = self.schema
        if schema is None:
            files = files_of(self.path)
            if not files:
                raise NotFound(
                    f"there is no {' or '.join(FORMATS)} file in '{self.path}' to take the columns from"
                )
            schema = _schema_of(files[0])
        return schema

    def packed(self, job: Job, schema: str) -> DataFrame:
        """Packed rows of the events, read by tasks that know the job."""
        return _PackedFolder.frame(
            self.session, job.fingerprint[:16], self.is_streaming,
            job=job, path=self.path, files_per_batch=self.files_per_batch, packed=schema,
        )  # fmt: skip


class _PackedFolder(PackedSource):
    """The folder as Spark sees it."""

    path: str
    files_per_batch: int

    def reader(self, schema: Any) -> DataSourceReader:
        return _OnceReader(self.job, self.path)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _StreamReader(self.job, self.path, self.files_per_batch)


class _RowGroups(InputPartition):
    """Some row groups of a Parquet file, or a whole Arrow file; `origin` is its place among all of them, `wall` the
    clock that judges which events are ahead."""

    def __init__(self, origin: int, file: str, groups: Sequence[int] | None, wall: int):
        self.wall = wall
        self.origin = origin
        self.file = file
        self.groups = groups


class _OnceReader(DataSourceReader):
    def __init__(self, job: Job, path: str):
        self._job = job
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return parts_of(files_of(self._path), wall_clock())

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _pack(self._job, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, job: Job, path: str, files_per_batch: int):
        self._job = job
        self._path = path
        self._most = files_per_batch
        self._last: str | None = None  # no file after this one is read, if there is such an end

    def initialOffset(self) -> dict[str, str]:
        return {"after": ""}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._most) if self._most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        # without this Spark would take all files there are as one micro-batch
        self._last = max((file.name for file in files_of(self._path)), default="")

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        names = [file.name for file in files_of(self._path) if file.name > start["after"]]
        if self._last is not None:
            names = [name for name in names if name <= self._last]
        if isinstance(limit, ReadMaxFiles):
            names = names[: limit.max_files]
        # Spark writes the offset down before the micro-batch begins: a second attempt has the same clock
        return {"after": names[-1], "clock": str(wall_clock())} if names else start

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        files = [file for file in files_of(self._path) if start["after"] < file.name <= end["after"]]
        return parts_of(files, int(end.get("clock", wall_clock())))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _pack(self._job, partition)


def _pack(job: Job, part: _RowGroups) -> Iterator[pa.RecordBatch]:
    events = read_part(part, job.reading, job.bad_events == FAIL)
    return pack_events(job, events, part.origin, part.wall)


def files_of(path: str) -> list[Path]:
    """The files of a folder in the order of their names; hidden ones are not finished yet."""
    folder = shared_path("folder", path)
    if is_delta(path):
        raise MuntinError(
            f"'{path}' is a Delta table, whose log says which files count: history= reads one, and Delta's connector "
            "for Spark has it as a DataFrame"
        )
    if not folder.is_dir():
        raise NotFound(f"there is no folder '{path}'")
    found = (file for file in folder.iterdir() if file.suffix in FORMATS and file.name[0] not in "._")
    return sorted(found, key=lambda file: file.name)


def parts_of(files: Sequence[Path], wall: int) -> list[InputPartition]:
    """Pieces of files, each worth a task of its own."""
    parts: list[InputPartition] = []
    for file in files:
        groups: list[int] = []
        rows = 0
        if file.suffix != ".parquet":
            parts.append(_RowGroups(len(parts), str(file), None, wall))
            continue
        with _named(file):
            metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            groups.append(group)
            rows += metadata.row_group(group).num_rows
            if rows >= _PART or group == metadata.num_row_groups - 1:
                parts.append(_RowGroups(len(parts), str(file), groups, wall))
                groups, rows = [], 0
    return parts


def read_part(part: _RowGroups, stream: Stream, is_strict: bool = True) -> Iterator[pa.RecordBatch]:
    """The events of a part, as the stream has them; only the columns that are needed. If `is_strict`, an event
    without a time is an error."""
    batches = _raw_batches(part, stream.schema.names)
    while True:
        with _named(part.file):
            batch = next(batches, None)
            if batch is None:
                return
            events = to_record_batch(stream, batch)
            if is_strict:
                to_times(stream, events)  # says which row has none
        yield events


def _raw_batches(part: _RowGroups, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if part.groups is not None:
        with pq.ParquetFile(part.file) as file:
            there = [name for name in columns if name in file.schema_arrow.names]
            yield from file.iter_batches(_BATCH, row_groups=list(part.groups), columns=there)
    else:
        with pa.memory_map(part.file) as source, pa.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                chosen = batch.select([name for name in columns if name in batch.schema.names])
                chosen.validate(full=True)  # Arrow believes what a file says of itself
                yield chosen


def _schema_of(file: Path) -> pa.Schema:
    with _named(file):
        if file.suffix == ".parquet":
            return pq.read_schema(file)
        with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as opened:
            return opened.schema


@contextmanager
def _named(file: Path | str) -> Iterator[None]:
    """Whatever is wrong with a file is told with its name; files are half-written, damaged, or something else."""
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, MemoryError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise MuntinError(
            f"cannot read '{file}': {said[0]}. A file that is still being written should have a name that begins "
            "with '.' or '_' until it is whole"
        ) from error
    except MuntinError as error:
        raise type(error)(f"'{file}' does not fit: {error}") from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """Times as microseconds without a zone, texts and numbers as they are."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) else kind


def _is_foreign(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_foreign(kind.value_type)
    is_wide = is_decimal(kind) and not is_kept(kind)
    return bool(is_wide or pa.types.is_nested(kind) or pa.types.is_binary(kind))
