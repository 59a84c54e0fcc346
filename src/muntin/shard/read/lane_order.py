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
from muntin.store.columns import Columns

_INT = np.dtype(np.int64)
_NOBODY: Ints = np.zeros(0, np.int64)
Thing = TypeVar("Thing")
Places = TypeVar("Places", bound="PairPlaces")


class PairPlaces:
    """The key and the lane of each pair of a store, by its id; all of it known by numbers of its own."""

    _parts: tuple[str, ...] = ()  # what else is known of each pair

    def __init__(self, state: State, asked: Asked):
        self.pairs: KeyDictionary = state.keys[asked.store_keys]
        self._keys = state.keys[asked.keys] if asked.keys else None
        self._asked = asked
        # without attributes all pairs are in one lane
        self._lanes = KeyDictionary([each.type for each in asked.attributes]) if asked.attributes else None
        self._number: dict[Lane, int] = {}  # of lanes that were asked for
        # the key is -1 of a pair that others keep, whose key is not known here yet
        self._known = Columns({"lane": _INT, "key": _INT, **dict.fromkeys(self._parts, _INT)})
        self._waiting: Ints = _NOBODY  # pairs whose key is not known
        self._keys_known = 0
        self.version = 0  # changes whenever pairs come, or a key becomes known
        self._arranged = 0  # the version in which pairs were put in their places
        self._picked: dict[Hashable, Any] = {}  # since then
        self.grid: Any = None  # see pair_grid.py

    def is_of(self, state: State) -> bool:
        """Whether ids are still those of the state's dictionaries."""
        keys = state.keys[self._asked.keys] if self._asked.keys else None
        return self.pairs is state.keys[self._asked.store_keys] and self._keys is keys

    def follow(self) -> None:
        """Learn of new pairs and keys; O(pairs that are new, or wait for their key), if there are any."""
        known, now = len(self._known), len(self.pairs)
        many = self.keys
        is_behind = many > self._keys_known and len(self._waiting) > 0
        if known == now and not is_behind:
            return
        self._keys_known = many
        self.version += 1
        self._picked = {}
        fresh = np.arange(known, now)
        columns = self.pairs.take(fresh)
        of_lanes = columns[len(self._asked.keys) :]
        lanes = np.zeros(len(fresh), np.int64)
        if self._lanes is not None:
            lanes = self._lanes.encode(of_lanes[: len(self._asked.attributes)])
        parts = dict(zip(self._parts, map(np.asarray, of_lanes[len(self._asked.attributes) :]), strict=True))
        self._known.extend({"lane": lanes, "key": self._find_keys(columns), **parts})
        if is_behind:
            self.key_of[self._waiting] = self._find_keys(self.pairs.take(self._waiting))
        unknown = np.append(self._waiting, fresh)
        self._waiting = unknown[self.key_of[unknown] < 0]

    @property
    def keys(self) -> int:
        """How many keys there are; without keys there is one, of all pairs."""
        return 1 if self._keys is None else len(self._keys)

    @property
    def is_waiting(self) -> bool:
        """Whether the key of some pair is not known."""
        return len(self._waiting) > 0

    @property
    def key_of(self) -> Ints:
        """The key of each pair, -1 if it is not known here yet."""
        return self._known["key"]

    def lanes_of(self, pairs: slice) -> list[Ints]:
        """What tells apart the pairs of one key: the number of the lane, and the ends of a band."""
        return [self._known[name][pairs] for name in ("lane", *self._parts)]

    def arrange(self) -> None:
        """Have all pairs in their places; O(pairs), if some are new."""
        if self._arranged != self.version:
            self._arranged = self.version
            self._arrange()

    def picked(self, which: Hashable, pick: Callable[[], Thing]) -> Thing:
        """Places that were picked, as long as these are the same."""
        if which not in self._picked:
            self._picked[which] = pick()
        picked: Thing = self._picked[which]
        return picked

    def _arrange(self) -> None:
        """Put new pairs in their places; or others, whose key has become known."""
        raise NotImplementedError

    def _find_keys(self, columns: Sequence[pa.Array]) -> Ints:
        """The keys of pairs, given their columns."""
        if self._keys is None:
            return np.zeros(len(columns[0]), np.int64)
        return self._keys.find(columns[: len(self._asked.keys)])

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


class InLanes:
    """Pairs in the order of their lanes, and of their keys within a lane."""

    def __init__(self, pair: Ints, words: Ints):
        self.pair = pair  # ids of pairs, in order …
        self.key: Ints = words & 0xFFFFFFFF  # … and of their keys
        self._words = words  # lane and key, in order

    def spans_of(self, number: Ints) -> tuple[Ints, Ints]:
        """Where each of some lanes begins and ends in the order, given their numbers; one that no event has been in yet
        ends where it begins. O(log pairs) each."""
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


class LaneOrder(PairPlaces, InLanes):
    """All pairs of a store without a banded attribute."""

    def __init__(self, state: State, asked: Asked):
        PairPlaces.__init__(self, state, asked)
        InLanes.__init__(self, _NOBODY, _NOBODY)

    def _arrange(self) -> None:
        """O(pairs), since most are in order."""
        words = (self._known["lane"] << 32) | self.key_of  # negative without a key, and then in no lane
        merged = np.concatenate([self.pair, np.arange(len(self.pair), len(words))])
        pair = merged[np.argsort(words[merged], kind="stable")]
        InLanes.__init__(self, pair, words[pair])

    def spans(self, lanes: Sequence[Lane]) -> tuple[Ints, Ints]:
        """Where each of some lanes begins and ends in the order; O(log pairs) each."""
        return self.spans_of(self.numbers(lanes))

    def places(self, lanes: Sequence[Lane], ids: Ints | None) -> Ints | slice:
        """The places of all pairs of some lanes; those of one lane in the order of keys."""
        begin, end = self.spans(lanes)
        if len(begin) == 1:
            return slice(int(begin[0]), int(end[0]))
        return np.concatenate([np.arange(lo, hi) for lo, hi in zip(begin, end, strict=True)])


def places_of(state: State, asked: Asked, kind: type[Places]) -> Places:
    """What is known of the pairs of a store as they are now, though they need not be in their places; which kind it is
    depends on whether an attribute is banded."""
    orders: dict[Asked, Places] = state.prepared.lane_orders
    if asked not in orders or not orders[asked].is_of(state):
        orders[asked] = kind(state, asked)
    orders[asked].follow()
    return orders[asked]


def order_of(state: State, asked: Asked) -> LaneOrder:
    """The order of the pairs of a store as they are now, if no attribute is banded."""
    order = places_of(state, asked, LaneOrder)
    order.arrange()
    return order
