"""Keyed rows: rows that are to come into a table, each with a key of its own and none that is NULL.

To find that out takes as long as to put them into the table; it needs nothing of the table but its definition, so it is
done while others go on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import SchemaError
from muntin.keys.key_dictionary import KeyDictionary
from muntin.table import Table

_SHOWN = 3  # keys that an error names


class KeyedRows(NamedTuple):
    """In the schema of their table. Made by `keyed_rows`, which has looked at the keys."""

    batch: pa.RecordBatch

    def key(self, table: Table) -> list[pa.Array]:
        """The columns of the primary key."""
        return [self.batch.column(name) for name in table.key]


def keyed_rows(table: Table, batch: pa.RecordBatch) -> KeyedRows:
    """The rows of a batch in the table's schema; SchemaError if a key is NULL, or two rows have the same. O(rows).

    >>> limits = Table("limits", pa.schema([("account", pa.int64()), ("daily", pa.float64())]), ("account",))
    >>> keyed_rows(limits, pa.RecordBatch.from_pydict({"account": [7, 8, 7], "daily": [1, 2, 3]}, limits.schema))
    Traceback (most recent call last):
    muntin.errors.SchemaError: the primary key of table 'limits' must differ: account = 7 is in rows 0 and 2
    """
    rows = KeyedRows(batch)
    key = rows.key(table)
    for name, column in zip(table.key, key, strict=True):
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise SchemaError(
                f"column '{name}' is NULL in row {row}, and it is part of the primary key of {table.label}"
            )
    if batch.num_rows < 2:
        return rows
    seen = KeyDictionary([column.type for column in key])
    ids = seen.encode(key)
    if len(seen) < len(ids):
        raise SchemaError(f"the primary key of {table.label} must differ: {_repeated(table, key, ids)}")
    return rows


def _repeated(table: Table, key: list[pa.Array], ids: Ints) -> str:
    """The first keys that several rows have, and these rows."""
    repeated = np.flatnonzero(np.bincount(ids) > 1)
    told = []
    for number in repeated[:_SHOWN]:
        rows = np.flatnonzero(ids == number)
        values = (
            f"{name} = {column[int(rows[0])].as_py()!r}" for name, column in zip(table.key, key, strict=True)
        )
        told.append(f"{', '.join(values)} is in rows {rows[0]} and {rows[1]}")
    more = f", and {len(repeated) - _SHOWN:,} more keys" if len(repeated) > _SHOWN else ""
    return "; ".join(told) + more
