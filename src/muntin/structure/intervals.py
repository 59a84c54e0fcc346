"""What B-INT, L-INT, R-INT and their kin have in common: aggregates over runs of positions.

A *sequence* (events of a ring, or slices) grows at one end and is forgotten at the other. Its
elements have numbers, 0 for the first ever, which never change. For one component an `Intervals`
keeps whatever lets it answer any run `[lo, hi)` of numbers that is still remembered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import Any, ClassVar, Self

import numpy as np

from muntin.aggregates.component import COMPONENTS, Component
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints


def known_runs(first: int, end: int, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """The runs as asked, but empty ones moved inside; ValueError if elements of one are not remembered.

    >>> known_runs(10, 20, np.array([10, 25]), np.array([12, 3]))
    (array([10, 20]), array([12, 20]))
    """
    unknown = (lo < hi) & ((lo < first) | (hi > end))
    if bool(unknown.any()):
        raise not_remembered(first, end, lo, hi, int(unknown.argmax()))
    start = np.clip(np.ascontiguousarray(lo, np.int64), first, end)
    return start, np.clip(np.ascontiguousarray(hi, np.int64), start, end)


def not_remembered(first: int, end: int, lo: Ints, hi: Ints, run: int) -> ValueError:
    """The error of asking for a run of which elements are not remembered, for kernels that find out
    themselves."""
    return ValueError(f"[{lo[run]}, {hi[run]}) is asked for, [{first}, {end}) is remembered")


def check_rewind(first: int, end: int, to: int) -> None:
    """ValueError if there is no element to rewind to."""
    if not first <= to <= end:
        raise ValueError(f"cannot rewind to {to}: {first} to {end} are remembered")


class Intervals(ABC):
    """Aggregates of one component over a sequence.

    Elements arrive as *lifted* partials: the component's state arrays over one event each (a NULL is
    the identity), or over one slice. Answers are partials again, so aggregates do not see which
    structure computed them.
    """

    name: ClassVar[str]
    components: ClassVar[Set[str]]  # names of the components it can serve
    takes_widths: ClassVar[bool] = False  # whether it is made for windows of given widths

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        """Of values of `dtype` (float64 or int64); the first element to come has number `first`."""
        self.component = component
        self.dtype = dtype
        self.first = first  # number of the oldest element that may be asked for
        self.end = first  # number of the next element to come

    @classmethod
    def of_widths(
        cls, component: Component, dtype: np.dtype, first: int, widths: Sequence[tuple[int, int]]
    ) -> Self:
        """One that `takes_widths`, for windows (from, to) in elements before now."""
        raise NotImplementedError(f"{cls.name} serves windows of any width")

    @abstractmethod
    def extend(self, lifted: Partial) -> None:
        """Append elements. Must leave the state that appending them one by one would."""

    def rewind(self, end: int) -> None:
        """Take back the elements numbered `end` and later: events out of order will bring them again.

        O(1) where what goes beyond `end` is overwritten when the elements come again; others do more.
        """
        check_rewind(self.first, self.end, end)
        self.end = end

    @abstractmethod
    def forget(self, first: int) -> None:
        """Elements numbered below `first` will not be asked for any more."""

    def can_answer(self, lo: Ints, hi: Ints) -> bool:
        """Whether it knows these runs; those that know only some say so here."""
        return True

    @abstractmethod
    def query(self, lo: Ints, hi: Ints) -> Partial:
        """Partials of many runs `[lo, hi)`, `first <= lo`, `hi <= end`; the identity where hi <= lo."""

    def point(self, lo: int, hi: int) -> tuple[Any, ...]:
        """The partial of one run as plain Python numbers; for single look-ups, where arrays are the cost."""
        return tuple(array.item() for array in self.query(np.array([lo]), np.array([hi])))

    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant."""


class Unkept(Intervals):
    """Knows how far the elements go, and keeps none of them."""

    components: ClassVar[Set[str]] = COMPONENTS.keys()

    def extend(self, lifted: Partial) -> None:
        self.end += len(lifted[0])

    def rewind(self, end: int) -> None:
        self.end = end

    def forget(self, first: int) -> None:
        self.first = max(self.first, first)

    def nbytes(self) -> int:
        return 0

    def check(self) -> None:
        assert self.first <= self.end


class Positions(Unkept):
    """COUNT(*) of all events over a run of events: the length of the run. Nothing is kept; O(1).

    >>> events = Positions(COMPONENTS["count"], np.dtype(np.int64))
    >>> events.extend((np.ones(9, np.int64),))
    >>> events.query(np.array([2, 5]), np.array([9, 4]))
    (array([7, 0]),)
    """

    name = "positions"
    components: ClassVar[Set[str]] = frozenset({"count"})

    def query(self, lo: Ints, hi: Ints) -> Partial:
        return (np.maximum(hi - lo, 0),)

    def point(self, lo: int, hi: int) -> tuple[Any, ...]:
        return (max(hi - lo, 0),)
