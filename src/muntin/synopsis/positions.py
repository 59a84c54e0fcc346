"""positions: COUNT(*) over a run is the length of the run.

| | |
|---|---|
| Full name | counting by position |
| Answers | COUNT(*) of all events, over suffix and historical windows |
| Insert | nothing |
| Lookup | O(1) |
| Space | none |
| Shares | nothing is needed |
| Reference | Arasu & Widom, VLDB 2004, section 2 (tuple-based windows) |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregate.contract import Partial
from muntin.arrays import Ints
from muntin.synopsis.intervals import Intervals


class Positions(Intervals):
    """
    >>> from muntin.aggregate.component import COMPONENTS
    >>> events = Positions(COMPONENTS["count"], np.dtype(np.int64))
    >>> events.extend((np.ones(9, np.int64),))
    >>> events.query(np.array([2, 5]), np.array([9, 4]))
    (array([7, 0]),)
    """

    name = "positions"
    components = frozenset({"count"})

    def extend(self, lifted: Partial) -> None:
        self.end += len(lifted[0])

    def rewind(self, end: int) -> None:
        self.end = end

    def forget(self, first: int) -> None:
        self.first = max(self.first, first)

    def query(self, lo: Ints, hi: Ints) -> Partial:
        return (np.maximum(hi - lo, 0),)

    def point(self, lo: int, hi: int) -> tuple[Any, ...]:
        return (max(hi - lo, 0),)

    def nbytes(self) -> int:
        return 0

    def check(self) -> None:
        assert self.first <= self.end
