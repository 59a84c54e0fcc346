"""A window: which part of the stream a query looks at.

Time windows are half-open on event time: at instant `t` the window `[RANGE size TO to]` holds the
events with `t - size <= ts < t - to`. Tuple windows `[ROWS size TO to]` hold the positions
`m - size + 1 .. m - to` of the `m` events before the instant. With a slide the instant (or `m`) is
first rounded down to a multiple of the slide, counted from the epoch (or from the first event).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

from muntin.argument import count_of, shown
from muntin.errors import MuntinError

Unit = Literal["time", "rows"]
Instants = TypeVar("Instants", "int", "npt.NDArray[np.int64]")  # one, or many

# From the epoch back to the year 1: what a window that ends at the epoch or later can have as its start, in Python too.
LONGEST_TIME = 719_162 * 86_400_000_000

_SPANS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000),
          ("SECOND", 1_000_000), ("MILLISECOND", 1_000), ("MICROSECOND", 1))  # fmt: skip


@dataclass(frozen=True, order=True)
class Window:
    """`size`, `to` and `slide` in microseconds (unit "time") or in events (unit "rows").

    `slide` is 0 for a window that moves with every event. If `step` is not 0, windows inside it are asked for too, that
    end where it does: of all lengths that are multiples of it.

    >>> Window("time", 300_000_000, slide=60_000_000)
    [RANGE 5 MINUTES SLIDE 1 MINUTE]
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
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.unit not in ("time", "rows"):
            raise MuntinError(f"unit is 'time' or 'rows', not {shown(self.unit)}")
        count_of("size", self.size, 1)
        count_of("to", self.to)
        count_of("slide", self.slide)
        count_of("step", self.step)
        if self.to > self.size:
            raise MuntinError("to lies before the start of the window: it must not exceed its size")
        object.__setattr__(self, "_hash", hash((self.unit, self.size, self.to, self.slide, self.step)))

    def __hash__(self) -> int:
        return self._hash  # windows are looked up more often than anything else

    @property
    def ends(self) -> Literal["suffix", "historical"]:
        """A suffix window ends now, a historical one in the past."""
        return "historical" if self.to else "suffix"

    @property
    def is_time(self) -> bool:
        return self.unit == "time"

    def settle(self, instant: Instants) -> Instants:
        """Where this window stands when it is looked up at an instant, or at many; a ROWS window moves by
        events, so wherever it is asked for."""
        return instant - instant % self.slide if self.slide and self.is_time else instant

    def settle_count(self, count: Instants) -> Instants:
        """Where a ROWS window stands after so many events.

        >>> Window("rows", 10, slide=4).settle_count(11)
        8
        """
        return count - count % self.slide if self.slide else count

    def __str__(self) -> str:
        word = "RANGE" if self.is_time else "ROWS"
        show = span if self.is_time else str
        to = f" TO {show(self.to)}" if self.to else ""
        step = f" STEP {show(self.step)}" if self.step else ""
        slide = f" SLIDE {show(self.slide)}" if self.slide else ""
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
