"""A stretch: some instants of time, and what the queries due at them have in common, found once.

Ten thousand queries differ in their windows, thresholds and outputs, but the windows are few, those of
one group nest, and all keys of a window are the same for every query that looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import numpy as np

from muntin.engine.shard import Shard
from muntin.plan import Demand
from muntin.synopsis.contract import Found, Ints, Need
from muntin.synopsis.synopsis import Asked
from muntin.window import Window

Thing = TypeVar("Thing")


class Stretch:
    """Look-ups of all keys at some instants; what was found lives as long as the stretch does."""

    def __init__(self, shard: Shard):
        self._shard = shard
        self._found: dict[tuple[int, Window, bytes], Found] = {}
        self._once: dict[Hashable, Any] = {}

    def prefetch(self, due: Iterable[tuple[str, Ints]], width_of: Callable[[str], int]) -> None:
        """Look up all windows of queries due at given instants, group by group, so that windows of one
        group can share the work."""
        asked: dict[tuple[int, int], dict[Window, Asked]] = {}
        for name, instants in due:
            width = width_of(name)
            for number, demand in self._shard.manager.placements[name].all():
                settled = settle(demand.window, instants)
                windows = asked.setdefault((number, width), {})
                # another query may ask for other instants of the window: it will look for itself
                if (
                    demand.window not in windows
                    and (number, demand.window, settled.tobytes()) not in self._found
                ):
                    windows[demand.window] = Asked(settled, self._needs(number, demand.window))
        for (number, width), windows in asked.items():
            if windows and width:
                for window, found in self._shard.synopses[number].lookup_all(windows, width).items():
                    self._found[number, window, windows[window].instants.tobytes()] = found

    def find(self, number: int, demand: Demand, instants: Ints, width: int) -> Found:
        """What a group has of a window, for all its queries."""
        settled = settle(demand.window, instants)
        place = (number, demand.window, settled.tobytes())
        if place not in self._found:
            needs = self._needs(number, demand.window)
            self._found[place] = self._shard.synopses[number].lookup(
                demand.window, settled, needs, None, width
            )
        return self._found[place]

    def once(self, what: Hashable, make: Callable[[], Thing]) -> Thing:
        """Something that depends on nothing but what was found, made when it is first asked for."""
        if what not in self._once:
            self._once[what] = make()
        thing: Thing = self._once[what]
        return thing

    def _needs(self, number: int, window: Window) -> tuple[Need, ...]:
        return tuple(self._shard.manager.groups[number].needs.windows[window])


def settle(window: Window, instants: Ints) -> Ints:
    """The instants at which a window stands when it is looked up."""
    if not window.slide or not window.is_time:
        return instants
    settled: Ints = instants - instants % window.slide
    return settled if np.any(settled != instants) else instants
