"""Picked lanes: what one query reads of a store that it shares with queries which have other constants.

The store has a partial for each *pair* of a key and a lane. A query picks the pairs of its lanes; if it has several
lanes, the partials of one key are merged. So `WHERE category IN ('fuel', 'food') GROUP BY account` picks two pairs of
an account that paid for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Partial
from muntin.arrays import Ints
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Asked, Lane, Laned, columns_of_lanes
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.structure.synopsis import Found

_NOBODY, _ONE_KEY = np.zeros(0, np.int64), np.zeros(1, np.int64)


class LaneOrder:
    """The pairs of a store in the order of their lanes, and of their keys within a lane."""

    def __init__(self, state: State, asked: Asked):
        self.pairs: KeyDictionary = state.keys[asked.store_keys]
        self._keys = state.keys[asked.keys] if asked.keys else None
        self._asked = asked
        self._lanes = KeyDictionary([each.type for each in asked.attributes])
        self._number: dict[Lane, int] = {}  # of lanes that were asked for
        self._lane_of: Ints = _NOBODY  # by id of pair
        self._key_of: Ints = (
            _NOBODY  # the same; -1 of a pair that others keep, whose key is not known here yet
        )
        self._keys_known = 0
        self.pair: Ints = _NOBODY  # ids of pairs, in order …
        self.key: Ints = _NOBODY  # … and of their keys
        self._words: Ints = _NOBODY  # lane and key, in order
        self.version = 0  # changes whenever the order does

    def is_of(self, state: State) -> bool:
        """Whether ids are still those of the state's dictionaries."""
        keys = state.keys[self._asked.keys] if self._asked.keys else None
        return self.pairs is state.keys[self._asked.store_keys] and self._keys is keys

    def follow(self) -> None:
        """Put new pairs in their places; O(pairs) if there are any, since most are in order."""
        known, now = len(self._lane_of), len(self.pairs)
        many = 0 if self._keys is None else len(self._keys)
        is_behind = many > self._keys_known and bool((self._key_of < 0).any())
        if known == now and not is_behind:
            return
        self._keys_known = many
        self.version += 1
        fresh = np.arange(known, now)
        self._lane_of = np.concatenate(
            [self._lane_of, self._lanes.encode(self.pairs.take(fresh)[len(self._asked.keys) :])]
        )
        self._key_of = np.concatenate([self._key_of, np.full(now - known, -1)])
        unknown = np.flatnonzero(self._key_of < 0)
        self._key_of[unknown] = self._find_keys(unknown)
        words = (self._lane_of << 32) | self._key_of  # negative without a key, and then in no lane
        merged = np.concatenate([self.pair, fresh])
        self.pair = merged[np.argsort(words[merged], kind="stable")]
        self._words = words[self.pair]
        self.key = self._words & 0xFFFFFFFF

    def _find_keys(self, pairs: Ints) -> Ints:
        if self._keys is None:
            return np.zeros(len(pairs), np.int64)
        return self._keys.find(self.pairs.take(pairs)[: len(self._asked.keys)])

    def spans(self, lanes: Sequence[Lane]) -> tuple[Ints, Ints]:
        """Where each of some lanes begins and ends in the order; O(log pairs) each."""
        unknown = [lane for lane in lanes if lane not in self._number]
        if unknown:
            numbers = self._lanes.find(columns_of_lanes(self._asked, unknown)).tolist()
            self._number |= {lane: each for lane, each in zip(unknown, numbers, strict=True) if each >= 0}
        return self.spans_of(np.array([self._number.get(lane, -1) for lane in lanes]))

    def numbers(self, attributes: Sequence[pa.Array]) -> Ints:
        """The numbers of lanes, given their attributes; -1 of those that no event has been in. O(lanes)."""
        return self._lanes.find(attributes)

    def find(self, number: Ints, key: Ints) -> Ints:
        """The pairs of lanes and keys; -1 where there is none. O(log pairs) each."""
        words = number << 32 | key
        place = self._words.searchsorted(words)
        is_there = np.append(self._words, -1)[place] == words
        found: Ints = np.where(is_there & (number >= 0), np.append(self.pair, -1)[place], -1)
        return found

    def spans_of(self, number: Ints) -> tuple[Ints, Ints]:
        """Where lanes with some numbers begin and end; one that no event has been in yet ends where it begins."""
        words = number << 32
        return self._words.searchsorted(words), self._words.searchsorted(
            np.where(words < 0, words, words + (1 << 32))
        )


def order_of(state: State, asked: Asked) -> LaneOrder:
    """The order of the pairs of a store as they are now."""
    orders: dict[Asked, LaneOrder] = state.prepared.lane_orders
    if asked not in orders or not orders[asked].is_of(state):
        orders[asked] = LaneOrder(state, asked)
    orders[asked].follow()
    return orders[asked]


class Picked(NamedTuple):
    """Pairs in the order of their keys; `keys` has each key once. Keys that were asked for by their ids are all there,
    with or without pairs; without GROUP BY there is the one key 0."""

    pairs: Ints
    keys: Ints
    slot: Ints | None  # of each pair: the place of its key; None if every key has just one pair

    def among(self, ids: Ints) -> Picked:
        """The same pairs by their places in ascending ids of pairs."""
        return self._replace(pairs=np.searchsorted(ids, self.pairs))


def pick(state: State, laned: Laned, ids: Ints | None = None) -> Picked:
    """The pairs of some lanes; of all keys, or of keys with given ids."""
    order = order_of(state, laned.asked)
    begin, end = order.spans(laned.lanes)
    if len(begin) == 1:
        pairs, keys = (each[begin[0] : end[0]] for each in (order.pair, order.key))
        if laned.asked.keys and ids is None:
            return Picked(pairs, keys, None)
    else:
        places = np.concatenate([np.arange(lo, hi) for lo, hi in zip(begin, end, strict=True)])
        places = places[np.argsort(order.key[places], kind="stable")]
        pairs, keys = order.pair[places], order.key[places]
    if not laned.asked.keys:
        return Picked(pairs, _ONE_KEY, None if len(pairs) == 1 else np.zeros(len(pairs), np.int64))
    if ids is None:
        first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        return Picked(pairs, keys[first], None if first.all() else np.cumsum(first) - 1)
    lo, hi = keys.searchsorted(ids), keys.searchsorted(ids, "right")
    many = hi - lo  # pairs of each key that was asked for
    pairs = pairs[np.arange(many.sum()) + np.repeat(lo - np.cumsum(many) + many, many)]
    return Picked(pairs, ids, None if (many == 1).all() else np.repeat(np.arange(len(ids)), many))


def taken(found: Found, picked: Picked, needs: Sequence[Need], known_since: int) -> Found:
    """What a query finds of a window of all pairs, or of those that it picked by `among`. O(pairs picked)."""
    instants, width = len(found.start), found.width
    places = (np.arange(instants)[:, None] * width + picked.pairs).ravel()
    return Found(
        {need: _merged(need, found.partials[need], places, picked, instants) for need in needs},
        found.start,
        found.end,
        found.is_whole,
        {need: max(found.known_since[need], known_since) for need in needs},
        len(picked.keys),
    )


def _merged(need: Need, partial: Partial, places: Ints, picked: Picked, instants: int) -> Partial:
    cells = tuple(array[places] for array in partial)
    if picked.slot is None:
        return cells
    component, width, many = COMPONENTS[need.component], len(picked.keys), len(picked.pairs)
    into = component.start(dtype_of(need), instants * width)
    begin = np.arange(instants) * many
    component.merge(begin, begin + many, width, np.tile(picked.slot, instants), cells, into)
    return into
