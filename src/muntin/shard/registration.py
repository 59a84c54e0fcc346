"""A query at work: its plan, and how far its answers have been given out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from muntin.aggregate.approximate import APPROXIMATE_NAMES
from muntin.arrays import Ints
from muntin.query import Query
from muntin.store.needs import Greatest

_NOBODY = np.zeros(0, np.int64)


class History(NamedTuple):
    """From the earliest event of a history to just after the latest."""

    start: int
    end: int


@dataclass
class Registration:
    """`emitted_to`: windows that closed up to this instant are no longer owed (None: none closed)."""

    query: Query
    emitted_to: int | None
    emitted: int = 0  # rows given out by advance
    inside: Ints = field(default_factory=lambda: _NOBODY)  # EMIT CHANGES: keys that are in
    slide: int = field(init=False)  # of its instants, 0 if it has none of its own
    owes: bool = field(init=False)  # whether past instants must be kept for it
    missed: int = 0  # windows that closed but had to be forgotten before advance asked for them
    history: History | None = None  # that it was filled from
    overflows: int = 0  # rows left out since a value of them does not exist

    def __post_init__(self) -> None:
        query = self.query
        self.slide = query.slide
        self.owes = self.slide > 0 or query.moves_by_rows or _is_exact(query)

    def owes_after(self, first: int) -> int:
        """Windows that end up to here are not owed, the first event of the stream being at `first`."""
        begin = first if self.history is None else min(first, self.history.start)
        return begin if self.emitted_to is None else max(begin, self.emitted_to)


def _is_exact(query: Query) -> bool:
    """Whether not all of it comes from sketches: to keep events of the past would undo these."""
    return not query.calls or any(call.function not in APPROXIMATE_NAMES for call in query.calls)


# Owed: since when there are windows that closed and that no `advance` has given out yet.

NEVER = 2**63 - 1


class Owed:
    """How far each query has emitted; None if none of its windows has closed yet. O(log n) a query.

    >>> owed = Owed([30, 10, None])
    >>> owed.since(first=20), owed.since(first=None)
    (10, 10)
    >>> owed.remove(10)
    >>> owed.since(first=20), owed.since(first=None)
    (20, 30)
    """

    def __init__(self, emitted_to: Iterable[int | None]):
        count = Counter(emitted_to)
        self._all = count.pop(None, 0)  # queries that owe everything
        # of the others, negated
        self._instants = Greatest({-instant: many for instant, many in count.items() if instant is not None})

    def add(self, emitted_to: int | None) -> None:
        if emitted_to is None:
            self._all += 1
        else:
            self._instants.add(-emitted_to)

    def remove(self, emitted_to: int | None) -> None:
        if emitted_to is None:
            self._all -= 1
        else:
            self._instants.remove(-emitted_to)

    def since(self, first: int | None) -> int:
        """The instant from which on windows are owed, the first event of the stream being at `first`."""
        greatest = self._instants.value
        emitted = NEVER if greatest is None else -greatest
        return min(emitted, first) if self._all and first is not None else emitted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owed) and (self._all, self._instants) == (other._all, other._instants)

    __hash__ = None  # type: ignore[assignment]
