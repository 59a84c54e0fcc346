"""Inputs of a run on Spark: a DataFrame for each stream, of a file, a folder of files, or a topic of Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.engine.event_file import EventFile, EventFiles, format_of, open_events
from muntin.errors import MuntinError, SchemaError, nearest
from muntin.run.pipeline import given_inputs
from muntin.run.script import Script
from muntin.run.topic import Topic, topics_of
from muntin.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Input = Path | Topic


def inputs_of(text: str, script: Script, given: Iterable[str], stream: str | None) -> dict[str, Input]:
    """What each stream is read from: the files of --input, and for streams without one their topics."""
    files = given_inputs(script, list(given), stream)
    topics = topics_of(text, script.pushed.keys() - files.keys())
    if not files and not topics:
        raise MuntinError(
            "no stream has an input: write --input [STREAM=]PATH, or CREATE STREAM … WITH (source = 'kafka', …)"
        )
    return {**files, **topics}


class SparkInputs:
    """The events of each stream with the columns and types that the script declares."""

    def __init__(
        self, session: SparkSession, script: Script, inputs: Mapping[str, Input], often: Mapping[str, int]
    ):
        self._session, self._script, self._inputs, self._often = session, script, inputs, often
        self._frames: dict[str, DataFrame] = {}

    def frame(self, name: str) -> DataFrame:
        """Made once: a topic that is read several times has one end for all of them."""
        if name not in self._frames:
            stream, input = self._script.streams[name], self._inputs[name]
            schema = _schema_of(stream)
            if isinstance(input, Topic):
                made = input.read(self._session, schema, stream.time)
                made = made.persist() if self._often[name] > 1 else made
            else:
                made = _read_files(self._session, open_events(input, stream), schema)
            self._frames[name] = made
        return self._frames[name]


def _read_files(
    session: SparkSession, input: EventFile[Stream] | EventFiles[Stream], schema: StructType
) -> DataFrame:
    """A file, or those of a folder, each format by itself."""
    files = input.files if isinstance(input, EventFiles) else [input]
    by_format: dict[str, list[EventFile[Stream]]] = {}
    for file in files:
        by_format.setdefault(format_of(file.path)[0], []).append(file)
    read = {"parquet": _read_parquet, "csv": _read_csv, "jsonl": _read_jsonl, "arrow": _read_arrow}
    frames = [read[format](session, some, schema) for format, some in by_format.items()]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _read_csv(session: SparkSession, files: list[EventFile[Stream]], schema: StructType) -> DataFrame:
    return session.read.csv(_paths(files), schema=schema, header=True, enforceSchema=False)


def _read_jsonl(session: SparkSession, files: list[EventFile[Stream]], schema: StructType) -> DataFrame:
    return session.read.json(_paths(files), schema=schema)


def _read_parquet(session: SparkSession, files: list[EventFile[Stream]], schema: StructType) -> DataFrame:
    from pyspark.sql import functions as F

    from muntin.spark.stream_of import quoted

    df = session.read.parquet(*_paths(files))
    for field in schema:
        if field.name not in df.columns:
            raise SchemaError(
                f"'{files[0].path}' has no column '{field.name}'{nearest(field.name, df.columns)}"
            )
    return df.select(*[F.col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in schema])


def _read_arrow(session: SparkSession, files: list[EventFile[Stream]], schema: StructType) -> DataFrame:
    """Spark has no reader for these: a task for each file has that of embedded runs."""
    stream = files[0].stream
    zoned = pa.schema([(field.name, _zoned(field.type)) for field in stream.schema])

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path in (path for batch in batches for path in batch.column(0).to_pylist()):
            for events in EventFile(Path(path), stream).batches(32_768):
                yield events.cast(zoned)

    named = session.createDataFrame([(path,) for path in _paths(files)], "path STRING")
    return named.repartition(len(files), "path").mapInArrow(read, schema)


def _paths(files: list[EventFile[Stream]]) -> list[str]:
    return [str(file.path.resolve()) for file in files]


def _schema_of(stream: Stream) -> Any:
    from pyspark.sql.types import StructField, StructType

    from muntin.spark.stream_of import to_spark_type

    return StructType([StructField(field.name, to_spark_type(_zoned(field.type))) for field in stream.schema])


def _zoned(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) else kind
