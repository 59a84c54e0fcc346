"""Time windows side by side, in arrays: where all of them stand, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.arrays import Ints
from muntin.window import Window


class ManyWindows:
    """
    >>> two = ManyWindows([Window("time", 60, slide=20), Window("time", 30, to=10)])
    >>> settled = two.settle(np.array([65, 65]))
    >>> settled.tolist(), [side.tolist() for side in two.bounds(settled)]
    ([60, 65], [[0, 35], [60, 55]])
    """

    def __init__(self, windows: Sequence[Window]):
        columns = [(each.size, each.to, each.slide or 1, each.offset) for each in windows]
        self.size, self.to, self._every, self._offset = np.array(columns, np.int64).reshape(-1, 4).T
        self._landmark = np.array(
            [each.start(0) for each in windows], np.int64
        )  # one of those that it may begin at
        self._since = np.flatnonzero([each.since for each in windows])

    def __len__(self) -> int:
        return len(self.size)

    def settle(self, instants: Ints | int) -> Ints:
        """Where each stands that is looked up at an instant."""
        settled: Ints = instants - (instants - self._offset) % self._every
        return settled

    def bounds(self, settled: Ints) -> tuple[Ints, Ints]:
        """Where each begins and ends that stands at an instant."""
        start = settled - self.size
        if len(self._since):
            before, size = settled[self._since] - 1, self.size[self._since]
            start[self._since] = before - (before - self._landmark[self._since]) % size
        return start, settled - self.to
