"""Moving: queries with a filter of their own go over to lanes once their like have become many.

    too few constants   |  its own filter answers  ████████████████████████|
    lanes are worth it  |             lanes are kept beside it   ▒▒▒▒▒▒▒▒▒▒|█████████████  and answer from here on
                                                                 began     knows all that its windows reach

Where a query stays as long as nothing else is known, the plan says (`WindowManager.placements`); where it moves to is
kept here. When it has arrived, the shard knows (`shard/moving.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from muntin.lane import Asked
from muntin.plan.placement import Placement


class Moving:
    """Of one plan. What a query costs here does not depend on how many there are."""

    def __init__(self) -> None:
        self.to: dict[str, Placement] = {}  # of queries that move: where
        self._apart: dict[Asked, dict[str, None]] = {}  # by store with lanes: who could read it and does not

    def note(self, name: str, placement: Placement) -> None:
        """A query has been placed."""
        for asked in _left_out(placement):
            self._apart.setdefault(asked, {})[name] = None

    def forget(self, name: str, placement: Placement) -> None:
        """A query is about to leave its place."""
        for asked in _left_out(placement):
            del self._apart[asked][name]
            if not self._apart[asked]:
                del self._apart[asked]

    def apart(self, stores: Iterable[Asked]) -> list[str]:
        """Queries that could read one of some stores with lanes, do not, and do not move either."""
        names = dict.fromkeys(name for asked in stores for name in self._apart.get(asked, ()))
        return [name for name in names if name not in self.to]

    def could_read(self, asked: Asked) -> Iterable[str]:
        """Queries that could read a store with lanes, and do not."""
        return self._apart.get(asked, {})

    @property
    def stores(self) -> Iterable[Asked]:
        """Those with lanes that some query could read and does not."""
        return self._apart

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moving) and (self.to, self._apart) == (other.to, other._apart)

    __hash__ = None  # type: ignore[assignment]


def _left_out(placement: Placement) -> set[Asked]:
    """The stores with lanes that a query could move to. How far back a window reaches that counts events nobody knows,
    so it stays where it is."""
    stores = {laned.asked for laned, is_read in placement.lanes() if not is_read}
    if not stores or placement.is_among_lanes:
        return set()
    return stores if all(demand.window.is_time for _, demand in placement.all()) else set()
