"""Gathering: which queries that are due join a crowd of those they are alike, and when that is worth while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from muntin.key_index.finders import FEW
from muntin.shard.crowd import Crowd, Member
from muntin.shard.read.likeness import likeness_of
from muntin.shard.read.question import FEW_KEYS, MANY
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.registration import Registration
from muntin.shard.state import State

_PER_INSTANT = 4  # members that cost as much one by one as all of them at one more instant
_FEW_ROWS = 64  # keys of queries without HAVING: more are better tabulated in blocks (in_blocks.py)


def gather(state: State, first: int, until: int) -> None:
    """Let queries that are due join crowds of those they are alike; O(queries that are in none)."""
    alike: dict[Hashable, list[Member]] = {}
    for name, registration in state.crowds.alone.items():
        slide, offset = registration.pace
        if not slide:
            continue
        after = registration.owes_after(first)
        if (after - offset) // slide < (until - offset) // slide:
            member = _member(state, name, registration, after)
            if member is not None:
                what = member.reading.same_but_lane if member.likeness is None else member.likeness.same
                alike.setdefault((what, registration.pace), []).append(member)
    visitors = _visitors(state)
    for some in alike.values():
        if some[0].likeness is not None:
            visitors[some[0].reading.windows[0].number] += len(some)
    state.crowds.gather(
        {what: some for what, some in alike.items() if _pays(state, what, some, until, visitors)}
    )
    for some in alike.values():
        for each in some:
            if each.registration.crowd is not None and each.likeness is None:
                # nobody reads it alone as long as it is in a crowd
                state.prepared.readings.pop(each.name, None)


def _member(state: State, name: str, registration: Registration, after: int) -> Member | None:
    if state.manager.placements[name].is_among_lanes:
        reading = reading_of(state, name)
        return None if reading.same_but_lane is None else Member(name, registration, reading, after)
    if registration.joined is not None:
        return None
    reading = reading_of(state, name)
    if reading.keeps_all and reading.keys is not None and reading.width > _FEW_ROWS:
        return None
    likeness = likeness_of(state, reading)
    return None if likeness is None else Member(name, registration, reading, after, likeness)


def _visitors(state: State) -> Counter[int]:
    """How many members of crowds look at all keys of a group."""
    visitors = Counter[int]()
    for crowd in state.crowds:
        if not crowd.is_laned:
            visitors[crowd.windows[0].number] += crowd.owing
    return visitors


def _pays(state: State, what: Hashable, some: list[Member], until: int, visitors: Counter[int]) -> bool:
    """Whether queries had better be emitted together."""
    first, crowd = some[0], state.crowds.get(what)
    instants = first.registration.pace.tick(until) - first.tick
    members = len(some) if crowd is None else len(some) + crowd.owing
    if first.likeness is None:
        return _pay_in_lanes(first.reading, members, instants)
    many = len({each.reading.windows for each in some})
    if crowd is not None:
        many += max(map(len, crowd.stacks))
    return _pay(first.reading, members, many, instants, visitors.__getitem__)


def is_worth_while(state: State, crowd: Crowd, instants: int) -> bool:
    """Whether a crowd that owes some instants is better emitted as one than query by query."""
    if not instants:
        return True
    if crowd.is_laned:
        return _pay_in_lanes(crowd.reading, crowd.owing, instants)
    return _pay(
        crowd.reading,
        crowd.owing,
        max(map(len, crowd.stacks)),
        instants,
        lambda group: _visitors(state)[group],
    )


def _pay_in_lanes(reading: Reading, members: int, instants: int) -> bool:
    """A crowd costs about as much at an instant, however few it has, as a member alone at all of them: ten rules that
    owe sixty instants need a fifth of the time one by one. Of many pairs, only a crowd reads no more than may pass."""
    return members >= instants or reading.width > FEW_KEYS


def _pay(reading: Reading, members: int, windows: int, instants: int, visitors: Callable[[int], int]) -> bool:
    if members < _PER_INSTANT * instants:
        return False
    if reading.keys is None:
        return True
    if reading.query.top is not None:  # of many keys, the first are found without a visit to all
        return reading.lead is None or reading.width < FEW
    if reading.query.having is None:
        return reading.width <= _FEW_ROWS
    if reading.range is None:
        return True
    # an index may find the keys of few queries in less time than it takes to visit all
    if reading.width > FEW_KEYS:
        return members > MANY * windows
    return visitors(reading.windows[0].number) > MANY
