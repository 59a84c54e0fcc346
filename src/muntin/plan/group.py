"""A window group: the calls, of any number of queries, that one synopsis serves; and the store that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from muntin.expression import Expression
from muntin.lane import Asked, Lane
from muntin.plan.demand import Demand, Signature
from muntin.store.needs import Need, Needs, Shape, count, place_of
from muntin.store.ring import columns_of
from muntin.structure.range_tree import RangeTree
from muntin.window import Pace

# Which store a group reads: events are stored, or folded into slices, once for all that can share.

Kind = Literal["ring", "slices", "stairs", "sessions"]


class StoreId(NamedTuple):
    """The stream's ring has neither `where` nor `keys`: its readers filter and tell keys apart. A ring of lanes has
    the events that are in one of them. Rings of ROWS windows keep the last events that pass, of each key; slices are
    cells per key, and stairs are slices that get coarser with age; sessions are cells between silences."""

    kind: Kind
    where: Expression | None = None
    keys: tuple[Expression, ...] = ()
    grid: int = (
        0  # of slices: those whose edges share one grid have one number; of sessions: how many before it
    )
    generation: int = 0  # 0 for what began with the stream, or while it ran; one for each history filled in


STREAM_RING = StoreId("ring")


def ring_of(demand: Demand) -> StoreId:
    """The ring for single events."""
    if demand.window.is_time:
        return StoreId("ring", demand.where) if demand.is_laned else STREAM_RING
    return StoreId("ring", demand.where, demand.keys)


@dataclass
class WindowGroup:
    """Counts what its queries need, so that state can be freed."""

    number: int
    synopsis: str  # a name in SYNOPSES: what serves it now
    because: str  # why that was planned
    where: Expression | None
    keys: tuple[Expression, ...]
    store: StoreId
    needs: Needs = field(default_factory=Needs)
    queries: dict[str, int] = field(default_factory=dict)  # how many demands each has here
    paces: dict[Pace, int] = field(default_factory=dict)  # of the queries
    own_paces: dict[tuple[Pace, Pace], int] = field(default_factory=dict)  # and of windows that have others
    planned: str = ""  # the synopsis chosen by plan; `synopsis` may have taken its place
    adapted: str = ""  # why it has
    hinted: int = 0  # demands that ask for `planned` by name
    pinned: int = 0  # demands with any hint, which may depend on `planned`

    def __post_init__(self) -> None:
        self.planned = self.planned or self.synopsis

    @property
    def signature(self) -> Signature:
        return Signature(self.where, self.keys)

    def add(self, name: str, demand: Demand) -> bool:
        """One more demand; whether its component is new here."""
        count(self.queries, name)
        count(self.paces, demand.pace)
        if demand.window.pace != demand.pace:
            count(self.own_paces, (demand.pace, demand.window.pace))
        self.hinted += demand.hint == self.planned
        self.pinned += demand.hint is not None
        return self.needs.add(demand.window, demand.need)

    def remove(self, name: str, demand: Demand) -> bool:
        """One demand less; whether nobody needs its component here any more."""
        self.hinted -= demand.hint == self.planned
        self.pinned -= demand.hint is not None
        count(self.queries, name, -1)
        count(self.paces, demand.pace, -1)
        if demand.window.pace != demand.pace:
            count(self.own_paces, (demand.pace, demand.window.pace), -1)
        return self.needs.remove(demand.window, demand.need)

    def columns_of(self, need: Need) -> tuple[set[Expression], set[Expression]]:
        """Arguments and predicates that it reads of events for a component."""
        if self.planned == RangeTree.name:  # filters there are bands, which come with look-ups
            return {each for each in place_of(need) if each is not None}, set()
        return columns_of([need], None)

    def switch(self, synopsis: str, why: str) -> None:
        """Another synopsis takes the place of the one that was planned, or that one is back."""
        self.synopsis, self.adapted = synopsis, "" if synopsis == self.planned else why

    def earliest_lookup(self, instant: int) -> int:
        """Where queries and their windows stand, at the earliest, that are looked up at `instant` or later."""
        stands = [pace.floor(instant) for pace in self.paces]
        stands += [own.floor(pace.floor(instant)) for pace, own in self.own_paces]
        return min(stands, default=instant)


def longest_of(sizes: Iterable[Mapping[Shape, int]]) -> dict[Shape, int]:
    """The size of the longest window of each shape, given those of several groups (`Needs.longest`) or stores."""
    longest: dict[Shape, int] = {}
    for some in sizes:
        for shape, size in some.items():
            longest[shape] = max(size, longest.get(shape, 0))
    return longest


# PlanChanges: what queries that came or went have changed in the plan, for state to follow.


class PlanChanges:
    """The groups and stores that demands came to or left, each with the components that it has to keep since,
    or need not keep any more: which of the two, the plan knows."""

    def __init__(self) -> None:
        self.groups: dict[int, set[Need]] = {}
        self.stores: dict[StoreId, set[Need]] = {}
        self.came: list[tuple[int, Demand]] = []  # demands that are new in a group, with its number
        self.lanes: dict[Asked, set[Lane]] = {}  # that queries came to or left

    def come(self, group: WindowGroup, demand: Demand, is_first: bool) -> None:
        """A demand came to a group, perhaps as the first for its component."""
        self.came.append((group.number, demand))
        self._note(group, demand.need, is_first)

    def leave(self, group: WindowGroup, demand: Demand, is_last: bool) -> None:
        """A demand left a group, perhaps as the last for its component."""
        self._note(group, demand.need, is_last)

    def _note(self, group: WindowGroup, need: Need, is_turned: bool) -> None:
        if group.number not in self.groups:
            self.groups[group.number] = set()
            self.stores.setdefault(group.store, set())
        if is_turned:
            self.groups[group.number].add(need)
            self.stores[group.store].add(need)
