"""Owed: since when there are windows that closed and that no `advance` has given out yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from muntin.store.need import Greatest

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
