"""Un-keyed windows as runs of a sequence, answered by one `Intervals` per component.

A time window is a run of positions found by binary search on time; a ROWS window is one by
arithmetic. So R-INT, B-INT and L-INT, which are about positions, serve both, over single events
or over slices alike (Arasu & Widom, section 3; time-based windows by the search).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muntin.aggregate.component import COMPONENTS
from muntin.errors import WindowTooLarge
from muntin.expression import Expression
from muntin.synopsis.contract import LONG_AGO, Bools, Found, Ints, Need
from muntin.synopsis.intervals import Intervals
from muntin.synopsis.moves import Moves
from muntin.synopsis.needs import Needs
from muntin.synopsis.ring import EventRing
from muntin.synopsis.sequence import Sequence as Elements
from muntin.synopsis.slice_store import dtype_of
from muntin.synopsis.synopsis import Synopsis, TextOrder
from muntin.window import Window


class Runs(NamedTuple):
    """Windows as runs `[lo, hi)` of element numbers, with their bounds in time."""

    lo: Ints
    hi: Ints
    start: Ints
    end: Ints
    complete: Bools


class RunSynopsis(Synopsis[Elements]):
    """A structure of kind `kind` for each component that the group needs."""

    def __init__(
        self,
        store: Elements,
        where: Expression | None,
        keys: tuple[Expression, ...],
        text_order: TextOrder,
        kind: type[Intervals],
    ):
        super().__init__(store, where, keys, text_order)
        assert not keys, "runs of a sequence have no keys"
        self.kind = kind
        self._structures: dict[Need, Intervals] = {}

    def fit(self, needs: Needs) -> None:
        """Build structures for new components from the store, at once; O(elements) each."""
        super().fit(needs)
        wanted = needs.components
        self._structures = {need: each for need, each in self._structures.items() if need in wanted}
        for need in sorted(wanted.keys() - self._structures.keys(), key=str):
            structure = self.kind(COMPONENTS[need.component], dtype_of(need), self.store.dropped)
            self._structures[need] = structure
            self._extend(need, structure)

    def insert(self) -> None:
        """O(1) amortised per element, and per element that had to be taken back for one out of order."""
        for need, structure in self._structures.items():
            if structure.end > self.store.changed_from:
                structure.rewind(max(self.store.changed_from, structure.first))
            self._extend(need, structure)

    def settle(self) -> None:
        for structure in self._structures.values():
            structure.forget(self.store.dropped)

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], keys: Ints | None, width: int
    ) -> Found:
        return self._found(self.locate(window, instants, wanted), wanted)

    def locate(self, window: Window, instants: Ints, wanted: Sequence[Need]) -> Runs:
        """The runs that a window is at given instants."""
        if not window.is_time:
            count = self._counts(instants)
            return self._rows(
                window, count - count % window.slide if window.slide else count, instants, wanted
            )
        start, end = instants - window.size, instants - window.to
        lo, hi = self.store.runs(start, end)
        known_from = self.store.known_since(window, wanted, self.where, self.keys)
        complete = self.covers(window, instants, start, known_from)
        return Runs(lo + self.store.dropped, hi + self.store.dropped, start, end, complete)

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of a ROWS window when the stream had given numbers of events."""
        count = moves.seen - moves.seen % window.slide if window.slide else moves.seen
        return self._found(self._rows(window, count, np.full(len(count), 2**63 - 1), wanted), wanted)

    def moves(self, slide: int, after: int | None, until: int, width: int) -> Moves:
        """Where the number of events passed a multiple of `slide` by events in [after, until)."""
        had, has = self._counts(np.array([LONG_AGO if after is None else after, until]))
        seen = np.arange(had // slide + 1, has // slide + 1) * slide
        return Moves(np.zeros(len(seen), np.int64), seen)

    def first_needed(self) -> int:
        """Index of the first element that a window looked up from `kept_from` on reaches."""
        assert isinstance(self.store, EventRing)
        rows, time = self.needs.reach("rows"), self.needs.reach("time")
        return max(0, min(self.store.find(self.kept_from) - rows, self.store.find(self.kept_from - time)))

    def nbytes(self) -> int:
        return sum(structure.nbytes() for structure in self._structures.values())

    def check(self) -> None:
        for structure in self._structures.values():
            structure.check()
            # every structure has seen what the store holds, no more and no less
            assert structure.first <= self.store.dropped
            assert structure.end == self.store.dropped + len(self.store)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Structures are rebuilt from the store."""
        super().restore(arrays)
        needs, self._structures = self.needs, {}
        self.fit(needs)

    def _extend(self, need: Need, structure: Intervals) -> None:
        first = structure.end - self.store.dropped
        structure.extend(self.store.lifted(need, self.where, first, len(self.store)))

    def _found(self, runs: Runs, wanted: Sequence[Need]) -> Found:
        partials = {need: self._structures[need].query(runs.lo, runs.hi) for need in wanted}
        return Found(partials, runs.start, runs.end, runs.complete, 1)

    def _counts(self, instants: Ints) -> Ints:
        """How many events there were before each instant."""
        assert isinstance(self.store, EventRing)
        return self.store.dropped + np.searchsorted(self.store.at, instants)

    def _rows(self, window: Window, count: Ints, asked_at: Ints, wanted: Sequence[Need]) -> Runs:
        store = self.store
        assert isinstance(store, EventRing)
        begin = count - window.size
        oldest, newest = store.dropped, store.dropped + len(store)
        lost = (begin < oldest) & (oldest > 0)
        if bool(np.any(lost & (asked_at < self.kept_from))):
            raise WindowTooLarge(f"{window} was asked for at an instant whose events have been dropped")
        if store.began_at != LONG_AGO:
            lost |= begin < oldest
        hi = np.clip(count - window.to, oldest, newest)
        lo = np.minimum(np.clip(begin, oldest, None), hi)
        held = hi > lo
        start, end = np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)
        start[held], end[held] = store.at[lo[held] - oldest], store.at[hi[held] - oldest - 1] + 1
        known_from = store.known_since(window, wanted, self.where, self.keys)
        return Runs(lo, hi, start, end, ~lost & (~held | (start >= known_from)))
