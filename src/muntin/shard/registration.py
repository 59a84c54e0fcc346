"""A query at work: its plan, and how far its answers have been given out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muntin.aggregates.approximate import APPROXIMATE_NAMES
from muntin.arrays import Ints
from muntin.query import Query
from muntin.store.needs import Greatest
from muntin.table_query import TableQuery

if TYPE_CHECKING:
    from muntin.shard.crowd import Crowd
    from muntin.shard.table_join.table_join import TableJoin

_NOBODY = np.zeros(0, np.int64)


class History(NamedTuple):
    """From the earliest event of a history to just after the latest."""

    start: int
    end: int


class Registration:
    """`emitted_to`: windows that closed up to this instant are no longer owed (None: none closed).

    A query that is emitted together with others that are alike is a member of their `crowd`, which then knows how far
    it has come (`shard/crowd.py`).
    """

    __slots__ = (
        "_emitted", "_emitted_to", "_inside", "crowd", "history", "join", "joined", "member", "missed", "overflows",
        "owes", "pace", "query",
    )  # fmt: skip

    def __init__(
        self,
        query: Query,
        emitted_to: int | None,
        emitted: int = 0,
        missed: int = 0,
        history: History | None = None,
        overflows: int = 0,
        joined: TableQuery | None = None,
    ):
        self.query = query
        self.joined = joined  # with tables, if the query is the source of that
        self.join: TableJoin | None = None  # and how it is at work; see table_join.py
        self._emitted_to = emitted_to
        self._emitted = emitted
        self._inside = _NOBODY
        self.missed = missed  # windows that closed but had to be forgotten before advance asked for them
        self.history = history  # that it was filled from
        self.overflows = overflows  # rows left out since a value of them does not exist
        self.crowd: Crowd | None = None
        self.member = -1  # its number in the crowd
        self.pace = query.pace  # its instants
        # whether past instants must be kept for it
        self.owes = self.pace.every > 0 or query.moves_by_events or _is_exact(query)

    @property
    def asked(self) -> Query | TableQuery:
        """The query that was registered."""
        return self.query if self.joined is None else self.joined

    @property
    def emits_changes(self) -> bool:
        return self.asked.emits_changes

    @property
    def emitted_to(self) -> int | None:
        return self._emitted_to if self.crowd is None else self.crowd.emitted_to

    @emitted_to.setter
    def emitted_to(self, instant: int | None) -> None:
        assert self.crowd is None, "a crowd moves as one"
        self._emitted_to = instant

    @property
    def emitted(self) -> int:
        """Rows given out by advance."""
        return self._emitted + (0 if self.crowd is None else int(self.crowd.emitted[self.member]))

    @emitted.setter
    def emitted(self, rows: int) -> None:
        assert self.crowd is None, "a crowd counts its rows itself"
        self._emitted = rows

    @property
    def inside(self) -> Ints:
        """EMIT CHANGES: the keys that are in."""
        return self._inside if self.crowd is None else self.crowd.inside_of(self.member)

    @inside.setter
    def inside(self, ids: Ints) -> None:
        assert self.crowd is None, "a crowd knows who is in"
        self._inside = ids

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

    def __init__(self, emitted_to: Iterable[int | None], together: Mapping[int, int] = MappingProxyType({})):
        """`together` has how many more have emitted to an instant."""
        count = Counter(emitted_to) + Counter(together)
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
