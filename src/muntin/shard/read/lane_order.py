"""The pairs of a store with lanes, in an order in which those of one lane stand side by side."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Asked, Lane, columns_of_lanes
from muntin.shard.state import State

_NOBODY: Ints = np.zeros(0, np.int64)
Thing = TypeVar("Thing")
Places = TypeVar("Places", bound="PairPlaces")


class PairPlaces:
    """The key and the lane of each pair of a store, by its id; all of it known by numbers of its own."""

    def __init__(self, state: State, asked: Asked):
        self.pairs: KeyDictionary = state.keys[asked.store_keys]
        self._keys = state.keys[asked.keys] if asked.keys else None
        self._asked = asked
        # without attributes all pairs are in one lane
        self._lanes = KeyDictionary([each.type for each in asked.attributes]) if asked.attributes else None
        self._number: dict[Lane, int] = {}  # of lanes that were asked for
        self._lane_of: Ints = _NOBODY
        self._key_of: Ints = _NOBODY  # -1 of a pair that others keep, whose key is not known here yet
        self._keys_known = 0
        self.version = 0  # changes whenever pairs are put in their places
        self._picked: dict[Hashable, Any] = {}  # since then

    def is_of(self, state: State) -> bool:
        """Whether ids are still those of the state's dictionaries."""
        keys = state.keys[self._asked.keys] if self._asked.keys else None
        return self.pairs is state.keys[self._asked.store_keys] and self._keys is keys

    def follow(self) -> None:
        """Learn of new pairs and keys; O(pairs that are new, or wait for their key), if there are any."""
        known, now = len(self._lane_of), len(self.pairs)
        many = 0 if self._keys is None else len(self._keys)
        is_behind = many > self._keys_known and bool((self._key_of < 0).any())
        if known == now and not is_behind:
            return
        self._keys_known = many
        self.version += 1
        self._picked = {}
        fresh = np.arange(known, now)
        columns = self.pairs.take(fresh)[len(self._asked.keys) :]
        lanes = np.zeros(len(fresh), np.int64)
        if self._lanes is not None:
            lanes = self._lanes.encode(columns[: len(self._asked.attributes)])
        self._lane_of = np.concatenate([self._lane_of, lanes])
        self._key_of = np.concatenate([self._key_of, np.full(now - known, -1)])
        unknown = np.flatnonzero(self._key_of < 0)
        self._key_of[unknown] = self._find_keys(unknown)
        self._arrange(fresh, columns)

    def picked(self, which: Hashable, pick: Callable[[], Thing]) -> Thing:
        """Places that were picked, as long as these are the same."""
        if which not in self._picked:
            self._picked[which] = pick()
        picked: Thing = self._picked[which]
        return picked

    def _arrange(self, fresh: Ints, columns: Sequence[pa.Array]) -> None:
        """Put new pairs in their places, given the columns of their lanes; or others, whose key has become known."""
        raise NotImplementedError

    def _find_keys(self, pairs: Ints) -> Ints:
        if self._keys is None:
            return np.zeros(len(pairs), np.int64)
        return self._keys.find(self.pairs.take(pairs)[: len(self._asked.keys)])

    def numbers(self, lanes: Sequence[Lane]) -> Ints:
        """Of some lanes, whatever their range; -1 of one that no event has been in yet."""
        if self._lanes is None:
            return np.zeros(len(lanes), np.int64)
        points = [lane[: len(self._asked.attributes)] for lane in lanes]
        unknown = [lane for lane in dict.fromkeys(points) if lane not in self._number]
        if unknown:
            numbers = self._lanes.find(columns_of_lanes(self._asked, unknown)).tolist()
            self._number |= {lane: each for lane, each in zip(unknown, numbers, strict=True) if each >= 0}
        return np.array([self._number.get(lane, -1) for lane in points])


class LaneOrder(PairPlaces):
    """The pairs of a store in the order of their lanes, and of their keys within a lane."""

    def __init__(self, state: State, asked: Asked):
        super().__init__(state, asked)
        self.pair: Ints = _NOBODY  # ids of pairs, in order …
        self.key: Ints = _NOBODY  # … and of their keys
        self._words: Ints = _NOBODY  # lane and key, in order

    def _arrange(self, fresh: Ints, columns: Sequence[pa.Array]) -> None:
        """O(pairs), since most are in order."""
        words = (self._lane_of << 32) | self._key_of  # negative without a key, and then in no lane
        merged = np.concatenate([self.pair, fresh])
        self.pair = merged[np.argsort(words[merged], kind="stable")]
        self._words = words[self.pair]
        self.key = self._words & 0xFFFFFFFF

    def spans(self, lanes: Sequence[Lane]) -> tuple[Ints, Ints]:
        """Where each of some lanes begins and ends in the order; O(log pairs) each."""
        return self.spans_of(self.numbers(lanes))

    def spans_of(self, number: Ints) -> tuple[Ints, Ints]:
        """The same, given the numbers of lanes; one that no event has been in yet ends where it begins."""
        words = number << 32
        return self._words.searchsorted(words), self._words.searchsorted(
            np.where(words < 0, words, words + (1 << 32))
        )

    def find(self, number: Ints, key: Ints) -> Ints:
        """The pairs of lanes and keys; -1 where there is none. O(log pairs) each."""
        words = number << 32 | key
        place = self._words.searchsorted(words)
        is_there = np.append(self._words, -1)[place] == words
        found: Ints = np.where(is_there & (number >= 0), np.append(self.pair, -1)[place], -1)
        return found

    def places(self, lanes: Sequence[Lane], ids: Ints | None) -> Ints | slice:
        """The places of all pairs of some lanes; those of one lane in the order of keys."""
        begin, end = self.spans(lanes)
        if len(begin) == 1:
            return slice(int(begin[0]), int(end[0]))
        return np.concatenate([np.arange(lo, hi) for lo, hi in zip(begin, end, strict=True)])


def places_of(state: State, asked: Asked, kind: type[Places]) -> Places:
    """The pairs of a store as they are now; which kind it is depends on whether an attribute is banded."""
    orders: dict[Asked, Places] = state.prepared.lane_orders
    if asked not in orders or not orders[asked].is_of(state):
        orders[asked] = kind(state, asked)
    orders[asked].follow()
    return orders[asked]


def order_of(state: State, asked: Asked) -> LaneOrder:
    """The order of the pairs of a store as they are now, if no attribute is banded."""
    return places_of(state, asked, LaneOrder)
