"""A range track: the bands of one attribute, over the events of a ring, answered by a range tree."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from muntin.aggregate.contract import Partial
from muntin.arrays import Ints
from muntin.band import sort_keys
from muntin.expression import Expression
from muntin.query import Input
from muntin.synopsis.bands import band_of, ends_of, place_of
from muntin.synopsis.need import Need, dtype_of
from muntin.synopsis.needs import Needs
from muntin.synopsis.range_tree import RangeTree
from muntin.synopsis.ring import EventRing
from muntin.synopsis.sequence import Sequence as Elements
from muntin.synopsis.track import Asked, Point, Track
from muntin.window import Window


class RangeTrack(Track):
    """All bands of one attribute, and all components of one argument."""

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need)
        self._attribute, self._argument = map(Input, place_of(need))
        self._components: list[str] = []
        self._make()

    def fit(self, needs: Needs, components: Collection[str]) -> None:
        """A tree for other components is made anew; O(n log n)."""
        if sorted(components) != self._components:
            self._components = sorted(components)
            self._make()
        super().fit(needs, components)

    def _make(self) -> None:
        self.structure = RangeTree(self._components, dtype_of(self.need), self.store.dropped)

    def _extend(self, lo: int, hi: int) -> None:
        assert isinstance(self.store, EventRing)
        value, valid = self.store.column(self._argument, self.where, slice(lo, hi))
        attribute, known = self.store.column(self._attribute, None, slice(lo, hi))
        self.structure.extend(sort_keys(attribute), value, valid & known)

    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        """All bands in one call per component."""
        by_component: dict[str, list[Need]] = {}
        for need in wanted:
            by_component.setdefault(need.component, []).append(need)
        found: dict[Need, Partial] = {}
        runs = len(lo)
        for component, needs in by_component.items():
            low, high = ends_of(needs)
            many_lo, many_hi = np.tile(lo, len(needs)), np.tile(hi, len(needs))
            partial = self.structure.query(
                component, many_lo, many_hi, np.repeat(low, runs), np.repeat(high, runs)
            )
            for number, need in enumerate(needs):
                found[need] = tuple(array[number * runs : (number + 1) * runs] for array in partial)
        return found

    def point_of(self, need: Need) -> Point:
        band = band_of(need)
        assert band is not None
        component, low, high, point = need.component, band.low, band.high, self.structure.point
        return lambda lo, hi: point(component, lo, hi, low, high)

    def alike(self, need: Need) -> Hashable:
        return need.component

    def asked(self, needs: Sequence[Need]) -> Asked:
        """Each need's own band over its own run."""
        component, (low, high) = needs[0].component, ends_of(needs)
        return lambda lo, hi: self.structure.query(component, lo, hi, low, high)

    def known_since(self, window: Window, wanted: Sequence[Need]) -> dict[Need, int]:
        both = [Need(input, "count") for input in (self._argument, self._attribute)]
        return dict.fromkeys(wanted, max(super().known_since(window, both).values()))
