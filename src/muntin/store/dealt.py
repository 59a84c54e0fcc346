"""Dealt: the events of a large batch are dealt out to the threads of a crew, which fold them into cells side by side.

Whole slices are dealt out where they are short enough. Of a slice that has more than half of all events, the keys are:

    slices    | s0     s1 | s2      s3 |        keys   | a c a | b d b |
    thread    |     1     |     2      |               |   1   |   2   |

Each thread writes its cells behind a gap, as wide as those before it may need; then they move up. So cells lie exactly
where one thread would have put them; those of a slice whose keys were dealt out lie part by part. An event is folded
after those of its cell that came before it, however many threads there are: sums are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from muntin.arrays import Arrays, Ints, scratch
from muntin.crew import Crew
from muntin.kernels.append import deal
from muntin.kernels.slices import link_cells
from muntin.store.chains import NONE, Chains
from muntin.store.columns import Columns
from muntin.store.together import Appended, Events, Together

_MANY_KEYS = 16  # for each event: to begin with no cell of any of them would take longer than the events do


class Into(NamedTuple):
    """What events are folded into, and how."""

    cells: Columns
    chains: Chains
    together: Together

    def place(self, lo: Ints, hi: Ints, key: Ints, begin: int, room: int | None = None) -> Appended:
        return Appended.to(self.cells, self.chains, lo, hi, key, begin, room)

    @property
    def following(self) -> int:
        """Number of the next cell to come."""
        return self.cells.dropped + len(self.cells)


def append_together(
    crew: Crew, into: Into, events: Events, lo: Ints, hi: Ints, key: Ints, begin: int
) -> Ints:
    """Fold events into the cells of their runs, the first of which goes on with those from number `begin` on; the first
    cell of each run. O(events)."""
    crew = crew.fit_for(len(key))
    if crew.threads == 1:
        return _by_one(into, events, lo, hi, key, begin)
    longest = int(np.argmax(hi - lo))
    if 2 * int(hi[longest] - lo[longest]) <= len(key):
        return _by_runs(crew, into, events, lo, hi, key, begin)
    found = []
    for some in (slice(longest), slice(longest, longest + 1), slice(longest + 1, None)):
        if not len(lo[some]):
            continue
        if some.start == longest:
            part = slice(int(lo[longest]), int(hi[longest]))
            found.append(_by_keys(crew, into, events.among(part), key[part], begin))
        else:
            found.append(_by_one(into, events, lo[some], hi[some], key, begin))
        begin = into.following
    return np.concatenate(found)


def _by_one(into: Into, events: Events, lo: Ints, hi: Ints, key: Ints, begin: int) -> Ints:
    place = into.place(lo, hi, key, begin)
    into.cells.count_in(into.together.fold(events, place))
    return place.first_cell


def _by_runs(crew: Crew, into: Into, events: Events, lo: Ints, hi: Ints, key: Ints, begin: int) -> Ints:
    """Each thread has whole runs, about as many events as any other."""
    shares = int(lo[0]) + (int(hi[-1]) - int(lo[0])) * np.arange(1, crew.threads) // crew.threads
    edges = np.unique([0, *(np.searchsorted(hi, shares) + 1), len(lo)])
    runs = [slice(*some) for some in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    place = into.place(lo, hi, key, begin)
    keys = len(place.last)
    if keys > _MANY_KEYS * len(key):
        return _by_one(into, events, lo, hi, key, begin)
    rooms = [min(int((hi[some] - lo[some]).sum()), len(lo[some]) * keys) for some in runs]
    starts = list(accumulate(rooms[:-1], initial=place.following))

    def fold(some: slice, start: int) -> int:
        if start == place.following:
            mine = place._replace(lo=lo[some], hi=hi[some], first_cell=place.first_cell[some])
            return into.together.fold(events, mine)
        newest = scratch("newest", keys)  # what the threads before it have of a key is not known yet
        newest.fill(NONE)
        behind = {name: array[start - begin :] for name, array in place.cells.items()}
        first = place.first_cell[some]
        return into.together.fold(
            events, Appended(lo[some], hi[some], key, newest, start, start, behind, first)
        )

    made = crew.share([partial(fold, *each) for each in zip(runs, starts, strict=True)])
    gaps = _Gaps.between(place, starts, made)
    _close(crew, gaps, place.cells, ("key", "prior"), lambda: _link_again(gaps, place))
    for some, start, end in zip(runs, starts, gaps.targets, strict=True):
        place.first_cell[some] -= start - end
    into.cells.count_in(sum(made))
    return place.first_cell


def _by_keys(crew: Crew, into: Into, events: Events, key: Ints, begin: int) -> Ints:
    """Each thread has all events of one run that are of some keys."""
    parts = range(crew.threads)
    rooms = [(scratch(f"place {part}", len(key)), scratch(f"own {part}", len(key))) for part in parts]
    counts = crew.share([partial(deal, key, part, len(parts), *rooms[part]) for part in parts])
    known = max(int(key.max()) + 1, len(into.chains.last))
    most = [min(count, known) for count in counts]
    place = into.place(np.zeros(1, np.int64), np.full(1, len(key)), key, begin, sum(most))
    starts = list(accumulate(most[:-1], initial=place.following))

    def fold(part: int, start: int) -> int:
        where, own = (each[: counts[part]] for each in rooms[part])
        mine = place._replace(
            hi=np.full(1, len(own)), key=own, following=start, first_cell=np.empty(1, np.int64)
        )
        return into.together.fold(events.at(where), mine)

    made = crew.share([partial(fold, *each) for each in zip(parts, starts, strict=True)])
    gaps = _Gaps.between(place, starts, made)
    _close(crew, gaps, place.cells, ("key",), lambda: _number_again(gaps, place))
    into.cells.count_in(sum(made))
    return np.full(1, begin)


class _Gaps(NamedTuple):
    """Cells that begin too far behind: as indices into their arrays, and how many there are."""

    origin: int  # number of the cell with index 0
    starts: list[int]  # numbers
    targets: list[int]  # where they belong
    counts: list[int]

    @staticmethod
    def between(place: Appended, starts: list[int], made: list[int]) -> _Gaps:
        return _Gaps(place.begin, starts, list(accumulate(made[:-1], initial=place.following)), made)

    def moves(self) -> list[tuple[slice, slice, int]]:
        """From where to where, of all threads but the first, and the number of the first cell then; in order, so that
        none is overwritten before it is moved."""
        origin = self.origin
        every = list(zip(self.starts, self.targets, self.counts, strict=True))
        return [
            (slice(start - origin, start - origin + count), slice(end - origin, end - origin + count), end)
            for start, end, count in every[1:]
            if count
        ]

    def close(self, array: np.ndarray) -> None:
        for old, new, _ in self.moves():
            if old != new:
                array[new] = array[old]  # NumPy sees that they overlap


def _close(crew: Crew, gaps: _Gaps, cells: Arrays, linked: tuple[str, ...], link: Callable[[], None]) -> None:
    """Move all arrays up; those that are `linked` by the function given."""
    others: list[Callable[[], None]] = [
        partial(gaps.close, array) for name, array in cells.items() if name not in linked
    ]
    crew.fit_for(len(others) * sum(gaps.counts[1:])).share([link, *others])


def _link_again(gaps: _Gaps, place: Appended) -> None:
    """Chain cells that were made without knowing those of the runs before theirs."""
    gaps.close(place.cells["key"])
    for _, new, first in gaps.moves():
        link_cells(place.cells["key"][new], first, place.last, place.cells["prior"][new])


def _number_again(gaps: _Gaps, place: Appended) -> None:
    """The newest cells of keys have other numbers now."""
    gaps.close(place.cells["key"])
    for _, new, first in gaps.moves():
        place.last[place.cells["key"][new]] = np.arange(first, first + new.stop - new.start)
