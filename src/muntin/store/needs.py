"""Needs: which components of which windows the queries of a group ask for.

Kept up to date one demand at a time, so that a query more or less costs the same among ten or ten
thousand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import gcd
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from muntin.aggregates.contract import kept_type
from muntin.arrays import Ints
from muntin.band import Band
from muntin.component.pairs import pair_dtype
from muntin.expression import Expression
from muntin.query import Input
from muntin.store.grid import window_step
from muntin.window import Unit, Window

# A need: one component of one input, the smallest thing that queries ask of shared state.


class Need(NamedTuple):
    """One component of one input that some call of the group reads."""

    input: Input
    component: str
    parameters: tuple[Any, ...] = ()  # of holistic components: the phi of a quantile

    def __str__(self) -> str:
        name = " ".join([self.component, *map(str, self.parameters)])
        return f"{name} of {self.input}"


EVERY_EVENT = Need(Input(None), "count")  # COUNT(*)


def storage(kind: pa.DataType) -> np.dtype:
    """How values of a type are kept: floats as float64, all else as int64 (text as codes); pairs as two numbers."""
    if pa.types.is_struct(kind):
        return pair_dtype(storage(kept_type(kind)))
    return np.dtype(np.float64 if pa.types.is_floating(kind) else np.int64)


def dtype_of(need: Need) -> np.dtype:
    """How the values of a need's input are kept."""
    argument = need.input.argument
    return np.dtype(np.int64) if argument is None else storage(argument.type)


# Needs whose filter is a band: what they have in common, and where their bands end.

BandPlace = tuple[Expression, Expression | None]


def band_of(need: Need) -> Band | None:
    """The band that a need is filtered by, if its filter is one."""
    kept = need.input.filter
    return None if kept is None else kept.band


def place_of(need: Need) -> BandPlace:
    """What needs have in common that one range track serves: attribute and argument."""
    band = band_of(need)
    assert band is not None, "a range tree serves bands only"
    return band.attribute, need.input.argument


def ends_of(needs: Sequence[Need]) -> tuple[Ints, Ints]:
    """The low and high ends of the bands of needs."""
    bands = [band for need in needs if (band := band_of(need)) is not None]
    ends = np.array([(band.low, band.high) for band in bands], np.int64)
    return ends[:, 0].copy(), ends[:, 1].copy()


# A multiset of numbers that knows its greatest: how far back the longest of many windows reaches.


class Greatest:
    """To add a number and to remove one cost O(log n) amortised.

    >>> sizes = Greatest()
    >>> sizes.add(60), sizes.add(300), sizes.add(300), sizes.remove(300), sizes.value
    (None, None, None, None, 300)
    >>> sizes.remove(300)
    >>> sizes.value
    60
    """

    def __init__(self, numbers: Mapping[int, int] = MappingProxyType({})) -> None:
        self._count = dict(numbers)
        self._heap = [
            -number for number in numbers
        ]  # every number there is once, negated; and some that are gone
        heapify(self._heap)

    @property
    def value(self) -> int | None:
        """The greatest number, None if there is none."""
        while self._heap and -self._heap[0] not in self._count:
            heappop(self._heap)
        return -self._heap[0] if self._heap else None

    def add(self, number: int) -> None:
        if count(self._count, number) == 1:
            heappush(self._heap, -number)

    def remove(self, number: int) -> None:
        count(self._count, number, -1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Greatest) and self._count == other._count

    __hash__ = None  # type: ignore[assignment]


class Shape(NamedTuple):
    """What time windows have in common that move alike over edges alike."""

    slide: int
    step: int  # of the coarsest grid with all edges
    offset: int = 0  # of the slide


def shape_of(window: Window) -> Shape | None:
    """The shape of a time window with SLIDE; others have none."""
    return (
        Shape(window.slide, window_step(window), window.offset) if window.is_time and window.slide else None
    )


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
        self._reach: dict[Unit, Greatest] = {"time": Greatest(), "rows": Greatest(), "session": Greatest()}
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


Thing = TypeVar("Thing")


def count(counts: dict[Thing, int], what: Thing, step: int = 1) -> int:
    """Count something once more, or `step` times; returns how often it is there now.

    A `Counter` takes three times as long for what is new, and keeps what is gone.

    >>> counts = {"a": 1}
    >>> count(counts, "a"), count(counts, "b"), count(counts, "b", -1), counts
    (2, 1, 0, {'a': 2})
    """
    now = counts.get(what, 0) + step
    if now:
        counts[what] = now
    else:
        del counts[what]
    return now
