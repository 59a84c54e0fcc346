"""Silence: the instants at which a query has nothing to say, which are never visited.

Two events a year apart, under `SLIDE 1 SECOND`, have 31 million instants between them. A keyed query has rows
at the few of them whose windows hold an event; under EMIT CHANGES a query has rows only where an event enters
or leaves a window. Both follow from the times of what is stored, so their cost does not grow with the gap.

Instants are numbered by the ticks of the query's `Pace`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import Ints
from muntin.query import Query
from muntin.shard.read.reading import reading_of
from muntin.shard.state import State
from muntin.window import Pace, Window

# so many instants are tested one by one, whatever is stored: a ring of millions need not be read for one instant
_FEW = 1024

Served = tuple[int, Window]  # a window, and the group that serves it


@dataclass(frozen=True)
class Spans:
    """Ticks: ranges from `first` to `last`, both included, ascending and apart.

    >>> spans = Spans.union([(np.array([1, 8]), np.array([3, 8])), (np.array([3]), np.array([5]))])
    >>> spans.count, spans.take(6).tolist(), spans.take(2).tolist()
    (6, [1, 2, 3, 4, 5, 8], [1, 2])
    """

    first: Ints
    last: Ints

    @classmethod
    def of(cls, ticks: Ints) -> Spans:
        return cls(ticks, ticks)

    @classmethod
    def between(cls, first: int, last: int) -> Spans:
        return cls(np.array([first]), np.array([last]))

    @classmethod
    def union(cls, ranges: Sequence[tuple[Ints, Ints]]) -> Spans:
        """Ranges in any order that may overlap, merged; O(n log n)."""
        first, last = (np.concatenate(side) for side in zip(*ranges, strict=True))
        some = first <= last
        first, last = first[some], last[some]
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        begins = np.ones(len(first), np.bool_)
        begins[1:] = first[1:] > last[:-1] + 1
        ends = np.append(begins[1:], True)[: len(first)]
        return cls(first[begins], last[ends])

    @cached_property
    def count(self) -> int:
        return len(self.first) if self.first is self.last else int((self.last - self.first + 1).sum())

    def take(self, most: int) -> Ints:
        """The first ticks, so many at most."""
        if self.first is self.last:
            return self.first[:most]
        if len(self.first) == 1:
            first = int(self.first[0])
            return np.arange(first, min(int(self.last[0]) + 1, first + most))
        size = self.last - self.first + 1
        before = np.minimum(np.cumsum(size) - size, most)
        size = np.minimum(size, most - before)
        return np.repeat(self.first - before, size) + np.arange(int(size.sum()))


class Silence:
    """Which ticks of queries need a visit, found once for all queries that look at the same windows."""

    def __init__(self, state: State):
        self._state = state
        self._known: dict[Hashable, Spans] = {}

    def ticks(self, name: str, query: Query, first: int, last: int) -> Spans:
        """The ticks from `first` to `last` at which the query may have rows."""
        if not (query.keys or query.emits_changes):  # an un-keyed query has a row in silence, too
            return self._all(first, last)
        is_few = last - first < _FEW
        reading = reading_of(self._state, name)
        what: tuple[Hashable, ...] = (reading.same_presence, query.pace, first, last)
        windows: Collection[Served] = ()
        if query.emits_changes:  # who could not leave for want of a value does once every window is empty
            placed = self._state.manager.placements[name].all()
            of = [each for each in placed if each[1].window.is_time or not is_few]
            windows = tuple(dict.fromkeys((number, demand.window) for number, demand in of))
            what = (*what, windows)
        if what not in self._known:
            windows = windows or reading.presence_windows
            if is_few:
                found = self._one_by_one(windows, query, first, last)
            elif query.emits_changes:
                found = self._changing(windows, query.pace, first, last)
            else:
                found = self._held(windows, query.pace, first, last)
            self._known[what] = found
        return self._known[what]

    def _all(self, first: int, last: int) -> Spans:
        if (first, last) not in self._known:
            self._known[first, last] = Spans.between(first, last)
        return self._known[first, last]

    def _one_by_one(self, windows: Collection[Served], query: Query, first: int, last: int) -> Spans:
        ticks = np.arange(first, last + 1)
        if not query.keys:
            return Spans.of(ticks)
        instants = query.pace.at(ticks)
        holds = np.logical_or.reduce(
            [
                self._state.synopses[number].holds_events(window, window.settle(instants))
                for number, window in windows
            ]
        )
        if query.emits_changes:  # in the first window of a silence everyone leaves
            holds[1:] |= holds[:-1].copy()
            holds[0] = True
        return Spans.of(ticks[holds])

    def _held(self, windows: Collection[Served], pace: Pace, first: int, last: int) -> Spans:
        """Where a window may hold an event; O(elements stored)."""
        ranges = []
        for window in windows:
            seen = self._seen(window, pace, first, last) if window[1].is_time else None
            if seen is None:
                return Spans.between(first, last)
            comes, goes = seen
            ranges.append((comes, goes - 1))
        return Spans.union(ranges)

    def _changing(self, windows: Collection[Served], pace: Pace, first: int, last: int) -> Spans:
        """Where something may enter or leave a window; O(elements stored). Whether the first tick is one of
        these only the caller's last answer could tell, so it is always visited."""
        ranges = [(np.array([first]),) * 2]
        for window in windows:
            seen = self._seen(window, pace, first, last)
            if seen is None:
                return Spans.between(first, last)
            comes, goes = seen
            if self._state.synopses[window[0]].is_sketched:  # its answers vary while a window holds events
                ranges.append((comes, np.minimum(goes, last)))
            else:
                ticks = np.concatenate([comes, goes])
                ticks = ticks[(ticks >= first) & (ticks <= last)]
                ranges.append((ticks, ticks))
        return Spans.union(ranges)

    def _seen(self, served: Served, pace: Pace, first: int, last: int) -> tuple[Ints, Ints] | None:
        """The tick at which each stored element is first seen, and the one at which it no longer is, none
        before `first` nor after `last + 1`; None if the group cannot tell."""
        number, window = served
        since = window.settle(pace.at(first))  # where the window stands at the first tick
        seen = self._state.synopses[number].seen(window, since, pace.at(last))
        if seen is None:
            return None
        comes, goes = (
            np.clip(pace.tick(pace.ceil(window.pace.ceil(each))), first, last + 1)
            for each in (seen[0], seen[1] + 1)
        )
        return comes, goes
