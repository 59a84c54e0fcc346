"""rescan_rows: keep the last events of each key, recompute tuple windows from them.

| | |
|---|---|
| Full name | rescan over ROWS windows |
| Answers | every aggregate, ROWS windows, suffix or historical, per key or over the whole stream |
| Insert | O(1) per event, the ring's own cost |
| Lookup | all keys: O(n) for the n events kept (O(n log n) after an insertion); some: O(n); no keys: O(window) |
| Space | O(keys * longest window); keys are never forgotten, their last events may matter for ever |
| Shares | events, whatever the window, aggregate or filter |
| Reference | Arasu & Widom, VLDB 2004, section 2 (tuple-based windows) |

Events are brought in order of (key, time), so that every window of every key is one range; a
window is then folded like in `rescan`. Positions count from the first event this ring saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.store.needs import Need
from muntin.store.ring import EventRing, key_column
from muntin.store.saved import COUNTS, Saved
from muntin.store.sequence import Located
from muntin.structure.rescan import RingSynopsis
from muntin.structure.synopsis import Found, Moves, TextOrder
from muntin.window import Window

_FEW = 1024  # not worth compacting below


class _Order(NamedTuple):
    """Events sorted by slot: slot s owns `events[offset[s]:offset[s + 1]]`, ring indexes ascending. None: there is one
    slot, which owns all events as they lie."""

    events: Ints | None
    offset: Ints

    def part(self, lo: int, hi: int) -> Ints | slice:
        """Where in the ring some of the events lie."""
        return slice(lo, hi) if self.events is None else self.events[lo:hi]

    def before(self, index: int) -> Ints:
        """How many events each slot owns before an index of the ring."""
        if self.events is None:
            return np.minimum(self.offset[1:], index)
        earlier = self.events < index
        edges = self.offset if earlier.all() else np.append(0, np.cumsum(earlier))[self.offset]
        return np.diff(edges)


class RescanRows(RingSynopsis):
    """ROWS windows over a ring of its own (`keys` or WHERE given) or the stream's."""

    name = "rescan_rows"
    instant_cost = 64

    def __init__(
        self, store: EventRing, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        super().__init__(store, where, keys, text_order)
        self._dropped = np.zeros(0, np.int64)  # events of each key that left; un-keyed: the ring knows
        self._compact_at = _FEW
        self._order: tuple[tuple[int, int], _Order] | None = None  # of all keys, for a version of the ring

    def advance(self, kept_from: int) -> None:
        """Keyed: drop each key's events beyond its longest window; O(1) amortised per event."""
        if not self.keys:
            super().advance(kept_from)
        elif len(self.store) >= self._compact_at:
            ids: Ints = self.store[key_column(self.keys)]
            order = _by_slot(ids, int(ids.max(initial=-1)) + 1)
            assert order.events is not None
            settled = np.bincount(ids[: self.store.find(kept_from)], minlength=len(order.offset) - 1)
            rank = np.arange(len(ids)) - np.repeat(order.offset[:-1], np.diff(order.offset))
            spared = rank >= np.repeat(settled - self.needs.reach("rows"), np.diff(order.offset))
            kept = np.zeros(len(ids), np.bool_)
            kept[order.events[spared]] = True
            lost = np.bincount(ids[~kept], minlength=len(self._dropped))
            lost[: len(self._dropped)] += self._dropped
            self._dropped = lost
            self.store.retain(kept)
            super().advance(kept_from)
            self._compact_at = max(_FEW, 2 * len(self.store))

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def first_needed(self) -> int:
        return max(0, self.store.find(self.kept_from) - self.needs.reach("rows"))

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        order, dropped = self._ordered(ids, width), self._dropped_of(ids, width)
        counts = [
            order.before(index) + dropped for index in np.searchsorted(self.store.at, instants).tolist()
        ]
        count = np.concatenate(counts) if counts else np.zeros(0, np.int64)
        slots = np.tile(np.arange(width), len(instants))
        if window.slide:
            count = count - count % window.slide
        asked_at = np.repeat(instants, width)
        return self._at_counts(window, slots, count, asked_at, wanted, order, dropped)

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of `window` for given keys when they had given numbers of events."""
        order, dropped = self._ordered(None, width), self._dropped_of(None, width)
        count = window.settle_count(moves.seen)
        forever = np.full(len(count), 2**63 - 1)
        return self._at_counts(window, moves.slot, count, forever, wanted, order, dropped)

    def moves(self, slide: int, after: int | None, until: int, width: int) -> Moves:
        """Where the number of a key's events passed a multiple of `slide` by events in [after, until)."""
        order, dropped = self._ordered(None, width), self._dropped_of(None, width)
        had, has = (
            order.before(self.store.find(instant)) + dropped
            for instant in (LONG_AGO if after is None else after, until)
        )
        steps = has // slide - had // slide
        keys = np.repeat(np.arange(width), steps)
        nth = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
        count = (np.repeat(had // slide, steps) + nth + 1) * slide
        closed_by = order.offset[keys] + count - dropped[keys] - 1
        if order.events is not None:
            closed_by = order.events[closed_by]
        closing = np.argsort(closed_by, kind="stable")
        return Moves(keys[closing], count[closing])

    def mark_keys(self, used: Bools) -> None:
        """A key whose events were counted is known for ever: its next ones go on counting."""
        used[np.flatnonzero(self._dropped)] = True

    def renumber_keys(self, new_id: Ints) -> None:
        counted = np.flatnonzero(self._dropped)
        dropped = np.zeros(int(new_id[counted].max(initial=-1)) + 1, np.int64)
        dropped[new_id[counted]] = self._dropped[counted]
        self._dropped, self._order = dropped, None

    def snapshot(self) -> Arrays:
        return super().snapshot() | {"dropped": self._dropped}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self._dropped = saved.ints("dropped", COUNTS).copy()
        is_known = len(self._dropped) <= saved.width(self.keys)
        if self.keys and not (is_known and int(self._dropped.sum()) == self.store.dropped):
            raise saved.damaged("dropped", "does not add up to what the events say")

    def check(self) -> None:
        super().check()
        # what the keys lost is what the ring lost
        assert not self.keys or int(self._dropped.sum()) == self.store.dropped

    def _at_counts(self, window: Window, slots: Ints, count: Ints, asked_at: Ints, wanted: Sequence[Need],
                   order: _Order, dropped: Ints) -> Found:  # fmt: skip
        stored = np.diff(order.offset)[slots]
        gone = dropped[slots]
        lo, hi, is_whole = self.locate_rows(window, count, gone, gone + stored, asked_at)
        lo, hi = lo - gone + order.offset[slots], hi - gone + order.offset[slots]
        first = int(lo.min(initial=int(order.offset[-1])))
        events = order.part(first, int(hi.max(initial=first)))
        lo, hi = lo - first, hi - first
        at: Ints = self.store.at[events]
        partials = {}
        for need in wanted:
            value, valid = self.store.column(need.input, self.where, events)
            partials[need] = self._fold(need, lo, hi, 1, None, at, value, valid)
        held = hi > lo
        start, end = np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)
        start[held], end[held] = at[lo[held]], at[hi[held] - 1] + 1
        return self.found(window, Located(lo, hi, start, end, is_whole), partials, 1)

    def _ordered(self, ids: Ints | None, width: int) -> _Order:
        """Sorting all events costs far more than all else, so the order of all keys is kept."""
        everything = slice(0, len(self.store))
        if not self.keys:
            return _Order(None, np.array([0, len(self.store)]))
        known, order = self._order or ((-1, 0), None)
        if ids is not None:
            if order is not None and known[0] == self.store.version and ids.max(initial=0) < known[1]:
                return _of_some(order, ids)
            return _by_slot(self._slots(everything, ids), width)
        if order is None or known != (self.store.version, width):
            order = _by_slot(self._slots(everything, None), width)
            self._order = (self.store.version, width), order
        return order

    def _dropped_of(self, ids: Ints | None, width: int) -> Ints:
        dropped = np.zeros(width, np.int64)
        if not self.keys:
            dropped[0] = self.store.dropped
        elif ids is None:
            dropped[: len(self._dropped)] = self._dropped
        else:
            known = ids < len(self._dropped)
            dropped[known] = self._dropped[ids[known]]
        return dropped


def _by_slot(slot: Ints, width: int) -> _Order:
    """Events in order of slots; those of slot -1 are nobody's."""
    if (owned := np.flatnonzero(slot >= 0)).size == slot.size:
        index = np.argsort(slot, kind="stable")
    else:
        index = owned[np.argsort(slot[owned], kind="stable")]
    return _Order(index, np.searchsorted(slot[index], np.arange(width + 1)))


def _of_some(order: _Order, ids: Ints) -> _Order:
    """The events of some slots alone; O(events of theirs)."""
    assert order.events is not None
    count = np.diff(order.offset)[ids]
    offset = np.append(0, np.cumsum(count))
    index = np.arange(offset[-1]) + np.repeat(order.offset[ids] - offset[:-1], count)
    return _Order(order.events[index], offset)
