"""A window: which part of the stream a query looks at.

Time windows are half-open on event time: at instant `t` the window `[RANGE size TO to]` holds the
events with `t - size <= ts < t - to`. Tuple windows `[ROWS size TO to]` hold the positions
`m - size + 1 .. m - to` of the `m` events before the instant. With a slide the instant (or `m`) is
first rounded down to a multiple of the slide, counted from the epoch (or from the first event); with an
offset, to a multiple plus the offset. A landmark window `[SINCE DAY]` holds the events since the start of the
day (hour, week) that `t - 1` lies in: it is a time window whose size depends on the instant. A session
`[SESSION gap]` holds events none of which comes `gap` or more after the one before it; it has no instants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

from muntin.argument import count_of, shown
from muntin.errors import MuntinError

Unit = Literal["time", "rows", "session"]
Instants = TypeVar("Instants", "int", "npt.NDArray[np.int64]")  # one, or many

# From the epoch back to the year 1: what a window that ends at the epoch or later can have as its start, in Python too.
LONGEST_TIME = 719_162 * 86_400_000_000

LANDMARKS = {"HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000}
_MONDAY = 4 * LANDMARKS["DAY"]  # the first one since the epoch

_SPANS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000),
          ("SECOND", 1_000_000), ("MILLISECOND", 1_000), ("MICROSECOND", 1))  # fmt: skip


class Pace(NamedTuple):
    """The instants of a query or a window: `offset` and every so many microseconds before and after; if `every` is 0,
    any instant. Those of a slide are numbered by *ticks*.

    >>> nine = Pace(24, 9)
    >>> nine.floor(30), nine.ceil(10), nine.tick(33), nine.at(1)
    (9, 33, 1, 33)
    >>> Pace().floor(30)
    30
    """

    every: int = 0
    offset: int = 0

    def floor(self, instant: Instants) -> Instants:
        """The last of its instants up to one."""
        return instant - (instant - self.offset) % self.every if self.every else instant

    def ceil(self, instant: Instants) -> Instants:
        """The first of its instants from one on."""
        return instant + (self.offset - instant) % self.every if self.every else instant

    def tick(self, instant: Instants) -> Instants:
        """The number of the last of its instants up to one."""
        return (instant - self.offset) // self.every

    def at(self, tick: Instants) -> Instants:
        return tick * self.every + self.offset


@dataclass(frozen=True, order=True)
class Window:
    """`size`, `to` and `slide` in microseconds (unit "time") or in events (unit "rows"). Of a session (unit "session")
    `size` is the gap that ends it, and there is nothing else.

    `slide` is 0 for a window that moves with every event; others stand at multiples of it plus `offset`. If `step` is
    not 0, windows inside it are asked for too, that end where it does: of all lengths that are multiples of it.
    One that is `since` a landmark is as long as `size` at most.

    >>> Window("time", LANDMARKS["DAY"], slide=60_000_000, since=True)
    [SINCE DAY SLIDE 1 MINUTE]
    >>> Window("time", 300_000_000, slide=60_000_000)
    [RANGE 5 MINUTES SLIDE 1 MINUTE]
    >>> Window("session", 1_800_000_000)
    [SESSION 30 MINUTES]
    >>> Window("rows", 10_000, to=500).ends
    'historical'
    >>> Window("time", 0)
    Traceback (most recent call last):
    muntin.errors.MuntinError: size is a whole number of at least 1, not 0 (int)
    """

    unit: Unit
    size: int
    to: int = 0
    slide: int = 0
    step: int = 0
    offset: int = 0
    since: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.unit not in ("time", "rows", "session"):
            raise MuntinError(f"unit is 'time', 'rows' or 'session', not {shown(self.unit)}")
        count_of("size", self.size, 1)
        count_of("to", self.to)
        count_of("slide", self.slide)
        count_of("step", self.step)
        if count_of("offset", self.offset) and not (self.is_time and self.offset < self.slide):
            raise MuntinError("offset is for time windows, and less than the slide")
        if self.since and (not self.is_time or self.to or self.step or self.size not in LANDMARKS.values()):
            raise MuntinError(
                "a window since a landmark is a time window of an hour, a day or a week that ends now"
            )
        if self.is_session and (self.to or self.slide or self.step):
            raise MuntinError("a session has a gap and nothing else: no to, slide or step")
        if self.to > self.size:
            raise MuntinError("to lies before the start of the window: it must not exceed its size")
        shape = (self.unit, self.size, self.to, self.slide, self.step, self.offset, self.since)
        object.__setattr__(self, "_hash", hash(shape))

    def __hash__(self) -> int:
        return self._hash  # windows are looked up more often than anything else

    @property
    def ends(self) -> Literal["suffix", "historical"]:
        """A suffix window ends now, a historical one in the past."""
        return "historical" if self.to else "suffix"

    @property
    def is_time(self) -> bool:
        return self.unit == "time"

    @property
    def is_session(self) -> bool:
        return self.unit == "session"

    @property
    def closes_by_events(self) -> bool:
        """Whether it is events, or their absence, that close it, each key's at its own time."""
        return self.is_session or (not self.is_time and self.slide > 0)

    @cached_property
    def pace(self) -> Pace:
        """Where it stands; ROWS windows and sessions move by events, so wherever they are asked for."""
        return Pace(self.slide, self.offset) if self.is_time else Pace()

    def settle(self, instant: Instants) -> Instants:
        """Where this window stands when it is looked up at an instant, or at many."""
        return instant - (instant - self.offset) % self.slide if self.slide and self.is_time else instant

    @cached_property
    def _landmarks(self) -> Pace:
        return Pace(self.size, _MONDAY % self.size)

    def start(self, settled: Instants) -> Instants:
        """Where this time window begins when it stands at an instant, or at many; never earlier at a later one.

        >>> day = Window("time", LANDMARKS["DAY"], since=True)
        >>> [day.start(hours * LANDMARKS["HOUR"]) // LANDMARKS["HOUR"] for hours in (24, 25, 48)]
        [0, 24, 24]
        """
        return self._landmarks.floor(settled - 1) if self.since else settled - self.size

    def first_from(self, start: Instants) -> Instants:
        """The first instant at which it begins at `start` or later."""
        return self._landmarks.ceil(start) + 1 if self.since else start + self.size

    def last_with(self, at: Instants) -> Instants:
        """The last instant at which it begins at `at` or before."""
        return self._landmarks.floor(at) + self.size if self.since else at + self.size

    def settle_count(self, count: Instants) -> Instants:
        """Where a ROWS window stands after so many events.

        >>> Window("rows", 10, slide=4).settle_count(11)
        8
        """
        return count - count % self.slide if self.slide else count

    def __str__(self) -> str:
        if self.is_session:
            return f"[SESSION {span(self.size)}]"
        word = "RANGE" if self.is_time else "ROWS"
        show = span if self.is_time else str
        to = f" TO {show(self.to)}" if self.to else ""
        step = f" STEP {show(self.step)}" if self.step else ""
        slide = f" SLIDE {show(self.slide)}" if self.slide else ""
        slide += f" OFFSET {show(self.offset)}" if self.offset else ""
        if self.since:
            landmark = next(name for name, size in LANDMARKS.items() if size == self.size)
            return f"[SINCE {landmark}{slide}]"
        up_to = "UP TO " if self.step else ""
        return f"[{word} {up_to}{show(self.size)}{to}{step}{slide}]"

    __repr__ = __str__


def span(microseconds: int) -> str:
    """A length of time in the largest unit that divides it.

    >>> span(90_000_000), span(60_000_000), span(0)
    ('90 SECONDS', '1 MINUTE', '0 SECONDS')
    """
    for name, unit in _SPANS if microseconds else _SPANS[3:]:
        if microseconds % unit == 0:
            many = microseconds // unit
            return f"{many} {name}{'' if many == 1 else 'S'}"
    raise AssertionError("every integer is a whole number of microseconds")
