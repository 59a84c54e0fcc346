"""A placement: which groups serve a query, and which lanes it reads or could read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from muntin.arrays import LONG_AGO
from muntin.lane import Laned
from muntin.plan.demand import Demand, Demands

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
    began: int = LONG_AGO  # when the query began to move here, if it did
    answers_from: int = LONG_AGO  # if it did: the instant from which on what is known here suffices

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

    def mapped(self, move: Callable[[Placed], Placed]) -> Placement:
        """The same with each demand in another group."""
        return self._replace(
            calls=tuple(tuple(move(each) for each in call) for call in self.calls),
            presence=tuple(move(each) for each in self.presence),
        )

    def given(self, demands: Demands, numbers: Iterable[int]) -> Placement:
        """The same with these demands, and the numbers of their groups in the order of `all`."""
        rest = iter([*zip(numbers, demands.all(), strict=True)])
        return self._replace(
            calls=tuple(tuple(next(rest) for _ in call) for call in demands.calls), presence=tuple(rest)
        )
