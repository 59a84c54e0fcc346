"""A range track: the bands of one attribute, over the events of a ring, answered by a range tree."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from muntin.aggregate.contract import Partial
from muntin.band import sort_keys
from muntin.expression import Expression
from muntin.query import Input
from muntin.synopsis.contract import Ints, Need, dtype_of
from muntin.synopsis.needs import Needs
from muntin.synopsis.range_tree import RangeTree
from muntin.synopsis.ring import EventRing
from muntin.synopsis.sequence import Sequence as Elements
from muntin.synopsis.track import Asked, Track
from muntin.window import Window


class RangeTrack(Track):
    """All bands of one attribute, and all components of one argument."""

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need)
        self._attribute, self._argument = Input(attribute_of(need)), Input(need.input.argument)
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

    def point(self, need: Need, lo: int, hi: int) -> tuple[Any, ...]:
        assert need.input.filter is not None
        band = need.input.filter.band
        assert band is not None
        partial: tuple[Any, ...] = self.structure.point(need.component, lo, hi, band.low, band.high)
        return partial

    def alike(self, need: Need) -> Hashable:
        return need.component

    def asked(self, needs: Sequence[Need]) -> Asked:
        """Each need's own band over its own run."""
        component, (low, high) = needs[0].component, ends_of(needs)
        return lambda lo, hi: self.structure.query(component, lo, hi, low, high)

    def known_since(self, window: Window, wanted: Sequence[Need]) -> dict[Need, int]:
        both = [Need(input, "count") for input in (self._argument, self._attribute)]
        return dict.fromkeys(wanted, max(super().known_since(window, both).values()))


def attribute_of(need: Need) -> Expression:
    """The attribute whose band a need is filtered by."""
    assert need.input.filter is not None
    assert need.input.filter.band is not None
    return need.input.filter.band.attribute


def ends_of(needs: Sequence[Need]) -> tuple[Ints, Ints]:
    """The low and high ends of the bands of needs."""
    bands = [need.input.filter.band for need in needs if need.input.filter is not None]
    ends = np.array([(band.low, band.high) for band in bands if band is not None], np.int64)
    return ends[:, 0].copy(), ends[:, 1].copy()


def place_of(need: Need) -> tuple[Expression, Expression | None]:
    """What needs have in common that one range track serves: attribute and argument."""
    return attribute_of(need), need.input.argument


def columns_of_bands(needs: Iterable[Need]) -> set[Expression]:
    """What a ring must keep for range tracks: arguments and attributes, and no predicate at all."""
    places = {place_of(need) for need in needs}
    return {column for place in places for column in place if column is not None}
