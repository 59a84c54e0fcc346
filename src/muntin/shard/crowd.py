"""A crowd: queries that are emitted together, since they differ in nothing but windows, constants and lane.

Of a hundred thousand subscriptions hardly any has news at an instant. So what each of them asks for is kept as an
element of arrays, and how far they have come is kept once: an instant costs a few passes over arrays, and Python only
for the queries that have rows. A crowd holds nothing that its members could not tell themselves: it can be
dissolved at any time, and its members are then emitted one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.band import GREATEST, LEAST
from muntin.lane import Asked, Lane
from muntin.shard.registration import Owed, Registration

if TYPE_CHECKING:
    from muntin.expression import Expression
    from muntin.shard.read.likeness import Likeness
    from muntin.shard.read.reading import GroupWindow, Reading

_NOBODY = np.zeros(0, np.int64)
_KEY = 0xFFFFFFFF  # the part of a word that is a key
FEW_ALIKE = 4  # fewer are as quickly emitted one by one, unless they share lanes


class Member(NamedTuple):
    """A query that may join a crowd."""

    name: str
    registration: Registration
    reading: Reading
    emitted_to: int  # the instant up to which it owes nothing
    likeness: Likeness | None = None  # of one that reads no lane

    @property
    def tick(self) -> int:
        """The number of the last instant that it does not owe."""
        return self.registration.pace.tick(self.emitted_to)


class Crowd:
    """Its members have the same instants, and have been emitted up to the same instant."""

    def __init__(self, first: Member):
        self.reading = reading = first.reading  # of any of them: they are the same but for the arrays below
        # HAVING and outputs over columns for the constants
        likeness = first.likeness
        self.having: Expression | None = None if likeness is None else likeness.having
        self.outputs: tuple[int | Expression, ...] = () if likeness is None else likeness.outputs
        kinds = () if likeness is None else map(type, likeness.constants)
        self.constants: list[npt.NDArray[Any]] = [
            np.zeros(0, np.int64 if kind is int else np.float64) for kind in kinds
        ]
        self.readings: list[Reading | None] = []  # of each member, if they differ in their calls
        self.pace = first.registration.pace
        self.emitted_to = first.emitted_to
        # the windows that members have in each place of the query, and of each member which of them
        self.stacks: list[list[GroupWindow]] = [[] for _ in reading.windows]
        self.place: Ints = np.zeros((0, len(reading.windows)), np.int64)
        # of each member: what HAVING lets pass, as sort keys
        self.low: Ints = _NOBODY
        self.high: Ints = _NOBODY
        self.limit: Ints = _NOBODY  # of each member: how many keys it has at most, if they are ranked
        self.emitted: Ints = _NOBODY  # of each member: rows given out since it joined
        self.lanes: list[Lane] = []  # of each member
        self.there: Bools = np.zeros(0, np.bool_)  # of each member: whether it has not left
        self.inside: Ints = _NOBODY  # EMIT CHANGES: who is in, as words of member and key, ascending
        self.slots: Any = None  # what members look at; see read/crowd_slots.py
        self.watch: Any = None  # what may pass; see read/crowd_watch.py
        self._members: list[tuple[str, Registration] | None] = []  # None: it has left
        self._left = 0
        self._names: pa.Array | None = None

    def __len__(self) -> int:
        """Members, those that have left included."""
        return len(self._members)

    @property
    def emits_changes(self) -> bool:
        return self.reading.query.emits_changes

    @property
    def is_laned(self) -> bool:
        """Whether each member reads one lane of its window, or all that its windows hold."""
        return self.reading.laned is not None

    @property
    def is_of_rows(self) -> bool:
        """Whether each member keeps its one row, whatever it asks for."""
        return self.reading.is_row and not self.emits_changes

    @property
    def asked(self) -> Asked:
        """The lanes of which members read one each."""
        assert self.reading.laned is not None
        return self.reading.laned.asked

    @property
    def windows(self) -> list[GroupWindow]:
        """Of members that look at one window each."""
        return self.stacks[0]

    @property
    def window(self) -> Ints:
        """Of each such member, among `windows`."""
        return self.place[:, 0]

    @property
    def is_prefetched(self) -> bool:
        """Whether its windows are looked up with those of others: all but runs of single events or slices."""
        return self.is_laned or self.reading.keys is not None

    @property
    def owing(self) -> int:
        """How many members there are."""
        return len(self._members) - self._left

    @property
    def tick(self) -> int:
        """The number of the last instant that no member owes."""
        return self.pace.tick(self.emitted_to)

    @property
    def names(self) -> pa.Array:
        """Of each member, NULL of one that has left; made anew when members come or go."""
        if self._names is None:
            self._names = pa.array([each and each[0] for each in self._members], pa.string())
        return self._names

    def join(self, some: Sequence[Member]) -> None:
        """Queries that have come as far as the others; O(members)."""
        numbers = [{each: number for number, each in enumerate(stack)} for stack in self.stacks]
        first, inside = len(self._members), [self.inside]
        place = []
        bands = np.empty((2, len(some)), np.int64)
        for number, (name, registration, reading, *_) in enumerate(some):
            place.append(
                [
                    known.setdefault(each, len(known))
                    for known, each in zip(numbers, reading.windows, strict=True)
                ]
            )
            if reading.laned is not None:
                self.lanes += reading.laned.lanes
            having = reading.query.having
            band = None if having is None or reading.compared is None else having.band
            bands[:, number] = (LEAST, GREATEST) if band is None else (band.low, band.high)
            inside.append(registration.inside | (first + number) << 32)
            if self.is_of_rows:
                self.readings.append(reading)
            registration.crowd, registration.member = self, first + number
            self._members.append((name, registration))
        self.stacks = [list(known) for known in numbers]
        self.place = np.concatenate([self.place, np.array(place).reshape(-1, len(numbers))])
        self.low, self.high = (
            np.concatenate([old, new]) for old, new in zip((self.low, self.high), bands, strict=True)
        )
        added = zip(*(each.likeness.constants for each in some if each.likeness), strict=True)
        self.constants = [
            np.append(old, np.array(new, old.dtype)) for old, new in zip(self.constants, added, strict=True)
        ]
        tops = [each.reading.query.top for each in some]
        self.limit = np.append(
            self.limit, np.array([0 if top is None else top.limit for top in tops], np.int64)
        )
        self.emitted = np.concatenate([self.emitted, np.zeros(len(some), np.int64)])
        self.there = np.concatenate([self.there, np.ones(len(some), np.bool_)])
        self.inside = np.concatenate(inside)
        self._forget_slots()

    def leave(self, registration: Registration) -> None:
        """A query is dropped: nothing passes for it any more. O(members), of arrays alone until half of them have
        left."""
        number = registration.member
        self._write_back(registration, registration.inside)
        self._members[number] = None
        if self.is_of_rows:
            self.readings[number] = None
        self.low[number], self.high[number], self.there[number] = GREATEST, LEAST, False
        self._forget_slots()
        self._left += 1
        if self.inside.size:
            self.inside = self.inside[self.inside >> 32 != number]
        for stack, place in zip(self.stacks, self.place.T, strict=True):
            window = int(place[number])
            if not (place[self.there] == window).any():  # the plan has forgotten it
                del stack[window]
                place[place > window] -= 1
                place[~self.there] = 0
        if 2 * self._left > len(self._members):
            self._close_ranks()

    def _close_ranks(self) -> None:
        """Forget those that have left."""
        stays, number = self.there, np.cumsum(self.there) - 1
        self.readings = [each for each in self.readings if each is not None]
        if self.lanes:
            self.lanes = [self.lanes[member] for member in np.flatnonzero(stays)]
        self._members = [each for each in self._members if each is not None]
        for new, each in enumerate(self._members):
            assert each is not None
            each[1].member = new
        self.place, self.low, self.high, self.limit, self.emitted, *self.constants = (
            each[stays]
            for each in (self.place, self.low, self.high, self.limit, self.emitted, *self.constants)
        )
        self.there = stays[stays]
        self.inside = number[self.inside >> 32] << 32 | (self.inside & _KEY)
        self._left = 0
        self._forget_slots()

    def _forget_slots(self) -> None:
        """Members or keys are others."""
        self.slots = self._names = None
        if self.watch is not None:
            self.watch.forget_members()

    def inside_of(self, member: int) -> Ints:
        """EMIT CHANGES: the keys that are in."""
        lo, hi = self.inside.searchsorted([member << 32, (member + 1) << 32])
        return self.inside[lo:hi] & _KEY

    def mark_inside(self, used: Bools) -> None:
        """Mark the ids of keys that are in."""
        used[self.inside & _KEY] = True

    def renumber_keys(self, new_id: Ints) -> None:
        """Ids keep their order, so words do, too."""
        self.inside = self.inside & ~_KEY | new_id[self.inside & _KEY]
        self._forget_slots()

    def dissolve(self) -> dict[str, Registration]:
        """Let every member know itself how far it has come; all of them, by name."""
        edges = self.inside.searchsorted(np.arange(len(self._members) + 1) << 32)
        members = {}
        for number, each in enumerate(self._members):
            if each is not None:
                name, registration = each
                self._write_back(registration, self.inside[edges[number] : edges[number + 1]] & _KEY)
                members[name] = registration
        return members

    def _write_back(self, registration: Registration, inside: Ints) -> None:
        emitted = registration.emitted
        registration.crowd = None
        registration.emitted_to, registration.emitted, registration.inside = self.emitted_to, emitted, inside

    def check(self) -> None:
        """Assert that members and crowd know each other."""
        for number, each in enumerate(self._members):
            if each is not None:
                _, registration = each
                assert (registration.crowd, registration.member) == (self, number)
                assert registration.query.pace == self.pace
        # there is a member for every window, or the plan may have forgotten it
        for stack, place in zip(self.stacks, self.place.T, strict=True):
            assert set(place[self.there].tolist()) == set(range(len(stack)))
        # who is in is known once, in order, of members that are there
        assert (np.diff(self.inside) > 0).all()
        assert all(self._members[number] is not None for number in np.unique(self.inside >> 32).tolist())


class Crowds:
    """All crowds of a shard, and the queries that are in none."""

    def __init__(self) -> None:
        self.alone: dict[str, Registration] = {}
        self._crowds: dict[Hashable, Crowd] = {}  # by what their members have in common

    @property
    def members(self) -> int:
        """How many queries are in crowds; O(crowds)."""
        return sum(crowd.owing for crowd in self)

    def __iter__(self) -> Iterator[Crowd]:
        return iter(tuple(self._crowds.values()))

    def get(self, what: Hashable) -> Crowd | None:
        """The crowd of those that have something in common."""
        return self._crowds.get(what)

    def gather(self, alike: Mapping[Hashable, Sequence[Member]]) -> None:
        """Let queries that are in no crowd, and alike, join a crowd; one that has no like stays alone. O(queries), and
        O(members) of each crowd that somebody joins."""
        for what, some in alike.items():
            crowd = self._crowds.get(what)
            tick = some[0].tick if crowd is None else crowd.tick
            joining = [each for each in some if each.tick == tick]  # others join when they have come as far
            if not joining or (crowd is None and len(joining) < (FEW_ALIKE if some[0].likeness else 2)):
                continue
            if crowd is None:
                crowd = self._crowds[what] = Crowd(joining[0])
            crowd.join(joining)
            for each in joining:
                del self.alone[each.name]

    def owed(self) -> Owed:
        """How far all queries have emitted; O(queries that are in no crowd)."""
        together = Counter[int]()
        for crowd in self:
            together[crowd.emitted_to] += crowd.owing
        return Owed((each.emitted_to for each in self.alone.values() if each.owes), together)

    def remove(self, name: str, registration: Registration) -> None:
        """A query is about to go; O(members) of its crowd."""
        crowd = registration.crowd
        if crowd is None:
            del self.alone[name]
            return
        crowd.leave(registration)
        if not crowd.owing:
            self._crowds = {what: each for what, each in self._crowds.items() if each is not crowd}

    def part(self, name: str, registration: Registration) -> None:
        """A query stays, but in no crowd; O(members) of its crowd."""
        if registration.crowd is not None:
            self.remove(name, registration)
            self.alone[name] = registration

    def dissolve(self, crowd: Crowd) -> None:
        """Its members are emitted by themselves again; O(members)."""
        self._crowds = {what: each for what, each in self._crowds.items() if each is not crowd}
        self.alone |= crowd.dissolve()

    def dissolve_all(self) -> None:
        for crowd in self:
            self.dissolve(crowd)

    def check(self, registrations: Mapping[str, Registration]) -> None:
        assert self.alone == {name: each for name, each in registrations.items() if each.crowd is None}
        assert len(registrations) == len(self.alone) + self.members
        for crowd in self:
            crowd.check()
