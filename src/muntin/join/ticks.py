"""Ticks: the instants at which a query is answered, numbered, so that visibility is a range of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Ints


@dataclass(frozen=True)
class Slides:
    """The multiples of a slide: tick `k` is at `k * slide`.

    >>> Slides(10).next_after(np.array([9, 10, 11]))
    array([1, 2, 2])
    """

    slide: int

    def next_after(self, instant: Ints) -> Ints:
        """Number of the first tick after each instant."""
        return instant // self.slide + 1

    def at(self, number: Ints) -> Ints:
        """Instants of some ticks."""
        return number * self.slide


@dataclass(frozen=True)
class Calls:
    """The instants that `advance` was called for, the last of them and perhaps the one before."""

    instants: Ints

    def next_after(self, instant: Ints) -> Ints:
        return np.searchsorted(self.instants, instant, "right")

    def at(self, number: Ints) -> Ints:
        return self.instants[number]


Ticks = Slides | Calls
