"""key_runs_rows: keep the last events of each key side by side, so that a ROWS window is arithmetic.

| | |
|---|---|
| Full name | runs of events per key, with a B-INT over each, for ROWS windows |
| Answers | every aggregate, ROWS windows per key, suffix or historical, at any instant |
| Insert | the ring's own cost; O(1) amortised per event when it is first looked up |
| Lookup | one key: O(log n) for its n events; what does not merge, O(its window / 8); all keys: that for each |
| Space | O(keys * longest window), as `key_runs`: 40 bytes per key, 8 per component; keys are never forgotten |
| Shares | runs, whatever the window, aggregate or filter of an aggregate |
| Reference | Arasu & Widom, VLDB 2004, section 2 (tuple-based windows) and section 4 (substreams) |

A window is a range of entries in the run of its key: how many events of the key lie before the instant is one search,
and the rest is counted from there. Positions count from the first event of the key that the ring saw.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.kernels.key_runs import close_counts, keep_latest
from muntin.store.key_runs import KeyRuns, Spans
from muntin.store.needs import Need, Needs
from muntin.store.ring import EventRing, key_column
from muntin.store.saved import COUNTS, Saved
from muntin.store.sequence import Located
from muntin.store.value_order import Order
from muntin.structure.key_runs import ReadsRuns, Wanted
from muntin.structure.synopsis import Asked, Found, Moves, TextOrder
from muntin.window import Window

_FEW = 1024  # not worth compacting below
_ANY_TIME = 2**63 - 1


class RowsByKeyRuns(ReadsRuns):
    """ROWS windows per key over a ring of its own."""

    name = "key_runs_rows"
    instant_cost = 64

    def __init__(
        self, store: EventRing, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        super().__init__(store, where, keys, text_order)
        self._runs = KeyRuns(store, where, keys)
        self._dropped = np.zeros(0, np.int64)  # events of each key that left the ring
        self._compact_at = _FEW

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """O(components)."""
        self._runs.fit(needs.components.keys(), self._dropped)
        return super().fit(needs, changed)

    def insert(self) -> None:
        self._runs.follow()

    def advance(self, kept_from: int) -> None:
        """Drop each key's events beyond its longest window; O(1) amortised per event."""
        if len(self.store) < self._compact_at:
            return
        if 2 * self._runs.behind < len(self.store):
            self._catch_up()  # while all events are there
        ids: Ints = self.store[key_column(self.keys)]
        kept = np.empty(len(ids), np.bool_)
        seen = np.zeros(int(ids.max(initial=-1)) + 2, np.int64)
        keep_latest(ids, self.store.find(kept_from), self.needs.reach("rows"), seen, kept)
        lost = np.bincount(ids[~kept], minlength=len(self._dropped))
        lost[: len(self._dropped)] += self._dropped
        self._dropped = lost
        is_behind = self._runs.behind > 0
        self.store.retain(kept)
        if is_behind:
            self._runs.begin_again(self._dropped)
        else:
            self._runs.shed(self._dropped)
        super().advance(kept_from)
        self._compact_at = max(_FEW, 2 * len(self.store))

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        self._catch_up()
        ids = np.arange(width) if ids is None else ids
        keys, _, before = self._runs.locate(ids, np.full(len(instants), LONG_AGO), instants)
        left, here = self._runs.seen(keys)
        count = window.settle_count(left + before)
        return self._at_counts(window, keys, count, left, here, np.repeat(instants, len(ids)), wanted)

    def lookup_points(self, asked: Mapping[Window, Asked], ids: Ints | None) -> dict[Window, Found]:
        assert ids is not None
        self._catch_up()
        left, here = self._runs.seen(ids)
        found = {}
        for window, (instants, needs) in asked.items():
            before = self._runs.locate_points(ids, np.full(len(ids), LONG_AGO), instants).hi
            count, asked_at = window.settle_count(left + before), np.full(len(ids), _ANY_TIME)
            found[window] = self._at_counts(window, ids, count, left, here, asked_at, needs)
        return found

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of `window` for given keys when they had given numbers of events."""
        self._catch_up()
        left, here = self._runs.seen(moves.slot)
        count = window.settle_count(moves.seen)
        asked_at = np.full(len(count), _ANY_TIME)
        return self._at_counts(window, moves.slot, count, left, here, asked_at, wanted)

    def moves(self, window: Window, after: int | None, until: int, width: int) -> Moves:
        """Where the number of a key's events passed a multiple of the slide by events in [after, until); O(keys), and
        O(events since)."""
        self._catch_up()
        first, last = (self.store.find(each) for each in (LONG_AGO if after is None else after, until))
        ids: Ints = self.store[key_column(self.keys)][first:]
        left, here = self._runs.seen(np.arange(width))
        seen = left + here - np.bincount(ids[ids >= 0], minlength=width)[:width]
        slots, counts = np.empty((2, max(0, last - first)), np.int64)
        closed = close_counts(ids[: last - first], window.slide, seen, slots, counts)
        return Moves(slots[:closed], counts[:closed])

    def _is_ready(self, window: Window, settled: int) -> bool:
        self._catch_up()
        return settled >= self.kept_from

    def _catch_up(self) -> None:
        self._runs.catch_up(self.kept_from, self.needs.reach("rows"))

    def _at_counts(self, window: Window, keys: Ints, count: Ints, left: Ints, here: Ints, asked_at: Ints,
                   wanted: Sequence[Need]) -> Found:  # fmt: skip
        lo, hi, is_whole = self.locate_rows(window, count, left, left + here, asked_at)
        spans = Spans(keys, lo - left, hi - left)
        held = np.flatnonzero(hi > lo)
        start, end = np.zeros((2, len(keys)), np.int64)
        start[held] = self._runs.times(keys[held], spans.lo[held])
        end[held] = self._runs.times(keys[held], spans.hi[held] - 1) + 1
        order = Order(np.zeros(1, np.int64), np.full(1, LONG_AGO), self.needs.reach("rows"))
        (partials,) = self._read_all([Wanted(wanted, 1)], keys, spans, order)
        found = self.found(window, Located(lo, hi, start, end, is_whole), partials, 1)
        return found._replace(is_full=count - window.size >= left)

    def mark_keys(self, used: Bools) -> None:
        """A key whose events were counted is known for ever: its next ones go on counting."""
        used[np.flatnonzero(self._dropped)] = True

    def renumber_keys(self, new_id: Ints) -> None:
        counted = np.flatnonzero(self._dropped)
        dropped = np.zeros(int(new_id[counted].max(initial=-1)) + 1, np.int64)
        dropped[new_id[counted]] = self._dropped[counted]
        self._dropped = dropped
        self._runs.renumber(new_id)

    def rebuild(self) -> None:
        self._runs.begin_again(self._dropped)

    def nbytes(self) -> int:
        return self._dropped.nbytes + self._runs.nbytes()

    def snapshot(self) -> Arrays:
        return super().snapshot() | {"dropped": self._dropped}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self._dropped = saved.ints("dropped", COUNTS).copy()
        is_known = len(self._dropped) <= saved.width(self.keys)
        if not (is_known and int(self._dropped.sum()) == self.store.dropped):
            raise saved.damaged("dropped", "does not add up to what the events say")
        self.rebuild()

    def check(self) -> None:
        super().check()
        self._runs.check()
        # what the keys lost is what the ring lost
        assert int(self._dropped.sum()) == self.store.dropped
