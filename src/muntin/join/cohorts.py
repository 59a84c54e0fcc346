"""Cohorts: the pairs of a join that are first seen at one slide, with what SELECT makes of them, made once.

    seen first at   10 s           20 s           30 s          windows of 20 s, so pairs are seen while their
    until           29 22 21       38 33 28       49 45 31      earlier end, here below it, is not passed

At 30 s an answer is the front of each cohort, what is seen until 30 s or later: nothing of the first, two pairs of the
second, all of the third. What has left since 20 s is the piece that stands behind the front. Both are slices of arrays
that are there, so that an answer costs what is new in it, and what left, not what it holds.

Queries that compare the same attributes with constants, `WHERE a.symbol = 'IBM'`, share them too: each constant is a
lane, a cohort has the pairs of one lane after those of another, and each lane has a front of its own.

    keeps    SELECT's columns of every pair that was found within a window's length, and two integers
    follow   O(n log n) for n new pairs
    answer   O(slides of the window, times the logarithm of the pairs of a slide)
    shared   by all windows that agree in SLIDE, in SELECT, in WHERE but for constants, and in how much longer the left
             one is than the right
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints, order_of
from muntin.expression import Expression, both
from muntin.join.answer import read_pairs, select_pairs
from muntin.join.group import Both, JoinGroup, JoinRegistration
from muntin.kernels.match import choose_new, find_fronts
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Asked, Lane, columns_of_lanes
from muntin.plan.lanes import lane_of_condition
from muntin.query import Output
from muntin.shard.read.left_out import evaluate_each
from muntin.store.columns import Columns

_MOST_SLIDES = 1024  # of a window: with more, an answer would have too many pieces
_MOST_KEYS = 4  # of a group: each takes memory of its own


class CohortKey(NamedTuple):
    """What queries agree on that read the same cohorts."""

    slide: int
    longer: int  # the left window than the right one
    asked: Asked | None  # what WHERE compares with constants, and the rest of it …
    where: Expression | None  # … or all of it, if it compares nothing
    outputs: tuple[Output, ...]
    since: Both


class Pieces(NamedTuple):
    """What each of some queries (a row) sees of each cohort (a column): pairs that follow each other."""

    start: Ints  # where each cohort begins among all pairs, and where the last one ends
    first: Ints  # which one of a cohort is the first
    many: Ints
    old: int  # so many cohorts were here at the tick before: with EMIT CHANGES, their pairs leave


class _Place(NamedTuple):
    """Where a query finds its pairs."""

    key: CohortKey
    lane: Lane  # empty if WHERE compares nothing


def _place_of(registration: JoinRegistration) -> _Place | None:
    """None if a query is not answered from cohorts."""
    query = registration.query
    left, right = (side.window for side in query.sides)
    if query.fold is not None or not query.slide or left.to or right.to:
        return None
    if query.size > _MOST_SLIDES * query.slide:
        return None
    laned = None if query.where is None else lane_of_condition(query.streams, query.where)
    asked, lane = (None, ()) if laned is None else (laned.asked, laned.lanes[0])
    where = query.where if laned is None else None
    key = CohortKey(query.slide, left.size - right.size, asked, where, query.outputs, registration.since)
    return _Place(key, lane)


def deal_out(group: JoinGroup) -> None:
    """Tell each query its cohorts, after some came or went; those that still serve stay."""
    places = {
        name: place for name, each in group.registrations.items() if (place := _place_of(each)) is not None
    }
    longest: dict[CohortKey, int] = {}
    lanes: dict[CohortKey, set[Lane]] = {}
    for name, (key, lane) in places.items():
        longest[key] = max(longest.get(key, 0), group.registrations[name].query.right.window.size)
        lanes.setdefault(key, set()).add(lane)
    before = {each.key: each for each in group.dealt_out}
    made = {}
    for key, _ in Counter(place.key for place in places.values()).most_common(_MOST_KEYS):
        old = before.get(key)
        if old is None or old.longest < longest[key] or not old.lanes.keys() >= lanes[key]:
            old = Cohorts(key, longest[key], lanes[key])
        made[key] = old
    for name, registration in group.registrations.items():
        place = places.get(name)
        registration.cohorts = made.get(place.key) if place is not None else None
        if place is not None and registration.cohorts is not None:
            registration.lane = registration.cohorts.lanes[place.lane]
    group.cohorts = group.dealt_out = list(made.values())


def in_order(group: JoinGroup, registration: JoinRegistration, chosen: Ints) -> Ints:
    """Matches, given as they are kept, in the order of answers: with SLIDE, that of cohorts."""
    query, all = registration.query, group.matches.all
    if query.fold is not None or not query.slide or not len(chosen):
        return chosen
    after, until = registration.visible(all.left_at[chosen], all.right_at[chosen])
    ticks = after // query.slide
    fall = int(until.max()) - until
    span = int(fall.max()) + 1
    if (int(ticks.max()) - int(ticks.min()) + 1) * span >= 2**62:
        return chosen[np.lexsort((fall, ticks))]
    return chosen[order_of((ticks - int(ticks.min())) * span + fall)]


class Cohorts:
    """Those of one key; ticks are the multiples of the slide, by their number."""

    def __init__(self, key: CohortKey, longest: int, lanes: Iterable[Lane]):
        self.key = key
        self.longest = longest  # right window of all queries that read them
        self.lanes = {lane: number for number, lane in enumerate(lanes)}
        self._numbers: KeyDictionary | None = None  # of lanes by values of attributes
        if key.asked is not None:
            self._numbers = KeyDictionary([each.type for each in key.asked.attributes])
            self._numbers.encode(columns_of_lanes(key.asked, list(self.lanes)))
        # by pair: its lane; and the left event's time plus `longer`, or the right one's if that is earlier
        self._pairs = Columns({"lane": np.dtype(np.int32), "until": np.dtype(np.int64)})
        self._ticks: list[int] = []  # of each cohort, ascending
        self._ends: list[int] = []  # number of the first pair after each
        self._values: list[pa.RecordBatch] = []  # of each cohort, what SELECT makes of its pairs
        self._schema = pa.schema([(each.name, each.expression.type) for each in key.outputs])
        self.has_begun = False  # whether somebody has asked for them; if so,
        self._first = 0  # answers can be had from this tick on …
        self._reached = 0  # … up to this one
        self.are_plain = True  # whether every pair has a value for WHERE and SELECT

    # -- following the matches ---------------------------------------------------------------------

    def follow(self, group: JoinGroup, registration: JoinRegistration, tick: int, seen_at: int) -> bool:
        """Have all pairs that are first seen up to a tick; whether those that are seen at `seen_at` are here."""
        slide = self.key.slide
        if not self.has_begun:
            self.has_begun, self._first, begin = True, seen_at, seen_at * slide - self.longest
        else:
            begin = self._reached * slide
            if seen_at > self._reached + 1:  # events of what was seen only in between may be gone
                self._first = seen_at
        if tick * slide > begin:
            self._add_between(group, registration, begin, tick * slide)
            self._reached = tick
        return self.are_plain and seen_at >= self._first

    def _add_between(self, group: JoinGroup, registration: JoinRegistration, begin: int, end: int) -> None:
        """Pairs whose later time is in [begin, end)."""
        slide, longer, since = self.key.slide, self.key.longer, self.key.since
        part = group.matches.between(begin, end)
        tick, match, until = np.empty((3, part.stop - part.start), np.int64)
        count = choose_new(
            *(array[part] for array in group.matches.all), longer, self.longest, slide, self._first, *since,
            tick, match, until,
        )  # fmt: skip
        if not count:
            return
        match += part.start
        starts = np.flatnonzero(np.append(True, tick[1:count] != tick[: count - 1])).tolist()
        for lo, hi in zip(starts, [*starts[1:], count], strict=True):
            self._add(group, registration, int(tick[lo]), match[lo:hi], until[lo:hi])

    def _add(
        self, group: JoinGroup, registration: JoinRegistration, tick: int, matches: Ints, until: Ints
    ) -> None:
        """One cohort, of matches as they are kept."""
        asked = self.key.asked
        if asked is None or self._numbers is None:
            order, lane = order_of(-until), np.zeros(len(matches), np.int64)
            pairs = read_pairs(group, registration.query, matches[order], self.key.where)
        else:
            values = read_pairs(group, registration.query, matches, None).columns
            found = [evaluate_each(each, values) for each in asked.attributes]
            if any(each.lost is not None for each in found):
                self.are_plain = False
                return
            lane = self._numbers.find([each.column for each in found])
            order = np.lexsort((-until, lane))[int(np.count_nonzero(lane < 0)) :]
            pairs = read_pairs(group, registration.query, matches[order], _all_of(asked.rest))
        columns, gone, _ = select_pairs(self.key.outputs, pairs.columns, None)
        if gone is not None or pairs.left_out.rows:
            self.are_plain = False
        if not self.are_plain or not len(pairs.match):
            return
        kept = order if pairs.kept is None else order[pairs.kept]
        self._pairs.extend({"lane": lane[kept], "until": until[kept]})
        self._ticks.append(tick)
        self._ends.append(self._pairs.dropped + len(self._pairs))
        self._values.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def forget(self, instant: int) -> None:
        """Drop cohorts of which no query sees anything from an instant on, nor from the tick before."""
        tick = instant // self.key.slide - 1
        if not self.has_begun or tick <= self._first:
            return
        self._first = tick
        dead, until, start = 0, self._pairs["until"], self._pairs.dropped
        for end in self._ends:
            part = slice(start - self._pairs.dropped, end - self._pairs.dropped)
            if int(until[part].max()) + self.longest >= tick * self.key.slide:
                break
            dead, start = dead + 1, end
        self._pairs.drop_first(start - self._pairs.dropped)
        del self._ticks[:dead], self._ends[:dead], self._values[:dead]

    def mark(self) -> tuple[int, int, int]:
        """For `back_to`."""
        return len(self._ticks), len(self._pairs), self._reached

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Have only what was here then: pairs of slides that are not over may still come."""
        cohorts, pairs, self._reached = mark
        self._pairs.truncate(pairs)
        del self._ticks[cohorts:], self._ends[cohorts:], self._values[cohorts:]

    # -- what queries see --------------------------------------------------------------------------

    def pieces(self, registrations: Sequence[JoinRegistration], tick: int, is_change: bool) -> Pieces:
        """What queries see at a tick, or what changed there for them."""
        count, old = bisect_right(self._ticks, tick), bisect_right(self._ticks, tick - 1)
        start = np.array([0, *(end - self._pairs.dropped for end in self._ends[:count])])
        lane = np.array([each.lane for each in registrations])
        size = np.array([each.query.right.window.size for each in registrations])
        least = tick * self.key.slide - size
        before = least - self.key.slide if is_change else least
        begin, now, then = np.empty((3, len(registrations), count), np.int64)
        find_fronts(self._pairs["lane"], self._pairs["until"], start, lane, least, before, begin, now, then)
        if not is_change:
            return Pieces(start, begin, now, 0)
        begin[:, :old] += now[:, :old]
        many = np.concatenate([then[:, :old] - now[:, :old], now[:, old:]], axis=1)
        return Pieces(start, begin, many, old)

    @property
    def until(self) -> Ints:
        """Until when each pair is seen by a window, less the size of the right one."""
        found: Ints = self._pairs["until"]
        return found

    @property
    def values(self) -> Sequence[pa.RecordBatch]:
        """What SELECT makes of the pairs of each cohort."""
        return self._values

    def nbytes(self) -> int:
        return self._pairs.nbytes() + sum(int(batch.nbytes) for batch in self._values)

    def check(self) -> None:
        self._pairs.check()
        # the pairs are those of the cohorts, which are in order; in each lane, those that are seen longest come first
        assert self._ticks == sorted(set(self._ticks))
        starts = [self._pairs.dropped, *self._ends[:-1]]
        assert not self._ends or self._ends[-1] == self._pairs.dropped + len(self._pairs)
        for start, end, values in zip(starts, self._ends, self._values, strict=False):
            part = slice(start - self._pairs.dropped, end - self._pairs.dropped)
            lane, until = self._pairs["lane"][part], self._pairs["until"][part]
            assert len(until)
            assert bool(
                np.all((lane[1:] > lane[:-1]) | ((lane[1:] == lane[:-1]) & (until[1:] <= until[:-1])))
            )
            assert values.num_rows == len(until)


def _all_of(conditions: Sequence[Expression]) -> Expression | None:
    found = None
    for each in conditions:
        found = both(found, each)
    return found
