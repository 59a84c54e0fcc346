"""What B-INT, L-INT, R-INT and their kin have in common: aggregates over runs of positions.

A *sequence* (events of a ring, or slices) grows at one end and is forgotten at the other. Its
elements have numbers, 0 for the first ever, which never change. For one component an `Intervals`
keeps whatever lets it answer any run `[lo, hi)` of numbers that is still remembered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from muntin.aggregate.component import Component
from muntin.aggregate.contract import Partial
from muntin.arrays import Ints


class Intervals(ABC):
    """Aggregates of one component over a sequence.

    Elements arrive as *lifted* partials: the component's state arrays over one event each (a NULL is
    the identity), or over one slice. Answers are partials again, so aggregates do not see which
    structure computed them.
    """

    name: ClassVar[str]
    components: ClassVar[frozenset[str]]  # names of the components it can serve
    takes_widths: ClassVar[bool] = False  # whether it is made for windows of given widths

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        """Of values of `dtype` (float64 or int64); the first element to come has number `first`."""
        self.component = component
        self.dtype = dtype
        self.first = first  # number of the oldest element that may be asked for
        self.end = first  # number of the next element to come

    @abstractmethod
    def extend(self, lifted: Partial) -> None:
        """Append elements. Must leave the state that appending them one by one would."""

    @abstractmethod
    def rewind(self, end: int) -> None:
        """Take back the elements numbered `end` and later: events out of order will bring them again."""

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
