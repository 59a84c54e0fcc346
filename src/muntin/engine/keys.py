"""Dictionaries: values of any type to dense ids, in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.synopsis.contract import Ints


class Dictionary:
    """Ids of the values of one column; NULL is a value like any other.

    >>> dictionary = Dictionary(pa.string())
    >>> dictionary.encode(pa.array(["b", "a", "b", None]))
    array([0, 1, 0, 2])
    >>> dictionary.find(pa.array(["a", "z"]))
    array([ 1, -1])
    """

    def __init__(self, kind: pa.DataType):
        self.values = pa.array([], kind)
        self._sorted: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: pa.Array) -> Ints:
        """The id of each value; new values get the next ids. O(column + distinct)."""
        encoded = column.dictionary_encode("encode")
        found = self.find(encoded.dictionary)
        new = np.flatnonzero(found < 0)
        if len(new):
            found[new] = len(self.values) + np.arange(len(new))
            self.values = pa.concat_arrays([self.values, encoded.dictionary.take(pa.array(new))])
            self._sorted = None
        ids: Ints = found[encoded.indices.to_numpy(zero_copy_only=False)]
        return ids

    def find(self, values: pa.Array) -> Ints:
        """Ids of known values, -1 for unknown ones."""
        index = pc.index_in(values, value_set=self.values)
        return np.asarray(index.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)

    def take(self, ids: Ints) -> pa.Array:
        return self.values.take(pa.array(ids))

    def order(self) -> tuple[Ints, Ints]:
        """The rank of each id when values are sorted, and the id of each rank; cached."""
        if self._sorted is None or len(self._sorted[0]) != len(self.values):
            by_rank = np.asarray(pc.sort_indices(self.values).to_numpy(zero_copy_only=False), np.int64)
            rank = np.empty(len(by_rank), np.int64)
            rank[by_rank] = np.arange(len(by_rank))
            self._sorted = rank, by_rank
        return self._sorted


class KeyDictionary:
    """Ids of keys, of one column or several."""

    def __init__(self, kinds: Sequence[pa.DataType]):
        self._parts = [Dictionary(kind) for kind in kinds]
        # several columns: the codes of each, side by side, are looked up as one pair after another
        self._pairs = [Dictionary(pa.int64()) for _ in kinds[1:]]

    def __len__(self) -> int:
        return len(self._pairs[-1] if self._pairs else self._parts[0])

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        ids = self._parts[0].encode(columns[0])
        for part, pair, column in zip(self._parts[1:], self._pairs, columns[1:], strict=True):
            ids = pair.encode(pa.array(_paired(ids, part.encode(column))))
        return ids

    def find(self, columns: Sequence[pa.Array]) -> Ints:
        """Ids of known keys, -1 for unknown ones."""
        ids = self._parts[0].find(columns[0])
        for part, pair, column in zip(self._parts[1:], self._pairs, columns[1:], strict=True):
            code = part.find(column)
            known = (ids >= 0) & (code >= 0)
            ids = np.where(known, pair.find(pa.array(_paired(ids, code))), -1)
        return ids

    def take(self, ids: Ints) -> list[pa.Array]:
        """The key columns of some ids."""
        columns = []
        for part, pair in zip(reversed(self._parts[1:]), reversed(self._pairs), strict=True):
            paired = pair.take(ids).to_numpy(zero_copy_only=False)
            columns.append(part.take(paired & _LOW))
            ids = paired >> 32
        columns.append(self._parts[0].take(ids))
        return columns[::-1]

    def snapshot(self) -> list[pa.Array]:
        return [dictionary.values for dictionary in (*self._parts, *self._pairs)]

    def restore(self, values: Sequence[Any]) -> None:
        for dictionary, array in zip((*self._parts, *self._pairs), values, strict=True):
            dictionary.values = array


_LOW = 2**32 - 1


def _paired(left: Ints, right: Ints) -> Ints:
    return (left << 32) | right
