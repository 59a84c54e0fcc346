"""The ring: the recent events of a stream, in order of time, as columns.

Synopses that need single events read it and hold positions into it, so that events are stored once
however many groups there are. Memory follows what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from typing import Any

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.query import Input
from muntin.store.batch import Batch
from muntin.store.columns import Columns
from muntin.store.needs import Need, storage
from muntin.store.saved import COUNTS, INSTANTS, Saved
from muntin.store.sequence import Reader, Sequence, Wanted
from muntin.window import Window

_TIME = np.dtype(np.int64)
_FLAG = np.dtype(np.bool_)


class EventRing(Sequence):
    """Events that pass `where`, ordered by time, then arrival.

    Columns are named `at`, `value <sql>`, `valid <sql>`, `mask <sql>` and `key <sql>`. One that was
    added while the stream ran is known only from `known_from[column]` on.
    """

    holds_events = True

    def __init__(self, where: Expression | None = None):
        self.where = where
        self.known_from: dict[str, int] = {"at": LONG_AGO}
        self.version = 0  # changes whenever events come or go
        self._fitted_to = -1  # the version of the columns wanted that `keep` was last given
        self._columns = Columns({"at": _TIME})
        self._source: dict[str, tuple[str, Any]] = {"at": ("at", None)}  # where a batch has a column

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, column: str) -> np.ndarray:
        """The stored part of a column, as a view; index 0 is the oldest event kept."""
        return self._columns[column]

    @property
    def at(self) -> Ints:
        return self._columns["at"]

    @property
    def dropped(self) -> int:
        """How many events have been forgotten, or came before the ring was there."""
        return self._columns.dropped

    def begin_at(self, now: int, events: int | None) -> None:
        """The ring comes when some events have passed already, all before `now`; None: nobody knows how many."""
        self.began_at = now
        self.knows_count = events is not None
        self._columns.dropped = events or 0

    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        lo = np.searchsorted(self.at, start)
        return lo, np.maximum(lo, np.searchsorted(self.at, end))

    def edges(self, lo: int, hi: int) -> tuple[Ints, Ints]:
        return self.at[lo:hi], self.at[lo:hi] + 1

    def run(self, start: int, end: int) -> tuple[int, int]:
        return self._columns.find_run("at", start, end)

    def column(self, input: Input, where: Expression | None, part: slice | Ints) -> tuple[Array, Bools]:
        """Values of an input, and which of them are not NULL and pass both filters."""
        value: Array = self["at" if input.argument is None else f"value {input.argument.sql}"][part]
        return value, self.valid(input, where, part)

    def valid(self, input: Input, where: Expression | None, part: slice | Ints) -> Bools:
        """Which of these values are not NULL and pass both filters."""
        if input.argument is not None:
            valid: Bools = self[f"valid {input.argument.sql}"][part]
        else:
            valid = np.ones(len(self.at[part] if isinstance(part, slice) else part), np.bool_)
        for predicate in (where, input.filter):
            if predicate is not None:
                valid = valid & self[f"mask {predicate.sql}"][part]
        return valid

    def lifted(self, need: Need, where: Expression | None, lo: int, hi: int) -> Partial:
        value, valid = self.column(need.input, where, slice(lo, hi))
        return COMPONENTS[need.component].lift(value, valid, self.at[lo:hi])

    def known_since(
        self, window: Window, need: Need, where: Expression | None, keys: tuple[Expression, ...]
    ) -> int:
        argument, predicate = need.input
        names = [] if argument is None else [f"value {argument.sql}"]
        names += [f"mask {each.sql}" for each in (where, predicate) if each is not None]
        names += [key_column(keys)] if keys else []
        return max([self.began_at, *(self.known_from[name] for name in names)])

    def serve(self, wanted: Wanted, changed: Mapping[Need, bool], now: int | None) -> None:
        columns = wanted.columns
        if columns.version != self._fitted_to:
            self._fitted_to = columns.version
            self.keep(columns.arguments, columns.predicates, columns.keys, now)

    def release(self, readers: Many[Reader], settled: int) -> None:
        self.drop_first(min(each.first_needed() for each in readers))

    def elements_in(self, span: int) -> float:
        """As many as come in that time at their mean rate."""
        if not len(self):
            return 0.0
        lasted = int(self.at[-1]) - int(self.at[0]) + 1
        return len(self) * min(1.0, span / lasted)

    def find(self, instant: int) -> int:
        """Index of the first event with time >= `instant`; O(log n)."""
        return int(np.searchsorted(self.at, instant))

    def keep(
        self,
        arguments: Iterable[Expression],
        predicates: Iterable[Expression],
        keys: Iterable[tuple[Expression, ...]],
        now: int | None,
    ) -> None:
        """Have exactly these columns; a new one is known from `now` on. O(columns)."""
        source: dict[str, tuple[str, Any]] = {"at": ("at", None)}
        dtypes: dict[str, np.dtype[Any]] = {"at": _TIME}
        for argument in arguments:
            source[f"value {argument.sql}"] = ("value", argument)
            dtypes[f"value {argument.sql}"] = storage(argument.type)
            source[f"valid {argument.sql}"] = ("valid", argument)
            dtypes[f"valid {argument.sql}"] = _FLAG
        for predicate in predicates:
            source[f"mask {predicate.sql}"] = ("mask", predicate)
            dtypes[f"mask {predicate.sql}"] = _FLAG
        for ids in keys:
            source[key_column(ids)] = ("key", ids)
            dtypes[key_column(ids)] = _TIME
        for name in set(self._columns.names()) - source.keys():
            self._columns.remove(name)
            del self.known_from[name]
        for name in source:
            if name not in self._columns:
                # an event whose key was not looked at belongs to no key
                self._columns.add(name, dtypes[name], -1 if source[name][0] == "key" else 0)
                self.known_from[name] = LONG_AGO if now is None else now
        self._source = source

    def insert(self, batch: Batch) -> None:
        """Append a batch, merging what is out of order; O(batch + events later than its first)."""
        batch = self.placeable(batch.passing(self.where).in_order())
        self.changed_from = self.dropped + len(self)
        if not len(batch):
            return
        self.version += 1
        at = self.at
        in_order = not len(at) or at[-1] <= batch.at[0]
        arrivals = {name: self._arriving(batch, name) for name in self._columns.names()}
        if in_order:
            self._columns.extend(arrivals)
            return
        first_moved = int(np.searchsorted(at, batch.at[0], side="right"))
        earlier = int(np.searchsorted(batch.at, at[-1]))  # than the latest so far: few events, as a rule
        merged = {
            name: np.concatenate([self[name][first_moved:], new[:earlier]]) for name, new in arrivals.items()
        }
        order = np.argsort(merged["at"], kind="stable")  # ties keep the order of arrival
        self._columns.truncate(first_moved)
        self.changed_from = self.dropped + first_moved
        self._columns.extend({name: array[order] for name, array in merged.items()})
        self._columns.extend({name: new[earlier:] for name, new in arrivals.items()})

    def by_key(
        self, need: Need, where: Expression | None, keys: tuple[Expression, ...], lo: int, hi: int
    ) -> tuple[Ints, Ints, Partial]:
        first, last = (max(number, self.dropped) - self.dropped for number in (lo, hi))
        part = slice(first, max(first, last))
        value, valid = self.column(need.input, where, part)
        key, at = self[key_column(keys)][part], self.at[part]
        kept = valid & (key >= 0)
        partial = COMPONENTS[need.component].lift(value[kept], valid[kept], at[kept])
        return key[kept], at[kept], partial

    def keys_between(self, keys: tuple[Expression, ...], lo: int, hi: int) -> Ints:
        key: Ints = self[key_column(keys)][max(lo - self.dropped, 0) : max(hi - self.dropped, 0)]
        return key[key >= 0]

    def mark_keys(self, keys: tuple[Expression, ...], used: Bools) -> None:
        if key_column(keys) in self._columns:
            ids = self[key_column(keys)]
            used[ids[ids >= 0]] = True

    def renumber_keys(self, keys: tuple[Expression, ...], new_id: Ints) -> None:
        if key_column(keys) in self._columns:
            self.version += 1
            ids = self[key_column(keys)]
            ids[:] = np.where(ids >= 0, new_id[ids], -1)

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        if f"value {argument.sql}" in self._columns:
            used[_codes(self[f"value {argument.sql}"])] = True

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        if f"value {argument.sql}" in self._columns:
            self.version += 1
            codes = _codes(self[f"value {argument.sql}"])
            codes[:] = new_code[codes]

    def drop_first(self, count: int) -> None:
        """Forget the `count` oldest events; O(1) amortised per event."""
        if count > 0:
            self.version += 1
            self.forgotten_before = int(self.at[count - 1]) + 1
            self._columns.drop_first(count)

    def retain(self, kept: Bools) -> None:
        """Forget events that are not `kept`, wherever they are; O(n)."""
        self.version += 1
        self._columns.retain(kept)

    def __str__(self) -> str:
        return f"{len(self):,} events"

    def nbytes(self) -> int:
        return self._columns.nbytes()

    def held_bytes(self) -> int:
        return self._columns.held_bytes()

    def snapshot(self) -> Arrays:
        arrays: Arrays = {
            "meta": np.array([self.began_at, self.dropped, self.forgotten_before, self.knows_count], np.int64)
        }
        for name in self._columns.names():
            arrays[f"known {name}"] = np.array([self.known_from[name]], np.int64)
            column = self[name]
            arrays[f"column {name}"] = _codes(column).copy()
            if column.dtype.names:
                arrays[f"ranks {name}"] = column["rank"].copy()
        return arrays

    def restore(self, saved: Saved) -> None:
        names = self._columns.names()
        began_at, dropped, forgotten_before, knows_count = saved.numbers(
            "meta", INSTANTS, COUNTS, INSTANTS, (0, 1)
        )
        at = saved.times("column at")
        if len(at) and at[0] < forgotten_before - 1:
            raise saved.damaged("column at", "has events that were forgotten")
        self.known_from = {name: saved.numbers(f"known {name}", INSTANTS)[0] for name in names}
        self._columns.replace({name: self._saved(saved, name, len(at)) for name in names})
        self.began_at, self._columns.dropped, self.forgotten_before = began_at, dropped, forgotten_before
        self.knows_count = bool(knows_count)
        self.version += 1

    def _saved(self, saved: Saved, name: str, rows: int) -> np.ndarray:
        """A column of a snapshot."""
        kind, of = self._source[name]
        dtype = self._columns[name].dtype
        if kind == "key":
            return saved.ids(f"column {name}", of, rows, or_none=True)
        is_text = kind == "value" and saved.is_text(of)
        if not dtype.names:
            return (
                saved.codes(f"column {name}", of, rows)
                if is_text
                else saved.array(f"column {name}", dtype, rows)
            )
        pairs = np.empty(rows, dtype)
        pairs["value"] = (
            saved.codes(f"column {name}", of, rows)
            if is_text
            else saved.array(f"column {name}", dtype["value"], rows)
        )
        pairs["rank"] = saved.array(f"ranks {name}", _TIME, rows)
        return pairs

    def check(self) -> None:
        self._columns.check()
        # events are in order of time, and none is older than what was forgotten
        assert bool(np.all(self.at[1:] >= self.at[:-1]))
        assert not len(self) or self.at[0] >= self.forgotten_before - 1
        # of every column it is known where it comes from and since when
        assert set(self.known_from) == set(self._columns.names()) == self._source.keys()

    def _arriving(self, batch: Batch, name: str) -> np.ndarray:
        kind, of = self._source[name]
        if kind == "at":
            return batch.at
        if kind == "key":
            return batch.key(of)
        if kind == "mask":
            return batch.mask(of)
        column = batch.column(of)
        return column.value if kind == "value" else column.valid


def _codes(column: Array) -> Array:
    """The values of a column, also if it is one of pairs: codes if they are texts."""
    values: Array = column["value"] if column.dtype.names else column
    return values


def columns_of(needs: Iterable[Need], where: Expression | None) -> tuple[set[Expression], set[Expression]]:
    """Arguments and predicates that needs read."""
    inputs = {need.input for need in needs}
    arguments = {input.argument for input in inputs if input.argument is not None}
    predicates = {input.filter for input in inputs if input.filter is not None}
    return arguments, predicates | ({where} if where else set())


def key_column(keys: tuple[Expression, ...]) -> str:
    """Name of the column with the ids of these keys."""
    return "key " + ", ".join(key.sql for key in keys)
