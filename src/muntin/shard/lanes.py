"""Lanes at work: which of them queries ask for, and from when on the events of each are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Ints
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Asked, Lane, columns_of_lanes
from muntin.plan.explain import LanesSeen
from muntin.shard.pair_table import PairTable
from muntin.store.saved import Saved


class Lanes(ABC):
    """Those of one store. What it takes to find the lane of an event does not depend on how many lanes there are."""

    def __init__(self, asked: Asked):
        self.asked = asked
        self._known_since: dict[Lane, int] = {}  # of lanes that were asked for
        self.version = 0  # changes whenever lanes come or go
        self._events = self._passed = 0  # since there are such lanes
        self.forget_pairs()

    @property
    @abstractmethod
    def _room(self) -> int:
        """Numbers of lanes are below this."""

    def forget_pairs(self) -> None:
        """Ids of lanes, of keys or of pairs of both are different from now on."""
        self._pairs = PairTable(self._room)

    @abstractmethod
    def fit(self, changed: Collection[Lane], wanted: Mapping[Lane, int], now: int | None) -> None:
        """Let the events of lanes in `changed` pass from now on if they are wanted, else no longer."""

    @abstractmethod
    def find(self, indexed: Sequence[pa.Array]) -> Ints:
        """The lane of each event, given what is indexed of it; -1 if nobody asks for it. O(events)."""

    @abstractmethod
    def find_folded(self, columns: Sequence[pa.Array]) -> Ints:
        """The lane that each of some lanes is, or lies in, that events were folded by elsewhere: values of attributes
        and the ends of a band; -1 if nobody asks for it here. An error if such a band lies in two of those here."""

    def pair_ids(
        self,
        pairs: KeyDictionary,
        key: Ints | None,
        lane: Ints,
        values_of: Callable[[Ints], Sequence[pa.Array]],
    ) -> Ints:
        """The ids in `pairs` of events, given the ids of their keys and lanes. Those that have not been seen yet are
        looked up by the values of some of the events. One look into a table an event, whatever the keys are."""

        def make(some: Ints) -> Ints:
            return pairs.encode([*values_of(some), *self._ends(lane[some])])

        return self._pairs.ids(np.zeros(len(lane), np.int64) if key is None else key, lane, make)

    def _ends(self, lane: Ints) -> list[pa.Array]:
        """The last columns of the store's keys, if these are not values of events."""
        return []

    def note(self, events: int, passed: int) -> None:
        """So many events came, of which so many are in a lane and pass the rest of the filter."""
        self._events += events
        self._passed += passed

    @abstractmethod
    def seen(self) -> LanesSeen: ...

    @abstractmethod
    def known_from(self, lanes: Sequence[Lane]) -> Ints:
        """For each of some lanes, the instant from which on all its events have been kept."""

    def known_since(self, lanes: Sequence[Lane]) -> int:
        """The instant from which on all events of all these lanes have been kept."""
        unknown = [lane for lane in lanes if lane not in self._known_since]
        if unknown:
            self._known_since |= zip(unknown, self.known_from(unknown).tolist(), strict=True)
        return max(self._known_since[lane] for lane in lanes)

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, saved: Saved) -> None:
        """Have the lanes of a snapshot in place of all that are here, which must be the same: queries ask for them."""

    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def check(self, wanted: Mapping[Lane, int]) -> None: ...


class PointLanes(Lanes):
    """Lanes of values, without a banded attribute."""

    def __init__(self, asked: Asked):
        self._ids = KeyDictionary([each.type for each in asked.attributes])
        self._known_from: Ints = np.zeros(0, np.int64)  # by id
        self._most = 1  # lanes that there is room for
        super().__init__(asked)

    @property
    def _room(self) -> int:
        return self._most

    def fit(self, changed: Collection[Lane], wanted: Mapping[Lane, int], now: int | None) -> None:
        self._known_since = {}
        self.version += 1
        came = [lane for lane in changed if lane in wanted]
        gone = [lane for lane in changed if lane not in wanted]
        if gone:
            ids = self._ids.find(columns_of_lanes(self.asked, gone))
            kept = np.ones(len(self._ids), np.bool_)
            kept[ids[ids >= 0]] = False
            self._ids.retain(kept)
            self.forget_pairs()
            self._known_from = self._known_from[kept]
        if came:
            self._ids.encode(columns_of_lanes(self.asked, came))
            fresh = np.full(len(self._ids) - len(self._known_from), LONG_AGO if now is None else now)
            self._known_from = np.concatenate([self._known_from, fresh])
            if len(self._ids) > self._most:
                self._most = len(self._ids) if now is None else 2 * len(self._ids)
                self.forget_pairs()

    def find(self, indexed: Sequence[pa.Array]) -> Ints:
        return self._ids.find(indexed)

    def find_folded(self, columns: Sequence[pa.Array]) -> Ints:
        return self._ids.find(columns)

    def seen(self) -> LanesSeen:
        return LanesSeen(len(self._ids), self._passed, self._events)

    def known_from(self, lanes: Sequence[Lane]) -> Ints:
        known: Ints = self._known_from[self._ids.find(columns_of_lanes(self.asked, lanes))]
        return known

    def snapshot(self) -> dict[str, Any]:
        columns = {str(number): values for number, values in enumerate(self._ids.snapshot())}
        return {**columns, "known_from": self._known_from}

    def restore(self, saved: Saved) -> None:
        wanted = self._ids.take(np.arange(len(self._ids)))
        self._ids.restore(saved)
        if len(self._ids) != len(wanted[0]) or (self._ids.find(wanted) < 0).any():
            raise saved.damaged("0", "has other values than the queries ask for")
        self._most = max(self._most, len(self._ids))
        self.forget_pairs()
        self._known_since = {}
        self.version += 1
        self._known_from = saved.times("known_from", len(self._ids), order="any").copy()

    def nbytes(self) -> int:
        return self._ids.nbytes() + self._known_from.nbytes + self._pairs.nbytes()

    def check(self, wanted: Mapping[Lane, int]) -> None:
        self._ids.check()
        # there is an id for each lane that a query reads, and for no other
        assert len(self._ids) == len(self._known_from) == len(wanted)
        assert (self._ids.find(columns_of_lanes(self.asked, list(wanted))) >= 0).all()


def check_lanes(lanes: Mapping[Asked, Lanes], wanted: Mapping[Asked, Mapping[Lane, int]]) -> None:
    """Assert that the events of lanes pass which some query reads, and of no other."""
    assert lanes.keys() == wanted.keys()
    for asked, each in lanes.items():
        each.check(wanted[asked])
