"""Messages of Kafka: events out of those in Arrow's format, and answers as messages that have an id.

Spark reads and writes the messages itself, by its connector. JSON is decoded by Spark's `from_json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from muntin.argument import shown
from muntin.arrow_bytes import UnsoundBytes, read_batches
from muntin.errors import MuntinError, SchemaError
from muntin.spark.stream_of import quoted, to_arrow_type

VALUE = "value"  # the column of a message's payload, in Spark's connector
_ID_DIGITS = 32  # of 16 bytes in hexadecimal: two answers of a billion have the same with probability 1e-21
# to_json writes milliseconds by default, and windows without a SLIDE end at any microsecond
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def arrow_events(messages: DataFrame, schema: str | spark.StructType) -> DataFrame:
    """The events in messages, each of which holds batches of them in Arrow's stream format, in its column `value`.

    Columns are found by name and brought to the types of `schema`; NULL where a message lacks one. A message that
    cannot be read is one event of NULLs, as with `from_json`: `bad_events` of `shared_windows` says what becomes of it.

        trades = muntin.spark.arrow_events(messages, "ts TIMESTAMP, symbol STRING, shares BIGINT")
    """
    if not hasattr(messages, "schema"):
        raise MuntinError(f"messages is a DataFrame, not {shown(messages)}")
    if dict(messages.dtypes).get(VALUE) != "binary":
        raise SchemaError(f"messages must have a column {VALUE} BINARY, not {messages.dtypes}")
    declared = spark.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(declared, spark.StructType):
        raise MuntinError(
            f"schema is a text as in 'ts TIMESTAMP, k STRING', or a StructType, not {shown(schema)}"
        )
    for field in declared:
        if to_arrow_type(field.dataType) is None:
            raise SchemaError(
                f"column '{field.name}' of events is {field.dataType.simpleString().upper()}, a type that muntin lacks"
            )
    return messages.select(quoted(VALUE)).mapInArrow(
        _decoding(to_arrow_schema(declared, timezone="UTC")), declared
    )


def _decoding(schema: pa.Schema) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = [part for value in batch.column(0) for part in _decoded(value, schema)]
            yield from pa.Table.from_batches(parts, schema).combine_chunks().to_batches()

    return run


def _decoded(value: Any, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The events of one message; one of NULLs if it cannot be read."""
    try:
        return [_shaped(batch, schema) for batch in read_batches(value.as_buffer(), may_be_compressed=True)]
    except (UnsoundBytes, pa.ArrowException, TypeError, AttributeError):  # the last where there is no payload
        return [pa.RecordBatch.from_pylist([{}], schema)]


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:  # times finer than a microsecond are rounded, other values must be what they are said to be
            column = batch.column(place)
            columns.append(column.cast(field.type, safe=not pa.types.is_timestamp(column.type)))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def answer_messages(answers: DataFrame) -> DataFrame:
    """Answers as messages for Spark's Kafka sink: `value` is the answer as JSON, `key` its id.

    Spark writes to Kafka at least once: after a failure, answers of the last micro-batch come again. An answer that
    comes again has the same id, whatever was killed, since the id is a digest of the answer.
    """
    if not hasattr(answers, "schema"):
        raise MuntinError(f"answers is a DataFrame that shared_windows made, not {shown(answers)}")
    told = answers.select(F.to_json(F.struct("*"), _JSON).alias(VALUE))
    return told.select(F.substring(F.sha2(F.col(VALUE), 256), 1, _ID_DIGITS).alias("key"), VALUE)
