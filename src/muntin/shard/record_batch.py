"""Batches as users have them, brought into the schema of their stream or table."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.argument import shown
from muntin.errors import SchemaError, nearest
from muntin.fixed_point import is_decimal
from muntin.instant import FIRST, LAST, warn_of_unit
from muntin.kernels.times import extremes_of
from muntin.sql.decimal_type import digits_of, type_of
from muntin.sql.decimals import to_real
from muntin.sql.type_name import type_name
from muntin.sql.window_clause import duration_of
from muntin.stream import Stream
from muntin.table import Table

_MICROSECONDS = pa.timestamp("us")


def to_record_batch(stream: Stream | Table, batch: Any) -> pa.RecordBatch:
    """Events, or rows, of a pyarrow Table or RecordBatch, pandas or polars frame, or dict of columns.

    The result has exactly the columns and types of the stream or table. Columns beyond them are ignored; values
    that do not fit their type are an error, as is a NULL time.
    """
    given: list[str]
    columns: Mapping[str, Any]
    if isinstance(batch, dict):
        columns = _from_dict(batch)
        given = list(columns)
    else:
        table = batch if isinstance(batch, pa.RecordBatch) else to_table(batch)
        given = table.schema.names
        columns = {name: table.column(given.index(name)) for name in given}
    wanted = stream.schema.names  # Arrow makes this list anew each time
    missing = [name for name in wanted if name not in given]
    if missing:
        raise SchemaError(
            f"the batch has no column '{missing[0]}' of {stream.label}{nearest(missing[0], given)}"
        )
    for name in wanted:
        if given.count(name) > 1:
            raise SchemaError(f"the batch has {given.count(name)} columns called '{name}'")
    made = [_cast(columns[field.name], field, stream) for field in stream.schema]
    return pa.RecordBatch.from_arrays(made, schema=stream.schema)


def to_times(stream: Stream, batch: pa.RecordBatch) -> np.ndarray:
    """Event times in microseconds."""
    column = batch.column(batch.schema.get_field_index(stream.time))
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise SchemaError(f"time column '{stream.time}' is NULL in row {row} of the batch")
    if pa.types.is_timestamp(column.type) and column.type.unit != "us":
        try:
            column = _in_unit(column, _MICROSECONDS)
        except pa.ArrowInvalid:
            raise SchemaError(f"time column '{stream.time}' lies outside the years 1 to 9999") from None
    at = np.asarray(column.view(pa.int64()))
    least, greatest = extremes_of(at) if len(at) else (FIRST, LAST)
    if least < FIRST or greatest > LAST:
        row = int(np.flatnonzero((at < FIRST) | (at > LAST))[0])
        raise SchemaError(
            f"time column '{stream.time}' lies outside the years 1 to 9999 in row {row}; integers are microseconds"
        )
    return at


_FEW_GONE = (
    64  # rows: to copy the runs between them takes a tenth of the time of Arrow's filter, which looks at each
)


def kept_rows(batch: pa.RecordBatch, kept: np.ndarray) -> pa.RecordBatch:
    """The rows that are kept, in their order."""
    gone = np.flatnonzero(~kept)
    if len(gone) > _FEW_GONE:
        return batch.filter(pa.array(kept))
    edges = itertools.pairwise([-1, *gone.tolist(), len(kept)])
    runs = [batch.slice(lo + 1, hi - lo - 1) for lo, hi in edges if hi - lo > 1]
    return pa.concat_batches(runs) if runs else batch.slice(0, 0)


def to_table(batch: Any) -> pa.Table:
    """A batch as it was given, in Arrow's terms."""
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, dict):
        return pa.table(_from_dict(batch))
    # by name, so that neither library is imported for those who do not use it
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(batch, pandas.DataFrame):
        try:
            return pa.Table.from_pandas(batch, preserve_index=False)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise SchemaError(f"the pandas frame cannot be read: {_first_line(error)}") from None
    if polars is not None and isinstance(batch, polars.DataFrame):
        return batch.to_arrow()
    if hasattr(batch, "__arrow_c_stream__"):
        try:
            return pa.table(batch)
        except Exception as error:  # whatever the library behind it raises
            raise SchemaError(f"the {type(batch).__name__} cannot be read: {_first_line(error)}") from error
    raise SchemaError(
        f"a batch cannot be a {type(batch).__name__}; give a pyarrow Table or RecordBatch, "
        "a pandas or polars DataFrame, or a dict of columns"
    )


