"""Held rows: which rows of a table the shards of a route hold.

A shard owns keys of the stream. Where ON compares every one of these keys with a column of the table, a row can be
joined with the events of one shard only, which holds it: by the hash that sends events there. Where ON compares only
some of the keys (`ON p.k = t.k … GROUP BY p.k, p.g`), or two queries join a table by different columns, every shard of
the route holds every row. So it is if queries may come later, by which columns nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.shard.table_join.joined_rows import fitted
from muntin.spark.shard_of import shard_of_keys
from muntin.table import Table
from muntin.table_query import TableQuery

# columns of the table in the order of the route's keys, with the types of these; None: all shards hold all rows
By = tuple[tuple[str, pa.DataType], ...] | None


def is_in_one_shard(query: TableQuery) -> bool:
    """Whether a query needs all keys of its source in one shard: because GROUP BY merges some of them; or because it
    emits changes, and a change of a row may give an answer to another key. With `ON p.k = r.k GROUP BY r.id`, say, the
    `k` of a row becomes another one: only who has both keys can tell that the answer neither left nor entered."""
    if query.merges:
        return True
    grouped = {each.expression.columns[0] for each in query.keys if each.expression.is_column}
    fixed = {number for number, key in enumerate(query.source.keys) if key.name in grouped}
    for side in query.sides:
        fixed |= {number for number, column in side.on if f"{side.name}.{column}" in grouped}
    return query.emits_changes and len(fixed) < len(query.source.keys)


def held_by(table: Table, queries: Iterable[TableQuery]) -> By:
    """How the rows of a table are held for queries of one route."""
    (one, *others) = {
        tuple((first[number], key.expression.type) for number, key in enumerate(query.source.keys))
        if len(first := dict(reversed(side.on))) == len(query.source.keys)
        else None
        for query in queries
        for side in query.sides
        if side.table.name == table.name
    }
    return None if others else one


def shards_of_rows(by: By, rows: pa.RecordBatch, shards: int) -> Ints | None:
    """The shard that holds each row; None if all of them do. A row whose value no event can have has a shard, too."""
    if by is None or shards == 1:
        return None
    return shard_of_keys([fitted(rows.column(column), kind) for column, kind in by], shards)


def stays_put(by: By, table: Table) -> bool:
    """Whether a row that is replaced is held by the shard that held the one before."""
    return by is not None and {column for column, _ in by} <= set(table.key)


class Owner:
    """Which keys a shard owns: of `FROM t LEFT JOIN stream` it answers the rows that have them, whoever holds these."""

    def __init__(self, bucket: int, shards: int):
        self._bucket = bucket
        self._shards = shards

    def __call__(self, keys: Sequence[pa.Array]) -> Bools:
        owned: Bools = shard_of_keys(keys, self._shards) == np.int64(self._bucket)
        return owned
