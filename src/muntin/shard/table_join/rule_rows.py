"""Rules that are rows: a query in which each row of a table has a key of the stream, a threshold and perhaps a window.

What a rule asks for is an element of arrays, by the slot of its row. An instant is one pass over these: windows were
read for all keys, the compared call lowered once for each key and window, and of the rules only those become rows of
answers that pass, or of EMIT CHANGES that enter or leave. When rows change, only their slots do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints, recycled
from muntin.band import GREATEST, LEAST, sort_keys
from muntin.kernels.rules import rules_passing
from muntin.keys.key_dictionary import KeyDictionary
from muntin.keys.table_room import enlarged
from muntin.shard.read.crowd_slots import stacked
from muntin.shard.read.reading import Reading
from muntin.shard.state import State
from muntin.shard.table_join.joined_rows import JoinedRows, Sources, passing
from muntin.shard.table_join.measured import Measured, Slots, lengths_of, own_windows, read_windows
from muntin.structure.synopsis import Found
from muntin.table_query import RowThreshold

_NOBODY: Ints = np.zeros(0, np.int64)
NO_ROW, NO_KEY = -2, -1  # in place of a key: no rule is there; no event has had its key yet


class RuleRows:
    """Of one query. `ids` are those of answers, by primary key."""

    def __init__(self, ids: KeyDictionary):
        self._ids = ids
        self._clear()

    def _clear(self) -> None:
        self._version, self._keys_known = -1, 0
        self._sizes: dict[int, int] = {}  # of windows, each with its number
        self.key, self._window, self._edge, self.answer = (_NOBODY,) * 4
        self._can_pass: Bools = np.zeros(0, np.bool_)  # not if the threshold is NULL
        self._slot: Ints = _NOBODY  # in what is read of all windows …
        self._slots_of = 0  # … for so many keys; 0: to be found anew
        self._is_in: Bools = np.zeros(0, np.bool_)
        self._inside: Ints = _NOBODY  # what `_is_in` is of

    def __len__(self) -> int:
        return len(self.key)

    # -- following the table -----------------------------------------------------------------------

    def follow(self, sources: Sources, inside: Ints) -> None:
        """Be of the table and the keys as they are; O(rows that have changed, or wait for their key)."""
        (rows,) = sources.rows
        touched = rows.touched(self._version, rows.version) if self._version >= 0 else None
        if touched is None:
            self._clear()
            touched = np.arange(rows.room)
        if inside is not self._inside:
            self._inside = inside
            self._is_in = self._belongs(self.answer)
        if rows.room > len(self):
            self._make_room(rows.room)
        if len(touched):
            self._update(sources, np.unique(touched))
            self._slots_of = 0
        if len(sources.keys) > self._keys_known:
            waiting = np.flatnonzero(self.key == NO_KEY)
            if len(waiting):
                self.key[waiting] = sources.keys_of(waiting)
            self._keys_known = len(sources.keys)
        self._version = rows.version

    def _make_room(self, room: int) -> None:
        used, longer = len(self), max(room, len(self) + len(self) // 4)
        for name in ("key", "_window", "_edge", "_can_pass", "answer", "_is_in"):
            setattr(self, name, enlarged(getattr(self, name), longer))
        self.key[used:], self.answer[used:] = NO_ROW, -1
        self._window[used:], self._is_in[used:] = 0, False

    def _update(self, sources: Sources, slots: Ints) -> None:
        query, (side,), (rows,) = sources.query, sources.query.sides, sources.rows
        slots = slots[slots < len(self)]
        self.key[slots], self.answer[slots], self._is_in[slots] = NO_ROW, -1, False
        slots = slots[slots < rows.room]  # a table that has become empty begins again
        slots = slots[rows.is_there(slots)]
        if not len(slots):
            return
        key = rows.read(slots, rows.table.key)
        named = {each.expression.columns[0].removeprefix(f"{side.name}."): each for each in query.keys}
        in_order = sorted(rows.table.key, key=lambda name: query.keys.index(named[name]))
        self.answer[slots] = self._ids.encode([key[name] for name in in_order])
        self._is_in[slots] = self._belongs(self.answer[slots])
        slots = passing(side, rows, slots)
        if query.span is not None:
            (column,) = rows.read(slots, [query.span.column]).values()
            lengths = lengths_of(column, query.span.most, query.span.step)
            slots, lengths = slots[lengths > 0], lengths[lengths > 0]
            sizes, which = np.unique(lengths, return_inverse=True)
            numbers = [self._sizes.setdefault(size, len(self._sizes)) for size in sizes.tolist()]
            self._window[slots] = np.array(numbers, np.int64)[which]
        if not len(slots):
            return
        assert query.threshold is not None
        joined = JoinedRows(np.full(len(slots), -1), (slots,))
        bound = query.threshold.bound.evaluate(sources.columns(query.threshold.bound.columns, joined))
        self._edge[slots], self._can_pass[slots] = edges_of(query.threshold, bound)
        self.key[slots] = sources.keys_of(slots)

    def _belongs(self, answer: Ints) -> Bools:
        """Which answers are in."""
        if not len(self._inside):
            return np.zeros(len(answer), np.bool_)
        place = np.minimum(self._inside.searchsorted(answer), len(self._inside) - 1)
        found: Bools = self._inside[place] == answer
        return found

    # -- at an instant -----------------------------------------------------------------------------

    def read(self, state: State, reading: Reading, sources: Sources, instant: int) -> RulesRead | None:
        """The windows of all rules; None if a value does not exist, which has to be found out one by one."""
        (asked,), query = reading.windows, sources.query
        width = len(sources.keys) + 1
        windows = [asked.window] if query.span is None else own_windows(asked, self._sizes)
        read = read_windows(state, asked, windows, instant, None, width)
        assert query.threshold is not None
        call, (presence,) = reading.calls[query.threshold.call], reading.presence
        whole = stacked(asked.needs, read)
        parts = {part.need.component: whole.partials[part.need] for part in call.parts}
        values, valid, lost = call.aggregate.lower(parts)
        if lost is not None:
            return None
        if self._slots_of != width:
            looks = self._can_pass & (self.key >= 0)
            self._slot = np.where(looks, self._window * width + self.key, -1)
            self._slots_of = width
        is_there = valid & (whole.partials[presence.need][0] > 0)
        return RulesRead(reading, read, width, values, is_there, query.threshold.is_above)

    def changed(self, read: RulesRead) -> tuple[Ints, Ints]:
        """The slots of rules that enter or leave, and the ids of answers that leave since they have no row any more."""
        slots = self._passing(read, finds_changes=True)
        gone = _NOBODY
        if np.count_nonzero(self._is_in) < len(self._inside):
            gone = np.setdiff1d(self._inside, self.answer[self._is_in])
        return slots, gone

    def passing(self, read: RulesRead) -> Ints:
        """The slots of rules that pass."""
        return self._passing(read, finds_changes=False)

    def _passing(self, read: RulesRead, finds_changes: bool) -> Ints:
        values = read.values
        out = recycled(len(self), np.int64)
        many = rules_passing(
            values.view(np.int64), values.dtype == np.float64, read.valid, self._slot, self._edge, read.is_above,
            self._is_in, finds_changes, out,
        )  # fmt: skip
        return out[:many].copy()

    def measured(self, read: RulesRead, slots: Ints) -> Measured:
        """The windows of some rules, given their slots."""
        key, window = self.key[slots], self._window[slots]
        at = window * read.width + np.where(key < 0, read.width - 1, key)
        lengths = None
        if read.reading.windows[0].window.step:
            sizes = np.array([*self._sizes, 0])
            lengths = np.where(key == NO_ROW, 0, sizes[np.minimum(window, len(sizes) - 1)])
        return Measured(read.reading, [Slots(read.found, at)], lengths)

    def mark(self, slots: Ints, inside: Ints) -> None:
        """The answers of some slots enter or leave, so that these are in."""
        self._is_in[slots] ^= True
        self._inside = inside


class RulesRead(NamedTuple):
    """All windows at an instant, and of the compared call a value for each key and window."""

    reading: Reading
    found: list[Found]
    width: int
    values: np.ndarray
    valid: Bools
    is_above: bool


def edges_of(threshold: RowThreshold, bound: pa.Array) -> tuple[Ints, Bools]:
    """The sort key from which on, or up to which, each rule lets numbers pass; and which of them let any pass.

    >>> above = RowThreshold(0, None, is_above=True, is_inclusive=False)
    >>> edges, is_known = edges_of(above, pa.array([5, None]))
    >>> edges[is_known].tolist(), is_known.tolist()
    ([6], [True, False])
    """
    edges, is_known = sort_keys(np.asarray(bound.fill_null(0))), np.asarray(bound.is_valid())
    if threshold.is_inclusive:
        return edges, is_known
    # nothing is above the greatest number there is, nor below the least
    is_known = is_known & (edges != (GREATEST if threshold.is_above else LEAST))
    edges = edges.copy()
    edges[is_known] += 1 if threshold.is_above else -1
    return edges, is_known
