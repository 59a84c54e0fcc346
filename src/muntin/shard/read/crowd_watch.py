"""Which pairs a crowd has to read at an instant: those that may pass a threshold, and those that were in before.

Of a million pairs of an account and a category, a thousand may pass. To read the windows of all of them takes longer
than everything else. So bounds of what HAVING compares are kept for all pairs (`window_bounds.py`), or found in slices
that came (`window_peaks.py`), and compared with the least threshold of each lane. The few that are left are then read
and compared as all would be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.band import GREATEST, LEAST
from muntin.kernels.bounds import pairs_in_grid
from muntin.shard.adapt.timed import timed
from muntin.shard.crowd import Crowd
from muntin.shard.read.band_order import BandOrder, BandPairs
from muntin.shard.read.crowd_slots import BandSlots, CrowdSlots, LaneSlots, known_from_of
from muntin.shard.read.lane_order import InLanes, LaneOrder, PairPlaces, places_of
from muntin.shard.read.pair_grid import PairGrid
from muntin.shard.read.reading import GroupWindow, Reading
from muntin.shard.read.window_bounds import Floats, Steps, WindowBounds
from muntin.shard.read.window_peaks import WindowPeaks
from muntin.shard.state import State
from muntin.store.aging_slices import AgingSlices
from muntin.store.needs import Need
from muntin.store.slice_store import SliceStore
from muntin.structure.synopsis import Found

FEW_PAIRS = 1 << 13  # so many are as quickly read as bounded
MOST_READ = 1 / 8  # of the keys in all lanes: more are better read together
_PATIENCE = 16  # instants for which all pairs are read at most, before bounds are tried again
_IN_VAIN = 2  # instants in a row for which bounds are kept though too many might pass
_KEY = 0xFFFFFFFF


class Few(NamedTuple):
    """The pairs that a crowd has to look at, and what was found of them in each window."""

    slots: CrowdSlots
    found: list[Found]


class CrowdWatch:
    """Of one crowd. What depends on its members is made anew when these, or the columns of the grid, change."""

    def __init__(self) -> None:
        self._bounds: dict[GroupWindow, WindowBounds | WindowPeaks] = {}
        self._in_vain = 0  # instants in a row at which too many might pass
        self._wait = 0  # instants until bounds are tried again …
        self._patience = 1  # … and until then the next time; twice as many each time in a row
        self._members: _Members | None = None
        # whose pairs were found the last time, in which version of the grid, and at which instant
        self._seen: tuple[_Members, int, int] | None = None

    def forget_members(self) -> None:
        """Others have come or gone."""
        self._members = None

    def find(self, state: State, crowd: Crowd, instants: Ints, inside: Ints) -> Few | None:
        """What the crowd has to look at; None if it had better look at everything."""
        compared = _compared(crowd.reading)
        if compared is None or crowd.reading.keys is None or crowd.reading.width < FEW_PAIRS:
            return None
        if self._wait:
            self._wait -= 1
            return None
        pairs = places_of(state, crowd.asked, LaneOrder if crowd.asked.banded is None else BandPairs)
        grid = _grid_of(pairs)
        if not grid.is_affordable:  # which is known at once, and may be different at the next instant
            self._bounds = {}
            return None
        if self._members is None or not self._members.are_of(state, crowd, grid):
            self._members = _Members(state, crowd, pairs, grid)
        words = self._words(state, crowd, grid, compared, int(instants[0]), inside)
        if words is None:
            return None
        slots, ids = self._members.slots_of(crowd, pairs, grid, words)
        found = [_read(state, each, instants, ids) for each in crowd.windows]
        return Few(slots, found)

    def _words(
        self, state: State, crowd: Crowd, grid: PairGrid, need: Need, instant: int, inside: Ints
    ) -> Ints | None:
        """The keys and lanes that may pass or were in before, as words of both; None if these are too many."""
        members = self._members
        assert members is not None
        if not self._can_bound(state, crowd, need, instant):
            return None
        # are the members the same, and is all that passed just before known?
        is_next = crowd.emits_changes and self._seen == (members, grid.version, instant - crowd.pace.every)
        most = members.most_read(grid)
        reached = self._reaching(state, crowd, grid, need, instant, is_next, most)
        self._seen = (members, grid.version, instant)
        words = None if reached is None else members.with_inside(reached, inside)
        if words is None or len(words) > most:
            self._note_too_many()
            return None
        self._patience, self._in_vain = 1, 0
        return words

    def _note_too_many(self) -> None:
        """All pairs are read now. What is known of the windows is kept for the next instant, but not for long."""
        self._in_vain += 1
        if self._in_vain > _IN_VAIN:
            self._give_up()

    def _give_up(self) -> None:
        """Have no bounds for a while."""
        self._bounds, self._wait, self._in_vain = {}, self._patience, 0
        self._patience = min(2 * self._patience, _PATIENCE)

    def _can_bound(self, state: State, crowd: Crowd, need: Need, instant: int) -> bool:
        """Whether there are bounds for all windows of a crowd at an instant."""
        assert self._members is not None
        kind = _kind_of(need)
        for number, window, *_ in crowd.windows:
            synopsis = state.synopses[number]
            is_sliced = (
                window.is_time and window.slide and isinstance(synopsis.store, AgingSlices | SliceStore)
            )
            if not is_sliced or not kind.can_bound(need, self._members.is_up):
                self._give_up()
                return False
            if window.start(int(window.settle(instant))) < synopsis.known_since(window, need):  # not for long
                self._bounds = {}
                return False
        return True

    def _reaching(
        self, state: State, crowd: Crowd, grid: PairGrid, need: Need, instant: int, is_next: bool, most: int
    ) -> Ints | None:
        """The keys and lanes that may pass, of all windows together; without some that passed before, if `is_next`.
        None if there are more than `most` of one window."""
        members, found, has_all = self._members, list[Ints](), True
        assert members is not None
        bounds: dict[GroupWindow, WindowBounds | WindowPeaks] = {}
        for number, each in enumerate(crowd.windows):
            window, synopsis = each.window, state.synopses[each.number]
            at, store = int(window.settle(instant)), synopsis.store
            kept = self._bounds.get(each)
            if kept is None or not kept.is_of(store, grid, members.is_up):
                kept = _kind_of(need)(store, need, grid, members.is_up)
            bounds[each] = kept
            start = window.start(at)
            kept.bring_to(start, at - window.to, synopsis.known_since(window, need), is_next)
            reached = kept.reaching(members.steps[number], most)
            kept.leave(window.start(at + window.slide))
            if reached is None:
                has_all = False
            else:
                key, lane = reached
                found.append(members.lane_of_step[number][lane] << 32 | key)
        self._bounds = bounds
        return np.concatenate(found) if has_all else None


def _kind_of(need: Need) -> type[WindowBounds] | type[WindowPeaks]:
    return WindowBounds if need.component in ("count", "sum") else WindowPeaks


class _Members:
    """What the members of a crowd ask for, by columns of the grid."""

    def __init__(self, state: State, crowd: Crowd, pairs: PairPlaces, grid: PairGrid):
        reading, lanes = crowd.reading, state.lanes[crowd.asked]
        self._versions = (grid, grid.columns, lanes, lanes.version)
        there = np.flatnonzero(crowd.there)
        self._known_from = known_from_of(state, crowd)
        self._number = pairs.numbers(crowd.lanes)
        assert reading.laned is not None
        self._order = None if reading.laned.way is None else BandOrder(pairs, reading.laned.way)  # type: ignore[arg-type]
        cut = np.zeros(len(crowd), np.int64) if self._order is None else self._order.cuts_of(crowd.lanes)
        asks = there[(crowd.low[there] <= crowd.high[there]) & (self._number[there] >= 0)]
        self.is_up, floor = _floors(reading, crowd.low, crowd.high, asks)
        self._numbers, place = np.unique(self._number[asks], return_inverse=True)
        self.lanes = len(self._numbers)
        self._lane = np.full(len(crowd), -1)  # of each member, among `_numbers`
        self._lane[asks] = place
        self._lay_out(grid)
        self.steps, self.lane_of_step = list[Steps](), list[Ints]()
        for window in range(len(crowd.windows)):
            some = asks[crowd.window[asks] == window]
            self._add_steps(self._lane[some], cut[some], floor[some])

    def are_of(self, state: State, crowd: Crowd, grid: PairGrid) -> bool:
        lanes = state.lanes[crowd.asked]
        old_grid, columns, old_lanes, version = self._versions
        return (
            old_grid is grid and columns == grid.columns and old_lanes is lanes and version == lanes.version
        )

    def _lay_out(self, grid: PairGrid) -> None:
        """The columns of each lane, by rank; those of lane l from `_first[l]` on."""
        lane, *ends = grid.lanes_of_columns()
        rank = np.zeros(len(lane), np.int64)
        if self._order is not None:
            rank = ends[0] if self._order.way == "up" else ~ends[1]
        place = np.minimum(self._numbers.searchsorted(lane), max(self.lanes - 1, 0))
        asked = np.flatnonzero(self._numbers[place] == lane) if self.lanes else np.zeros(0, np.int64)
        asked = asked[np.lexsort((rank[asked], place[asked]))]
        self._column, self._rank = asked, rank[asked]
        self._first = place[asked].searchsorted(np.arange(self.lanes + 1))

    def _add_steps(self, lane: Ints, cut: Ints, floor: Floats) -> None:
        """The steps of the members of one window; a member is compared where all that it reads has been added."""
        floors = np.full(len(self._column), np.inf)
        begin, end = self._first[lane], self._first[lane + 1]
        for low, high, least, threshold in zip(begin, end, cut, floor, strict=True):
            place = low + int(self._rank[low:high].searchsorted(least))
            if place < high:
                floors[place] = np.minimum(floors[place], threshold)
        lanes, column, begins, kept = np.unique(lane), list[Ints](), list[Bools](), list[Floats]()
        for each in lanes:
            part = slice(self._first[each], self._first[each + 1])
            column.append(self._column[part][::-1])
            kept.append(floors[part][::-1])
            begins.append(np.arange(len(column[-1])) == 0)
        nothing = np.zeros(0)
        self.steps.append(
            Steps(
                np.concatenate([np.zeros(0, np.int64), *column]),
                np.concatenate([np.zeros(0, np.bool_), *begins]),
                np.concatenate([nothing, *kept]),
            )
        )
        self.lane_of_step.append(lanes)

    def most_read(self, grid: PairGrid) -> int:
        """Of so many keys in lanes all pairs are read as quickly together as one by one."""
        few = FEW_PAIRS * self.lanes // max(len(self._column), 1)
        return int(MOST_READ * grid.keys * self.lanes) + few

    def with_inside(self, words: Ints, inside: Ints) -> Ints:
        """Keys and lanes, with those of members and keys that were in before."""
        lane = self._lane[inside >> 32]
        before = lane << 32 | (inside & _KEY)
        return np.unique(np.concatenate([words, before[lane >= 0]]))

    def slots_of(
        self, crowd: Crowd, pairs: PairPlaces, grid: PairGrid, words: Ints
    ) -> tuple[CrowdSlots, Ints]:
        """The slots of keys in lanes, with the pairs that these are of."""
        lane, key = words >> 32, words & _KEY
        most = int((self._first[lane + 1] - self._first[lane]).sum())
        pair, rank, edges = (
            np.empty(most, np.int64),
            np.empty(most, np.int64),
            np.empty(len(words) + 1, np.int64),
        )
        many = pairs_in_grid(
            grid.pair, grid.room, lane, key, self._first, self._column, self._rank, pair, rank, edges
        )
        pair, rank, number = pair[:many], rank[:many], self._numbers[lane]
        of_pair = np.repeat(np.arange(len(words)), np.diff(edges))
        if self._order is None:
            in_order = InLanes(np.arange(many), (number << 32 | key)[of_pair])
            return LaneSlots(crowd, self._known_from, self._number, in_order), pair
        held = np.diff(edges) > 0
        order = self._order.of_pairs(
            np.append(edges[:-1][held], many), number[held], np.arange(many), key[of_pair], rank
        )
        return BandSlots(crowd, self._known_from, self._number, order), pair


def _read(state: State, wanted: GroupWindow, instants: Ints, pairs: Ints) -> Found:
    """What a window has of some pairs."""
    number, window, needs, _ = wanted
    settled = window.settle(instants)
    return timed(
        state, number, window, len(settled),
        lambda synopsis: synopsis.lookup(window, settled, needs, pairs, len(pairs)),
    )  # fmt: skip


def _compared(reading: Reading) -> Need | None:
    """The component that HAVING compares, if its value is that of the aggregate."""
    if reading.compared is None:
        return None
    call = reading.calls[reading.compared]
    if call.aggregate.name not in ("count", "sum", "min", "max"):
        return None
    return next(part.need for part in call.parts if part.need.component == call.aggregate.name)


def _floors(reading: Reading, low: Ints, high: Ints, asks: Ints) -> tuple[bool, Floats]:
    """Whether members ask for what is above a threshold, or for what is below; the thresholds, with the sign changed if
    below."""
    assert reading.compared is not None
    is_float = pa.types.is_floating(reading.calls[reading.compared].type)
    lows, highs = (_values(side, is_float) for side in (low, high))
    is_up = bool((lows[asks] > -np.inf).all() and (low[asks] > LEAST).all())
    return is_up, lows if is_up else -highs


def _values(sort_keys: Ints, are_floats: bool) -> Floats:
    """The numbers with given sort keys, as floats."""
    if not are_floats:
        return sort_keys.astype(np.float64)
    return (sort_keys ^ ((sort_keys >> 63) & GREATEST)).view(np.float64)


def _grid_of(pairs: PairPlaces) -> PairGrid:
    if pairs.grid is None:
        pairs.grid = PairGrid(pairs)
    grid: PairGrid = pairs.grid
    grid.follow()
    return grid


def watch_of(crowd: Crowd) -> CrowdWatch:
    if crowd.watch is None:
        crowd.watch = CrowdWatch()
    watch: CrowdWatch = crowd.watch
    return watch
