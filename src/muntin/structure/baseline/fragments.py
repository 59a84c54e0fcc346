"""Fragments: windows with a slide answered from pieces of the stream between the edges of windows.

What `panes` and `paired_windows` have in common; they differ in where they cut, and in which windows
share a cut.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Ints
from muntin.expression import Expression
from muntin.kernels.fragments import cut_events
from muntin.store.columns import Columns
from muntin.store.needs import Need, Needs, dtype_of
from muntin.store.ring import EventRing
from muntin.store.saved import Saved
from muntin.structure.intervals import check_rewind
from muntin.structure.rescan import RingSynopsis
from muntin.structure.synopsis import Found
from muntin.window import Window

# slicing: what panes and paired_windows are made of, partials of events between edges that windows share.
#
# The edges of all windows are known beforehand: each is a term of some progression `phase + i * step`. The
# next edge of every progression waits in a heap, so the common period of all of them, which can be
# astronomic (2 329 089 562 800 for slides of 1 to 30), never matters. Only fragments that hold an event are
# kept; one is found by the time of its first event, since no window begins or ends inside it.

_INT = np.dtype(np.int64)
Progression = tuple[int, int]  # (phase, step): edges at phase + i * step


class Slicing:
    """Fragments of the events of a ring, numbered as there, and their partials for some needs."""

    def __init__(
        self,
        progressions: Iterable[Progression],
        ring: EventRing,
        where: Expression | None,
        needs: Iterable[Need],
    ):
        edges = np.array(sorted({(phase % step, step) for phase, step in progressions}), np.int64)
        self.phase, self.step = edges[:, 0].copy(), edges[:, 1].copy()
        self.needs = tuple(sorted(needs, key=str))
        self.end = ring.dropped  # number of the next event to come
        self._ring = ring
        self._where = where
        self._edge = np.full(len(edges), LONG_AGO)  # next edge of each progression
        self._heap = np.arange(len(edges))
        self._names = {
            need: [f"{i} {need}" for i in range(len(COMPONENTS[need.component].identity(dtype_of(need))))]
            for need in self.needs
        }
        kinds = {
            name: kind
            for need, names in self._names.items()
            for name, (kind, _) in zip(
                names, COMPONENTS[need.component].identity(dtype_of(need)), strict=True
            )
        }
        # time and number of the first event of each fragment, then its partials
        self._fragments = Columns({"start": _INT, "first": _INT} | kinds)
        self.follow()

    def __len__(self) -> int:
        return len(self._fragments)

    @property
    def start(self) -> Ints:
        """Time of the first event of each fragment."""
        return self._fragments["start"]

    def follow(self) -> None:
        """Take in what changed in the ring; O(1) per event, and O(log progressions) per edge between them."""
        changed = max(self._ring.changed_from, self._ring.dropped)
        if changed < self.end:
            self.rewind(changed)
        lo, hi = self.end - self._ring.dropped, len(self._ring)
        if lo < hi:
            self._extend(lo, hi)

    def rewind(self, number: int) -> None:
        """Take back events from `number` on, and with them the rest of their fragment: O(1), for what is
        folded cannot be taken apart, and the ring brings it again."""
        check_rewind(self._ring.dropped, self.end, number)
        kept = int(np.searchsorted(self._fragments["first"], number, side="right")) - 1
        if kept >= 0 and number < self.end:
            self.end = max(int(self._fragments["first"][kept]), self._ring.dropped)
            self._fragments.truncate(kept)
            self._await_edges()

    def _await_edges(self) -> None:
        """The edges that come next are those after the last fragment: an event before them belongs to it."""
        self._edge[:] = LONG_AGO
        if len(self):
            self._edge[:] = self.start[-1] - (self.start[-1] - self.phase) % self.step + self.step
        self._heap[:] = np.argsort(self._edge)

    def forget(self) -> None:
        """Drop the fragments of which the ring has no event left; O(1) amortised each."""
        gone = int(np.searchsorted(self._fragments["first"], self._ring.dropped, side="right")) - 1
        if gone > 0:
            self._fragments.drop_first(gone)

    def query(self, start: Ints, end: Ints, wanted: Iterable[Need]) -> dict[Need, Partial]:
        """Partials of the events in each [start, end) between edges; O(log n + fragments) each."""
        lo, hi = np.searchsorted(self.start, start), np.searchsorted(self.start, end)
        first, last = (int(lo.min()), int(hi.max())) if len(lo) else (0, 0)
        part = slice(first, max(first, last))
        key = np.zeros(part.stop - part.start, np.int64)
        found: dict[Need, Partial] = {}
        for need in wanted:
            component = COMPONENTS[need.component]
            found[need] = component.start(dtype_of(need), len(start))
            cells = tuple(array[part] for array in self._cells(need))
            component.merge(lo - first, np.maximum(lo, hi) - first, 1, key, cells, found[need])
        return found

    def nbytes(self) -> int:
        arrays = (self.phase, self.step, self._edge, self._heap)
        return self._fragments.nbytes() + sum(array.nbytes for array in arrays)

    def check(self) -> None:
        self._fragments.check()
        # it has seen all that the ring holds
        assert self.end == self._ring.dropped + len(self._ring)
        # each fragment begins with an event after the last of the one before
        assert bool(np.all(np.diff(self.start) > 0))
        assert bool(np.all(np.diff(self._fragments["first"]) > 0))
        # a parent in the heap has no later edge than its children
        order = self._edge[self._heap]
        assert sorted(self._heap.tolist()) == list(range(len(self._edge)))
        assert all(order[(child - 1) // 2] <= order[child] for child in range(1, len(order)))
        # no two neighbouring fragments could have been one, and none should have been two
        whole = self._fragments["first"] >= self._ring.dropped
        again = Slicing(zip(self.phase, self.step, strict=True), self._ring, self._where, self.needs)
        np.testing.assert_array_equal(self.start[whole], again.start[len(again) - int(whole.sum()) :])
        # every partial is what its events fold to, in the same order
        for need in self.needs:
            for one, other in zip(self._cells(need), again._cells(need), strict=True):
                np.testing.assert_array_equal(one[whole], other[len(again) - int(whole.sum()) :])

    def _extend(self, lo: int, hi: int) -> None:
        """Fold the events with index in [lo, hi) of the ring."""
        ring, before = self._ring, len(self)
        at = np.ascontiguousarray(ring.at[lo:hi])
        slice_of, start_of = np.empty_like(at), np.empty_like(at)
        slices = cut_events(at, self.phase, self.step, self._edge, self._heap, before, slice_of, start_of)
        new_slices = np.arange(before, slices)
        new = {
            "start": start_of[: slices - before],
            "first": self.end + np.searchsorted(slice_of, new_slices),
        }
        for need, names in self._names.items():
            partial = COMPONENTS[need.component].start(dtype_of(need), slices - before)
            new |= dict(zip(names, partial, strict=True))
        self._fragments.extend(new)
        whole = np.zeros(1, np.int64), np.full(1, len(at))
        for need in self.needs:
            value, valid = ring.column(need.input, self._where, slice(lo, hi))
            COMPONENTS[need.component].fold(*whole, 0, slice_of, at, value, valid, self._cells(need))
        self.end += hi - lo

    def _cells(self, need: Need) -> Partial:
        return tuple(self._fragments[name] for name in self._names[need])


class Fragments(RingSynopsis):
    """Un-keyed time windows with SLIDE, over one or several slicings of the stream's events."""

    slicings: dict[tuple[Progression, ...], Slicing]  # by their edges
    _edges_of: dict[Window, tuple[Progression, ...]]

    @classmethod
    @abstractmethod
    def cut(cls, windows: Iterable[Window]) -> dict[Window, tuple[Progression, ...]]:
        """The edges between which the events of each window are folded; equal ones are shared."""

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """Cut the events again where edges or needs are new; O(events) for each such slicing."""
        before = getattr(self, "slicings", {})
        self._edges_of = self.cut(needs.windows)
        wanted: dict[tuple[Progression, ...], set[Need]] = {}
        for window, edges in self._edges_of.items():
            wanted.setdefault(edges, set()).update(needs.windows[window])
        self.slicings = {
            edges: before[edges]
            if edges in before and set(before[edges].needs) == some
            else Slicing(edges, self.store, self.where, some)
            for edges, some in wanted.items()
        }
        return super().fit(needs, changed)

    def insert(self) -> None:
        """O(1) per event and slicing, and per event of the fragment that one out of order falls in."""
        for slicing in self.slicings.values():
            slicing.follow()

    def settle(self) -> None:
        for slicing in self.slicings.values():
            slicing.forget()

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], keys: Ints | None, width: int
    ) -> Found:
        """O(log n + fragments in the window) for each instant."""
        located = self.locate(instants - window.size, instants - window.to, instants)
        slicing = self.slicings[self._edges_of[window]]
        return self.found(window, located, slicing.query(located.start, located.end, wanted), 1)

    def nbytes(self) -> int:
        return sum(slicing.nbytes() for slicing in self.slicings.values())

    def restore(self, saved: Saved) -> None:
        """Fragments are cut again from the ring."""
        super().restore(saved)
        self.slicings = {}
        self.fit(self.needs)

    def check(self) -> None:
        super().check()
        for slicing in self.slicings.values():
            slicing.check()
        for window, edges in self._edges_of.items():
            # windows begin and end at edges
            for back in (window.size, window.to):
                assert any((-back - phase) % step == 0 and window.slide % step == 0 for phase, step in edges)
