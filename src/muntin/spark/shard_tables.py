"""The tables of a shard: the rows that it holds, and how they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools
from muntin.shard.shard import Shard
from muntin.spark.changes import in_order
from muntin.spark.held_rows import shards_of_rows
from muntin.spark.job import Job, Route
from muntin.sql import DeleteRows, InsertRows, parse_statements
from muntin.store.saved import Saved
from muntin.table import Table
from muntin.tables.change import Change
from muntin.tables.keyed_rows import KeyedRows
from muntin.tables.rows import TableRows


class ShardTables:
    """What a shard joins its stream with; `shard` reads the rows, and tells which instants still see them."""

    shard: Shard

    def __init__(self, job: Job, route: Route, bucket: int):
        self._stream = job.stream.name
        self._route = route
        self._bucket = bucket
        self.rows = {name: TableRows(job.table(name)) for name in route.held}

    def load(self, name: str, batch: pa.RecordBatch) -> None:
        """Have these rows, and no others."""
        table = self.rows[name]
        kept = np.zeros(table.room, np.bool_)
        slots = table.find([batch.column(each) for each in table.table.key])
        kept[slots[slots >= 0]] = True
        there = table.slots
        self._apply(table, table.to_delete(there[~kept[there]]))
        self._put(table, batch)

    def put(self, name: str, batch: pa.RecordBatch) -> None:
        """Have those of some rows that this shard holds; one that was here under the key of another is gone."""
        table = self.rows[name]
        mine = self._is_mine(table.table, batch)
        self._remove(table, batch.filter(pa.array(~mine)))
        self._put(table, batch.filter(pa.array(mine)))

    def execute(self, text: str) -> None:
        """Carry out an INSERT or a DELETE."""
        (statement,) = parse_statements(text, {name: rows.table for name, rows in self.rows.items()})
        if isinstance(statement, InsertRows):
            self.put(statement.table.name, statement.rows)
        elif isinstance(statement, DeleteRows):
            table = self.rows[statement.table.name]
            slots = table.slots
            self._apply(table, table.to_delete(slots[table.passes(slots, statement.where.condition)]))

    def change(self, name: str, packed: Sequence[pa.RecordBatch]) -> None:
        """What the changes of a micro-batch do."""
        put, gone = in_order(self.rows[name].table, packed)
        self._remove(self.rows[name], gone)
        self.put(name, put)

    def _is_mine(self, table: Table, batch: pa.RecordBatch) -> Bools:
        shards = shards_of_rows(self._route.held[table.name], batch, self._route.shards)
        return np.ones(batch.num_rows, np.bool_) if shards is None else shards == np.int64(self._bucket)

    def _put(self, table: TableRows, batch: pa.RecordBatch) -> None:
        self._apply(table, table.to_put(KeyedRows(batch)))

    def _remove(self, table: TableRows, batch: pa.RecordBatch) -> None:
        """The rows that have the keys of others go."""
        slots = table.find([batch.column(name) for name in table.table.key])
        self._apply(table, table.to_delete(slots[slots >= 0]))

    def _apply(self, table: TableRows, change: Change) -> None:
        if change.is_empty:
            return
        until = self.shard.seen_until(table.table.name)
        table.apply(change, {} if until is None else {self._stream: until})

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Named arrays; tables by their number among `rows`."""
        return {
            f"tables/{number}/{part}": array
            for number, rows in enumerate(self.rows.values())
            for part, array in rows.snapshot().items()
        }

    def restore(self, names: Sequence[str], arrays: dict[str, Any]) -> None:
        """Rows from a snapshot of tables with these names."""
        saved = Saved(arrays)
        for number, name in enumerate(names):
            if name in self.rows:
                self.rows[name].restore(saved.under(f"tables/{number}/"))

    def nbytes(self) -> int:
        return sum(rows.nbytes() for rows in self.rows.values())

    def check(self) -> None:
        """Assert every invariant."""
        for rows in self.rows.values():
            rows.check()
