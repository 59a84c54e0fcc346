"""Look-ups that are foretold to the adaptation, timed, and noted by the meter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, TypeVar

from muntin.operator.point import PointReader, reader_of
from muntin.operator.profile import Part, Profile, profile_of
from muntin.operator.shard import Shard
from muntin.structure.synopsis import Synopsis
from muntin.window import Window

T = TypeVar("T")


def timed(shard: Shard, number: int, window: Window, lookups: int, ask: Callable[[Synopsis[Any]], T]) -> T:
    """Ask the synopsis of a group for a window at so many instants."""
    profile: Profile = (Part(number, window.size - window.to, window.is_time, lookups),)
    if shard.adaptation is not None:
        shard.adaptation.before_lookup(profile, is_now=False)
    return _noted(shard, profile, 1, lambda: ask(shard.synopses[number]))


def timed_together(
    shard: Shard, number: int, windows: Mapping[Window, int], ask: Callable[[Synopsis[Any]], T]
) -> T:
    """Ask the synopsis of a group for many windows at once, each at so many instants."""
    profile = tuple(Part(number, each.size - each.to, each.is_time, count) for each, count in windows.items())
    if shard.adaptation is not None:
        shard.adaptation.before_lookup(profile, is_now=False)
    return _noted(shard, profile, 1, lambda: ask(shard.synopses[number]))


def timed_single(shard: Shard, name: str, ask: Callable[[PointReader], T]) -> T:
    """Ask the reader of a query, for all that were asked since the last one that was timed."""
    times, profile = shard.meter.take_singles(), profile_of(shard, (name,))
    if shard.adaptation is not None:
        shard.adaptation.before_lookup(profile, times, is_single=True)
    reader = reader_of(shard, name)  # another one, if a structure has changed
    assert reader is not None
    return _noted(shard, profile, times, lambda: ask(reader))


def timed_many(shard: Shard, names: tuple[str, ...], ask: Callable[[], T]) -> T:
    """Ask for the first values of many queries at once."""
    if any(name not in shard.manager.placements for name in names):
        return ask()  # which says what is wrong
    profile = profile_of(shard, names)
    if shard.adaptation is not None:
        shard.adaptation.before_lookup(profile)
    return _noted(shard, profile, 1, ask)


def _noted(shard: Shard, profile: Profile, times: int, ask: Callable[[], T]) -> T:
    before = perf_counter_ns()
    found = ask()
    shard.meter.looked_up(profile, perf_counter_ns() - before, times)
    return found
