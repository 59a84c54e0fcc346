"""Fragments: windows with a slide answered from pieces of the stream between the edges of windows.

What `panes` and `paired_windows` have in common; they differ in where they cut, and in which windows
share a cut.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence

from muntin.arrays import Ints
from muntin.synopsis.found import Found
from muntin.synopsis.need import Need
from muntin.synopsis.needs import Needs
from muntin.synopsis.rescan import RingSynopsis
from muntin.synopsis.saved import Saved
from muntin.synopsis.slicing import Progression, Slicing
from muntin.window import Window


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
