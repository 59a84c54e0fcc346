"""Narrow columns: integers and instants travel as small offsets from the least of them.

    1700000000000000, 1700000000000250, …   -->   0, 250, … in 16 bits, and 1700000000000000 beside the column

What travels is copied some ten times on its way through Python, Spark's shuffle and Python again. Only rows of a table
are narrowed: those of a stream become a part of the checkpoint, which older versions read, too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_LEAST = b"muntin least"
_WIDE = {b"int64": pa.int64(), b"timestamp[us]": pa.timestamp("us")}
_TYPE = b"muntin type"
_NARROW = (np.uint8, np.uint16, np.uint32)


def narrowed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, each column of 64 bits as narrow as its values allow; O(rows).

    >>> rows = pa.record_batch({"x": pa.array([10**15, 10**15 + 250])})
    >>> narrowed(rows).schema.field("x").type
    DataType(uint8)
    >>> widened(narrowed(rows)) == rows
    True
    """
    columns, fields = [], []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        made = _offsets(column) if str(field.type).encode() in _WIDE and rows.num_rows else None
        if made is not None:
            column, least = made
            told = {_LEAST: str(least).encode(), _TYPE: str(field.type).encode()}
            field = pa.field(field.name, column.type, metadata=told)
        columns.append(column)
        fields.append(field)
    return pa.record_batch(columns, pa.schema(fields))


def _offsets(column: pa.Array) -> tuple[pa.Array, int] | None:
    """Offsets and the least value; None if a value is missing, or they lie too far apart."""
    if column.null_count:
        return None
    values = np.asarray(column.view(pa.int64()))
    least, span = int(values.min()), int(values.max()) - int(values.min())
    for kind in _NARROW:
        if span <= np.iinfo(kind).max:
            return pa.array((values - least).astype(kind)), least
    return None


def widened(*batches: pa.RecordBatch) -> pa.RecordBatch:
    """What was given to `narrowed`, one batch after the other; other batches as they are. O(rows)."""
    schemas = [each.schema for each in batches]
    if not any(_LEAST in (field.metadata or {}) for schema in schemas for field in schema):
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return pa.record_batch(
        {
            name: _together([schema.field(name) for schema in schemas], [each[name] for each in batches])
            for name in schemas[0].names
        }
    )


def _together(fields: list[pa.Field], columns: list[pa.Array]) -> pa.Array:
    """The wide values of all parts of a column, in one array that is written once."""
    told = [field.metadata or {} for field in fields]
    kind = next((_WIDE[each[_TYPE]] for each in told if _TYPE in each), fields[0].type)
    if any(column.null_count for column in columns) or not any(_TYPE in each for each in told):
        return pa.concat_arrays([_wide(*each) for each in zip(told, columns, strict=True)])
    values, lo = np.empty(sum(map(len, columns)), np.int64), 0
    for each, column in zip(told, columns, strict=True):
        given = column if _LEAST in each else column.view(pa.int64())
        np.add(np.asarray(given), np.int64(int(each.get(_LEAST, b"0"))), out=values[lo : lo + len(column)])
        lo += len(column)
    return pa.array(values).view(kind)


def _wide(told: dict[bytes, bytes], column: pa.Array) -> pa.Array:
    if _LEAST not in told:
        return column
    values = np.asarray(column).astype(np.int64) + int(told[_LEAST])
    return pa.array(values).view(_WIDE[told[_TYPE]])
