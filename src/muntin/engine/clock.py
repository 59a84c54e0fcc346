"""The clock of a stream: event time seen, watermark, and which events are late."""

from __future__ import annotations

import numpy as np

from muntin.synopsis.contract import LONG_AGO, Bools, Ints


class Clock:
    """Event time never comes from the machine: it moves with the events, or when told to.

    >>> clock = Clock(delay=5)
    >>> clock.late(np.array([10, 3, 20, 14, 15]))
    array([False,  True, False,  True, False])
    """

    def __init__(self, delay: int):
        self.delay = delay
        self.greatest: int | None = None  # event time seen
        self.first: int | None = None  # smallest accepted event time
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

    def late(self, at: Ints) -> Bools:
        """Which events are late, each by the watermark as the events before it left it.

        So that cutting a batch in two changes nothing. O(events).
        """
        seen = at.copy()
        seen[1:] = at[:-1]
        if len(seen):
            seen[0] = at[0] if self.greatest is None else self.greatest
        np.maximum.accumulate(seen, out=seen)
        return np.asarray(at < np.maximum(seen - self.delay, self.promised))

    def observe(self, at: Ints, late: int) -> None:
        """Count accepted events, in any order, and those that were not."""
        self.late_events += late
        self.events += len(at)
        if len(at):
            least, greatest = int(at.min()), int(at.max())
            self.first = least if self.first is None else min(self.first, least)
            self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def promise(self, instant: int) -> None:
        """Time has reached `instant`: events before it are late from now on."""
        self.promised = max(self.promised, instant)

    def state(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in _FIELDS}

    def restore(self, state: dict[str, int | None]) -> None:
        for name in _FIELDS:
            setattr(self, name, state[name])


_FIELDS = ("greatest", "first", "promised", "events", "late_events")
