"""Look-ups that are foretold to the adaptation, timed, and noted by the meter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, TypeVar

from muntin.shard.adapt.meter import GroupLookups, Profile, profile_of
from muntin.shard.read.point import PointReader, reader_of
from muntin.shard.state import State
from muntin.structure.synopsis import Synopsis
from muntin.window import Window

T = TypeVar("T")


def timed(state: State, number: int, window: Window, lookups: int, ask: Callable[[Synopsis[Any]], T]) -> T:
    """Ask the synopsis of a group for a window at so many instants."""
    profile: Profile = (GroupLookups(number, window.size - window.to, window.is_time, lookups),)
    return timed_as(state, profile, lambda: ask(state.synopses[number]))


def timed_together(
    state: State, number: int, windows: Mapping[Window, int], ask: Callable[[Synopsis[Any]], T]
) -> T:
    """Ask the synopsis of a group for many windows at once, each at so many instants."""
    profile = tuple(
        GroupLookups(number, each.size - each.to, each.is_time, count) for each, count in windows.items()
    )
    return timed_as(state, profile, lambda: ask(state.synopses[number]))


def timed_as(state: State, profile: Profile, ask: Callable[[], T]) -> T:
    """Ask for what a profile says; `ask` finds the synopses that are there then."""
    if state.adaptation is not None:
        state.adaptation.before_lookup(profile, is_now=False)
    return _noted(state, profile, 1, ask)


def timed_single(state: State, name: str, ask: Callable[[PointReader], T]) -> T:
    """Ask the reader of a query, for all that were asked since the last one that was timed."""
    times, profile = state.meter.take_singles(), profile_of(state, (name,))
    if state.adaptation is not None:
        state.adaptation.before_lookup(profile, times, is_single=True)
    reader = reader_of(state, name)  # another one, if a structure has changed
    assert reader is not None
    return _noted(state, profile, times, lambda: ask(reader))


def timed_many(state: State, names: tuple[str, ...], ask: Callable[[], T]) -> T:
    """Ask for the first values of many queries at once."""
    if any(name not in state.manager.placements for name in names):
        return ask()  # which says what is wrong
    profile = profile_of(state, names)
    if state.adaptation is not None:
        state.adaptation.before_lookup(profile)
    return _noted(state, profile, 1, ask)


def _noted(state: State, profile: Profile, times: int, ask: Callable[[], T]) -> T:
    before = perf_counter_ns()
    found = ask()
    state.meter.looked_up(profile, perf_counter_ns() - before, times)
    return found
