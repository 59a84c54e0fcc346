"""Ranked queries, those with LIMIT: every shard tells the first of its keys, and one more step finds the first of all.

The first of all keys are among the first of some shard. Rows of a shard have what ORDER BY names in columns of their
own, and the names of these say how they are ordered: so rows tell themselves how they are merged, whoever sent the
query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.query import Output, Query
from muntin.shard.read.in_order import InOrder, Words, words_of
from muntin.shard.read.lookup import key_columns
from muntin.shard.shard import Shard

_RANK = "\0rank"  # how the names of these columns begin, which no other has


def is_ranked(query: Any) -> bool:
    """Whether the rows of several shards must be ranked together."""
    return isinstance(query, Query) and query.top is not None


def ranked_share(query: Query) -> Query:
    """The query that each of several shards answers, with what its rows are ordered by."""
    assert query.top is not None
    is_timed = query.window is None or query.window.is_time
    said = f"{query.top.limit} {len(query.keys)} {is_timed:d}"
    by = [
        Output(f"{_RANK} {number} {said} {descends:d}", expression)
        for number, (expression, descends) in enumerate(query.top.by)
    ]
    return replace(query, outputs=(*query.outputs, *by))


def has_ranks(table: pa.Table) -> bool:
    """Whether rows of a shard are to be ranked with those of others."""
    return any(name.startswith(_RANK) for name in table.column_names)


def split_ranked(name: str, table: pa.Table) -> Iterator[tuple[str, int, pa.Table]]:
    """The rows of each instant, with the query and the instant; rows are in the order of these. Windows by count end
    with each key's own events: their rows are of one instant."""
    *_, (_, _, is_timed, _) = _ranks(table).values()
    if not is_timed:
        yield name, 0, table
        return
    ends = np.asarray(table["window_end"].combine_chunks().cast(pa.int64()))
    for lo, hi in pairwise(np.flatnonzero(np.diff(ends, prepend=ends[0] - 1, append=ends[-1] + 1)).tolist()):
        yield name, int(ends[lo]), table.slice(lo, hi - lo)


def first_rows(parts: Sequence[pa.Table]) -> pa.Table:
    """The first of the rows that shards gave at one instant, in order, without the columns they are ordered by."""
    rows = pa.concat_tables(parts).combine_chunks()
    ranks = _ranks(rows)
    (limit, keys, *_), *_ = ranks.values()
    by = [words_of(_one(rows[name]), bool(descends)) for name, (*_, descends) in ranks.items()]

    def ties(some: Ints) -> list[Words]:
        return [words_of(_one(rows.column(place)).take(pa.array(some))) for place in range(keys)]

    return rows.drop_columns(list(ranks)).take(pa.array(InOrder(by, ties).first(limit)))


def lookup_ranked(
    shards: Sequence[Shard], query: Query, name: str, key: Any = None, at: int | None = None
) -> pa.Table:
    """What `lookup` gives, of all shards together."""
    first = first_rows([each.lookup(name, None, at) for each in shards])
    if key is None:
        return first
    asked = {repr(each) for each in pa.table(key_columns(query.keys, key), names=_names(query)).to_pylist()}
    kept = [repr(each) in asked for each in first.select(range(len(query.keys))).to_pylist()]
    return first.filter(pa.array(kept, pa.bool_()))


def _names(query: Query) -> list[str]:
    return [key.name for key in query.keys]


def _ranks(table: pa.Table) -> dict[str, tuple[int, ...]]:
    """The columns that rows are ordered by: LIMIT, how many keys there are, whether windows are of time, and whether
    the column descends."""
    return {
        name: tuple(map(int, name.split(" ")[2:])) for name in table.column_names if name.startswith(_RANK)
    }


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
