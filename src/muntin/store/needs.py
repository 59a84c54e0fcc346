"""Needs: which components of which windows the queries of a group ask for.

Kept up to date one demand at a time, so that a query more or less costs the same among ten or ten
thousand.
"""

from __future__ import annotations

from math import gcd

from muntin.counting import count
from muntin.store.grid import window_step
from muntin.store.need import BandPlace, Greatest, Need, band_of, place_of
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
    True
    >>> needs.reach("time"), needs.step
    (80, 20)
    """

    def __init__(self) -> None:
        self.windows: dict[Window, dict[Need, int]] = {}
        self.components: dict[Need, int] = {}
        self.bands: dict[BandPlace, int] = {}  # demands whose filter is a band, by what it is of
        self.step = 0  # of the coarsest grid with all edges of the windows
        self._steps: dict[int, int] = {}  # of each window
        self._reach: dict[Unit, Greatest] = {"time": Greatest(), "rows": Greatest()}
        self._sizes: dict[Shape, Greatest] = {}  # of the windows of each shape

    def add(self, window: Window, need: Need) -> bool:
        """One more demand; whether its component is new. O(log windows)."""
        asked = self.windows.get(window)
        if asked is None:
            asked = self.windows[window] = {}
            self._reach[window.unit].add(window.size + window.slide)
            if shape := shape_of(window):
                if shape not in self._sizes:
                    self._sizes[shape] = Greatest()
                self._sizes[shape].add(window.size)
            count(self._steps, window_step(window))
            self.step = gcd(self.step, window_step(window))
        count(asked, need)
        if band_of(need) is not None:
            count(self.bands, place_of(need))
        return count(self.components, need) == 1

    def remove(self, window: Window, need: Need) -> bool:
        """One demand less; whether nobody needs its component any more. O(log windows), or O(different
        steps of windows) when a step goes."""
        count(self.windows[window], need, -1)
        if band_of(need) is not None:
            count(self.bands, place_of(need), -1)
        if not self.windows[window]:
            del self.windows[window]
            self._reach[window.unit].remove(window.size + window.slide)
            if shape := shape_of(window):
                self._sizes[shape].remove(window.size)
            if not count(self._steps, window_step(window), -1):
                self.step = gcd(*self._steps)
        return not count(self.components, need, -1)

    def reach(self, unit: Unit) -> int:
        """How far back from an instant, or a count, the longest window and its slide go."""
        return self._reach[unit].value or 0

    def longest_of(self, shape: Shape) -> int:
        """The size of the longest window of a shape, 0 if there is none."""
        return self._sizes[shape].value or 0 if shape in self._sizes else 0

    def longest(self) -> dict[Shape, int]:
        """The size of the longest window of each shape; O(shapes)."""
        return {shape: size for shape, sizes in self._sizes.items() if (size := sizes.value)}

    def __eq__(self, other: object) -> bool:
        """Whether the same is asked for, however it came to that."""
        return isinstance(other, Needs) and all(
            mine == theirs
            for mine, theirs in (
                (self.windows, other.windows), (self.components, other.components), (self.bands, other.bands),
                (self.step, other.step), (self._reach, other._reach),
            )
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]
