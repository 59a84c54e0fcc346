"""Push for crowds: what all members have to say at the instants that are due, in one table that is cut at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import MuntinError
from muntin.shard.crowd import Crowd
from muntin.shard.emit.emitted import SharedTable
from muntin.shard.emit.gathering import is_worth_while
from muntin.shard.read.answers import MOST_SLOTS
from muntin.shard.read.crowd_rows import rows_of
from muntin.shard.read.crowd_watch import Few, watch_of
from muntin.shard.read.question import FEW_KEYS
from muntin.shard.read.reading import GroupWindow, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State

Pause = Callable[[], None]

# A crowd that owes more instants is emitted query by query, where silence is left out and rows are allotted.
_MOST_INSTANTS = 64


def no_pause() -> None:
    """Nobody waits."""


@dataclass
class CrowdEmission:
    """What one crowd emits. Nothing of it is marked as given out before `give_out`."""

    crowd: Crowd
    emitted_to: int  # from where it goes on the next time
    instants: Ints
    inside: Ints
    tables: list[pa.Table] = field(default_factory=list)
    members: list[Ints] = field(default_factory=list)  # of each row of each table
    more: bool = False  # whether some of it is left for the next portion

    @property
    def slots(self) -> int:
        """Pairs times windows that are read for it at an instant."""
        return self.crowd.reading.width * sum(map(len, self.crowd.stacks))

    @property
    def rows(self) -> int:
        return sum(map(len, self.members))

    def watch(self, state: State, at: Ints) -> Few | None:
        """The few pairs that can matter at one instant; None if all of them have to be looked at."""
        return watch_of(self.crowd).find(state, self.crowd, at, self.inside) if self.crowd.is_laned else None

    def answer(self, state: State, at: Ints, shared: SharedReads, few: Few | None) -> None:
        """Take in what the members have to say at one instant."""
        rows = rows_of(state, self.crowd, at, self.inside, shared, few)
        self.inside = rows.inside
        if len(rows.member):
            self.tables.append(rows.table)
            self.members.append(rows.member)

    def stop_after(self, instant: int) -> None:
        """Leave what comes after an instant to the next portion."""
        if len(self.instants) and instant < int(self.instants[-1]):
            self.more, self.emitted_to = True, instant

    def give_out(self) -> SharedTable | None:
        """The rows of all members, if there are any; the crowd goes on from here. O(rows)."""
        crowd = self.crowd
        crowd.emitted_to = self.emitted_to
        crowd.inside = self.inside
        if not self.tables:
            return None
        member = np.concatenate(self.members)
        table = pa.concat_tables(self.tables).combine_chunks()
        if len(self.tables) > 1:  # instant by instant so far
            order = np.argsort(member, kind="stable")
            member, table = member[order], table.take(pa.array(order))
        crowd.emitted += np.bincount(member, minlength=len(crowd))
        return SharedTable(crowd.names, member, table)


class ReadAt(NamedTuple):
    """What has been read at an instant."""

    instant: int
    shared: SharedReads


def emit_crowds(
    state: State, until: int, rows: int, pause: Pause = no_pause
) -> tuple[list[CrowdEmission], int, ReadAt | None]:
    """What crowds have to say up to an instant, and how many of `rows` are left for others; what they read at the last
    instant, with the windows of the same groups that others will look at there. A crowd of which some member must be
    answered by itself is dissolved."""
    emissions = [each for crowd in state.crowds if (each := _due(state, crowd, until)) is not None]
    given, read = 0, None
    for instant in np.unique(np.concatenate([each.instants for each in emissions])) if emissions else ():
        due = [each for each in emissions if instant in each.instants]
        failed, read = _answer(state, due, int(instant), pause)
        for each in failed:
            emissions.remove(each)
            state.crowds.dissolve(each.crowd)
        given = sum(each.rows for each in emissions)
        if given > rows:
            for each in emissions:
                each.stop_after(int(instant))
            break
    return emissions, max(1, rows - given), read


def _answer(
    state: State, due: list[CrowdEmission], instant: int, pause: Pause
) -> tuple[list[CrowdEmission], ReadAt | None]:
    """Answer crowds that are due at one instant; those that have no answer, or are too large to be read at once. And
    what was read, if that is not too much to be kept."""
    failed = [each for each in due if each.slots > MOST_SLOTS and sum(map(len, each.crowd.stacks)) > 1]
    portion, slots, is_kept = list[CrowdEmission](), 0, True
    for each in due:
        if each in failed:
            continue
        if portion and slots + each.slots > MOST_SLOTS:
            failed += _answer_portion(state, portion, instant, SharedReads(state), pause)
            portion, slots, is_kept = [], 0, False
        portion.append(each)
        slots += each.slots
    shared = SharedReads(state)
    failed += _answer_portion(state, portion, instant, shared, pause, is_kept)
    return failed, ReadAt(instant, shared) if is_kept else None


def _answer_portion(
    state: State,
    due: list[CrowdEmission],
    instant: int,
    shared: SharedReads,
    pause: Pause,
    is_kept: bool = False,
) -> list[CrowdEmission]:
    """Answer crowds whose windows are looked up together, with those of others if what is read `is_kept` for them;
    those that have no answer."""
    at = np.array([instant])
    failed, watched = list[CrowdEmission](), list[tuple[CrowdEmission, Few | None]]()
    for each in due:
        try:
            watched.append((each, each.watch(state, at)))
        except MuntinError:
            failed.append(each)
    asked = [
        (window, at, each.crowd.reading.width)
        for each, few in watched
        if few is None and each.crowd.reading.width and each.crowd.is_prefetched
        for window in chain.from_iterable(each.crowd.stacks)
    ]
    if is_kept and asked:
        asked += _beside(state, {window.number for window, *_ in asked}, at)
    try:
        shared.prefetch_windows(asked)
    except MuntinError:
        return due
    for each, few in watched:
        pause()
        try:
            each.answer(state, at, shared, few)
        except (MuntinError, pa.ArrowException):
            failed.append(each)
    return failed


def _beside(state: State, groups: set[int], at: Ints) -> Iterator[tuple[GroupWindow, Ints, int]]:
    """The windows of some groups that queries in no crowd will look at: those of one group share a scan."""
    for name, registration in state.crowds.alone.items():
        pace = registration.pace
        if pace.every and pace.floor(at[0]) == at[0] and registration.joined is None:
            reading = reading_of(state, name)
            if reading.width <= FEW_KEYS:
                for window in reading.windows:
                    if window.number in groups and window.laned is None:
                        yield window, at, reading.slots_of(window)


def _due(state: State, crowd: Crowd, until: int) -> CrowdEmission | None:
    """What a crowd owes; None if nothing, or if its members are to be answered one by one."""
    after, pace = crowd.emitted_to, crowd.pace
    if until <= after:
        return None
    first, last = pace.tick(after) + 1, pace.tick(until)
    is_too_long = last - first >= _MOST_INSTANTS or not is_worth_while(state, crowd, last - first + 1)
    if is_too_long or (first <= last and after < state.forgotten_to):
        state.crowds.dissolve(crowd)
        return None
    return CrowdEmission(crowd, until, pace.at(np.arange(first, last + 1)), crowd.inside)
