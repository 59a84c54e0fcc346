"""A stretch: some instants of time, and what the queries due at them have in common, found once.

Ten thousand queries differ in their windows, thresholds and outputs, but the windows are few, those of
one group nest, and all keys of a window are the same for every query that looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from muntin.arrays import Ints
from muntin.operator.piggyback import alight, board
from muntin.operator.reading import Place, Reading
from muntin.operator.shard import Shard
from muntin.operator.timed import timed, timed_together
from muntin.store.need import Need
from muntin.structure.synopsis import Asked, Found
from muntin.window import Window

Thing = TypeVar("Thing")


class Stretch:
    """Look-ups of all keys at some instants; what was found lives as long as the stretch does."""

    def __init__(self, shard: Shard):
        self._shard = shard
        self._found: dict[tuple[int, Window, bytes], Found] = {}
        self._once: dict[Hashable, Any] = {}
        self._settled: dict[tuple[int, int], tuple[Ints, bytes, Ints]] = {}

    def prefetch(self, due: Iterable[tuple[Reading, Ints]]) -> None:
        """Look up all windows of queries due at given instants, group by group, so that windows of one
        group can share the work."""
        asked: dict[tuple[int, int], dict[Window, Asked]] = {}
        for reading, instants in due:
            width = reading.width
            for number, window, _ in reading.places:
                windows = asked.setdefault((number, width), {})
                # if another query asks for other instants of the window, that one looks for itself
                if window not in windows:
                    settled, _ = self._settle(window, instants)
                    windows[window] = Asked(settled, self._needs(number, window))
        for (number, width), windows in asked.items():
            if width:
                self._look_up(number, windows, width)

    def _look_up(self, number: int, windows: Mapping[Window, Asked], width: int) -> None:
        hosts, rides = board(windows)
        counts = {window: len(each.instants) for window, each in hosts.items()}
        found = timed_together(
            self._shard, number, counts, lambda synopsis: synopsis.lookup_all(hosts, width)
        )
        synopsis = self._shard.synopses[number]
        for window, ride in rides.items():
            found[window] = alight(window, ride, found[ride.host], windows[window], synopsis)
        for window, each in windows.items():
            self._found[number, window, each.instants.tobytes()] = found[window]

    def find(self, place: Place, instants: Ints, width: int) -> Found:
        """What a group has of a window, for all its queries."""
        number, window, _ = place
        settled, token = self._settle(window, instants)
        where = (number, window, token)
        if where not in self._found:
            needs = self._needs(number, window)
            self._found[where] = timed(
                self._shard, number, window, len(settled),
                lambda synopsis: synopsis.lookup(window, settled, needs, None, width),
            )  # fmt: skip
        return self._found[where]

    def once(self, what: Hashable, make: Callable[[], Thing]) -> Thing:
        """Something that depends on nothing but what was found, made when it is first asked for."""
        if what not in self._once:
            self._once[what] = make()
        thing: Thing = self._once[what]
        return thing

    def _needs(self, number: int, window: Window) -> tuple[Need, ...]:
        return tuple(self._shard.manager.groups[number].needs.windows[window])

    def _settle(self, window: Window, instants: Ints) -> tuple[Ints, bytes]:
        """Where a window stands when it is looked up; with a token for what is the same."""
        slide = window.slide if window.is_time else 0
        place = (id(instants), slide)
        if place not in self._settled:
            settled = window.settle(instants)
            self._settled[place] = settled, settled.tobytes(), instants  # kept, so that its id stays its own
        settled, token, _ = self._settled[place]
        return settled, token
