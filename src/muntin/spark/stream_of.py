"""The stream that a DataFrame is: its columns, and the delay of its watermark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from muntin.errors import SchemaError, nearest
from muntin.stream import Stream

_TYPES: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(), spark.ByteType: pa.int8(), spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(), spark.LongType: pa.int64(), spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(), spark.StringType: pa.string(), spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us"), spark.TimestampNTZType: pa.timestamp("us"),
}  # fmt: skip
_DELAY = "spark.watermarkDelayMs"  # where Spark notes what `withWatermark` declared


def stream_of(
    df: DataFrame, name: str, time: str, delay: timedelta | None = None, ahead: timedelta | None = None
) -> Stream:
    """The stream called `name` whose events are the rows of a DataFrame.

    Columns of types that muntin does not have (DECIMAL, arrays, structs …) are left out. The delay is the one
    given, else that of `withWatermark` on the time column, else 0; of a table's, Spark knows nothing.
    """
    if time not in df.columns:
        raise SchemaError(f"the DataFrame has no column '{time}'{nearest(time, df.columns)}")
    watermarks = {field.name: field.metadata[_DELAY] for field in df.schema if _DELAY in field.metadata}
    if watermarks and time not in watermarks:
        raise SchemaError(
            f"the DataFrame's watermark is on column '{next(iter(watermarks))}', but the time is '{time}'; "
            "they must be the same"
        )
    fields = [
        (field.name, _TYPES[type(field.dataType)]) for field in df.schema if type(field.dataType) in _TYPES
    ]
    if time not in dict(fields):
        raise SchemaError(f"time column '{time}' must be TIMESTAMP or BIGINT, not {_name(df.schema[time])}")
    declared = timedelta(milliseconds=int(watermarks.get(time, 0)))
    return Stream(
        name,
        pa.schema(fields),
        time,
        (declared if delay is None else delay) // timedelta(microseconds=1),
        None if ahead is None else ahead // timedelta(microseconds=1),
    )


def zone_of(df: DataFrame, time: str) -> str | None:
    """The time zone of the answers' instants: none if the events' times have none."""
    return None if isinstance(df.schema[time].dataType, spark.TimestampNTZType) else "UTC"


def to_spark_type(kind: pa.DataType) -> spark.DataType:
    """The type of a column of answers."""
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_list(kind):
        return spark.ArrayType(to_spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return spark.StructType([spark.StructField(part.name, to_spark_type(part.type)) for part in kind])
    for each, arrow in _TYPES.items():
        if arrow == kind:
            return each()
    raise SchemaError(f"Spark has no type for values of type {kind}")


def _name(field: Any) -> str:
    return str(field.dataType.simpleString()).upper()
