"""A placement: which groups serve a query, and which lanes it reads or could read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muntin.lane import Laned
from muntin.plan.demand import Demand

Placed = tuple[int, Demand]  # a demand and the number of the group that serves it


class CallLanes(NamedTuple):
    """The lanes that a call with a FILTER could read, and whether it does."""

    laned: Laned
    is_read: bool


class Placement(NamedTuple):
    """Which groups serve each call of a query, and each window that decides its keys. `laned` are the lanes that the
    query could read, and does if it `is_among_lanes`; if it does not, its calls may."""

    calls: tuple[tuple[Placed, ...], ...]
    presence: tuple[Placed, ...]
    laned: Laned | None = None
    is_among_lanes: bool = False
    of_calls: tuple[CallLanes | None, ...] = ()  # none if no call has a FILTER

    def lanes(self) -> Iterator[CallLanes]:
        """All lanes that the query or one of its calls could read, and whether it does."""
        if self.laned is not None:
            yield CallLanes(self.laned, self.is_among_lanes)
        yield from (each for each in self.of_calls if each is not None)

    def lanes_of_call(self, number: int) -> Laned | None:
        """Those that a call reads by itself."""
        of_call = self.of_calls[number] if self.of_calls else None
        return of_call.laned if of_call is not None and of_call.is_read else None

    def all(self) -> tuple[Placed, ...]:
        return (*(placed for call in self.calls for placed in call), *self.presence)

    def groups(self) -> set[int]:
        return {number for number, _ in self.all()}
