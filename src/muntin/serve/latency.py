"""How long look-ups take, counted by steps of time, as Prometheus draws them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from itertools import accumulate

STEPS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # seconds


class Latency:
    """Counts of what took up to so many seconds, from any thread. O(log steps) for each.

    >>> latency = Latency()
    >>> for seconds in (0.0002, 0.002, 0.002, 60.0):
    ...     latency.take(seconds)
    >>> latency.cumulated()[:4], latency.count, round(latency.seconds, 4)
    ([0, 1, 1, 3], 4, 60.0042)
    """

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0  # of all together
        self._counts = [0] * (len(STEPS) + 1)
        self._lock = threading.Lock()

    def take(self, seconds: float) -> None:
        """One more."""
        with self._lock:
            self._counts[bisect_left(STEPS, seconds)] += 1
            self.count += 1
            self.seconds += seconds

    def cumulated(self) -> list[int]:
        """How many took up to each step, and how many in all."""
        with self._lock:
            return list(accumulate(self._counts))
