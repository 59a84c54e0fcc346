"""The pairs of a store with a banded attribute, in the order of their bands.

The pairs of one lane and key are a *group*; in it they stand from the lowest band to the highest. What is merged from
the end of a group to one of its pairs is all that queries read whose cut is there:

    bands      21 .. 29    30 .. 40    51 ..
    sums              3           4        2
    merged            9           6        2       for x > 20, x >= 30, and x > 40 or x > 50

For ranges below a cut, the order of bands is the reverse, by their upper ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Bools, Ints
from muntin.kernels.bands import accumulate, first_within
from muntin.lane import Asked, Lane, Laned
from muntin.shard.read.evaluate import Once
from muntin.shard.read.lane_order import PairPlaces, order_of, places_of
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.structure.synopsis import Found

_NOBODY: Ints = np.zeros(0, np.int64)
_WORD = 63  # bits that a place in an order may take


class BandPairs(PairPlaces):
    """The pairs of a store, each with the ends of its band."""

    _parts = ("low", "high")

    def __init__(self, state: State, asked: Asked):
        super().__init__(state, asked)
        self._orders: dict[str, BandOrder] = {}

    def _arrange(self) -> None:
        for way, order in self._orders.items():
            order.follow(self._known["lane"], self.key_of, self._ranks(way))

    def order(self, way: str | None) -> BandOrder:
        """From the lowest band of a group to the highest (`up`), or the reverse (`down`)."""
        assert way is not None
        if way not in self._orders:
            self._orders[way] = BandOrder(self, way)
            self._orders[way].follow(self._known["lane"], self.key_of, self._ranks(way))
        return self._orders[way]

    def _ranks(self, way: str) -> Ints:
        """Integers in the order of bands: above a cut are those bands whose rank is not below that of the cut."""
        return self._known["low"] if way == "up" else ~self._known["high"]

    @property
    def pair(self) -> Ints:
        """The ids of pairs in the order in which `places` tells them."""
        return self.order("up").pair

    @property
    def key(self) -> Ints:
        """The ids of their keys."""
        return self.order("up").key

    def places(self, lanes: Sequence[Lane], ids: Ints | None) -> Ints:
        """The places of all pairs of some lanes whose band is inside the range of their lane; of all keys, or of
        keys with given ids. O(these pairs)."""
        order = self.order("up")
        found: list[Ints] = []
        for lane, number in zip(lanes, self.numbers(lanes).tolist(), strict=True):
            low, high = lane[-1]
            groups = order.groups(number, ids)
            begin = order.first_within(groups, np.full(len(groups), low))
            many = order.first[groups + 1] - begin
            some = np.arange(many.sum()) + np.repeat(begin - np.cumsum(many) + many, many)
            found.append(some[self._known["high"][order.pair[some]] <= high])
        return np.concatenate(found)


class BandOrder:
    """Pairs by lane, key and rank of their band. Group g has the places from `first[g]` to `first[g + 1]` - 1."""

    def __init__(self, pairs: BandPairs, way: str):
        self._pairs = pairs
        self.way = way
        self.pair: Ints = _NOBODY  # ids
        self.key: Ints = _NOBODY
        self.rank: Ints = _NOBODY
        self.first: Ints = np.zeros(1, np.int64)
        self._lane_of_group: Ints = _NOBODY
        self._words: Ints = _NOBODY  # lane, key and rank, in order
        self._layout: _Layout | None = None

    def follow(self, lane: Ints, key: Ints, rank: Ints) -> None:
        """Put new pairs in their places; O(pairs), but only those that are new are sorted."""
        is_new = key >= 0
        is_new[self.pair] = False
        fresh = np.flatnonzero(is_new)
        if not len(fresh):
            return
        words = None
        if self._layout is not None:
            words = self._layout.words(lane[fresh], key[fresh], rank[fresh])
        if words is None:
            self._sort(np.concatenate([self.pair, fresh]), lane, key, rank)
        else:
            self._put_between(fresh, words)
        lanes, self.key, self.rank = (
            (lane[self.pair], key[self.pair], rank[self.pair])
            if self._layout is None
            else self._layout.parts(self._words)
        )
        is_first = np.ones(len(self.pair), np.bool_)
        is_first[1:] = (lanes[1:] != lanes[:-1]) | (self.key[1:] != self.key[:-1])
        begins = np.flatnonzero(is_first)
        self._lane_of_group = lanes[begins]
        self.first = np.append(begins, len(lanes))

    def _sort(self, pairs: Ints, lane: Ints, key: Ints, rank: Ints) -> None:
        """Have all pairs in order; O(pairs * log pairs)."""
        lane, key, rank = lane[pairs], key[pairs], rank[pairs]
        in_order = np.lexsort((rank, key, lane))
        self.pair, self._words = pairs[in_order], _NOBODY
        self._layout = _Layout.of(lane, key, rank)
        if self._layout is not None:
            words = self._layout.words(lane[in_order], key[in_order], rank[in_order])
            assert words is not None
            self._words = words

    def _put_between(self, fresh: Ints, words: Ints) -> None:
        """Put pairs with given words between those that are there."""
        in_order = np.argsort(words, kind="stable")
        fresh, words = fresh[in_order], words[in_order]
        place = self._words.searchsorted(words, "right") + np.arange(len(words))
        was_there = np.ones(len(self.pair) + len(fresh), np.bool_)
        was_there[place] = False
        self.pair = _merged(self.pair, fresh, place, was_there)
        self._words = _merged(self._words, words, place, was_there)

    def of_lanes(self, lanes: Ints) -> BandOrder:
        """The same without the pairs of all other lanes; lanes by their numbers. O(pairs of these)."""
        some = np.unique(lanes)
        is_asked = np.zeros(self._lane_of_group[-1] + 2 if len(self._lane_of_group) else 1, np.bool_)
        is_asked[some[some < len(is_asked)]] = True
        is_asked[-1] = False  # the place of those that no event has been in
        kept = np.flatnonzero(is_asked[self._lane_of_group])
        if len(kept) == len(self._lane_of_group):
            return self
        begin, many = self.first[kept], self.first[kept + 1] - self.first[kept]
        first = np.append(0, np.cumsum(many))
        places = np.arange(first[-1]) + np.repeat(begin - first[:-1], many)
        return self.of_pairs(
            first, self._lane_of_group[kept], self.pair[places], self.key[places], self.rank[places]
        )

    def of_pairs(self, first: Ints, lane_of_group: Ints, pair: Ints, key: Ints, rank: Ints) -> BandOrder:
        """An order of some pairs, which are given in order: by group, and by rank in a group."""
        part = BandOrder(self._pairs, self.way)
        part.first, part._lane_of_group = first, lane_of_group
        part.pair, part.key, part.rank = pair, key, rank
        return part

    def spans(self, lanes: Ints) -> tuple[Ints, Ints]:
        """The first group of each lane, and the one after its last; lanes by their numbers."""
        groups = self._lane_of_group
        return groups.searchsorted(lanes), groups.searchsorted(lanes, "right")

    def groups(self, lane: int, ids: Ints | None = None) -> Ints:
        """The groups of a lane, of all keys or of those with some ids, in the order of keys."""
        begin, end = (int(side[0]) for side in self.spans(np.array([lane])))
        if ids is None or begin == end:
            return np.arange(begin, end)
        keys = self.key[self.first[begin:end]]
        place = np.minimum(keys.searchsorted(ids), len(keys) - 1)
        found: Ints = begin + place[keys[place] == ids]
        return found

    def find(self, lane: Ints, key: Ints, cut: Ints) -> Ints:
        """The places at which all is merged that lies above cuts, of lanes and keys; -1 where there is nothing.
        O(groups), and O(log groups) each."""
        words = self._lane_of_group << 32 | self.key[self.first[:-1]]
        wanted = lane << 32 | key
        group = words.searchsorted(wanted)
        is_there = np.append(words, -1)[group] == wanted
        place = np.full(len(lane), -1)
        place[is_there] = self.first_within(group[is_there], cut[is_there])
        is_there[is_there] = place[is_there] < self.first[group[is_there] + 1]
        place[~is_there] = -1
        return place

    def first_within(self, groups: Ints, cut: Ints) -> Ints:
        """Of each group the first place whose rank is not below a cut; the end of the group if there is none."""
        found = np.empty(len(groups), np.int64)
        first_within(self.first, self.rank, groups, cut, found)
        return found

    def cut_of(self, laned: Laned) -> int:
        """The rank of the lowest band that a query reads."""
        return int(self.cuts_of(laned.lanes[:1])[0])

    def cuts_of(self, lanes: Sequence[Lane]) -> Ints:
        """The rank of the lowest band that is read of each lane."""
        ranges = (lane[-1] for lane in lanes)
        return np.array([low if self.way == "up" else ~high for low, high in ranges], np.int64)

    def numbers(self, lanes: Sequence[Lane]) -> Ints:
        return self._pairs.numbers(lanes)

    def entries(self, laned: Laned) -> tuple[Ints, Ints]:
        """For each key of each lane of a query, the place at which all that it reads is merged, with the key."""
        places: list[Ints] = []
        for number in self.numbers(laned.lanes).tolist():
            groups = self.groups(number)
            place = self.first_within(groups, np.full(len(groups), self.cut_of(laned)))
            places.append(place[place < self.first[groups + 1]])
        found = np.concatenate(places)
        return found, self.key[found]


class _Layout(NamedTuple):
    """How lane, key and rank make up a word, in whose order pairs stand; with room for more lanes and keys."""

    ranks: Ints  # all that there are, ascending
    rank_bits: int
    key_bits: int
    lane_bits: int

    @staticmethod
    def of(lane: Ints, key: Ints, rank: Ints) -> _Layout | None:
        """For these, and about as many others; None if words would be too long."""
        ranks = np.unique(rank)
        bits = [len(ranks).bit_length(), *(int(each.max()).bit_length() + 1 for each in (key, lane))]
        return _Layout(ranks, *bits) if sum(bits) <= _WORD else None

    def words(self, lane: Ints, key: Ints, rank: Ints) -> Ints | None:
        """None if there is no room for one of them."""
        place = self.ranks.searchsorted(rank)
        is_known = np.append(self.ranks, 0)[place] == rank
        is_known &= place < len(self.ranks)
        if not is_known.all() or key.max() >> self.key_bits or lane.max() >> self.lane_bits:
            return None
        words: Ints = ((lane << self.key_bits | key) << self.rank_bits) | place
        return words

    def parts(self, words: Ints) -> tuple[Ints, Ints, Ints]:
        """Lane, key and rank of each word."""
        rank = self.ranks[words & ((1 << self.rank_bits) - 1)]
        words = words >> self.rank_bits
        return words >> self.key_bits, words & ((1 << self.key_bits) - 1), rank


def _merged(old: Ints, fresh: Ints, place: Ints, was_there: Bools) -> Ints:
    """Old ones with fresh ones between them, which go to their places."""
    merged = np.empty(len(was_there), np.int64)
    merged[was_there] = old
    merged[place] = fresh
    return merged


def bands_of(state: State, asked: Asked) -> BandPairs:
    """The pairs of a store with a banded attribute as they are now."""
    pairs = places_of(state, asked, BandPairs)
    pairs.arrange()
    return pairs


def pairs_of(state: State, asked: Asked) -> PairPlaces:
    """The pairs of a store as they are now."""
    return order_of(state, asked) if asked.banded is None else bands_of(state, asked)


def accumulated(order: BandOrder, found: Found, needs: Sequence[Need], once: Once) -> Found:
    """What was found of a window for all pairs, as it is merged from the end of each group; made once for all queries.
    O(pairs) for each need."""

    def make(need: Need) -> Partial:
        component, cells, instants = COMPONENTS[need.component], found.partials[need], len(found.start)
        into = component.room(dtype_of(need), instants * len(order.pair))
        kernel = accumulate(component.kind(dtype_of(need)))
        kernel(order.first, order.pair, found.width, instants, *cells, *into)
        return into

    partials = {need: once(("accumulated", order, id(found), need), partial(make, need)) for need in needs}
    return found._replace(partials=partials, width=len(order.pair))
