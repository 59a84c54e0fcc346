"""A join query at work: what it knows of its streams, and how far its answers have been given out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.coverage import Coverage
from muntin.join_query import JoinQuery

Both = tuple[int, int]  # of the left side, and of the right one


@dataclass
class JoinRegistration:
    """`emitted_to`: windows that closed up to this instant are no longer owed (None: none closed)."""

    query: JoinQuery
    emitted_to: int | None
    began_at: int | None  # `emitted_to` when it was registered
    since: Both = (0, 0)  # events with smaller numbers are not for it: they lack some of its columns
    known_from: Both = (LONG_AGO, LONG_AGO)  # all matches of events from these times on are kept
    emitted: int = 0  # rows given out by advance
    missed: int = 0  # windows that closed but had to be forgotten before advance asked for them
    overflows: int = 0  # rows left out since a value of them does not exist

    def hosts(self, query: JoinQuery) -> bool:
        """Whether all that another query needs is kept for this one anyway."""
        return all(
            mine.window.size >= its.window.size and set(mine.columns) >= set(its.columns)
            for mine, its in zip(self.query.sides, query.sides, strict=True)
        )

    def complete(self, instants: Ints) -> Bools:
        """At which instants both windows are known from their start."""
        left, right = (side.window.size for side in self.query.sides)
        known: Bools = (instants - left >= self.known_from[0]) & (instants - right >= self.known_from[1])
        return known

    def coverage(self, now: int | None) -> Coverage:
        """Whether both windows are known from their start, or from when on they are."""
        known = max(self.known_from)
        if known == LONG_AGO or now is None:
            return Coverage(known == LONG_AGO)
        slide = self.query.slide
        sides = zip(self.known_from, self.query.sides, strict=True)
        reached = max(since + side.window.size for since, side in sides if since > LONG_AGO)
        reached = -(-reached // slide) * slide if slide else reached
        return Coverage(now >= reached, np.datetime64(known, "us"), np.datetime64(reached, "us"))

    def ranges(self, first: int, last: int) -> tuple[Both, Both]:
        """Times [from, to) of the events that the windows hold at instants from `first` to `last`."""
        left, right = (side.window for side in self.query.sides)
        return (first - left.size, last - left.to), (first - right.size, last - right.to)

    @property
    def visible_for(self) -> tuple[Both, Both]:
        """How long after each of its events a match can be seen: after the first, and up to the second."""
        left, right = (side.window for side in self.query.sides)
        return (left.to, left.size), (right.to, right.size)

    def visible(self, left_at: Ints, right_at: Ints) -> tuple[Ints, Ints]:
        """The instants between which matches can be seen: after the first, and up to the second."""
        left, right = self.visible_for
        return np.maximum(left_at + left[0], right_at + right[0]), np.minimum(
            left_at + left[1], right_at + right[1]
        )