def _from_dict(columns: dict[str, Any]) -> dict[str, pa.Array | pa.ChunkedArray]:
    arrays = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise SchemaError(f"columns of the batch are named by texts, not by {shown(name)}")
        try:
            arrays[name] = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else _to_array(values)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise SchemaError(f"column '{name}' of the batch cannot be read: {_first_line(error)}") from None
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise SchemaError(f"the columns of the batch differ in length: {listed}")
    return arrays


def _to_array(values: Any) -> pa.Array:
    """NaN from Python is a value, not a NULL."""
    try:
        return pa.array(values, from_pandas=False)
    except OverflowError:  # Arrow takes Python's integers for signed ones
        return pa.array(values, pa.uint64(), from_pandas=False)


def _cast(array: pa.Array | pa.ChunkedArray, field: pa.Field, stream: Stream | Table) -> pa.Array:
    if isinstance(array.type, pa.DictionaryType):
        array = array.cast(array.type.value_type)
    if isinstance(array, pa.ChunkedArray):  # one chunk is taken as it is: combining would copy it
        chunks = array.chunks
        array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.array([], array.type)])
    if array.type == field.type:
        return array
    try:
        if pa.types.is_timestamp(field.type) and pa.types.is_integer(array.type):
            warn_of_unit(stream, field, array)
            return (array if array.type == pa.int64() else array.cast(pa.int64())).view(field.type)
        if pa.types.is_timestamp(field.type) and pa.types.is_timestamp(array.type):
            return _in_unit(array, field.type)
        if _is_text(array.type) and pa.types.is_duration(field.type):
            return _spans(array)
        if _is_text(array.type) and not _is_text(field.type):
            raise pa.ArrowInvalid("it has text")
        if not _is_text(array.type) and _is_text(field.type) and not pa.types.is_null(array.type):
            raise pa.ArrowInvalid(f"it has {type_name(array.type)}")
        return _decimals(array, field.type) if is_decimal(field.type) else array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"column '{field.name}' of the batch does not fit {stream.label}, where it is "
            f"{type_name(field.type)}: {_first_line(error)}"
        ) from None


def _decimals(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers as decimals, nothing rounded away. A float is the decimal that is written as it: 0.1 is 0.1."""
    if pa.types.is_integer(array.type):
        return array.cast(type_of(digits_of(array.type))).cast(kind)
    made = array.cast(kind)
    if pa.types.is_floating(array.type):
        differs = pc.not_equal(to_real(made, pa.float64()), array.cast(pa.float64()))
        if pc.any(differs).as_py():
            number = array.filter(differs)[0]
            raise pa.ArrowInvalid(f"{number} has more digits than {type_name(kind)}")
    return made


def _spans(texts: pa.Array) -> pa.Array:
    """Lengths of time that are written as '5 minutes'; each text is read once, however many rows have it."""
    coded = texts.dictionary_encode()
    try:
        lengths = [None if text is None else duration_of(text) for text in coded.dictionary.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pa.array(lengths, pa.int64()).take(coded.indices).cast(pa.duration("us"))


def _in_unit(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Instants as a type keeps them. Finer stamps are rounded down, also before the epoch."""
    finer = _PER_SECOND[array.type.unit] // _PER_SECOND[kind.unit]
    if finer > 1:
        whole = np.asarray(array.view(pa.int64()).fill_null(0)) // finer
        return pa.array(whole, pa.int64(), mask=np.asarray(array.is_null())).view(kind)
    # seen as an integer in between: the instant counts, whatever zone it was written in
    return array.cast(pa.timestamp(kind.unit, array.type.tz)).view(pa.int64()).view(kind)


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
