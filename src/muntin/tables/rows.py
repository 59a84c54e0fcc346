"""Rows of a table: found by key, changed in place, each change told to whoever follows.

    key --KeyDictionary--> id --slot_of--> slot        id_of[slot], order[slot], columns[name][slot]

A row keeps its *slot* for as long as it is there, also when it is replaced; the slot of a deleted row is used again. So
who follows a table (a join) can keep arrays by slot. `order` numbers rows as they were inserted, whatever their slots.
The columns of the key are kept by the dictionary alone.

A change is made in two steps: `to_put` and `to_delete` say which slots it concerns, `apply` does it. In between,
followers see the table as it was.

| | |
|---|---|
| insert, replace, delete | O(rows changed); amortised, since arrays and dictionaries grow and forget |
| find by key | O(keys asked for) |
| read | O(rows asked for) |
| space | 24 bytes a row beside its columns and its entry in the dictionary |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.errors import SchemaError
from muntin.expression import Expression
from muntin.keys.key_dictionary import KeyDictionary
from muntin.keys.sweeper import Sweeper
from muntin.keys.table_room import enlarged
from muntin.store.saved import Saved
from muntin.table import Table
from muntin.tables.change import Change, PastChange
from muntin.tables.column import Column, column_of
from muntin.tables.keyed_rows import KeyedRows, keyed_rows

_NONE: Ints = np.zeros(0, np.int64)
_LEAST = 64  # slots that there is room for


class TableRows:
    """
    >>> limits = Table("limits", pa.schema([("account", pa.int64()), ("daily", pa.float64())]), ("account",))
    >>> rows = TableRows(limits)
    >>> def load(**columns):
    ...     rows.apply(rows.to_put(keyed_rows(limits, pa.RecordBatch.from_pydict(columns, limits.schema))))
    >>> load(account=[7, 8], daily=[100.0, None])
    >>> load(account=[9, 7], daily=[1.0, 50.0])
    >>> rows.read(rows.slots, ["daily"])["daily"].to_pylist()
    [50.0, None, 1.0]
    >>> rows.find([pa.array([9, 5])])
    array([ 2, -1])
    """

    def __init__(self, table: Table):
        self.table = table
        self.version = self._latest = 0  # of the rows that are seen, and of those that are there
        self._touched: list[tuple[int, Ints]] = []  # by the last changes, each with the version before it
        self._past: list[PastChange] = []  # changes that some instants do not see yet, the oldest first
        self._clear()

    def _clear(self) -> None:
        self._keys = KeyDictionary([self.table.column(name).type for name in self.table.key])
        self._sweeper = Sweeper()
        self._columns: dict[str, Column] = {
            field.name: column_of(field.type)
            for field in self.table.schema
            if field.name not in self.table.key
        }
        self._slot_of = _NONE  # by id; -1 for a key that has no row any more
        self._id_of, self._order = _NONE, _NONE  # by slot; the id is -1 where there is no row
        self._free, self._frees = _NONE, 0  # a stack of slots without a row, and how many there are
        self._used = self._count = self._next = 0  # slots in use or free; rows; the next number in order
        self._is_in_order = True  # as long as no slot was used again

    # -- what is there -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    @property
    def room(self) -> int:
        """One more than the greatest slot there has been since the table was last empty."""
        return self._used

    @property
    def slots(self) -> Ints:
        """The slots that have a row, in the order in which rows were inserted; O(slots)."""
        found = np.flatnonzero(self._id_of[: self._used] >= 0)
        return found if self._is_in_order else found[np.argsort(self._order[found])]

    def order(self, slots: Ints) -> Ints:
        """Numbers that ascend in the order in which rows were inserted."""
        return self._order[slots]

    def is_there(self, slots: Ints) -> Bools:
        """Which slots have a row."""
        return self._id_of[slots] >= 0

    def find(self, key: Sequence[pa.Array]) -> Ints:
        """The slots of keys, given as columns in the types of the table; -1 where there is no row."""
        ids = self._keys.find(key)
        found = np.full(len(ids), -1)
        known = ids >= 0
        found[known] = self._slot_of[ids[known]]
        return found

    def read(self, slots: Ints, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the rows in some slots; each of them must have one."""
        key = self.table.key
        keys = self._keys.take(self._id_of[slots]) if any(name in key for name in names) else []
        return {
            name: keys[key.index(name)] if name in key else self._columns[name].take(slots) for name in names
        }

    def passes(self, slots: Ints, condition: Expression | None) -> Bools:
        """For which of some rows a condition is true; for all of them if there is none."""
        if condition is None or not len(slots):
            return np.ones(len(slots), np.bool_)
        # of a condition without columns, the key says how many rows there are
        columns = self.read(slots, condition.columns or self.table.key[:1])
        found: Bools = np.asarray(pc.fill_null(condition.evaluate(columns), False))
        return found

    # -- changes -----------------------------------------------------------------------------------

    def to_put(self, rows: KeyedRows) -> Change:
        """Rows to insert, or to replace those that have the same keys."""
        slots = self.find(rows.key(self.table))
        is_new = slots < 0
        new = int(is_new.sum())
        freed = min(new, self._frees)
        again = self._free[self._frees - freed : self._frees]
        inserted = np.concatenate([again, np.arange(self._used, self._used + new - freed)])
        slots[is_new] = inserted
        return Change(inserted, slots[~is_new], rows=rows, slots=slots)

    def to_delete(self, slots: Ints) -> Change:
        """Rows to remove."""
        return Change(deleted=slots)

    def apply(self, change: Change, until: Mapping[str, int] = MappingProxyType({})) -> None:
        """Make a change that was told of the table as it is. Instants of a stream that are `until` one of them will
        still be asked for as if it had not been made."""
        kept = np.concatenate([change.replaced, change.deleted]) if until else _NONE
        before, order = self._batch(kept), self._order[kept].copy()
        if change.rows is not None:
            self._put(change, change.rows)
        if len(change.deleted):
            self._delete(change.deleted)
        if until:
            made = self._order[change.inserted].copy()
            self._past.append(PastChange(self.version, change, before, kept, order, made, dict(until)))
        self._note(np.concatenate([change.slots, change.deleted]))
        if self._count or self._past:
            self._sweeper.sweep(self._keys, self._mark, self._renumber)
            for column in self._columns.values():
                column.sweep(self._count, self._occupied)
        else:  # nothing is worth keeping, and the next rows are in order again
            self._clear()

    # -- the past ----------------------------------------------------------------------------------

    def version_at(self, stream: str, instant: int) -> int:
        """The version of the table that an instant of a stream sees."""
        for each in self._past:
            if instant <= each.until.get(stream, LONG_AGO):
                return each.version
        return self.version

    def changed_at(self, stream: str) -> list[int]:
        """After which instants of a stream changes take effect that some of its instants do not see yet."""
        return [each.until[stream] for each in self._past if stream in each.until]

    @contextmanager
    def as_of(self, version: int) -> Iterator[None]:
        """Have the table as it was, for a while; O(rows that have changed since)."""
        undone = [each for each in self._past if each.version >= version]
        for each in reversed(undone):
            self._undo(each)
        now, self.version = self.version, version
        try:
            yield
        finally:
            self.version = now
            for each in undone:
                self._redo(each)

    def release(self, stream: str, is_owed: Callable[[int], bool]) -> None:
        """Forget how the table was, where no stream asks any more; `is_owed` says whether this one may still ask for
        instants up to one."""
        for each in self._past:
            if stream in each.until and not is_owed(each.until[stream]):
                del each.until[stream]
        while self._past and not self._past[0].until:
            del self._past[0]

    def touched(self, one: int, other: int) -> Ints | None:
        """The slots that differ between two versions, some of them twice; None if that is not known any more."""
        first, last = min(one, other), max(one, other)
        found = [slots for version, slots in self._touched if first <= version < last]
        return np.concatenate([_NONE, *found]) if len(found) == last - first else None

    def _note(self, slots: Ints) -> None:
        self._touched.append((self._latest, slots))
        self._latest += 1
        self.version = self._latest
        while sum(len(each) for _, each in self._touched) > _LEAST + self._used // 4:
            del self._touched[0]

    def _undo(self, past: PastChange) -> None:
        self._take_out(past.change.inserted)
        self._put_back(past.slots, past.before, past.order)

    def _redo(self, past: PastChange) -> None:
        self._take_out(past.change.deleted)
        if past.change.rows is not None:
            is_new = np.zeros(max(self._used, 1), np.bool_)
            is_new[past.change.inserted] = True
            order = self._order[past.change.slots]
            order[is_new[past.change.slots]] = past.made
            self._put_back(past.change.slots, past.change.rows, order)

    def _take_out(self, slots: Ints) -> None:
        """Rows go for a while: their slots are not free."""
        self._slot_of[self._id_of[slots]] = -1
        self._id_of[slots] = -1
        self._count -= len(slots)

    def _put_back(self, slots: Ints, rows: KeyedRows | None, order: Ints) -> None:
        """Rows into slots that had them, in place of others that may be there."""
        if rows is None:
            return
        ids = self._known(rows)
        self._count += int((self._id_of[slots] < 0).sum())
        self._slot_of[ids] = slots
        self._id_of[slots] = ids
        self._order[slots] = order
        for name, column in self._columns.items():
            column.put(slots, rows.batch.column(name))

    def _batch(self, slots: Ints) -> KeyedRows | None:
        if not len(slots):
            return None
        columns = self.read(slots, self.table.schema.names)
        return KeyedRows(pa.RecordBatch.from_arrays(list(columns.values()), schema=self.table.schema))

    def _known(self, rows: KeyedRows) -> Ints:
        """The ids of keys, which are known from now on."""
        ids = self._keys.encode(rows.key(self.table))
        if len(self._keys) > len(self._slot_of):
            before = len(self._slot_of)
            self._slot_of = enlarged(self._slot_of, max(_LEAST, 2 * len(self._keys)))
            self._slot_of[before:] = -1
        return ids

    def _put(self, change: Change, rows: KeyedRows) -> None:
        new = len(change.inserted)
        freed = min(new, self._frees)
        self._frees -= freed
        self._make_room(self._used + new - freed)
        ids = self._known(rows)
        self._slot_of[ids] = change.slots
        self._id_of[change.slots] = ids
        self._order[change.inserted] = np.arange(self._next, self._next + new)
        self._is_in_order = self._is_in_order and not freed
        self._next += new
        self._count += new
        for name, column in self._columns.items():
            column.put(change.slots, rows.batch.column(name))

    def _delete(self, slots: Ints) -> None:
        self._slot_of[self._id_of[slots]] = -1
        self._id_of[slots] = -1
        self._count -= len(slots)
        frees = self._frees + len(slots)
        if frees > len(self._free):
            self._free = enlarged(self._free, max(_LEAST, 2 * frees))
        self._free[self._frees : frees] = slots
        self._frees = frees

    def _make_room(self, used: int) -> None:
        self._used = used
        room = len(self._id_of)
        if used <= room:
            return
        longer = max(_LEAST, 2 * used if room else used)
        self._id_of, self._order = enlarged(self._id_of, longer), enlarged(self._order, longer)
        self._id_of[room:] = -1
        for column in self._columns.values():
            column.grow(longer)

    # -- keys that no row has any more are forgotten -----------------------------------------------

    def _occupied(self) -> Ints:
        return np.flatnonzero(self._id_of[: self._used] >= 0)

    def _mark(self, used: Bools) -> None:
        used[self._id_of[self._occupied()]] = True

    def _renumber(self, new_id: Ints) -> None:
        occupied = self._occupied()
        ids = new_id[self._id_of[occupied]]
        self._id_of[occupied] = ids
        self._slot_of = np.full(len(self._keys), -1)
        self._slot_of[ids] = occupied

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, pa.Array]:
        """All rows in order, column by column; by the number of the column. If changes can still be undone, the rows
        before them, and then each change: the rows that came, or those that went."""
        with self.as_of(self._past[0].version if self._past else self.version):
            columns = self.read(self.slots, self.table.schema.names)
        saved = {str(number): column for number, column in enumerate(columns.values())}
        for place, past in enumerate(self._past):
            rows = past.change.rows or past.before
            assert rows is not None
            saved |= {f"past {place}/{number}": column for number, column in enumerate(rows.batch.columns)}
            saved[f"past {place}/goes"] = pa.array([past.change.rows is None])
            saved[f"past {place}/streams"] = pa.array(list(past.until), pa.string())
            saved[f"past {place}/until"] = np.array(list(past.until.values()), np.int64)
        return saved

    def restore(self, saved: Saved) -> None:
        """Have the rows of a snapshot in place of all that are here."""
        self._clear()
        self._past = []
        self.apply(self.to_put(self._saved_rows(saved)))
        for place in count():
            past = saved.under(f"past {place}/")
            if not past:
                return
            rows, streams = self._saved_rows(past), past.column("streams", {pa.string()})
            until = past.times("until", len(streams), order="any")
            if not len(streams) or streams.null_count or len(set(streams.to_pylist())) < len(streams):
                raise past.damaged("streams", "does not name streams, each once")
            slots = self.find(rows.key(self.table))
            goes = past.column("goes", {pa.bool_()}, 1)[0].as_py()
            if goes and not (slots >= 0).all():
                raise past.damaged("0", "has rows that are not there")
            change = self.to_delete(slots) if goes else self.to_put(rows)
            self.apply(change, dict(zip(streams.to_pylist(), until.tolist(), strict=True)))

    def _saved_rows(self, saved: Saved) -> KeyedRows:
        columns: list[pa.Array] = []
        for number, field in enumerate(self.table.schema):
            columns.append(saved.column(str(number), {field.type}, len(columns[0]) if columns else None))
        try:
            return keyed_rows(self.table, pa.RecordBatch.from_arrays(columns, schema=self.table.schema))
        except SchemaError as error:
            place = str(self.table.schema.get_field_index(self.table.key[0]))
            raise saved.damaged(place, str(error)) from None

    def nbytes(self) -> int:
        arrays = self._slot_of, self._id_of, self._order, self._free
        columns = (column.nbytes() for column in self._columns.values())
        return self._keys.nbytes() + sum(each.nbytes for each in arrays) + sum(columns)

    def check(self) -> None:
        """Assert every invariant."""
        self._keys.check()
        occupied = self._occupied()
        assert len(occupied) == self._count
        # a key leads to the slot that has its row, and a key without a row to none
        ids = self._id_of[occupied]
        assert np.array_equal(self._slot_of[ids], occupied)
        assert int((self._slot_of[: len(self._keys)] >= 0).sum()) == self._count
        # every slot has a row or is free
        free = self._free[: self._frees]
        assert np.array_equal(np.sort(np.concatenate([occupied, free])), np.arange(self._used))
        # no two rows were inserted at once
        order = self._order[occupied]
        assert len(np.unique(order)) == self._count
        assert not self._is_in_order or bool((np.diff(order) > 0).all())
        # all columns can be read
        assert {len(column) for column in self.read(occupied, self.table.schema.names).values()} == {
            self._count
        }
