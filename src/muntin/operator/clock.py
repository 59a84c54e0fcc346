"""The clock of a stream: event time seen, watermark, and which events are late."""

from __future__ import annotations

import numpy as np

from muntin.described import COUNT, WHOLE, Between, Maybe
from muntin.kernels.times import ascends, mark_late, scan_times
from muntin.operator.instant import FIRST, LAST
from muntin.synopsis.contract import LONG_AGO, Bools, Ints

_INSTANT = Between(FIRST, LAST)


class Clock:
    """Event time never comes from the machine: it moves with the events, or when told to.

    >>> clock = Clock(delay=5)
    >>> clock.scan(np.array([10, 3, 20, 14, 15]))
    (False, array([False,  True, False,  True, False]))
    """

    def __init__(self, delay: int):
        self.delay = delay
        self.greatest: int | None = None  # event time seen
        self.first: int | None = None  # smallest accepted event time
        self.seen_from: int | None = None  # smallest one since this clock was made or restored
        self.promised = LONG_AGO  # an instant the user said time has reached
        self.events = 0  # accepted
        self.late_events = 0

    @property
    def watermark(self) -> int | None:
        """The time before which no more events are expected; None before the first event."""
        if self.greatest is None:
            return self.promised if self.promised != LONG_AGO else None
        return max(self.greatest - self.delay, self.promised)

    @property
    def now(self) -> int | None:
        """Just after the greatest event time seen: where a look-up stands by default."""
        return None if self.greatest is None else self.greatest + 1

    def scan(self, at: Ints) -> tuple[bool, Bools | None]:
        """Whether times ascend, and which events are late (None if none is); O(events).

        Each event is judged by the watermark as the events before it left it, so that cutting a
        batch in two changes nothing.
        """
        if not len(at):
            return True, None
        seen = int(at[0]) if self.greatest is None else self.greatest
        # in order, no event is late by those before it in the batch: it is enough to judge the first
        if ascends(at) and at[0] >= max(self.promised, seen - self.delay):
            return True, None
        in_order, count, _ = scan_times(at, seen, self.delay, self.promised)
        if not count:
            return in_order, None
        late = np.empty(len(at), np.bool_)
        mark_late(at, seen, self.delay, self.promised, late)
        return in_order, late

    def observe(self, at: Ints, ascends: bool, late: int) -> None:
        """Count accepted events, and those that were not."""
        self.late_events += late
        if len(at):
            least, greatest = (int(at[0]), int(at[-1])) if ascends else (int(at.min()), int(at.max()))
            self.count(len(at), least, greatest)

    def count(self, events: int, least: int, greatest: int) -> None:
        """So many events were accepted, from one time to another."""
        self.events += events
        self.first = least if self.first is None else min(self.first, least)
        self.seen_from = least if self.seen_from is None else min(self.seen_from, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def promise(self, instant: int) -> None:
        """Time has reached `instant`: events before it are late from now on."""
        self.promised = max(self.promised, instant)

    def state(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in _FIELDS}

    def restore(self, state: dict[str, int | None]) -> None:
        for name in _FIELDS:
            setattr(self, name, state[name])


# what a state must look like that came from outside
CLOCK = {
    "greatest": Maybe(_INSTANT),
    "first": Maybe(_INSTANT),
    "promised": WHOLE,
    "events": COUNT,
    "late_events": COUNT,
}
_FIELDS = ("greatest", "first", "promised", "events", "late_events")
