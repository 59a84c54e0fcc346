"""Times of rows: about when the event with a given number was, finer for new events than for old ones.

Windows of so many rows are found by number; this says since when they reach back, in memory that does not grow
with them.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Ints
from muntin.synopsis.saved import Saved

_FINE = 1024  # events of each doubling of age that are kept, at least half of them


class RowTimes:
    """Of the events that were appended, in order; numbers ascend by one.

    >>> times = RowTimes()
    >>> times.extend(0, np.arange(100_000) * 10)
    >>> times.find(99_990), times.find(50_001) - 500_010 < 1000, len(times) < 20_000
    (999900, True, True)
    """

    def __init__(self) -> None:
        self._number = np.zeros(0, np.int64)
        self._at = np.zeros(0, np.int64)
        self._after_thinning = 0

    def __len__(self) -> int:
        return len(self._number)

    def extend(self, first: int, at: Ints) -> None:
        """Append events, of which the first has number `first`; O(events that are known)."""
        self._number = np.append(self._number, first + np.arange(len(at)))
        self._at = np.append(self._at, at)
        if len(self._number) > 2 * self._after_thinning + 8 * _FINE:
            self._thin()

    def find(self, number: int) -> int:
        """The time of the first event that is known from `number` on: later than it by one part in 500 of its age
        in events; LONG_AGO if there is none."""
        place = int(np.searchsorted(self._number, number))
        return int(self._at[place]) if place < len(self._at) else LONG_AGO

    def forget(self, number: int) -> None:
        """Nobody will ask for events before this one."""
        gone = int(np.searchsorted(self._number, number))
        self._number, self._at = self._number[gone:], self._at[gone:]

    def _thin(self) -> None:
        age = int(self._number[-1]) - self._number
        step = np.int64(1) << np.maximum(0, np.frexp(age / _FINE)[1] - 1).astype(np.int64)
        kept = self._number % step == 0
        self._number, self._at = self._number[kept], self._at[kept]
        self._after_thinning = len(self._number)

    def nbytes(self) -> int:
        return self._number.nbytes + self._at.nbytes

    def snapshot(self) -> Arrays:
        return {"row number": self._number.copy(), "row at": self._at.copy()}

    def restore(self, saved: Saved, end: int) -> None:
        """Have the events of a snapshot, all of them numbered below `end`."""
        self._number = saved.ints("row number", (0, end - 1), order="strictly").copy()
        self._at = saved.times("row at", len(self._number)).copy()
        self._after_thinning = len(self._number)

    def check(self) -> None:
        # numbers and times ascend
        assert bool((np.diff(self._number) > 0).all())
        assert bool((np.diff(self._at) >= 0).all())
