"""Row ids: numbers that rows of several tables share exactly when all their values are equal.

Whoever compares what a view held with what it holds now compares these. NULL is a value like any other, and so is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from muntin.arrays import Ints
from muntin.fixed_point import is_decimal, is_kept
from muntin.keys.key_dictionary import KeyDictionary


def row_ids(tables: Sequence[pa.Table], names: Sequence[str]) -> list[Ints]:
    """The ids of the rows of each table, by the columns of these names; O(rows).

    >>> row_ids([pa.table({"k": ["a", "b"]}), pa.table({"k": ["b", "c"]})], ["k"])
    [array([0, 1]), array([1, 2])]
    """
    values = [[_plain(table[name].combine_chunks()) for name in names] for table in tables]
    keys = KeyDictionary([column.type for column in values[0]])
    return [keys.encode(columns) for columns in values]


def _plain(column: pa.Array) -> pa.Array:
    """Values that a dictionary takes: wide decimals, such as sums, and lists of items as their texts."""
    if is_decimal(column.type) and not is_kept(column.type):
        return column.cast(pa.string())
    if pa.types.is_nested(column.type):
        return pa.array([None if each is None else repr(each) for each in column.to_pylist()], pa.string())
    return column
