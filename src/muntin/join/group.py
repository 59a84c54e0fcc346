"""A join group: the queries that agree on two streams and ON, and the matches they share.

Each side chains its events by key, newest first. An event that arrives is looked for among the events of the
other side that came before it, so that a match is found once, by the one of its events that arrives last,
whatever windows are asked for. Which window sees it follows from its times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.answer import Coverage
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.expression import Expression
from muntin.join_query import JoinQuery, JoinSignature
from muntin.kernels.match import FRESH, TOGETHER, first_kept, probe
from muntin.keys.key_dictionary import KeyDictionary
from muntin.keys.sweeper import Sweeper
from muntin.shard.clock import Clock
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.event_log import EventLog
from muntin.store.match_store import Matches, MatchStore

if TYPE_CHECKING:
    from muntin.join.cohorts import Cohorts

Both = tuple[int, int]  # of the left side, and of the right one


@dataclass
class JoinRegistration:
    """`emitted_to`: windows that closed up to this instant are no longer owed (None: none closed)."""

    query: JoinQuery
    emitted_to: int | None
    began_at: int | None  # `emitted_to` when it was registered
    since: Both = (0, 0)  # events with smaller numbers are not for it: they lack some of its columns
    known_from: Both = (LONG_AGO, LONG_AGO)  # all matches of events from these times on are kept
    emitted: int = 0  # rows given out by advance
    missed: int = 0  # windows that closed but had to be forgotten before advance asked for them
    overflows: int = 0  # rows left out since a value of them does not exist
    cohorts: Cohorts | None = None  # that it is answered from, once `JoinGroup.cohorts` are there …
    lane: int = 0  # … and its lane there

    def hosts(self, query: JoinQuery) -> bool:
        """Whether all that another query needs is kept for this one anyway."""
        return all(
            mine.window.size >= its.window.size and set(mine.columns) >= set(its.columns)
            for mine, its in zip(self.query.sides, query.sides, strict=True)
        )

    def complete(self, instants: Ints) -> Bools:
        """At which instants both windows are known from their start."""
        left, right = (side.window.size for side in self.query.sides)
        known: Bools = (instants - left >= self.known_from[0]) & (instants - right >= self.known_from[1])
        return known

    def is_complete(self, instant: int) -> bool:
        """The same of one."""
        left, right = (side.window.size for side in self.query.sides)
        return instant - left >= self.known_from[0] and instant - right >= self.known_from[1]

    def coverage(self, now: int | None) -> Coverage:
        """Whether both windows are known from their start, or from when on they are."""
        known = max(self.known_from)
        if known == LONG_AGO or now is None:
            return Coverage(known == LONG_AGO)
        slide = self.query.slide
        sides = zip(self.known_from, self.query.sides, strict=True)
        reached = max(since + side.window.size for since, side in sides if since > LONG_AGO)
        reached = -(-reached // slide) * slide if slide else reached
        return Coverage(now >= reached, np.datetime64(known, "us"), np.datetime64(reached, "us"))

    def ranges(self, first: int, last: int) -> tuple[Both, Both]:
        """Times [from, to) of the events that the windows hold at instants from `first` to `last`."""
        left, right = (side.window for side in self.query.sides)
        return (first - left.size, last - left.to), (first - right.size, last - right.to)

    @property
    def visible_for(self) -> tuple[Both, Both]:
        """How long after each of its events a match can be seen: after the first, and up to the second."""
        left, right = (side.window for side in self.query.sides)
        return (left.to, left.size), (right.to, right.size)

    def visible(self, left_at: Ints, right_at: Ints) -> tuple[Ints, Ints]:
        """The instants between which matches can be seen: after the first, and up to the second."""
        left, right = self.visible_for
        return np.maximum(left_at + left[0], right_at + right[0]), np.minimum(
            left_at + left[1], right_at + right[1]
        )


# One side of a join group: the keys of its stream's events, chained, newest first.


class Keyed(NamedTuple):
    """The join values of a batch, in order of time: columns, and which events have no NULL among them."""

    columns: list[pa.Array]
    valid: Bools


# how `kernels/match.py` walks a chain: the event before this one of its key, and the time of this one
_LINK = np.dtype([("prior", np.int64), ("at", np.int64)])


class ChainedSide:
    """One side: the keys of its events, chained."""

    def __init__(self, stream: str, on: tuple[Expression, ...], log: EventLog, clock: Clock):
        self.stream = stream
        self.on = on
        self.log = log
        self.clock = clock
        self.events = Columns({"key": np.dtype(np.int64), "link": _LINK})
        self.events.dropped = log.end  # numbers are those of the log
        self.chains = Chains()
        self.sizes: Counter[int] = Counter()  # of windows, by how many queries have them
        self.reach = 0  # the longest of them
        self.forgotten_to = LONG_AGO  # events before this time may be gone

    def keyed(self, evaluated: dict[Expression, pa.Array]) -> Keyed:
        """What a batch's events must agree on with the other side's."""
        columns = [evaluated[value] for value in self.on]
        valid = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            if column.null_count:
                valid &= np.asarray(pc.is_valid(column))
        return Keyed(columns, valid)

    def link(self, key: Ints, at: Ints) -> None:
        """Append events with these keys."""
        self.events.extend(
            {"key": key, "link": links_of(self.chains.link(key, self.events.dropped + len(self.events)), at)}
        )

    def replace(self, key: Ints, first: int) -> None:
        """Have these events, the last of the log, in place of all others; chains are made anew."""
        at = self.log.at[first - self.log.first :]
        self.events.replace({"key": key, "link": links_of(self.chains.rebuild(key, first), at)})
        self.events.dropped = first

    def forget(self, before: int) -> None:
        """Drop the oldest events as far as they lie before an instant; O(events dropped)."""
        self.forgotten_to = max(self.forgotten_to, before)
        skipped = self.events.dropped - self.log.first
        self.events.drop_first(int(first_kept(self.log.at[skipped:], self.forgotten_to)))

    def renumber(self, new_id: Ints) -> None:
        key = self.events["key"]
        key[:] = new_id[key]
        self.chains.renumber(new_id)


def links_of(prior: Ints, at: Ints) -> np.ndarray:
    """Times side by side with the events before."""
    links = np.empty(len(at), _LINK)
    links["prior"], links["at"] = prior, at
    return links


_ROOM = 4096  # matches that a probe makes room for at first


class JoinDemand(NamedTuple):
    """What queries of one slide, that have been answered up to one instant, must still be able to see."""

    slide: int
    emitted_to: int | None
    left_size: int  # of the longest window
    right_size: int


class JoinGroup:
    """Matches of two streams under one equality, for any number of queries."""

    def __init__(
        self, signature: JoinSignature, logs: tuple[EventLog, EventLog], clocks: tuple[Clock, Clock]
    ):
        self.signature = signature
        on = tuple(zip(*signature.on, strict=True))
        streams = (signature.left, signature.right)
        self.sides = tuple(
            ChainedSide(stream, values, log, clock)
            for stream, values, log, clock in zip(streams, on, logs, clocks, strict=True)
        )
        self.keys = KeyDictionary([value.type for value in on[0]])
        self.matches = MatchStore()
        self.registrations: dict[str, JoinRegistration] = {}
        self.spared_at = LONG_AGO  # the instant that was last spared when forgetting
        self.given_up_to = LONG_AGO  # what was owed before this instant may be gone, for want of room
        self._demands: list[JoinDemand] | None = None  # made when asked for
        self.dealt_out: list[Cohorts] = []  # `cohorts`, as they were before queries came or went
        self.cohorts: list[Cohorts] | None = None  # that queries are answered from; made when asked for
        self._many = _ROOM  # matches that there may be of a batch, going by the last one
        self._sweeper = Sweeper()

    # -- time --------------------------------------------------------------------------------------

    @property
    def watermark(self) -> int | None:
        """The smaller one of the streams': before it no more pairs are expected."""
        left, right = (side.clock.watermark for side in self.sides)
        return None if left is None or right is None else min(left, right)

    @property
    def now(self) -> int | None:
        """Just after the latest event of both streams."""
        return max((now for side in self.sides if (now := side.clock.now) is not None), default=None)

    @property
    def first(self) -> int | None:
        """The earliest event time of both streams."""
        return min((at for side in self.sides if (at := side.clock.first) is not None), default=None)

    # -- queries -----------------------------------------------------------------------------------

    def add(self, name: str, registration: JoinRegistration) -> None:
        self.registrations[name] = registration
        for side, each in zip(self.sides, registration.query.sides, strict=True):
            side.sizes[each.window.size] += 1
            side.reach = max(side.reach, each.window.size)
        self.cohorts = None
        self.note_emitted()

    def remove(self, name: str) -> None:
        registration = self.registrations.pop(name)
        for side, each in zip(self.sides, registration.query.sides, strict=True):
            side.sizes[each.window.size] -= 1
            if not side.sizes[each.window.size]:
                del side.sizes[each.window.size]
                side.reach = max(side.sizes, default=0)
                self._sweeper.look_again()
        self.cohorts = None
        self.note_emitted()

    def note_emitted(self) -> None:
        """Queries came, went or gave out answers: what must be kept for them is different now."""
        self._demands = None

    def _demanded(self) -> list[JoinDemand]:
        if self._demands is None:
            longest: dict[tuple[int, int | None], tuple[int, int]] = {}
            for each in self.registrations.values():
                owes = each.query.slide, each.emitted_to
                left, right = (side.window.size for side in each.query.sides)
                before = longest.get(owes, (0, 0))
                longest[owes] = max(before[0], left), max(before[1], right)
            self._demands = [JoinDemand(*owes, *sizes) for owes, sizes in longest.items()]
        return self._demands

    # -- events ------------------------------------------------------------------------------------

    def insert(self, side: int, at: Ints, keyed: Keyed) -> None:
        """Take in events that the side's log has just been given; finds their matches."""
        mine, other = self.sides[side], self.sides[1 - side]
        key = self.keys.encode(keyed.columns)
        first = mine.log.end - len(at)
        # NULL has a key of its own, so that numbers stay those of the log, but nobody looks for it
        wanted = key if keyed.valid.all() else np.where(keyed.valid, key, -1)
        begin, cursor, found_before = 0, FRESH, self.matches.found
        chain = np.empty(TOGETHER, np.int64)
        while begin < len(at):
            room = [np.empty(max(self._many, 2 * len(at)), np.int64) for _ in range(4)]
            count, begin, cursor = probe(
                at, wanted, first, begin, cursor, other.chains.last, other.events["link"], other.events.dropped,
                mine.reach, other.reach, other.clock.delay, chain, *room,
            )  # fmt: skip
            found = [array[:count] for array in room]
            if side == 1:
                found = [found[1], found[0], found[3], found[2]]
            self.matches.insert(Matches(*found))
        self._many = max(_ROOM, (self.matches.found - found_before) * 5 // 4)
        mine.link(key, at)

    @property
    def settled_to(self) -> int | None:
        """The instant that all look-ups to be expected stand at, or after; None before there is one."""
        watermark, now = self.watermark, self.now
        # time may have been promised beyond the events, but look-ups stand just after the last one
        return None if watermark is None or now is None else min(watermark, now)

    def forget(self, base: int | None, is_over: bool) -> bool:
        """Drop what no query can see from `base` on, nor owes to `advance`; returns whether some is only owed.
        What is owed is given up if it `is_over` what the engine may keep."""
        first = self.first
        if base is None or first is None:
            return False
        base = self.spared_at = max(self.spared_at, base)
        if is_over:
            self.given_up_to = base
        has_backlog = False
        before, asked = [2**62, 2**62], 2**62
        for slide, emitted_to, *sizes in self._demanded():
            owed = first if emitted_to is None else emitted_to
            has_backlog |= owed < base
            spared = base if is_over else min(owed, base)
            spared -= spared % slide if slide else 0
            before = [min(least, spared - size) for least, size in zip(before, sizes, strict=True)]
            asked = min(asked, spared)
        for side, instant in zip(self.sides, before, strict=True):
            side.forget(instant)
        self.matches.forget(self.sides[0].forgotten_to, self.sides[1].forgotten_to)
        for cohorts in self.dealt_out:
            cohorts.forget(asked)
        self._sweeper.sweep(self.keys, self._mark, self._renumber)
        return has_backlog

    def _mark(self, used: Bools) -> None:
        for side in self.sides:
            used[side.events["key"]] = True

    def _renumber(self, new_id: Ints) -> None:
        for side in self.sides:
            side.renumber(new_id)

    # -- upkeep ------------------------------------------------------------------------------------

    def nbytes(self) -> int:
        sides = sum(side.events.nbytes() + side.chains.nbytes() for side in self.sides)
        answers = sum(each.nbytes() for each in self.dealt_out)
        return sides + self.matches.nbytes() + self.keys.nbytes() + answers

    def held_bytes(self) -> int:
        """Of its events and matches alone: `nbytes` without what is set aside for more."""
        return sum(side.events.held_bytes() for side in self.sides) + self.matches.held_bytes()

    def check(self) -> None:
        self.keys.check()
        self.matches.check()
        for each in self.dealt_out:
            each.check()
        left, right, left_at, right_at = self.matches.all
        for side, number, at in zip(self.sides, (left, right), (left_at, right_at), strict=True):
            side.events.check()
            side.chains.check(side.events["key"], side.events["link"]["prior"], side.events.dropped)
            # the log has every event of the side, and times of matches are those of their events
            assert side.log.first <= side.events.dropped
            assert side.events.dropped + len(side.events) == side.log.end
            there = number >= side.log.first
            assert np.array_equal(side.log.at[number[there] - side.log.first], at[there])
