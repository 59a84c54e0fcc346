"""Invalidations: results that ended before their time, remembered until their parts are next due.

An event on the negated side ends all results with its value that were generated up to then. Deleting them
at once would touch every part; instead the value and the instant are kept, probes leave such results out,
and each part deletes its own when it is next touched. With the instant, order does not matter: a result
generated later with the same value is not concerned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive.definition import GENERATED, Definition
from muntin.errors import SchemaError, nearest

AT, UPDATE = "invalidated_at", "update"


class Invalidations:
    """Entries (value, instant), with the number of the update that brought them."""

    def __init__(self, definition: Definition, entries: pa.Table | None = None):
        self._on = definition.negated_on
        fields = [definition.schema.field(name) for name in self._on]
        self.schema = pa.schema([*fields, pa.field(AT, pa.int64()), pa.field(UPDATE, pa.int64())])
        self.entries = (self.schema.empty_table() if entries is None else entries).combine_chunks()

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    def with_entries(self, definition: Definition, given: Any, update: int, now: int) -> Invalidations:
        """These and more: a table or dict of the values and `invalidated_at`."""
        table = given if isinstance(given, pa.Table) else pa.table(given)
        wanted = [*self._on, AT]
        if missing := [name for name in wanted if name not in table.column_names]:
            hint = nearest(missing[0], table.column_names)
            raise SchemaError(f"invalidations lack the column '{missing[0]}'{hint}")
        columns = [table.column(name).cast(self.schema.field(name).type) for name in wanted]
        if table.num_rows and (pc.max(columns[-1]).as_py() or 0) > now:
            raise SchemaError(f"an invalidation at {pc.max(columns[-1])} comes after the update at {now}")
        number = pa.array(np.full(table.num_rows, update))
        added = pa.table([*columns, number], schema=self.schema)
        return Invalidations(definition, pa.concat_tables([self.entries, added]))

    def since(self, definition: Definition, update: int) -> Invalidations:
        """Those that came with later updates: all that a part touched at `update` does not know yet."""
        if not len(self):
            return self
        return Invalidations(definition, self.entries.filter(pc.field(UPDATE) > update))

    def is_hit(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """Whether each of some results has ended, as a NumPy array; O(entries + rows)."""
        if not len(self) or not rows.num_rows:
            return np.zeros(rows.num_rows, bool)
        entry, row = _codes(
            [self.entries.column(name) for name in self._on], [rows[name] for name in self._on]
        )
        latest = np.full(int(entry.max()) + 2, np.iinfo(np.int64).min)
        np.maximum.at(latest, entry, self.entries.column(AT).to_numpy())
        latest[-1] = np.iinfo(np.int64).min  # of rows whose value no entry has
        generated = rows[GENERATED].to_numpy(
            **({} if isinstance(rows, pa.Table) else {"zero_copy_only": False})
        )
        return generated <= latest[row]


def _codes(entries: Sequence[Any], rows: Sequence[Any]) -> tuple[Any, Any]:
    """Equal numbers for equal values: from 0 for those of entries, -1 for rows that equal none."""
    entry, row = np.int64(0), np.int64(0)
    missing: Any = np.False_
    for ours, theirs in zip(entries, rows, strict=True):
        distinct = pc.unique(ours)
        entry = entry * len(distinct) + _numbers(pc.index_in(ours, distinct))
        found = _numbers(pc.index_in(theirs, distinct))
        missing = missing | (found < 0)
        row = row * len(distinct) + found
    distinct, dense = np.unique(entry, return_inverse=True)
    place = np.minimum(np.searchsorted(distinct, row), len(distinct) - 1)
    return dense, np.where(missing | (distinct[place] != row), -1, place)


def _numbers(indices: Any) -> Any:
    return pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) if isinstance(
        indices, pa.Array
    ) else pc.fill_null(indices, -1).to_numpy().astype(np.int64)  # fmt: skip
