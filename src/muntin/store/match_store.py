"""The match store: every pair of events that some window of a join can hold, each found and kept once.

    match       0     1     2     3         a window [s - 5, s) on the left, [s - 3, s) on the right
    left        10    10    14    15        at s = 16 sees 2 and 3: visible since after the later time,
    right       11    13    13    12        gone when the first of its events leaves its window
    later       11    13    14    15        ascending

A match is *visible* to a window pair at the instants after the later of its times and up to the earlier
of `time + size`: both follow from the times and the sizes, so windows of any size are served by one store,
and no match is looked for again (Patroumpas & Sellis, section 5; here windows are half-open).

    keeps    four integers per match: its events by number and time
    insert   O(matches), and when they are next asked for O(matches) once more if they came in order; else also
             those that are as late as the first of them
    look-up  O(matches between the window's start and end)
    shared   by all windows over one pair of streams and one equality
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muntin.arrays import Arrays, Ints, in_order
from muntin.kernels.match import (
    choose_changing,
    choose_matches,
    first_later,
    merge_runs,
    sort_ties,
)
from muntin.store.columns import Columns
from muntin.store.event_log import EventLog
from muntin.store.saved import COUNTS, Saved

Range = tuple[int, int]
_NAMES = ("left", "right", "left_at", "right_at")
_BYTES = 8 * len(_NAMES)  # of a match
_FEW = 1024  # matches that are not worth looking for dead ones among them
# so many times as many as were alive: those whose later time is in the window are twice as many if streams are steady
_DEAD = 3
_MANY = 1 << 16  # matches that are put in order though nobody has asked for them


class Matches(NamedTuple):
    """Pairs of events: their numbers and times, parallel arrays."""

    left: Ints
    right: Ints
    left_at: Ints
    right_at: Ints


class MatchStore:
    """Matches in order of the later time, then of the left event, then of the right one.

    >>> store = MatchStore()
    >>> store.insert(Matches(*np.array([[0, 0], [1, 0], [10, 10], [13, 11]])))
    >>> store.choose((5, 16), (8, 13), (0, 0))
    array([0])
    """

    def __init__(self) -> None:
        self._columns = Columns(dict.fromkeys(_NAMES, np.dtype(np.int64)))
        self._fresh: list[Matches] = []  # not in order yet: those of several batches are sorted together
        self._many_fresh = 0
        self.found = 0  # matches ever inserted
        self._last = 0  # how many were put in order together the last time
        self._living = 0  # how many were left when dead ones were last looked for

    def __len__(self) -> int:
        return len(self._columns) + self._many_fresh

    @property
    def all(self) -> Matches:
        """Views of what is kept, in order."""
        if self._fresh:
            self._settle()
        return self._settled

    @property
    def _settled(self) -> Matches:
        return Matches(*(self._columns[name] for name in _NAMES))

    def insert(self, matches: Matches) -> None:
        """Add matches in any order; their arrays become the store's own."""
        count = len(matches.left)
        if not count:
            return
        self.found += count
        self._fresh.append(matches)
        self._many_fresh += count
        if self._many_fresh >= _MANY:
            self._settle()

    def _settle(self) -> None:
        """Put the matches that came since the last time in their places."""
        matches = Matches(*(np.concatenate(arrays) for arrays in zip(*self._fresh, strict=True)))
        count = self._many_fresh
        self._fresh, self._many_fresh, self._last = [], 0, count
        # by time first, which is nearly enough: those of one event come in their order
        later, order = in_order(np.maximum(matches.left_at, matches.right_at))
        new = Matches(*(array[order] for array in matches))
        sort_ties(later, *new, order, np.empty_like(order))
        all = self._settled
        cut = int(first_later(all.left_at, all.right_at, max(new.left_at[0], new.right_at[0])))
        late = len(self) - cut  # of those that are here, which the new ones are mixed with
        if late:
            mixed = Matches(*(np.concatenate([old[cut:], more]) for old, more in zip(all, new, strict=True)))
            order = np.arange(late + count)
            merge_runs(*mixed, order, np.empty_like(order), 0, late, late + count)
            new = Matches(*(array[order] for array in mixed))
            self._columns.truncate(cut)
        self._columns.extend(new._asdict())

    def choose(self, left: Range, right: Range, since: tuple[int, int]) -> Ints:
        """Which matches have both times in their ranges [from, to), and events numbered `since` or above."""
        lo, hi = self._between(left, right)
        out = np.empty(hi - lo, np.int64)
        return out[: choose_matches(*self.all, lo, hi, *left, *right, *since, out)]

    def choose_changing(
        self, seen: tuple[Range, Range], since: tuple[int, int], new_from: int, begin: int, end: int
    ) -> Ints:
        """Which matches are visible at some instant from `begin` to `end`, and have become so from `new_from` on or
        cease to be so before `end`. An event is seen from `seen[side][0]` after its time, up to `seen[side][1]`."""
        ranges = [(begin - until, end - after) for after, until in seen]
        lo, hi = self._between(*ranges)
        out = np.empty(hi - lo, np.int64)
        count = choose_changing(*self.all, lo, hi, *since, *seen[0], *seen[1], new_from, begin, end, out)
        return out[:count].copy()  # few of many

    def _between(self, left: Range, right: Range) -> tuple[int, int]:
        """Where matches lie whose later time is in either range."""
        part = self.between(max(left[0], right[0]), max(left[1], right[1]))
        return part.start, part.stop

    def between(self, begin: int, end: int) -> slice:
        """Where matches lie whose later time is in [begin, end)."""
        all = self.all
        lo = int(first_later(all.left_at, all.right_at, begin))
        return slice(lo, max(lo, int(first_later(all.left_at, all.right_at, end))))

    def forget(self, left_before: int, right_before: int) -> None:
        """Drop matches with an event before the instant given for its side; O(1) amortised per match.

        Some may stay until the store is full or has tripled: windows that reach back no further do not see them.
        """
        all = self._settled
        self._columns.drop_first(int(first_later(all.left_at, all.right_at, max(left_before, right_before))))
        # those that are left will soon be moved for want of room: the dead need not be
        is_full = self._columns.room < 2 * self._last and 4 * len(self) > 5 * self._living
        if len(self) > _FEW and (is_full or len(self) > _DEAD * self._living):
            all = self.all
            self._columns.retain((all.left_at >= left_before) & (all.right_at >= right_before))
            self._living = len(self)

    def snapshot(self) -> Arrays:
        return self.all._asdict()

    def restore(self, saved: Saved, found: int) -> None:
        left = saved.ints("left", COUNTS)
        right = saved.ints("right", COUNTS, len(left))
        left_at, right_at = (saved.times(name, len(left), order="any") for name in _NAMES[2:])
        later = np.maximum(left_at, right_at)
        if bool((later[1:] < later[:-1]).any()):
            raise saved.damaged("left_at", "and 'right_at' are not in order of the later time")
        self._columns.replace({"left": left, "right": right, "left_at": left_at, "right_at": right_at})
        self.found = found

    def keep_events(self, logs: Sequence[EventLog]) -> bool:
        """Have no match of an event that the logs of the two sides have forgotten: no window can see such a one.
        Whether the times of the others are those of their events."""
        first = [log.first for log in logs]
        self._columns.retain((self.all.left >= first[0]) & (self.all.right >= first[1]))
        ends = [log.end for log in logs]
        if len(self) and (int(self.all.left.max()) >= ends[0] or int(self.all.right.max()) >= ends[1]):
            return False
        times = [log.at[numbers - log.first] for log, numbers in zip(logs, self.all[:2], strict=True)]
        return all(np.array_equal(*pair) for pair in zip(times, self.all[2:], strict=True))

    def nbytes(self) -> int:
        return self._columns.nbytes() + self._many_fresh * _BYTES

    def held_bytes(self) -> int:
        """Of its matches alone: `nbytes` without what is set aside for more."""
        return len(self) * _BYTES

    def check(self) -> None:
        self._columns.check()
        left, right, left_at, right_at = self.all
        # in order, and no match twice
        order = np.lexsort((right, right_at, left, left_at, np.maximum(left_at, right_at)))
        assert bool(np.all(order == np.arange(len(self))))
        assert len(set(zip(left.tolist(), right.tolist(), strict=True))) == len(self)
