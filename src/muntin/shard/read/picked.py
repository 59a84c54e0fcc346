"""Picked lanes: what one query reads of a store that it shares with queries which have other constants.

The store has a partial for each *pair* of a key and a lane. A query picks the pairs of its lanes; if it has several
lanes, the partials of one key are merged. So `WHERE category IN ('fuel', 'food') GROUP BY account` picks two pairs of
an account that paid for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import LONG_AGO, Ints
from muntin.lane import Asked, Laned
from muntin.shard.read.band_order import BandOrder, bands_of
from muntin.shard.read.lane_order import order_of
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.structure.synopsis import Found
from muntin.window import Window

_ONE_KEY = np.zeros(1, np.int64)


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
    """The pairs of some lanes, and of all bands in their range; of all keys, or of keys with given ids."""
    asked = laned.asked
    order = order_of(state, asked) if asked.banded is None else bands_of(state, asked)
    places = order.places(laned.lanes, ids)
    pairs, keys = order.pair[places], order.key[places]
    if len(laned.lanes) > 1:
        in_order = np.argsort(keys, kind="stable")
        pairs, keys = pairs[in_order], keys[in_order]
    return picked_of(pairs, keys, asked, ids, is_once=len(laned.lanes) == 1 and asked.banded is None)


def pick_entries(order: BandOrder, laned: Laned) -> Picked:
    """Places in an order of bands, for a query that reads all bands above a cut, or below it: what has been merged
    there is all that it reads of a key in one of its lanes; of all keys that have such a place. O(keys)."""
    places, keys = order.entries(laned)
    if len(laned.lanes) > 1:
        in_order = np.argsort(keys, kind="stable")
        places, keys = places[in_order], keys[in_order]
    return picked_of(places, keys, laned.asked, None, is_once=len(laned.lanes) == 1)


def picked_of(pairs: Ints, keys: Ints, asked: Asked, ids: Ints | None, is_once: bool) -> Picked:
    """Pairs in the order of their keys; `is_once` says that each key has just one."""
    if not asked.keys:
        return Picked(pairs, _ONE_KEY, None if len(pairs) == 1 else np.zeros(len(pairs), np.int64))
    if ids is None:
        if is_once:
            return Picked(pairs, keys, None)
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


def taken_rows(
    found: Found, picked: Picked, needs: Sequence[Need], known_since: int, window: Window, instants: int
) -> Found:
    """The same of a ROWS window, which lies elsewhere for each pair. A key has one pair, or none: then nothing was seen
    of it. What a lane had before it was known may be among the rows, unless the window is full without it."""
    width, many = len(picked.keys), len(found.start) // max(instants, 1)
    slot = np.arange(len(picked.pairs)) if picked.slot is None else picked.slot
    source = (np.arange(instants)[:, None] * many + picked.pairs).ravel()
    target = (np.arange(instants)[:, None] * width + slot).ravel()

    def spread(array: Array, nothing: Any) -> Array:
        out = np.full(instants * width, nothing, array.dtype)
        out[target] = array[source]
        return out

    assert found.is_full is not None
    lacks_nothing = known_since == LONG_AGO or window.size == window.to
    return Found(
        {
            need: tuple(
                spread(array, nothing)
                for array, (_, nothing) in zip(
                    found.partials[need], COMPONENTS[need.component].identity(dtype_of(need)), strict=True
                )
            )
            for need in needs
        },
        spread(found.start, 0),
        spread(found.end, 0),
        spread(found.is_whole & (found.is_full | lacks_nothing), lacks_nothing),
        {need: max(found.known_since[need], known_since) for need in needs},
        1,
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
