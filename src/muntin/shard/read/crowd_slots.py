"""What the members of a crowd read of a store: which slots each of them looks at, and which of these pass HAVING.

A store with lanes has a slot for each pair of a key and a lane; the pairs of a lane stand side by side in an order. Of
a store with bands, what has been merged from the end of each group (`band_order.py`) is what a member looks at: of each
key of its lane the lowest *entry* that is not below its cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Bools, Ints, joined, recycled
from muntin.band import sort_keys
from muntin.errors import NoValue
from muntin.kernels.answers import members_passing
from muntin.kernels.bands import entries_within
from muntin.shard.crowd import Crowd
from muntin.shard.read.band_order import BandOrder, accumulated, bands_of
from muntin.shard.read.evaluate import Once
from muntin.shard.read.lane_order import InLanes, LaneOrder, order_of
from muntin.shard.read.left_out import no_sum
from muntin.shard.read.reading import Reading
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import Found

_NOBODY = np.zeros(0, np.int64)
_SLOTS = 1 << 21  # that are compared before room for those that pass is made anew


class Compared(NamedTuple):
    """The answers that HAVING compares with constants, one for each slot; all are 0 if there is no HAVING."""

    bits: Ints  # integers, or floats as they lie in memory
    are_floats: bool
    valid: Bools  # whether a slot has such an answer, and an event if there are keys; empty: all have


def compared_numbers(reading: Reading, found: Found) -> Compared:
    """What HAVING compares, for all slots of one window or of several below each other; O(slots). NoValue if one of
    them has none."""
    valid = None
    if reading.query.keys:
        valid = np.logical_or.reduce([found.partials[part.need][0] > 0 for part in reading.presence])
    if reading.compared is None:
        many = len(next(iter(found.partials.values()))[0])
        values: Any = np.zeros(many, np.int64)
    else:
        call = reading.calls[reading.compared]
        values, known, lost = call.aggregate.lower(
            {part.need.component: found.partials[part.need] for part in call.parts}
        )
        if lost is not None:
            raise NoValue(no_sum(reading.query.calls[reading.compared]))
        valid = known if valid is None else valid & known
    all_valid = np.zeros(0, np.bool_) if valid is None else valid
    return Compared(values.view(np.int64), values.dtype == np.float64, all_valid)


class Passing(NamedTuple):
    """Members with a slot each, by member and then by key. `slot` is in what was found of all windows, one below the
    other, -1 for that of nothing."""

    member: Ints
    key: Ints
    slot: Ints


class CrowdSlots(ABC):
    """Of one crowd, all slots or some, as long as pairs and lanes are the same."""

    def __init__(self, known_from: Ints, number: Ints):
        # of each member: the instant from which on all events of its lane have been kept, and the number of its lane
        self.known_from, self._number = known_from, number

    @abstractmethod
    def read(self, crowd: Crowd, found: list[Found], once: Once) -> list[Found]:
        """What was found of each window, in the slots that members look at."""

    @abstractmethod
    def passing(self, crowd: Crowd, found: list[Found]) -> Passing:
        """The slots that pass HAVING."""

    @abstractmethod
    def find(self, crowd: Crowd, member: Ints, key: Ints) -> Ints:
        """The slots of members and keys; -1 where there is none."""

    def compact(self, crowd: Crowd, found: list[Found], rows: Passing) -> list[Found]:
        """What was found in some slots, for each place of the query that has a window."""
        needs, window = crowd.reading.windows[0].needs, crowd.window[rows.member]
        start, end, is_whole = (
            np.concatenate(side)[window]
            for side in zip(*((each.start, each.end, each.is_whole) for each in found), strict=True)
        )
        known_since = np.array([max(each.known_since[need] for need in needs) for each in found])
        since = np.maximum(known_since[window], self.known_from[rows.member])
        whole = stacked(needs, found)
        partials = {need: taken(need, whole.partials[need], rows.slot) for need in needs}
        complete = is_complete(start, end, is_whole, since)
        return [Found(partials, start, end, complete, dict.fromkeys(needs, LONG_AGO), 1)]


def slots_of(state: State, crowd: Crowd) -> CrowdSlots:
    """All that the members look at; O(1) as long as no pair is new, and no query has come or gone."""
    lanes = state.lanes[crowd.asked]
    order = order_of(state, crowd.asked) if crowd.asked.banded is None else bands_of(state, crowd.asked)
    version = (order, order.version, lanes, lanes.version)
    if crowd.slots is None or crowd.slots[0] != version:
        known_from, number = known_from_of(state, crowd), order.numbers(crowd.lanes)
        made: CrowdSlots
        if isinstance(order, LaneOrder):
            made = LaneSlots(crowd, known_from, number, order)
        else:
            assert crowd.reading.laned is not None
            whole = order.order(crowd.reading.laned.way)
            # a crowd may ask for few of the lanes: what is merged for it, it looks at
            made = BandSlots(crowd, known_from, number, whole.of_lanes(number[crowd.there]))
        crowd.slots = version, made
    slots: CrowdSlots = crowd.slots[1]
    return slots


def known_from_of(state: State, crowd: Crowd) -> Ints:
    """For each member the instant from which on all events of its lane have been kept; O(members)."""
    there, known_from = np.flatnonzero(crowd.there), np.zeros(len(crowd), np.int64)
    known_from[there] = state.lanes[crowd.asked].known_from([crowd.lanes[member] for member in there])
    return known_from


class LaneSlots(CrowdSlots):
    """Each member reads one lane."""

    def __init__(self, crowd: Crowd, known_from: Ints, number: Ints, order: InLanes):
        super().__init__(known_from, number)
        self._order = order
        self._begin, self._end = order.spans_of(number)

    def read(self, crowd: Crowd, found: list[Found], once: Once) -> list[Found]:
        return found

    def passing(self, crowd: Crowd, found: list[Found]) -> Passing:
        reading, order = crowd.reading, self._order
        width, is_keyed, needs = len(order.pair), reading.keys is not None, reading.windows[0].needs
        numbers, silent = (
            compared_numbers(reading, stacked(needs, found)),
            compared_numbers(reading, nothing(needs)),
        )
        edges = np.append(0, np.cumsum(np.maximum(self._end - self._begin, 1)))
        parts: list[Passing] = []
        first = 0
        while first < len(crowd):
            last = max(first + 1, int(edges.searchsorted(edges[first] + _SLOTS, "right")) - 1)
            room = int(edges[last] - edges[first])
            member, key, slot = (recycled(room, np.int64) for _ in range(3))
            many = members_passing(
                numbers.bits, numbers.valid, silent.bits, silent.valid, numbers.are_floats, is_keyed, width, order.pair,
                order.key, crowd.window, self._begin, self._end, crowd.low, crowd.high, first, last, member, key, slot,
            )  # fmt: skip
            parts.append(Passing(member[:many].copy(), key[:many].copy(), slot[:many].copy()))
            first = last
        return Passing(*map(np.concatenate, zip(*parts, strict=True)))

    def find(self, crowd: Crowd, member: Ints, key: Ints) -> Ints:
        pair = self._order.find(self._number[member], key)
        found: Ints = np.where(pair < 0, -1, crowd.window[member] * len(self._order.pair) + pair)
        return found


class BandSlots(CrowdSlots):
    """Each member reads what lies above a cut in one lane, or below it."""

    def __init__(self, crowd: Crowd, known_from: Ints, number: Ints, order: BandOrder):
        super().__init__(known_from, number)
        self._order = order
        self._cut = order.cuts_of(crowd.lanes)
        # members by window, lane and cut: one walk through the entries of a lane serves all that follow each other
        self._by_cut = np.lexsort((self._cut, number, crowd.window))

    def read(self, crowd: Crowd, found: list[Found], once: Once) -> list[Found]:
        needs = crowd.reading.windows[0].needs
        return [accumulated(self._order, each, needs, once) for each in found]

    def passing(self, crowd: Crowd, found: list[Found]) -> Passing:
        reading = crowd.reading
        if reading.keys is None:
            return self._passing_without_keys(crowd, found)
        width = len(self._order.pair)
        members, slots = list[Ints](), list[Ints]()
        for window, each in enumerate(found):
            numbers = compared_numbers(reading, each)
            some = self._by_cut[crowd.window[self._by_cut] == window]
            member, entry = self._entries(crowd, some, numbers)
            members.append(member)
            slots.append(window * width + entry)
        member, slot = np.concatenate(members), np.concatenate(slots)
        in_order = np.argsort(member, kind="stable")
        member, slot = member[in_order], slot[in_order]
        return Passing(member, self._order.key[slot % width] if width else slot, slot)

    def _entries(self, crowd: Crowd, some: Ints, numbers: Compared) -> tuple[Ints, Ints]:
        """Of members of one window, in the order of their lanes and cuts: those entries that pass, by member."""
        order, lane = self._order, self._number[some]
        lanes, begin = np.unique(lane, return_index=True)
        asked = (*order.spans(lanes), begin, np.append(begin[1:], len(some)))
        sides = (self._cut[some], crowd.low[some], crowd.high[some])
        edges = np.zeros(len(some) + 1, np.int64)
        entries_within(order.first, order.rank, *numbers, *asked, *sides, edges[1:], _NOBODY)
        member = np.repeat(some, edges[1:])
        edges = np.cumsum(edges)
        entries = np.empty(edges[-1], np.int64)
        if len(entries):
            entries_within(order.first, order.rank, *numbers, *asked, *sides, edges[:-1].copy(), entries)
        return member, entries

    def _passing_without_keys(self, crowd: Crowd, found: list[Found]) -> Passing:
        """Every member has one slot, though its lane may have no event."""
        needs = crowd.reading.windows[0].needs
        member, key = np.arange(len(crowd)), np.zeros(len(crowd), np.int64)
        slot = self.find(crowd, member, key)
        whole = found[0]._replace(
            partials={need: taken(need, stacked(needs, found).partials[need], slot) for need in needs}
        )
        numbers = compared_numbers(crowd.reading, whole)
        value = sort_keys(numbers.bits.view(np.float64) if numbers.are_floats else numbers.bits)
        passes = (crowd.low <= value) & (value <= crowd.high)
        if len(numbers.valid):
            passes &= numbers.valid
        return Passing(member[passes], key[passes], slot[passes])

    def find(self, crowd: Crowd, member: Ints, key: Ints) -> Ints:
        entry = self._order.find(self._number[member], key, self._cut[member])
        found: Ints = np.where(entry < 0, -1, crowd.window[member] * len(self._order.pair) + entry)
        return found


def stacked(needs: tuple[Need, ...], found: list[Found]) -> Found:
    """The partials that were found of several windows, one below the other."""
    if len(found) == 1:
        return found[0]
    partials = {
        need: tuple(joined(arrays) for arrays in zip(*(each.partials[need] for each in found), strict=True))
        for need in needs
    }
    return found[0]._replace(partials=partials)


def nothing(needs: tuple[Need, ...]) -> Found:
    """One slot of a window that holds no event."""
    partials = {
        need: tuple(np.array([value], dtype) for dtype, value in COMPONENTS[need.component].identity(dtype_of(need)))
        for need in needs
    }  # fmt: skip
    return Found(partials, _NOBODY, _NOBODY, np.zeros(0, np.bool_), {}, 1)


def taken(need: Need, partial: Partial, slot: Ints) -> Partial:
    """The partials of some slots."""
    is_nothing = slot < 0
    if not is_nothing.any():
        return tuple(array[slot] for array in partial)
    identity = COMPONENTS[need.component].identity(dtype_of(need))
    some = tuple(
        array[np.where(is_nothing, 0, slot)] if len(array) else np.empty(len(slot), array.dtype)
        for array in partial
    )
    for array, (_, value) in zip(some, identity, strict=True):
        array[is_nothing] = value
    return some
