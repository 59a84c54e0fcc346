"""The clock of a stream: event time seen, watermark, and which events are late or ahead."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from muntin.arrays import FOREVER, LONG_AGO, Bools, Ints
from muntin.described import COUNT, WHOLE, Absent, Between, Maybe
from muntin.instant import FIRST, LAST
from muntin.kernels.times import (
    ADMITTED,
    AHEAD,
    LATE,
    ascends,
    extremes_of,
    judge_times,
    mark_late,
    scan_times,
)

_INSTANT = Between(FIRST, LAST)


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


class Judged(NamedTuple):
    """Which events of a batch are taken in."""

    ascends: bool  # whether their times do, with those that are not
    kept: Bools | None  # None: all of them
    late: int = 0
    ahead: int = 0


class Clock:
    """Event time never comes from the machine: it moves with the events, or when told to. The clock on the `wall`
    says only which events lie too far `ahead` to be believed.

    >>> clock = Clock(delay=5)
    >>> clock.scan(np.array([10, 3, 20, 14, 15]))
    (False, array([False,  True, False,  True, False]))
    """

    def __init__(self, delay: int, ahead: int | None = None, wall: Callable[[], int] = wall_clock):
        self.delay = delay
        self.ahead = ahead
        self._wall = wall
        self.greatest: int | None = None  # event time seen
        self.first: int | None = None  # smallest accepted event time
        self.seen_from: int | None = None  # smallest one since this clock was made or restored
        self.promised = LONG_AGO  # an instant the user said time has reached
        self.events = 0  # accepted
        self.late_events = 0
        self.ahead_events = 0

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

    def judge(self, at: Ints) -> Judged:
        """Which events are late or ahead; O(events)."""
        if self.ahead is not None and len(at):
            reached = max(self._wall(), self.promised)
            seen = LONG_AGO if self.greatest is None else self.greatest
            if int(at.max()) > max(seen, reached) + self.ahead:
                verdict = np.empty(len(at), np.int8)
                judge_times(at, seen, self.delay, self.promised, reached, self.ahead, verdict)
                counts = np.bincount(verdict, minlength=3)
                return Judged(bool(ascends(at)), verdict == ADMITTED, int(counts[LATE]), int(counts[AHEAD]))
        in_order, late = self.scan(at)
        return Judged(in_order, None) if late is None else Judged(in_order, ~late, int(late.sum()))

    def scan(self, at: Ints) -> tuple[bool, Bools | None]:
        """Whether times ascend, and which events are late (None if none is); O(events).

        Each event is judged by the watermark as the events before it left it, so that cutting a
        batch in two changes nothing.
        """
        if not len(at):
            return True, None
        seen = int(at[0]) if self.greatest is None else self.greatest
        in_order = bool(ascends(at))
        # in order, no event is late by those before it in the batch: it is enough to judge the first. Out of order it
        # is enough to judge the least time by the greatest, if that lets it pass
        least, greatest = (at[0], seen) if in_order else extremes_of(at)
        if least >= max(self.promised, max(seen, greatest) - self.delay):
            return in_order, None
        in_order, count, _ = scan_times(at, seen, self.delay, self.promised)
        if not count:
            return in_order, None
        late = np.empty(len(at), np.bool_)
        mark_late(at, seen, self.delay, self.promised, late)
        return in_order, late

    def observe(self, at: Ints, ascends: bool, late: int, ahead: int = 0) -> None:
        """Count accepted events, and those that were not."""
        self.late_events += late
        self.ahead_events += ahead
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

    def rewind(self, to: int) -> None:
        """Time stands at `to` again, where the stream is taken to begin; counters go on."""
        self.greatest, self.first, self.promised = to - 1, to, to

    def state(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in _FIELDS}

    def restore(self, state: dict[str, int | None]) -> None:
        for name in _FIELDS:
            setattr(self, name, state.get(name, 0))  # earlier versions did not count events that are ahead


def least_watermark(clocks: Iterable[Clock]) -> int | None:
    """The time before which no more events are expected of any stream; None before the first event of one."""
    least = FOREVER
    for clock in clocks:
        if (mark := clock.watermark) is None:
            return None
        least = min(least, mark)
    return least


# what a state must look like that came from outside
CLOCK = {
    "greatest": Maybe(_INSTANT),
    "first": Maybe(_INSTANT),
    "promised": WHOLE,
    "events": COUNT,
    "late_events": COUNT,
    "ahead_events": Absent(COUNT),
}
_FIELDS = ("greatest", "first", "promised", "events", "late_events", "ahead_events")


# The alarm: a warning that nearly all events of a stream are left out, which one event with a wrong time
# can cause.

_MANY = 100  # events that are judged together, from one batch or from several
_NEARLY_ALL = 0.9


class Alarm:
    """It is raised once, and again only after most events have been admitted in between."""

    def __init__(self) -> None:
        self._admitted = self._late = self._ahead = 0  # since the last judgement
        self._is_raised = False

    def note(self, stream: str, clock: Clock, admitted: int, late: int, ahead: int) -> None:
        """Count the events of a batch, and warn if it is time to."""
        self._admitted, self._late, self._ahead = (
            self._admitted + admitted, self._late + late, self._ahead + ahead,
        )  # fmt: skip
        total = self._admitted + self._late + self._ahead
        if total < _MANY:
            return
        left_out = max(self._late, self._ahead)
        if left_out >= _NEARLY_ALL * total:
            if not self._is_raised:
                text = _late_text if self._late == left_out else _ahead_text
                told = f"{left_out:,} of the last {total:,} events of stream '{stream}' {text(stream, clock)}"
                warnings.warn(told, RuntimeWarning, stacklevel=6)
            self._is_raised = True
        elif self._admitted > total // 2:
            self._is_raised = False
        self._admitted = self._late = self._ahead = 0


def _late_text(stream: str, clock: Clock) -> str:
    watermark = clock.watermark
    assert watermark is not None
    if watermark == clock.promised:
        cause = "advance(until=…), or a rewind, has said that time stands there"
    else:
        cause = f"an event at {_shown(clock.greatest)} has set it"
    return (
        f"were late, and in no answer: its watermark stands at {_shown(watermark)}, since {cause}. If that is wrong, "
        f"set the stream back with engine.rewind('{stream}', to) or REWIND STREAM {stream} TO '…'; "
        "CREATE STREAM … AHEAD 1 HOUR leaves events out whose time lies too far ahead"
    )


def _ahead_text(stream: str, clock: Clock) -> str:
    seen = (
        "no event has been admitted"
        if clock.greatest is None
        else f"its latest is at {_shown(clock.greatest)}"
    )
    return (
        f"were ahead, and in no answer: their times lie beyond its AHEAD, and {seen}. Look at the column that has the "
        "time, its unit and its zone, and at the clock of this machine, or declare a longer AHEAD"
    )


def _shown(at: int | None) -> np.datetime64:
    return np.datetime64(LONG_AGO if at is None else at, "us")
