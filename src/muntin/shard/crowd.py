"""A crowd: queries that are emitted together, since they differ in nothing but lane, window and threshold.

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

from muntin.arrays import Bools, Ints
from muntin.band import GREATEST, LEAST
from muntin.lane import Asked, Lane
from muntin.shard.registration import Owed, Registration

if TYPE_CHECKING:
    from muntin.shard.read.reading import GroupWindow, Reading

_NOBODY = np.zeros(0, np.int64)
_KEY = 0xFFFFFFFF  # the part of a word that is a key


class Member(NamedTuple):
    """A query that may join a crowd."""

    name: str
    registration: Registration
    reading: Reading
    emitted_to: int  # the instant up to which it owes nothing

    @property
    def tick(self) -> int:
        """The number of the last instant that it does not owe."""
        return self.emitted_to // self.registration.slide


class Crowd:
    """Its members have the same slide, and have been emitted up to the same instant."""

    def __init__(self, first: Member):
        assert first.reading.laned is not None
        self.reading = first.reading  # of any of them: they are the same but for the arrays below
        self.asked: Asked = first.reading.laned.asked
        self.slide = first.registration.slide
        self.emitted_to = first.emitted_to
        self.windows: list[GroupWindow] = []
        self.window: Ints = _NOBODY  # of each member, among `windows`
        # of each member: what HAVING lets pass, as sort keys
        self.low: Ints = _NOBODY
        self.high: Ints = _NOBODY
        self.emitted: Ints = _NOBODY  # of each member: rows given out since it joined
        self.lanes: list[Lane] = []  # of each member
        self.there: Bools = np.zeros(0, np.bool_)  # of each member: whether it has not left
        self.inside: Ints = _NOBODY  # EMIT CHANGES: who is in, as words of member and key, ascending
        self.slots: Any = None  # what members look at; see read/crowd_slots.py
        self.watch: Any = None  # what may pass; see read/crowd_watch.py
        self._members: list[tuple[str, Registration] | None] = []  # None: it has left
        self._left = 0

    def __len__(self) -> int:
        """Members, those that have left included."""
        return len(self._members)

    @property
    def emits_changes(self) -> bool:
        return self.reading.query.emits_changes

    @property
    def owing(self) -> int:
        """How many members there are."""
        return len(self._members) - self._left

    @property
    def tick(self) -> int:
        """The number of the last instant that no member owes."""
        return self.emitted_to // self.slide

    def name(self, member: int) -> str:
        found = self._members[member]
        assert found is not None, "a query that has left has no rows"
        return found[0]

    def join(self, some: Sequence[Member]) -> None:
        """Queries that have come as far as the others; O(members)."""
        numbers = {each: number for number, each in enumerate(self.windows)}
        first, inside = len(self._members), [self.inside]
        window = []
        bands = np.empty((2, len(some)), np.int64)
        for number, (name, registration, reading, _) in enumerate(some):
            (asked,) = reading.windows
            window.append(numbers.setdefault(asked, len(numbers)))
            assert reading.laned is not None
            self.lanes += reading.laned.lanes
            having = reading.query.having
            bands[:, number] = (LEAST, GREATEST) if having is None else (having.band.low, having.band.high)  # type: ignore[union-attr]
            inside.append(registration.inside | (first + number) << 32)
            registration.crowd, registration.member = self, first + number
            self._members.append((name, registration))
        self.windows = list(numbers)
        self.window = np.concatenate([self.window, window])
        self.low, self.high = (
            np.concatenate([old, new]) for old, new in zip((self.low, self.high), bands, strict=True)
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
        self.low[number], self.high[number], self.there[number] = GREATEST, LEAST, False
        self._forget_slots()
        self._left += 1
        if self.inside.size:
            self.inside = self.inside[self.inside >> 32 != number]
        window = int(self.window[number])
        if not (self.window[self.there] == window).any():  # the plan has forgotten it
            del self.windows[window]
            self.window[self.window > window] -= 1
            self.window[~self.there] = 0
        if 2 * self._left > len(self._members):
            self._close_ranks()

    def _close_ranks(self) -> None:
        """Forget those that have left."""
        stays, number = self.there, np.cumsum(self.there) - 1
        self.lanes = [self.lanes[member] for member in np.flatnonzero(stays)]
        self._members = [each for each in self._members if each is not None]
        for new, each in enumerate(self._members):
            assert each is not None
            each[1].member = new
        self.window, self.low, self.high, self.emitted = (
            each[stays] for each in (self.window, self.low, self.high, self.emitted)
        )
        self.there = stays[stays]
        self.inside = number[self.inside >> 32] << 32 | (self.inside & _KEY)
        self._left = 0
        self._forget_slots()

    def _forget_slots(self) -> None:
        """Members or keys are others."""
        self.slots = None
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
                assert registration.query.slide == self.slide
        # there is a member for every window, or the plan may have forgotten it
        assert set(self.window[self.there].tolist()) == set(range(len(self.windows)))
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

    def gather(self, alike: Mapping[Hashable, Sequence[Member]]) -> None:
        """Let queries that are in no crowd, and alike, join a crowd; one that has no like stays alone. O(queries), and
        O(members) of each crowd that somebody joins."""
        for what, some in alike.items():
            crowd = self._crowds.get(what)
            tick = some[0].tick if crowd is None else crowd.tick
            joining = [each for each in some if each.tick == tick]  # others join when they have come as far
            if len(joining) < (2 if crowd is None else 1):
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
