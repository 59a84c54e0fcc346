"""Points: one key at one instant each, where no structure knows better than a look-up for each instant that occurs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.arrays import Ints
from muntin.errors import WindowTooLarge
from muntin.store.needs import Need
from muntin.window import Window

if TYPE_CHECKING:
    from muntin.structure.synopsis import Found, Synopsis


def lookup_each(
    synopsis: Synopsis[Any], window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None
) -> Found:
    """What `lookup_points` gives of a window: by a look-up for each instant that occurs; by one, without keys."""
    some, of_instant = np.unique(instants, return_inverse=True)
    gone = _refused(synopsis, window, some, wanted)
    kept = some[gone:]
    if not len(kept):  # one that is not refused, so that there is something to point at
        kept = np.array([window.pace.ceil(synopsis.kept_from)])
    where = np.maximum(of_instant - gone, 0)
    if ids is None:
        found, slots = synopsis.lookup(window, kept, wanted, None, 1), where
    else:
        found, slots = _lookup_keys(synopsis, window, kept, wanted, ids, where)
    start, end = found.start[slots], found.end[slots]
    if window.is_time:
        start, end = window.start(instants), instants - window.to
    return found._replace(
        partials={need: tuple(array[slots] for array in partial) for need, partial in found.partials.items()},
        start=start,
        end=end,
        is_whole=found.is_whole[slots] & (of_instant >= gone),
        width=1,
    )


def _lookup_keys(
    synopsis: Synopsis[Any], window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints, where: Ints
) -> tuple[Found, Ints]:
    """What is found of the keys that are asked for at each instant, and the slot of each point; `where` are the places
    of their instants."""
    points = np.split(
        np.argsort(where, kind="stable"), np.cumsum(np.bincount(where, minlength=len(instants)))[:-1]
    )
    found, slots, first = [], np.empty(len(ids), np.int64), 0
    for number, some in enumerate(points):
        keys, place = np.unique(ids[some], return_inverse=True)
        found.append(synopsis.lookup(window, instants[number : number + 1], wanted, keys, len(keys)))
        slots[some] = first + place
        first += len(keys)
    return _joined(found, wanted), slots


def _refused(synopsis: Synopsis[Any], window: Window, instants: Ints, wanted: Sequence[Need]) -> int:
    """How many of the instants, which ascend, lie too far back: they are the first ones. O(log instants) look-ups."""
    ids = np.zeros(1, np.int64) if synopsis.keys else None
    low, high = 0, int(np.searchsorted(instants, synopsis.kept_from))
    while low < high:
        middle = (low + high) // 2
        try:
            synopsis.lookup(window, instants[middle : middle + 1], wanted, ids, 1)
            high = middle
        except WindowTooLarge:
            low = middle + 1
    return low


def _joined(found: Sequence[Found], wanted: Sequence[Need]) -> Found:
    """What was found at several instants, one slot after the other."""
    partials = {
        need: tuple(map(np.concatenate, zip(*(each.partials[need] for each in found), strict=True)))
        for need in wanted
    }
    start, end, is_whole = (
        np.concatenate([np.repeat(getattr(each, side), each.width) for each in found])
        for side in ("start", "end", "is_whole")
    )
    return found[0]._replace(partials=partials, start=start, end=end, is_whole=is_whole, width=1)
