"""Loaded tables: rows that a DataFrame has when the query starts, sent to the shards that hold them.

The driver reads them, so that a key that is NULL or stands twice is an error before anything runs. Spark has no union
of a stream with rows that are none, so these are a stream, too. Its offset is a hash of the rows: a query that is
started again with the same rows gets none, and with other rows each shard has the new ones in place of all it had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from muntin.arrays import LONG_AGO
from muntin.arrow_bytes import stream_bytes
from muntin.spark.held_rows import shards_of_rows
from muntin.spark.job import Job
from muntin.spark.pack import packed_rows, read_batch
from muntin.spark.packed_source import PackedSource
from muntin.tables.keyed_rows import KeyedRows

LOAD = "load "  # the kind of packed rows, before the name of the table
Loaded = Mapping[str, KeyedRows]  # by table


def pack_loads(job: Job, loaded: Loaded) -> Iterator[pa.RecordBatch]:
    """A row for every shard that has a table, with the rows that it holds; also if these are none."""
    turn = 0
    for name, rows in loaded.items():
        batch = rows.batch
        for route in job.routes:
            if name not in route.held:
                continue
            shards = shards_of_rows(route.held[name], batch, route.shards)
            whole = stream_bytes(batch) if shards is None else b""
            for bucket, shard in enumerate(route.ids):
                turn += 1
                mine = (
                    whole
                    if shards is None
                    else stream_bytes(batch.filter(pa.array(shards == np.int64(bucket))))
                )
                yield packed_rows(0, turn, [(shard, LONG_AGO, LOAD + name, None, 0, mine)])


def loaded_frame(
    session: SparkSession, job: Job, loaded: Loaded, schema: str, is_streaming: bool
) -> DataFrame:
    """Packed rows of tables, as a DataFrame."""
    versions = {name: _version(job, name, rows) for name, rows in loaded.items()}
    held = {name: stream_bytes(rows.batch) for name, rows in loaded.items()}
    name = hashlib.sha256(repr((job.fingerprint, versions)).encode()).hexdigest()[:16]
    return _LoadedTables.frame(
        session, f"tables_{name}", is_streaming, job=job, versions=versions, held=held, packed=schema
    )


def _version(job: Job, name: str, rows: KeyedRows) -> str:
    """Equal for equal rows that are held by the same shards, in whatever order the rows are."""
    table = job.table(name)
    held = [(route.name, route.shards, route.held[name]) for route in job.routes if name in route.held]
    told = hashlib.sha256(repr((held, table.key, str(table.schema))).encode())
    ordered = pa.Table.from_batches([rows.batch]).sort_by([(column, "ascending") for column in table.key])
    for column in ordered.combine_chunks().columns:
        told.update(np.asarray(column.is_valid()).tobytes())
        values = (
            pa.table({"": column.drop_null()}).combine_chunks().to_batches()
        )  # what stands under NULL is anything
        told.update(stream_bytes(values[0]) if values else b"")
    return told.hexdigest()


class _LoadedTables(PackedSource):
    """The rows as Spark sees them."""

    versions: dict[str, str]
    held: dict[str, bytes]

    def reader(self, schema: Any) -> DataSourceReader:
        return _OnceReader(self.job, self.held)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _StreamReader(self.job, self.versions, self.held)


class _Tables(InputPartition):
    """Tables whose rows are to be sent."""

    def __init__(self, names: list[str]):
        self.names = names


class _OnceReader(DataSourceReader):
    def __init__(self, job: Job, held: dict[str, bytes]):
        self._job = job
        self._held = held

    def partitions(self) -> list[InputPartition]:
        return [_Tables(list(self._held))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _packed(self._job, self._held, partition.names)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, job: Job, versions: dict[str, str], held: dict[str, bytes]):
        self._job = job
        self._versions = versions
        self._held = held

    def initialOffset(self) -> dict[str, str]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        pass  # all there is is available now

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        return self._versions

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        return [_Tables([name for name in self._held if start.get(name) != end.get(name)])]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _packed(self._job, self._held, partition.names)


def _packed(job: Job, held: dict[str, bytes], names: list[str]) -> Iterator[pa.RecordBatch]:
    return pack_loads(job, {name: KeyedRows(read_batch(held[name])) for name in names})
