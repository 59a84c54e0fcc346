"""Needs: which components of which windows the queries of a group ask for.

Kept up to date one demand at a time, so that a query more or less costs the same among ten or ten
thousand.
"""

from __future__ import annotations

from collections import Counter
from math import gcd

from muntin.synopsis.bands import BandPlace, band_of, place_of
from muntin.synopsis.contract import Need
from muntin.synopsis.greatest import Greatest
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
    True
    >>> needs.reach("time"), needs.step
    (80, 20)
    """

    def __init__(self) -> None:
        self.windows: dict[Window, Counter[Need]] = {}
        self.components: Counter[Need] = Counter()
        self.bands: Counter[BandPlace] = Counter()  # demands whose filter is a band, by what it is of
        self.step = 0  # of the coarsest grid with all edges of the windows
        self._steps: Counter[int] = Counter()  # of each window
        self._reach: dict[Unit, Greatest] = {"time": Greatest(), "rows": Greatest()}
        self._sizes: dict[Shape, Greatest] = {}  # of the windows of each shape

    def add(self, window: Window, need: Need) -> bool:
        """One more demand; whether its component is new. O(log windows)."""
        if window not in self.windows:
            self.windows[window] = Counter()
            self._reach[window.unit].add(window.size + window.slide)
            if shape := shape_of(window):
                self._sizes.setdefault(shape, Greatest()).add(window.size)
            self._steps[window_step(window)] += 1
            self.step = gcd(self.step, window_step(window))
        self.windows[window][need] += 1
        self.components[need] += 1
        if band_of(need) is not None:
            self.bands[place_of(need)] += 1
        return self.components[need] == 1

    def remove(self, window: Window, need: Need) -> bool:
        """One demand less; whether nobody needs its component any more. O(log windows), or O(different
        steps of windows) when a step goes."""
        _take(self.windows[window], need)
        if band_of(need) is not None:
            _take(self.bands, place_of(need))
        if not self.windows[window]:
            del self.windows[window]
            self._reach[window.unit].remove(window.size + window.slide)
            if shape := shape_of(window):
                self._sizes[shape].remove(window.size)
            if not _take(self._steps, window_step(window)):
                self.step = gcd(*self._steps)
        return not _take(self.components, need)

    def reach(self, unit: Unit) -> int:
        """How far back from an instant, or a count, the longest window and its slide go."""
        return self._reach[unit].value or 0

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


def _take(counts: Counter, what: object) -> int:  # type: ignore[type-arg]
    """Count one thing less; how many are left."""
    counts[what] -= 1
    left: int = counts[what]
    if not left:
        del counts[what]
    return left
