"""Point reads: the windows of some queries at points, one key at one instant each, read once for all of them.

Queries that look at the same window of the same keys share what is found. Of a store with lanes, a point of a query is
several points of the store: one for each pair of its key and a lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.expression import Expression
from muntin.lane import Laned
from muntin.shard.adapt.timed import timed_together
from muntin.shard.read.picked import pick
from muntin.shard.read.reading import GroupWindow, Reading, reading_of
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.structure.synopsis import Asked, Found
from muntin.window import Pace, Window

Keys = tuple[tuple[Expression, ...], tuple[int, ...]]  # what keys are, and the columns that name them


class _Place(NamedTuple):
    """What windows have in common that are read together."""

    number: int  # of their group
    laned: Laned | None
    keys: Keys


class _Standing(NamedTuple):
    """A window, and the slide of the queries that look at it."""

    window: Window
    pace: Pace


class PointReads:
    """Reads the windows of queries, whose keys are named by columns, at instants."""

    def __init__(self, state: State, asked: Mapping[str, Sequence[pa.Array]], at: Ints):
        self._state = state
        self._at = at
        self._asked = asked  # kept, so that the ids of columns stay their own
        self._settled: dict[Pace, Ints] = {}
        self._ids: dict[Keys, Ints] = {}
        self._lanes: dict[tuple[Laned, Keys], _InLanes] = {}
        self._orders: dict[int, tuple[Ints, Ints]] = {}  # by the identity of ids, which are kept
        self._needs: dict[_Place, dict[_Standing, dict[Need, None]]] = {}
        self._found: dict[_Place, dict[_Standing, Found]] = {}
        for name in asked:
            reading = reading_of(state, name)
            for wanted in reading.windows:
                windows = self._needs.setdefault(self._place(name, reading, wanted), {})
                standing = _Standing(wanted.window, reading.query.pace)
                windows.setdefault(standing, {}).update(dict.fromkeys(wanted.needs))

    def instants(self, name: str) -> Ints:
        """Where a query stands for each point."""
        return self._on(reading_of(self._state, name).query.pace)

    def found(self, name: str) -> list[Found]:
        """What there is of each window of a query, a slot for each point."""
        reading = reading_of(self._state, name)
        return [
            self._find(self._place(name, reading, wanted))[_Standing(wanted.window, reading.query.pace)]
            for wanted in reading.windows
        ]

    def _place(self, name: str, reading: Reading, wanted: GroupWindow) -> _Place:
        keys = (reading.query.key_expressions, tuple(map(id, self._asked[name])))
        return _Place(wanted.number, wanted.laned or reading.laned, keys)

    def _on(self, pace: Pace) -> Ints:
        if pace not in self._settled:
            self._settled[pace] = pace.floor(self._at)
        return self._settled[pace]

    def _find(self, place: _Place) -> dict[_Standing, Found]:
        if place not in self._found:
            self._found[place] = {}
            for pace in dict.fromkeys(standing.pace for standing in self._needs[place]):
                self._found[place] |= self._read(place, pace)
        return self._found[place]

    def _read(self, place: _Place, pace: Pace) -> dict[_Standing, Found]:
        """All windows of a place that queries of one pace look at."""
        number, laned, keys = place
        windows = {
            each.window: tuple(needs) for each, needs in self._needs[place].items() if each.pace == pace
        }
        settled = {window: window.settle(self._on(pace)) for window in windows}
        if laned is None:
            asked = {window: Asked(settled[window], needs) for window, needs in windows.items()}
            found = self._lookup(number, asked, self._key_ids(keys) if keys[0] else None)
        else:
            lanes = self._in_lanes(laned, keys)
            asked = {window: Asked(settled[window][lanes.point], needs) for window, needs in windows.items()}
            known_since = self._state.lanes[laned.asked].known_since(laned.lanes)
            found = {
                window: lanes.merged(each, windows[window], window, known_since)
                for window, each in self._lookup(number, asked, lanes.pair).items()
            }
        return {_Standing(window, pace): each for window, each in found.items()}

    def _lookup(self, number: int, asked: Mapping[Window, Asked], ids: Ints | None) -> dict[Window, Found]:
        if ids is None:
            counts = {window: len(each.instants) for window, each in asked.items()}
            return timed_together(
                self._state, number, counts, lambda synopsis: synopsis.lookup_points(asked, None)
            )
        # not timed: what it costs per key says nothing of look-ups of all keys
        order, back = self._by_key(ids)
        in_order = {window: each._replace(instants=each.instants[order]) for window, each in asked.items()}
        found = self._state.synopses[number].lookup_points(in_order, ids[order])
        return {
            window: _put_back(each, back, window, asked[window].instants) for window, each in found.items()
        }

    def _by_key(self, ids: Ints) -> tuple[Ints, Ints]:
        """The points in the order of their keys, later ones first, so that what is read of a key is read together; and
        where each of them then is."""
        if id(ids) not in self._orders:
            order = np.lexsort((-self._at if len(ids) == len(self._at) else np.arange(len(ids)), ids))
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            self._orders[id(ids)] = order, back
        return self._orders[id(ids)]

    def _key_ids(self, keys: Keys) -> Ints:
        """The id of each point's key; one that no key has, if it is unknown."""
        if keys not in self._ids:
            expressions, columns = keys
            known = self._state.keys[expressions]
            given = next(some for some in self._asked.values() if tuple(map(id, some)) == columns)
            found = known.find(given)
            self._ids[keys] = np.where(found < 0, len(known), found)
        return self._ids[keys]

    def _in_lanes(self, laned: Laned, keys: Keys) -> _InLanes:
        which = (laned, keys)
        if which not in self._lanes:
            nobody = len(self._state.keys[laned.asked.store_keys])
            ids = self._key_ids(keys) if keys[0] else None
            self._lanes[which] = _in_lanes(self._state, laned, ids, len(self._at), nobody)
        return self._lanes[which]


