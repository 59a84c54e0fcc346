"""The stream that a DataFrame is: its columns, and the delay of its watermark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from muntin.errors import SchemaError, nearest
from muntin.fixed_point import MOST_DIGITS, is_decimal
from muntin.stream import Stream
from muntin.table import SPAN

_TYPES: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(), spark.ByteType: pa.int8(), spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(), spark.LongType: pa.int64(), spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(), spark.StringType: pa.string(), spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us"), spark.TimestampNTZType: pa.timestamp("us"),
}  # fmt: skip
WATERMARK = "spark.watermarkDelayMs"  # where Spark notes what `withWatermark` declared


def stream_of(
    df: DataFrame, name: str, time: str, delay: timedelta | None = None, ahead: timedelta | None = None
) -> Stream:
    """The stream called `name` whose events are the rows of a DataFrame.

    Columns of types that muntin does not have (a DECIMAL of more than 18 digits, arrays, structs …) are left out, and
    so are columns that share their name with another one. The delay is the one given, else that of `withWatermark` on
    the time column, else 0; of a table's, Spark knows nothing.
    """
    time = find_time(time, df.columns)
    watermarks = {field.name: field.metadata[WATERMARK] for field in df.schema if WATERMARK in field.metadata}
    if watermarks and time not in watermarks:
        raise SchemaError(
            f"the DataFrame's watermark is on column '{next(iter(watermarks))}', but the time is '{time}'; "
            "they must be the same"
        )
    often = Counter(df.columns)
    fields, left_out = [], []
    for field in df.schema:
        if often[field.name] > 1:
            left_out.append(
                (field.name, f"the DataFrame has {often[field.name]} columns of this name; rename them")
            )
        elif (kind := _arrow_type(field.dataType)) is not None:
            fields.append((field.name, kind))
        else:
            why = f"in the DataFrame it is {_name(field)}, a type that muntin does not have; cast it there"
            fewer = f", for example to DECIMAL({MOST_DIGITS}, 2)"
            left_out.append((field.name, f"{why}{fewer}" if "DECIMAL" in why else why))
    if time not in dict(fields):
        raise SchemaError(f"time column '{time}' must be TIMESTAMP or BIGINT, not {_name(df.schema[time])}")
    declared = timedelta(milliseconds=int(watermarks.get(time, 0)))
    microseconds = (declared if delay is None else delay) // timedelta(microseconds=1)
    return Stream(
        name,
        pa.schema(fields),
        time,
        microseconds,
        None if ahead is None else ahead // timedelta(microseconds=1),
        tuple(dict(left_out).items()),
    )


def find_time(time: str, columns: Sequence[str]) -> str:
    """The time column as the source spells it: in any case if just one fits, as columns are found elsewhere.

    >>> find_time("TS", ["ts", "v"])
    'ts'
    """
    matching = [each for each in columns if each == time] or [
        each for each in columns if each.casefold() == time.casefold()
    ]
    if not matching:
        raise SchemaError(f"the events have no column '{time}'{nearest(time, columns)}")
    if len(matching) > 1:
        raise SchemaError(
            f"the events have {len(matching)} columns that '{time}' may mean: {', '.join(matching)}"
        )
    return matching[0]


def zones_of(df: DataFrame) -> dict[str, str | None]:
    """The time zone of each column of timestamps: UTC for TIMESTAMP, an instant; None for TIMESTAMP_NTZ."""
    kinds = {field.name: field.dataType for field in df.schema}
    return {
        name: None if isinstance(kind, spark.TimestampNTZType) else "UTC"
        for name, kind in kinds.items()
        if isinstance(kind, (spark.TimestampType, spark.TimestampNTZType))
    }


def to_arrow_type(kind: spark.DataType) -> pa.DataType | None:
    """The type of a column of a table; None if there is none."""
    return SPAN if isinstance(kind, spark.DayTimeIntervalType) else _arrow_type(kind)


def _arrow_type(kind: spark.DataType) -> pa.DataType | None:
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= MOST_DIGITS else None
    return _TYPES.get(type(kind))


def to_spark_type(kind: pa.DataType) -> spark.DataType:
    """The type of a column of answers."""
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if kind == SPAN:
        return spark.DayTimeIntervalType()
    if is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
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


def quoted(name: str) -> str:
    """A column's name as Spark's parser takes it, whatever is in it: `a.b` is a column, not a field of a struct.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def refuse_look_alikes(df: DataFrame, stream: str, names: Iterable[str]) -> None:
    """Raise an error if Spark, which takes names that differ in case for one, cannot find one of these columns."""
    often = Counter(name.casefold() for name in df.columns)
    for name in names:
        if often[name.casefold()] > 1:
            raise SchemaError(
                f"Spark cannot tell '{name}' from another column of stream '{stream}': rename one"
            )


def without_zone(column: pa.Array) -> pa.Array:
    """Instants as their digits in UTC, which is how muntin reads them; other columns as they are."""
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column
