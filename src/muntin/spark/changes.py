"""Changes of a table that come as rows of a stream: packed by tasks, put in order by shards.

A row of the stream is a row of the table, which is inserted or replaces the one with its key; or, where a column says
so, only its key counts, and the row with that key goes. All changes of a micro-batch take effect together, before its
events. Of several changes of one key the last counts. Many tasks read a micro-batch, so each row carries its place, as
statements do (control.py). A row whose key is NULL is left out, and the answers tell of it.

    columns of the table | whether the row goes | place …
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import LONG_AGO
from muntin.arrow_bytes import stream_bytes
from muntin.keys.key_dictionary import KeyDictionary
from muntin.shard.record_batch import to_record_batch
from muntin.spark.held_rows import shards_of_rows, stays_put
from muntin.spark.job import Job
from muntin.spark.pack import PackedRow, gathered, packed_rows
from muntin.table import Table

CHANGES, REFUSED = "changes ", "refused "  # kinds of packed rows, before the name of the table


def pack_changes(
    name: str, has_deleted: bool, job: Job, batches: Iterable[pa.RecordBatch], origin: int
) -> Iterator[pa.RecordBatch]:
    """Rows for the shards that hold them. The columns of `batches` are those of the table, then perhaps whether the
    row goes, then its place."""
    table = job.table(name)
    left_out, first, turn = 0, "", 0
    for given in gathered(batches):
        changes, some = _read(table, given, has_deleted)
        if left_out == 0 and some.num_rows:
            first = json.dumps(some.slice(0, 1).to_pylist()[0], default=str, ensure_ascii=False)
        left_out += some.num_rows
        turn += 1
        if changes.num_rows:
            yield packed_rows(origin, turn, list(_by_shard(job, table, changes)))
    if left_out:
        key = " or ".join(table.key)
        told = (
            f"{left_out:,} changes of {table.label} are left out, since {key} is NULL; the first is {first}"
        )
        yield packed_rows(
            origin, turn + 1, [(job.routes[0].ids[0], LONG_AGO, REFUSED + name, None, 0, told.encode())]
        )


def _read(table: Table, given: pa.Table, has_deleted: bool) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Changes as they travel, and the rows of those that have no key."""
    width = len(table.schema)
    columns = given.combine_chunks().columns
    named = pa.Table.from_arrays(columns[:width], table.schema.names)
    rows = to_record_batch(table, named)
    beside = [_array(column) for column in columns[width:]]
    if not has_deleted:
        beside.insert(0, pa.array(np.zeros(rows.num_rows, np.bool_)))
    beside[0] = pc.fill_null(beside[0], False)
    names = [*table.schema.names, *(f"\0{number}" for number in range(len(beside)))]
    changes = pa.RecordBatch.from_arrays([*rows.columns, *beside], names)
    has_key = np.logical_and.reduce([np.asarray(rows.column(each).is_valid()) for each in table.key])
    if has_key.all():
        return changes, rows.slice(0, 0)
    return changes.filter(pa.array(has_key)), rows.filter(pa.array(~has_key))


def _by_shard(job: Job, table: Table, changes: pa.RecordBatch) -> Iterator[PackedRow]:
    kind = CHANGES + table.name
    whole: bytes | None = None
    for route in job.routes:
        if table.name not in route.held:
            continue
        by = route.held[table.name]
        # a shard that held the row before must learn that it has gone elsewhere
        shards = shards_of_rows(by, changes, route.shards) if stays_put(by, table) else None
        if shards is None:
            whole = whole or stream_bytes(changes)
            yield from ((each, LONG_AGO, kind, None, 0, whole) for each in route.ids)
            continue
        for bucket in np.unique(shards):
            mine = changes.filter(pa.array(shards == bucket))
            yield route.ids[bucket], LONG_AGO, kind, None, 0, stream_bytes(mine)


class Ordered(NamedTuple):
    """Changes of different keys."""

    put: pa.RecordBatch
    gone: pa.RecordBatch


def in_order(table: Table, packed: Sequence[pa.RecordBatch]) -> Ordered:
    """The last change of each key, by place; those without a place come last."""
    changes = pa.Table.from_batches(packed).combine_chunks()
    width = len(table.schema)
    if places := changes.column_names[width + 1 :]:
        ways = [(name, "ascending") for name in places]  # NULL is last
        changes = changes.take(pc.sort_indices(changes, sort_keys=ways))
    rows = pa.RecordBatch.from_arrays([_array(each) for each in changes.columns[:width]], schema=table.schema)
    goes = np.asarray(_array(changes.column(width)))
    key = [rows.column(name) for name in table.key]
    ids = KeyDictionary([column.type for column in key]).encode(key)
    _, from_behind = np.unique(ids[::-1], return_index=True)
    last = np.sort(len(ids) - 1 - from_behind)
    chosen, goes = rows.take(pa.array(last)), goes[last]
    return Ordered(chosen.filter(pa.array(~goes)), chosen.filter(pa.array(goes)))


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
