"""The profile of a look-up: how many windows it asks of each window group, and how wide they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from muntin.operator.shard import Shard

_MOST = 4096  # profiles that are kept


class Part(NamedTuple):
    """What is asked of one group."""

    group: int
    width: int  # of its windows, in the mean: microseconds or events
    is_time: bool
    lookups: int  # windows, once for each component


Profile = tuple[Part, ...]


def profile_of(shard: Shard, names: tuple[str, ...]) -> Profile:
    """Of looking some queries up, once; made once for the same names, until the plan changes."""
    if names not in shard.prepared.profiles:
        if len(shard.prepared.profiles) >= _MOST:
            shard.prepared.profiles.clear()
        shard.prepared.profiles[names] = _profile(shard, names)
    profile: Profile = shard.prepared.profiles[names]
    return profile


def _profile(shard: Shard, names: tuple[str, ...]) -> Profile:
    found: dict[tuple[int, bool], list[int]] = {}
    for name in names:
        for call in shard.manager.placements[name].calls:
            for number, demand in call:
                width = demand.window.size - demand.window.to
                found.setdefault((number, demand.window.is_time), []).append(width)
    return tuple(
        Part(number, sum(widths) // len(widths), is_time, len(widths))
        for (number, is_time), widths in found.items()
    )
