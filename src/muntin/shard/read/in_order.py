"""In order: the first of some rows by ORDER BY, found without sorting all of them.

NULL comes last, whichever way a value is ordered, NaN is above all numbers, and rows whose values are the same stand in
the ascending order of their keys. So the order depends on values alone: every runtime has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Bools, Ints
from muntin.band import sort_keys
from muntin.key_index.foremost import bound_of_first


class Words(NamedTuple):
    """What values are compared by: the least word is first. `valid` says where there is a value, None: everywhere."""

    word: Ints
    valid: Bools | None

    def at(self, places: Ints | slice) -> Words:
        return Words(self.word[places], None if self.valid is None else self.valid[places])


def words_of(column: pa.Array, descends: bool = False) -> Words:
    """The words of a column; O(rows) of numbers and times, texts are sorted.

    >>> words_of(pa.array([2.5, None, -1.0]), descends=True).word.argsort()[0]
    np.int64(0)
    """
    valid = np.asarray(column.is_valid()) if column.null_count else None
    kind = column.type
    if pa.types.is_floating(kind):
        word = sort_keys(np.asarray(column.cast(pa.float64()).fill_null(0.0)))
    elif pa.types.is_temporal(kind):
        whole = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        word = np.asarray(whole.fill_null(0)).astype(np.int64)
    elif pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind):
        word = np.asarray(column.cast(pa.int64()).fill_null(0))
    else:
        word = np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    return Words(~word if descends else word, valid)


class InOrder:
    """Rows in the order of some words; `ties` gives those of the keys of some of the rows.

    >>> rows = InOrder([words_of(pa.array([3, 9, None, 9]), descends=True)], lambda some: [Words(-some, None)])
    >>> rows.first(3), rows.first(1)
    (array([3, 1, 0]), array([3]))
    """

    def __init__(self, by: Sequence[Words], ties: Callable[[Ints], Sequence[Words]]):
        self._by, self._ties = by, ties
        self._found: Ints = np.zeros(0, np.int64)  # the first rows, as many as anybody has asked for

    def first(self, many: int) -> Ints:
        """Places of the first rows, in order; all of them if there are no more. O(rows), and a sort of those that could
        be among the first."""
        many = min(many, len(self._by[0].word))
        if len(self._found) < many:
            some = _could_be_first(self._by[0], many)
            words = [*(each.at(some) for each in self._by), *self._ties(some)]
            self._found = some[places_in_order(words)[:many]]
        return self._found[:many]


def places_in_order(words: Sequence[Words], before: Ints | None = None, after: Ints | None = None) -> Ints:
    """Places in the order of the first words, then of the next; of numbers before all of them, and after them."""
    columns: list[Ints | Bools] = [] if before is None else [before]
    for word, valid in words:
        columns += [word] if valid is None else [~valid, np.where(valid, word, 0)]
    columns += [] if after is None else [after]
    order: Ints = np.lexsort(columns[::-1])
    return order


def _could_be_first(by: Words, many: int) -> Ints:
    """Places of all rows that may be among the first, by the first of their words; O(rows)."""
    word, valid = by
    rows = None if valid is None else np.flatnonzero(valid)
    if rows is not None:
        if len(rows) < many:
            return np.arange(len(word))
        word = word[rows]
    if many == len(word):
        return np.arange(many) if rows is None else rows
    found = np.flatnonzero(word <= bound_of_first(word, many))
    return found if rows is None else rows[found]
