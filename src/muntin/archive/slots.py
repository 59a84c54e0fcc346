"""Slots: time cut at the instants of updates, and the rules that deal slots out to a few classes.

The slot of an instant `t` is `(t - 1) // every`, so that what an update at the end of slot `u` removes has
expired in slot `u` at the latest. A rule gives each slot a class; nothing has to be renamed when time goes
on, and the number of classes need not divide the number of slots in a window (Golab, Prahladka & Özsu,
sections 3.1 to 3.3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_GOLDEN = 0x9E3779B97F4A7C15


def slot_of(instant: int | Ints, every: int) -> Ints:
    """The slot an instant lies in.

    >>> [int(slot_of(t, 2)) for t in (1, 2, 3, 17, 18)]
    [0, 0, 1, 8, 8]
    """
    return (np.asarray(instant, np.int64) - 1) // every


def whole(slot: Ints, parts: int, per_window: int) -> Ints:
    """One class for all slots."""
    return np.zeros_like(slot)


def round_robin(slot: Ints, parts: int, per_window: int) -> Ints:
    """Classes in turns: two neighbouring slots never meet in one, so classes stay of one size."""
    return slot % parts


def chronological(slot: Ints, parts: int, per_window: int) -> Ints:
    """Stretches of neighbouring slots, as many as there are classes in a window."""
    return (slot * parts // per_window) % parts


def lazy(slot: Ints, parts: int, per_window: int) -> Ints:
    """Stretches such that always one class holds the oldest slots and can be thrown away whole."""
    return stretch_of(slot, parts, per_window) % parts


def random(slot: Ints, parts: int, per_window: int) -> Ints:
    """A class drawn for each slot: no alternation of rates can fill one class and starve another.

    Drawn by hashing the slot, so there is nothing to remember.
    """
    with np.errstate(over="ignore"):
        mixed = (slot.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(parts)).astype(np.int64)


RULES: dict[str, Callable[[Ints, int, int], Ints]] = {
    rule.__name__: rule for rule in (whole, round_robin, chronological, lazy, random)
}


def stretch_sizes(parts: int, per_window: int) -> list[int]:
    """Slots in each class of a lazy rule, oldest first, when the newest has just begun.

    >>> stretch_sizes(4, 8), stretch_sizes(5, 36)
    ([3, 2, 2, 1], [9, 9, 9, 8, 1])
    """
    small, longer = divmod(per_window - 1, parts - 1)
    return [small + 1] * longer + [small] * (parts - 1 - longer) + [1]


def stretch_of(slot: Ints, parts: int, per_window: int) -> Ints:
    """The number of the stretch a slot belongs to under a lazy rule.

    All but the newest stretch of `stretch_sizes` fill `per_window - 1` slots; then the sizes repeat.

    >>> stretch_of(np.arange(18), 4, 8).tolist()
    [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6, 6, 7]
    """
    ends = np.cumsum(stretch_sizes(parts, per_window)[:-1])
    turn, rest = np.divmod(slot, per_window - 1)
    return turn * (parts - 1) + np.searchsorted(ends, rest, "right")
