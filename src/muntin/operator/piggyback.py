"""Piggybacked windows: of the windows of one size that are due together, one is looked up for all.

Windows of one size that stand at the same instant are the same window, however often each moves. So the
look-up of the one that is due most often, the host, also answers those that are due at some of its instants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from muntin.arrays import Ints
from muntin.structure.synopsis import Asked, Found, Synopsis
from muntin.window import Window


class Ride(NamedTuple):
    """Where the answers of a piggybacked window are found."""

    host: Window
    places: Ints | None  # among the instants of the host; None: at all of them


def board(asked: Mapping[Window, Asked]) -> tuple[dict[Window, Asked], dict[Window, Ride]]:
    """What must be looked up, and for every other window the one that it rides on.

    >>> often, seldom = Window("time", 8, slide=2), Window("time", 8, slide=4)
    >>> hosts, rides = board({seldom: Asked(np.array([4, 8]), ()), often: Asked(np.array([4, 6, 8]), ())})
    >>> list(hosts), rides[seldom].host == often, rides[seldom].places
    ([[RANGE 8 MICROSECONDS SLIDE 2 MICROSECONDS]], True, array([0, 2]))
    """
    alike: dict[tuple[int, int], list[Window]] = {}
    hosts: dict[Window, Asked] = {}
    for window, each in asked.items():
        if window.is_time:
            alike.setdefault((window.size, window.to), []).append(window)
        else:
            hosts[window] = each
    rides: dict[Window, Ride] = {}
    for windows in alike.values():
        if len(windows) > 1:
            windows.sort(key=lambda window: -len(asked[window].instants))
        some: list[Window] = []
        for window in windows:
            ride = next((ride for host in some if (ride := _ride(host, asked, window))), None)
            if ride is None:
                some.append(window)
                hosts[window] = asked[window]
                continue
            rides[window] = ride
            host = hosts[ride.host]
            needs = tuple(dict.fromkeys((*host.needs, *asked[window].needs)))
            hosts[ride.host] = host._replace(needs=needs)
    return hosts, rides


def _ride(host: Window, asked: Mapping[Window, Asked], window: Window) -> Ride | None:
    """How a window rides on another of its size, if that is due whenever it is."""
    offered, wanted = asked[host].instants, asked[window].instants
    if len(offered) == len(wanted):
        return Ride(host, None) if np.array_equal(offered, wanted) else None
    places = np.searchsorted(offered, wanted)
    is_due = places[-1] < len(offered) and np.array_equal(offered[places], wanted)
    return Ride(host, places) if is_due else None


def alight(window: Window, ride: Ride, found: Found, asked: Asked, synopsis: Synopsis[Any]) -> Found:
    """What a piggybacked window takes of what its host found; the same thing, if all of it.

    Only since when it has been known may be different: the grid had the edges of one before those of the
    other.
    """
    known_since = {need: synopsis.known_since(window, need) for need in asked.needs}
    if ride.places is None:
        is_same = all(found.known_since[need] == known_since[need] for need in asked.needs)
        return found if is_same else found._replace(known_since=known_since)
    width, places = found.width, ride.places
    slots = places if width == 1 else (places[:, None] * width + np.arange(width)).ravel()
    partials = {need: tuple(array[slots] for array in found.partials[need]) for need in asked.needs}
    start, end, is_whole = found.start[places], found.end[places], found.is_whole[places]
    return Found(partials, start, end, is_whole, known_since, width)
