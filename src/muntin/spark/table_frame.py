"""Tables as users give them to Spark: a DataFrame for each, of rows or of changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from muntin.argument import shown, text_of, texts_of
from muntin.errors import MuntinError, SchemaError, nearest
from muntin.shard.record_batch import to_record_batch
from muntin.spark.place import placed
from muntin.spark.stream_of import to_arrow_type, zones_of
from muntin.sql import tables_joined
from muntin.stream import Stream
from muntin.table import Table
from muntin.tables.keyed_rows import KeyedRows, keyed_rows


@dataclass(frozen=True)
class TableFrame:
    """A table whose rows are in a DataFrame, with its primary key.

    If the DataFrame is streaming, its rows are changes: a row is inserted, or replaces the row with its key. Where the
    column called `deleted` is true, the row with that key goes. `position` is a column of whole numbers by which the
    changes of one micro-batch take effect. Neither is a column of the table.
    """

    df: DataFrame
    key: str | Sequence[str] = ()  # by default the columns that ON compares with the stream
    deleted: str | None = None
    position: str | None = None

    @property
    def columns(self) -> list[str]:
        return [name for name in self.df.columns if name not in (self.deleted, self.position)]

    @property
    def is_streaming(self) -> bool:
        streaming: bool = self.df.isStreaming
        return streaming


def frames_of(tables: Mapping[str, Any], is_streaming: bool) -> dict[str, TableFrame]:
    """What was given as tables of a job; an error if one of them is something else."""
    if not isinstance(tables, Mapping):
        raise MuntinError(f"tables is a dict {{name: DataFrame}}, not {shown(tables)}")
    frames = {}
    for name, given in tables.items():
        text_of("each name of tables", name)
        frame = given if isinstance(given, TableFrame) else TableFrame(given)
        if not hasattr(frame.df, "isStreaming"):
            raise MuntinError(f"table '{name}' is a DataFrame or a TableFrame, not {shown(frame.df)}")
        if frame.is_streaming and not is_streaming:
            raise MuntinError(
                f"the DataFrame of table '{name}' is a stream of changes, and the events are no stream: "
                "give the rows of the table, or stream both"
            )
        for what, column in (("deleted", frame.deleted), ("position", frame.position)):
            if column is None:
                continue
            if not frame.is_streaming:
                raise MuntinError(f"{what} is for tables that are streams of changes, and '{name}' is none")
            if column not in frame.df.columns:
                near = nearest(column, frame.df.columns)
                raise SchemaError(f"the changes of table '{name}' have no column '{column}'{near}")
        if frame.deleted is not None and dict(frame.df.dtypes)[frame.deleted] != "boolean":
            raise SchemaError(
                f"column '{frame.deleted}' of table '{name}' says whether a row goes, so it is BOOLEAN"
            )
        frames[name] = frame
    return frames


def tables_of(frames: Mapping[str, TableFrame], stream: Stream, queries: Iterable[str]) -> list[Table]:
    """The tables that DataFrames are; a primary key that is not given is made of the columns of ON."""
    if stream.name in frames:
        raise MuntinError(f"the stream and a table are both called '{stream.name}'")
    schemas = {name: _schema_of(name, frame) for name, frame in frames.items()}
    keys = {
        name: tuple(texts_of("key", [frame.key] if isinstance(frame.key, str) else list(frame.key)))
        for name, frame in frames.items()
    }
    unknown = [name for name, key in keys.items() if not key]
    if unknown:
        # until then any column is the key: only what ON compares is looked at
        sources = {
            name: Table(name, schema, keys[name] or (schema.names[0],)) for name, schema in schemas.items()
        }
        found: dict[str, set[tuple[str, ...]]] = {name: set() for name in unknown}
        for text in queries:
            for name, columns in tables_joined(text, {stream.name: stream, **sources}):
                if name in found:
                    found[name].add(tuple(sorted(columns, key=schemas[name].names.index)))
        for name, some in found.items():
            if len(some) != 1:
                raise SchemaError(f"what is the primary key of table '{name}'? {_why(name, some)}")
            (keys[name],) = some
    return [Table(name, schema, keys[name]) for name, schema in schemas.items()]


def _why(name: str, found: set[tuple[str, ...]]) -> str:
    write = f"give it with tables={{'{name}': TableFrame(df, key=…)}}"
    if not found:
        return f"No query joins it; {write}, or leave the table out"
    by = " and by ".join(", ".join(columns) for columns in sorted(found))
    return f"Queries join it by {by}; {write}"


def _schema_of(name: str, frame: TableFrame) -> pa.Schema:
    fields = []
    often = Counter(
        each.casefold() for each in frame.columns
    )  # Spark takes those that differ in case for one
    for field in frame.df.schema:
        if field.name not in frame.columns:
            continue
        if often[field.name.casefold()] > 1:
            raise SchemaError(f"table '{name}' has two columns called '{field.name}'; rename one")
        kind = to_arrow_type(field.dataType)
        if kind is None:
            raise SchemaError(
                f"column '{field.name}' of table '{name}' is {field.dataType.simpleString().upper()}, a type that "
                "muntin does not have; cast the column, or leave it out of the DataFrame"
            )
        fields.append((field.name, kind))
    if not fields:
        raise SchemaError(f"table '{name}' has no columns")
    return pa.schema(fields)


def zones_of_tables(frames: Mapping[str, TableFrame]) -> dict[str, str | None]:
    """The time zones of columns of timestamps, each under the name `table.column`."""
    return {
        f"{name}.{column}": zone
        for name, frame in frames.items()
        for column, zone in zones_of(frame.df).items()
    }


def loaded_rows(frames: Mapping[str, TableFrame], tables: Iterable[Table]) -> dict[str, KeyedRows]:
    """The rows of DataFrames that are no streams; SchemaError if a key is NULL or stands twice."""
    found = {}
    for table in tables:
        frame = frames[table.name]
        if not frame.is_streaming:
            found[table.name] = keyed_rows(table, to_record_batch(table, frame.df.toArrow()))
    return found


def changes_of(frame: TableFrame, name: str) -> DataFrame:
    """The changes of a table as `pack_changes` takes them: its columns, whether the row goes, the place."""
    beside = [] if frame.deleted is None else [frame.deleted]
    return placed(frame.df, [*frame.columns, *beside], frame.position, f"the changes of table '{name}'")
