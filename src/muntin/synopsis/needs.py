"""Needs: which components of which windows the queries of a group ask for.

Kept up to date one demand at a time, so that a query more or less costs the same among ten or ten
thousand.
"""

from __future__ import annotations

from collections import Counter
from math import gcd

from muntin.synopsis.bands import BandPlace, band_of, place_of
from muntin.synopsis.contract import Need
from muntin.synopsis.grid import window_step
from muntin.window import Unit, Window

# What moves alike over edges alike: slide, and step of the coarsest grid with all edges, of a time window
Shape = tuple[int, int]


def shape_of(window: Window) -> Shape | None:
    """The shape of a time window with SLIDE; others have none."""
    return (window.slide, window_step(window)) if window.is_time and window.slide else None


class Needs:
    """
    >>> from muntin.query import Input
    >>> needs, minute = Needs(), Window("time", 60, slide=20)
    >>> needs.add(minute, Need(Input(None), "count"))
    >>> needs.reach("time"), needs.step
    (80, 20)
    """

    def __init__(self) -> None:
        self.windows: dict[Window, Counter[Need]] = {}
        self.components: Counter[Need] = Counter()
        self.bands: Counter[BandPlace] = Counter()  # demands whose filter is a band, by what it is of
        self.step = 0  # of the coarsest grid with all edges of the windows there ever were
        self.longest: dict[Shape, int] = {}  # size of the longest window of each shape
        self._reach: dict[Unit, int] = {}

    def add(self, window: Window, need: Need) -> None:
        """One more demand; O(1)."""
        self.windows.setdefault(window, Counter())[need] += 1
        self.components[need] += 1
        if band_of(need) is not None:
            self.bands[place_of(need)] += 1
        self.step = gcd(self.step, window_step(window))
        if shape := shape_of(window):
            self.longest[shape] = max(self.longest.get(shape, 0), window.size)
        self._reach[window.unit] = max(self.reach(window.unit), window.size + window.slide)

    def remove(self, window: Window, need: Need) -> None:
        """One demand less; O(1), or O(windows) when the longest window goes."""
        for counts in (self.windows[window], self.components):
            counts[need] -= 1
            if not counts[need]:
                del counts[need]
        if band_of(need) is not None:
            self.bands[place_of(need)] -= 1
            self.bands += Counter()  # without those that are 0
        if not self.windows[window]:
            del self.windows[window]
            self._shorten(window)
            if window.size + window.slide == self.reach(window.unit):
                left = (each for each in self.windows if each.unit == window.unit)
                self._reach[window.unit] = max((each.size + each.slide for each in left), default=0)

    def _shorten(self, window: Window) -> None:
        shape = shape_of(window)
        if shape and self.longest[shape] == window.size:
            left = max((each.size for each in self.windows if shape_of(each) == shape), default=0)
            if left:
                self.longest[shape] = left
            else:
                del self.longest[shape]

    def reach(self, unit: Unit) -> int:
        """How far back from an instant, or a count, the longest window and its slide go."""
        return self._reach.get(unit, 0)
