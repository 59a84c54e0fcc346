"""A track: one input of a sequence, followed by the structure that answers for its runs.

What `RunSynopsis` has one of per component, or per input where several needs share a structure. It
knows what the structure is fed with, and turns what it answers into partials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, cast

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.store.needs import EVERY_EVENT, Need, Needs, dtype_of
from muntin.store.ring import EventRing
from muntin.store.sequence import Sequence as Elements
from muntin.structure.distinct import DistinctCounter
from muntin.structure.intervals import Intervals, Positions, Unkept
from muntin.structure.quantile_tree import QuantileTree
from muntin.structure.synopsis import TextOrder, rank_of
from muntin.structure.value_order import OrderedElements
from muntin.window import Window

Asked = Callable[[Ints, Ints], Partial]

# the partial of one run [lo, hi) of element numbers, as plain Python numbers
Point = Callable[[int, int], tuple[Any, ...]]


class Track(ABC):
    """Follows `store`; `structure` is anything that can extend, rewind, forget, check and count bytes."""

    structure: Any
    text_order: TextOrder  # of its synopsis
    minds_windows = False  # whether it must be fitted whenever the windows of its group change

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        self.store = store
        self.where = where
        self.need = need

    def follow(self) -> None:
        """Take in what changed in the store since the last time; O(1) amortised per element."""
        first = min(max(self.store.changed_from, self.structure.first), self.structure.end)
        if self.structure.end > first:
            self.structure.rewind(first)  # events out of order come again, in their place
        self.catch_up()

    def catch_up(self) -> None:
        """Take in the elements that the structure has not seen."""
        lo, hi = self.structure.end - self.store.dropped, len(self.store)
        if lo < hi:
            self._extend(lo, hi)

    def fit(self, needs: Needs, components: Collection[str]) -> None:
        """The windows of the group have changed; `components` are those that this track is asked for."""
        self.catch_up()

    @abstractmethod
    def _extend(self, lo: int, hi: int) -> None:
        """Feed the elements with index in [lo, hi)."""

    def point_of(self, need: Need) -> Point:
        """How a need is asked for one run at a time; good until the track is fitted anew."""

        def point(lo: int, hi: int) -> tuple[Any, ...]:
            (partial,) = self.query([need], np.array([lo]), np.array([hi])).values()
            return tuple(array.item() for array in partial)

        return point

    @abstractmethod
    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        """Partials of runs of element numbers, for the needs it serves."""

    def asked_with(self, need: Need) -> Hashable:
        """Needs that are alike can be asked for together, each over runs of its own."""
        return need

    def asked(self, needs: Sequence[Need]) -> Asked:
        """How needs that are alike are asked for, each over one run: made once, for many times."""
        need = needs[0]
        return lambda lo, hi: self.query([need], lo, hi)[need]

    def known_since(self, window: Window, wanted: Sequence[Need]) -> dict[Need, int]:
        """The instant from which on each need has been kept, on the edges of a window."""
        return {need: self.store.known_since(window, need, self.where, ()) for need in wanted}


class IntervalTrack(Track):
    """A component whose partials merge."""

    def __init__(self, store: Elements, where: Expression | None, need: Need, kind: type[Intervals]):
        super().__init__(store, where, need)
        self.component = COMPONENTS[need.component]
        self._counts_all = where is None and need == EVERY_EVENT and store.holds_events
        self._kind = kind = Positions if self._counts_all else kind
        self.minds_windows = kind.takes_widths
        self._widths: list[tuple[int, int]] = []
        self.structure = kind(self.component, dtype_of(need), store.dropped)

    def fit(self, needs: Needs, components: Collection[str]) -> None:
        """A structure made for given widths is made anew when they change; O(elements)."""
        if self._kind.takes_widths:
            widths = sorted(self._width(window) for window in needs.windows)
            if widths != self._widths:
                self._widths = widths
                dtype, first = dtype_of(self.need), self.store.dropped
                self.structure = self._kind.of_widths(self.component, dtype, first, widths)
        super().fit(needs, components)

    def _width(self, window: Window) -> tuple[int, int]:
        """A window in elements."""
        return window.size // self.store.unit, window.to // self.store.unit

    def _extend(self, lo: int, hi: int) -> None:
        if self._counts_all:
            self.structure.extend((np.broadcast_to(np.int64(0), hi - lo),))  # only how many there are matters
        else:
            self.structure.extend(self.store.lifted(self.need, self.where, lo, hi))

    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        if self.structure.can_answer(lo, hi):
            return {self.need: self.structure.query(lo, hi)}
        return {self.need: self._scan(lo, hi)}

    def point_of(self, need: Need) -> Point:
        if type(self.structure).can_answer is not Intervals.can_answer:
            return super().point_of(need)
        point: Point = self.structure.point
        return point

    def _scan(self, lo: Ints, hi: Ints) -> Partial:
        first, last = int(lo.min()), max(int(hi.max()), int(lo.min()))
        dropped = self.store.dropped
        lifted = self.store.lifted(self.need, self.where, first - dropped, last - dropped)
        into = self.component.start(dtype_of(self.need), len(lo))
        key = np.zeros(last - first, np.int64)
        self.component.merge(lo - first, np.maximum(lo, hi) - first, 1, key, lifted, into)
        return into


class _ValueTrack(Track):
    """An input whose single values matter; only a ring has them."""

    store: EventRing

    def _extend(self, lo: int, hi: int) -> None:
        self.structure.extend(*self.store.column(self.need.input, self.where, slice(lo, hi)))


class QuantileTrack(_ValueTrack):
    """All quantiles of one input, whatever their phi."""

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need)
        self.structure = QuantileTree(dtype_of(need), store.dropped)

    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        value, count = self.structure.query(lo, hi, [need.parameters[0] for need in wanted])
        return {need: (value[:, column], count) for column, need in enumerate(wanted)}


class DistinctTrack(_ValueTrack):
    """How many different values of one input."""

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need)
        self.structure = DistinctCounter(dtype_of(need), store.dropped)

    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        return {self.need: (self.structure.query(lo, hi),)}


class ModeTrack(_ValueTrack):
    """The most frequent value of one input."""

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need)
        self.structure = OrderedElements(dtype_of(need), store.dropped)

    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        return {self.need: self.structure.query(lo, hi, rank_of(self.need.input, self.text_order))}


class Scanned(Unkept):
    """Has no answer: the track computes it from the store."""

    name = "materialize_none"

    def can_answer(self, lo: Ints, hi: Ints) -> bool:
        return False

    def query(self, lo: Ints, hi: Ints) -> Partial:
        raise NotImplementedError("elements are with the store: ask the track")


class ScanTrack(IntervalTrack):
    """A component that is computed from the store at each look-up: materialize_none where the elements are kept.

    The paper's materialize-none keeps the recent elements. A store does that for all groups, so a group that is looked
    up rarely needs nothing of its own: no work at an insertion, and a fold of the window's elements at a look-up.
    `MaterializeNone` is the same with elements of its own, for sequences without a store.
    """

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need, Scanned)

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
