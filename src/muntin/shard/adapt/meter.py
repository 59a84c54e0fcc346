"""The meter: what insertions and look-ups of each window group cost, without costing much itself.

The clock is read once per group and insertion, and twice per look-up of many windows. Single look-ups take
a microsecond or two, so only some of them are timed: the first, then ever fewer, down to one in 251 (a prime, so
that it does not keep step with a loop over queries), and more again after an insertion. The one that is timed
stands for those since the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.crew import QUICK, Crew
from muntin.plan.cost import Observed
from muntin.plan.group import StoreId

if TYPE_CHECKING:
    from muntin.shard.state import State


# The profile of a look-up: how many windows it asks of each window group, and how wide they are.

_MOST = 4096  # profiles that are kept


class GroupLookups(NamedTuple):
    """What is asked of one group."""

    group: int
    width: int  # of its windows, in the mean: microseconds or events
    is_time: bool
    lookups: int  # windows, once for each component


Profile = tuple[GroupLookups, ...]


def profile_of(state: State, names: tuple[str, ...]) -> Profile:
    """Of looking some queries up, once; made once for the same names, until the plan changes."""
    if names not in state.prepared.profiles:
        if len(state.prepared.profiles) >= _MOST:
            state.prepared.profiles.clear()
        state.prepared.profiles[names] = _profile(state, names)
    profile: Profile = state.prepared.profiles[names]
    return profile


def _profile(state: State, names: tuple[str, ...]) -> Profile:
    found: dict[tuple[int, bool], list[int]] = {}
    for name in names:
        for call in state.manager.placements[name].calls:
            for number, demand in call:
                width = demand.window.size - demand.window.to
                found.setdefault((number, demand.window.is_time), []).append(width)
    return tuple(
        GroupLookups(number, sum(widths) // len(widths), is_time, len(widths))
        for (number, is_time), widths in found.items()
    )


_SELDOM = 251  # single look-ups for each one that is timed
_SOON = 8  # the same after an insertion: the load may have turned


class Meter:
    """Counters of one shard."""

    def __init__(self) -> None:
        self.groups: dict[int, Observed] = {}
        self.stores: dict[StoreId, Observed] = {}
        self.singles = 0  # single look-ups since the last one that was timed
        self.next_timed = 1  # the single look-up, counted so, that will be
        self._soon = _SOON  # it will be after an insertion, at the latest

    def time_insertion(self, stores: Mapping[StoreId, Any], batch: Any, crew: Crew) -> None:
        """Have every store insert a batch, side by side if it is large, and note how long each takes."""

        def insert(store: Any) -> int:
            before = perf_counter_ns()
            store.insert(batch)
            return perf_counter_ns() - before

        took = crew.fit_for(len(batch) // QUICK).share([partial(insert, store) for store in stores.values()])
        for name, nanoseconds in zip(stores, took, strict=True):
            self.stores[name].updates.observe(len(batch), nanoseconds)

    def time_following(self, synopses: Mapping[int, Any], events: int) -> None:
        """Have every synopsis follow its store, and note how long each takes."""
        self.next_timed = min(self.next_timed, self._soon)
        before = perf_counter_ns()
        for number, synopsis in synopses.items():
            synopsis.insert()
            now = perf_counter_ns()
            self.groups[number].updates.observe(events, now - before)
            before = now

    def begin_again(self, number: int, is_scanned: bool) -> None:
        """Another structure serves a group; if a scan does, no look-up after an insertion goes unnoticed."""
        self.groups[number].begin_again()
        self.next_timed, self._soon = 1, 1 if is_scanned else _SOON

    def take_singles(self) -> int:
        """How many single look-ups the one that is timed now stands for."""
        counted, self.singles = self.singles, 0
        self.next_timed = min(2 * self.next_timed, _SELDOM)
        return counted

    def looked_up(self, profile: Profile, nanoseconds: int, times: int = 1) -> None:
        """A look-up took so long, and `times` of them were made; groups share it by how much was asked of each."""
        lookups = sum(part.lookups for part in profile) or 1
        for part in profile:
            share = nanoseconds * times * part.lookups // lookups
            self.groups[part.group].lookups.observe(part.lookups * times, share)