def _put_back(found: Found, back: Ints, window: Window, instants: Ints) -> Found:
    """What was found in another order."""
    if window.is_time:
        start, end = window.start(instants), instants - window.to
    else:
        start, end = found.start[back], found.end[back]
    return found._replace(
        partials={need: tuple(array[back] for array in partial) for need, partial in found.partials.items()},
        start=start,
        end=end,
        is_whole=found.is_whole[back],
        is_full=None if found.is_full is None else found.is_full[back],
    )


class _InLanes(NamedTuple):
    """The pairs of a key and a lane that each point reads, one after the other; of a point without any, one that has no
    events."""

    point: Ints
    pair: Ints
    first: Ints  # of each point: its first pair
    is_known: Bools  # whether it has any

    def merged(self, found: Found, needs: Sequence[Need], window: Window, known_since: int) -> Found:
        """What is found of each point, given what is found of all pairs."""
        is_whole = found.is_whole[self.first]
        if not window.is_time:  # of which a key has one pair at most
            assert found.is_full is not None
            lacks_nothing = known_since == LONG_AGO or window.size == window.to
            is_whole = np.where(
                self.is_known, is_whole & (found.is_full[self.first] | lacks_nothing), lacks_nothing
            )
        return Found(
            {need: self._merged(need, found.partials[need]) for need in needs},
            found.start[self.first],
            found.end[self.first],
            is_whole,
            {need: max(found.known_since[need], known_since) for need in needs},
            1,
        )

    def _merged(self, need: Need, partial: Partial) -> Partial:
        if len(self.point) == len(self.first):
            return partial
        component, many = COMPONENTS[need.component], len(self.first)
        into = component.start(dtype_of(need), many)
        begin, end = np.zeros(1, np.int64), np.array([len(self.point)])
        component.merge(begin, end, many, self.point, partial, into)
        return into


def _in_lanes(state: State, laned: Laned, ids: Ints | None, many: int, nobody: int) -> _InLanes:
    if ids is None:
        picked, place = pick(state, laned), np.zeros(many, np.int64)
    else:
        some, place = np.unique(ids, return_inverse=True)
        picked = pick(state, laned, some)
    slot = np.arange(len(picked.pairs)) if picked.slot is None else picked.slot
    edges = np.searchsorted(slot, np.arange(len(picked.keys) + 1))
    has = (edges[1:] - edges[:-1])[place]
    rows = np.maximum(has, 1)
    first = np.cumsum(rows) - rows
    pairs = np.append(picked.pairs, nobody)
    begin = np.where(has > 0, edges[:-1][place], len(picked.pairs))
    index = np.arange(int(rows.sum())) + np.repeat(begin - first, rows)
    return _InLanes(np.repeat(np.arange(many), rows), pairs[index], first, has > 0)
