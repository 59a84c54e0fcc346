"""rescan_rows: keep the last events, recompute tuple windows from them.

| | |
|---|---|
| Full name | rescan over ROWS windows |
| Answers | every aggregate, ROWS windows over the whole stream, suffix or historical |
| Insert | O(1) per event, the ring's own cost |
| Lookup | O(log n + W) for a window of W events |
| Space | the ring: O(longest window) |
| Shares | events, whatever the window, aggregate or filter |
| Reference | Arasu & Widom, VLDB 2004, section 2 (tuple-based windows) |

A window is a range of the ring, which is folded like in `rescan`. Positions count from the first event this ring saw.
ROWS windows per key are served by `key_runs_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.store.needs import Need
from muntin.store.sequence import Located
from muntin.structure.rescan import RingSynopsis
from muntin.structure.synopsis import Found, Moves
from muntin.window import Window


class RescanRows(RingSynopsis):
    """ROWS windows over a ring of its own (WHERE given) or the stream's."""

    name = "rescan_rows"
    instant_cost = 64

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def first_needed(self) -> int:
        return max(0, self.store.find(self.kept_from) - self.needs.reach("rows"))

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        return self._at_counts(window, window.settle_count(self._counts(instants)), instants, wanted)

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of `window` when the stream had given numbers of events."""
        count = window.settle_count(moves.seen)
        return self._at_counts(window, count, np.full(len(count), 2**63 - 1), wanted)

    def moves(self, window: Window, after: int | None, until: int, width: int) -> Moves:
        """Where the number of events passed a multiple of the slide by events in [after, until)."""
        had, has = self._counts(np.array([LONG_AGO if after is None else after, until])).tolist()
        return Moves.of_stream(had, has, window.slide)

    def _counts(self, instants: Ints) -> Ints:
        """How many events there were before each instant."""
        return self.store.dropped + np.searchsorted(self.store.at, instants)

    def _at_counts(self, window: Window, count: Ints, asked_at: Ints, wanted: Sequence[Need]) -> Found:
        dropped = np.full(len(count), self.store.dropped)
        lo, hi, is_whole = self.locate_rows(window, count, dropped, dropped + len(self.store), asked_at)
        lo, hi = lo - dropped, hi - dropped
        first = int(lo.min(initial=len(self.store)))
        part = slice(first, int(hi.max(initial=first)))
        lo, hi = lo - first, hi - first
        at: Ints = self.store.at[part]
        partials = {}
        for need in wanted:
            value, valid = self.store.column(need.input, self.where, part)
            partials[need] = self._fold(need, lo, hi, 1, None, at, value, valid)
        held = hi > lo
        start, end = np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)
        start[held], end[held] = at[lo[held]], at[hi[held] - 1] + 1
        return self.found(window, Located(lo, hi, start, end, is_whole), partials, 1)
