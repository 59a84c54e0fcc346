"""Joined rows: which rows of tables the keys of a stream meet, as arrays. Made anew when rows or keys have changed.

    key      0   0   1   2        ids of the source's keys, -1 where no event has had it yet (`FROM t LEFT JOIN`)
    slots    4   7   -   1        of a row of each table, -1 where LEFT JOIN found none

They stand in the order of answers: by the first appearance of keys, then by rows; by rows if the table comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Bools, Ints
from muntin.keys.key_dictionary import KeyDictionary
from muntin.table_query import TableQuery, TableSide
from muntin.tables.rows import TableRows


class JoinedRows(NamedTuple):
    """Before events are looked at: WHERE has let them pass."""

    key: Ints
    slots: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.key)

    def at(self, places: Ints | Bools) -> JoinedRows:
        """Some of them."""
        return JoinedRows(self.key[places], tuple(each[places] for each in self.slots))

    def and_nobody(self) -> JoinedRows:
        """And one more that has no key, and no rows."""
        return JoinedRows(np.append(self.key, -1), tuple(np.append(each, -1) for each in self.slots))


Owns = Callable[[Sequence[pa.Array]], Bools]  # of keys, column by column


class Sources(NamedTuple):
    """What is joined: the keys of the source, by id, and the rows of each side."""

    query: TableQuery
    keys: KeyDictionary
    rows: tuple[TableRows, ...]
    owns: Owns | None = None  # which keys belong to this shard; None: all

    def join(self) -> JoinedRows:
        """All that meet; O(keys and rows)."""
        joined = self._by_rows() if self.query.is_table_first else self._by_keys()
        if self.query.where is None or not len(joined):
            return joined
        passes = self.query.where.evaluate(self.columns(self.query.where.columns, joined))
        return joined.at(_is_true(passes))

    def columns(self, names: Iterable[str], joined: JoinedRows) -> dict[str, pa.Array]:
        """Columns of joined rows by the names that a query has for them; NULL where there is no key, or no row."""
        found: dict[str, pa.Array] = {}
        wanted = set(names)
        keys = {key.name: number for number, key in enumerate(self.query.source.keys) if key.name in wanted}
        if keys:
            known = joined.key >= 0
            columns = self.keys.take(joined.key[known])
            found |= {name: _spread(columns[number], known) for name, number in keys.items()}
        for side, rows, slots in zip(self.query.sides, self.rows, joined.slots, strict=True):
            own = {f"{side.name}.{column}": column for column in rows.table.schema.names}
            read = {name: column for name, column in own.items() if name in wanted}
            if read:
                known = slots >= 0
                columns_of = rows.read(slots[known], list(dict.fromkeys(read.values())))
                found |= {name: _spread(columns_of[column], known) for name, column in read.items()}
        # an expression without a column takes its length from something
        return found or {"": pa.array(np.zeros(len(joined), np.int64))}

    def _by_keys(self) -> JoinedRows:
        joined = JoinedRows(np.arange(len(self.keys)), ())
        columns = self.keys.take(joined.key)
        for side, rows in zip(self.query.sides, self.rows, strict=True):
            if side.covers_key:
                slot = _one_row(side, rows, columns)[joined.key]
                joined = JoinedRows(joined.key, (*joined.slots, slot))
                if not side.is_optional:
                    joined = joined.at(slot >= 0)
            else:
                joined = _expanded(joined, side, _many_rows(side, rows, columns))
        return joined

    def _by_rows(self) -> JoinedRows:
        (side,), (rows,) = self.query.sides, self.rows
        slots = passing(side, rows, rows.slots)
        if self.owns is not None:  # a row that other shards hold, too, answers in one of them
            slots = slots[self.owns([first for first, *_ in self._values_of(slots)])]
        return JoinedRows(self.keys_of(slots), (slots,))

    def keys_of(self, slots: Ints) -> Ints:
        """The keys that rows of the one table meet, if ON compares all keys of the source; -1 of one that no event has
        had."""
        columns, same = [], np.ones(len(slots), np.bool_)
        for first, *others in self._values_of(slots):
            columns.append(first)
            for other in others:
                same &= _is_true(pc.equal(first, other))
        for column in columns:
            same &= np.asarray(column.is_valid())
        found: Ints = np.where(same, self.keys.find(columns), -1)
        return found

    def _values_of(self, slots: Ints) -> list[list[pa.Array]]:
        """For each key of the source the columns of the one table that ON compares with it."""
        (side,), (rows,) = self.query.sides, self.rows
        values = rows.read(slots, [column for _, column in side.on])
        return [
            [fitted(values[column], key.expression.type) for on, column in side.on if on == number]
            for number, key in enumerate(self.query.source.keys)
        ]


def _one_row(side: TableSide, rows: TableRows, columns: Sequence[pa.Array]) -> Ints:
    """For each key of the source the slot of the one row that it meets, -1 if there is none."""
    first = {column: number for number, column in reversed(side.on)}
    key = [fitted(columns[first[name]], rows.table.column(name).type) for name in side.table.key]
    slot = rows.find(key)
    met = np.flatnonzero(slot >= 0)
    for number, column in side.on:
        if column in side.table.key and first[column] == number:
            continue
        mine = rows.read(slot[met], [column])[column]
        theirs = fitted(columns[number].take(pa.array(met)), mine.type)
        met = met[_is_true(_equal(mine, theirs))]
    met = met[rows.passes(slot[met], side.where)]
    found = np.full(len(slot), -1)
    found[met] = slot[met]
    return found


class _Runs(NamedTuple):
    """Rows that stand side by side for each key: `slots[begin[k] : end[k]]`."""

    slots: Ints
    begin: Ints
    end: Ints


def _many_rows(side: TableSide, rows: TableRows, columns: Sequence[pa.Array]) -> _Runs:
    """For each key of the source the rows that it meets, in their order."""
    slots = passing(side, rows, rows.slots)
    read = rows.read(slots, [column for _, column in side.on])
    values = [fitted(read[column], columns[number].type) for number, column in side.on]
    known = np.logical_and.reduce([np.asarray(each.is_valid()) for each in values])
    slots, values = slots[known], [each.filter(pa.array(known)) for each in values]
    meets = KeyDictionary([each.type for each in values])
    of_row = meets.encode(values)
    of_key = meets.find([columns[number] for number, _ in side.on])
    in_order = np.argsort(of_row, kind="stable")
    of_row = of_row[in_order]
    return _Runs(slots[in_order], of_row.searchsorted(of_key), of_row.searchsorted(of_key, "right"))


def _expanded(joined: JoinedRows, side: TableSide, runs: _Runs) -> JoinedRows:
    """Each joined row with each of the rows that its key meets."""
    slots, begin = runs.slots, runs.begin[joined.key]
    many = runs.end[joined.key] - begin
    if side.is_optional:
        slots, begin = np.append(slots, -1), np.where(many == 0, len(slots), begin)
        many = np.maximum(many, 1)
    which = np.repeat(np.arange(len(many)), many)
    place = np.arange(len(which)) + np.repeat(begin - np.cumsum(many) + many, many)
    before = joined.at(which)
    return JoinedRows(before.key, (*before.slots, slots[place]))


def passing(side: TableSide, rows: TableRows, slots: Ints) -> Ints:
    """The rows that take part."""
    return slots[rows.passes(slots, side.where)]


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values in another type; NULL where it does not have them: integers of ON may differ in their width.

    >>> fitted(pa.array([1, 300]), pa.int8()).to_pylist()
    [1, None]
    """
    if column.type == kind:
        return column
    made = pc.cast(column, kind, safe=False)
    is_same = pc.equal(pc.cast(made, pa.decimal128(20)), pc.cast(column, pa.decimal128(20)))
    return pc.if_else(is_same, made, pa.scalar(None, kind))


def _equal(one: pa.Array, other: pa.Array) -> pa.Array:
    """Which are equal; as keys are, so NaN is NaN."""
    if not pa.types.is_floating(one.type):
        return pc.equal(one, other)
    return pc.or_(pc.equal(one, other), pc.and_(pc.is_nan(one), pc.is_nan(other)))


def _is_true(verdict: pa.Array) -> Bools:
    return np.asarray(pc.fill_null(verdict, False))


def _spread(column: pa.Array, known: Bools) -> pa.Array:
    """A column for all places, given that for those that are known; NULL for the others."""
    if len(column) == len(known):
        return column
    return column.take(pa.array(np.cumsum(known) - 1, mask=~known))
