"""A scan of the store: materialize_none where the elements are kept already.

The paper's materialize-none keeps the recent elements. A store does that for all groups, so a group that
is looked up rarely needs nothing of its own: no work at an insertion, and a fold of the window's elements
at a look-up. `MaterializeNone` is the same with elements of its own, for sequences without a store.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Partial
from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.store.need import Need, dtype_of
from muntin.store.ring import EventRing
from muntin.store.sequence import Sequence
from muntin.structure.intervals import Intervals
from muntin.structure.track import IntervalTrack


class Unkept(Intervals):
    """Knows how far the elements go, and no answer."""

    name = "materialize_none"
    components = frozenset(COMPONENTS)

    def extend(self, lifted: Partial) -> None:
        self.end += len(lifted[0])

    def rewind(self, end: int) -> None:
        self.end = end

    def forget(self, first: int) -> None:
        self.first = max(self.first, first)

    def can_answer(self, lo: Ints, hi: Ints) -> bool:
        return False

    def query(self, lo: Ints, hi: Ints) -> Partial:
        raise NotImplementedError("elements are with the store: ask the track")

    def nbytes(self) -> int:
        return 0

    def check(self) -> None:
        assert self.first <= self.end


class ScanTrack(IntervalTrack):
    """A component that is computed from the store at each look-up."""

    def __init__(self, store: Sequence, where: Expression | None, need: Need):
        super().__init__(store, where, need, Unkept)

    def _extend(self, lo: int, hi: int) -> None:
        """O(1): nothing is lifted, since nothing is kept."""
        self.structure.end += hi - lo

    def _scan(self, lo: Ints, hi: Ints) -> Partial:
        """O(W) for each run; events are folded as they are, without lifting them first."""
        if not self.store.holds_events:
            return super()._scan(lo, hi)
        ring, hi = cast(EventRing, self.store), np.maximum(lo, hi)
        first, dropped = int(lo.min()), ring.dropped
        part = slice(first - dropped, int(hi.max()) - dropped)
        value, valid = ring.column(self.need.input, self.where, part)
        into = self.component.start(dtype_of(self.need), len(lo))
        self.component.fold_runs(lo - first, hi - first, ring.at[part], value, valid, into)
        return into
