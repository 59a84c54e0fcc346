"""Members that look at all keys of their windows: what they find there, and for whom it passes HAVING.

The windows of each place in the query (`FROM s [w]`, `OVER [w]`) are stacked: what was found of them lies one below the
other. HAVING is evaluated for blocks of members and keys, each as large as the processor's cache is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.answer import is_plain
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.band import GREATEST, LEAST, sort_keys
from muntin.errors import NoValue
from muntin.many_windows import ManyWindows
from muntin.shard.adapt.meter import GroupLookups
from muntin.shard.adapt.timed import timed_as
from muntin.shard.crowd import Crowd
from muntin.shard.read.alike import stacked_found
from muntin.shard.read.broadcast import Array, Numbers, Unusual, holds, numbers_of
from muntin.shard.read.crowd_order import CrowdOrder
from muntin.shard.read.crowd_slots import CrowdSlots, Passing
from muntin.shard.read.evaluate import Once
from muntin.shard.read.left_out import no_sum
from muntin.shard.read.lower import lower
from muntin.shard.read.question import Question
from muntin.shard.read.reading import GroupWindow
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.sequence import is_complete
from muntin.structure.runs import RunSynopsis
from muntin.structure.synopsis import Found

_BLOCK = 1 << 17  # members times keys that are compared at once
_RUN = 1 << 14  # so many of the same windows are better compared by themselves than with others
_NOBODY = np.zeros(0, np.int64)
_KEY = 0xFFFFFFFF


class _Block(NamedTuple):
    """Members that are compared at once; of the same windows, unless it is `mixed`."""

    member: Ints
    is_mixed: bool


class WholeSlots(CrowdSlots):
    """Of one crowd, as long as its members and the number of keys are the same."""

    def __init__(self, state: State, crowd: Crowd):
        super().__init__(_NOBODY, _NOBODY)
        self._state = state
        self.width = crowd.reading.width
        self._blocks = list(_blocks(crowd, self.width))
        self._runs = [_Runs(some) for some in crowd.stacks] if crowd.reading.keys is None else []

    def look_up(self, crowd: Crowd, instants: Ints, shared: SharedReads) -> list[Found]:
        """What is found of the windows of each place, stacked."""
        if self._runs:
            return [each.look_up(self._state, int(instants[0])) for each in self._runs]
        question = Question("", instants)
        return [
            stacked_found(some[0].needs, [shared.find(window, question, self.width) for window in some])
            for some in crowd.stacks
        ]

    def read(self, crowd: Crowd, found: list[Found], once: Once) -> list[Found]:
        return found

    def passing(self, crowd: Crowd, found: list[Found]) -> Passing:
        """Whose keys pass; O(members x keys), of arrays alone."""
        present = self._present(crowd, found)
        verdicts = (
            _Band(crowd, found)
            if crowd.reading.compared is not None
            else _Condition(self._state, crowd, found)
        )
        order = None if crowd.reading.query.top is None else CrowdOrder(self._state, crowd, found)
        words = [_NOBODY]
        for block in self._blocks:
            passes = verdicts.of(block)
            if present:
                passes = passes & reduce(
                    np.logical_or, (held[_rows(crowd, place, block)] for place, held in present.items())
                )
            passes = np.broadcast_to(passes, (len(block.member), self.width))
            if order is not None:
                passes = order.first(crowd, block.member, _rows(crowd, 0, block), passes)
            words.append(_words(block.member, passes))
        word = np.sort(np.concatenate(words))
        member, key = word >> 32, word & _KEY
        return Passing(member, key if order is None else order.keys_at(crowd, member, key), _NOBODY)

    def _present(self, crowd: Crowd, found: list[Found]) -> dict[int, Bools]:
        """Which keys have events in the windows of a place: those of any place are there. Nothing if there are no keys,
        or all have events."""
        presence = crowd.reading.presence if crowd.reading.keys is not None else ()
        held = {part.window: found[part.window].partials[part.need][0] > 0 for part in presence}
        if any(some.all() for some in held.values()):
            return {}
        return {place: some.reshape(-1, self.width) for place, some in held.items()}

    def find(self, crowd: Crowd, member: Ints, key: Ints) -> Ints:
        return _NOBODY

    def compact(self, crowd: Crowd, found: list[Found], rows: Passing) -> list[Found]:
        made = []
        for place, whole in enumerate(found):
            window = crowd.place[rows.member, place]
            slot, needs = window * self.width + rows.key, crowd.stacks[place][0].needs
            made.append(
                Found(
                    {need: tuple(array[slot] for array in whole.partials[need]) for need in needs},
                    whole.start[window], whole.end[window], whole.is_whole[window], whole.known_since, 1,
                )
            )  # fmt: skip
        return made


def whole_slots_of(state: State, crowd: Crowd) -> WholeSlots:
    """O(1) as long as no key is new, and no query has come or gone."""
    if crowd.slots is None or crowd.slots.width != crowd.reading.width:
        crowd.slots = WholeSlots(state, crowd)
    slots: WholeSlots = crowd.slots
    return slots


def _blocks(crowd: Crowd, width: int) -> Iterator[_Block]:
    """Members by their windows, as many at once as fit; if few have the same windows, whichever come next."""
    there, most = np.flatnonzero(crowd.there), max(1, _BLOCK // max(width, 1))
    place = crowd.place[there]
    order = np.lexsort(place.T[::-1])
    begins = np.append(True, (place[order][1:] != place[order][:-1]).any(axis=1))[: len(order)]
    if len(there) * width < _RUN * begins.sum() and begins.sum() > 1:
        for at in range(0, len(there), most):
            yield _Block(there[at : at + most], True)
        return
    edges = np.append(np.flatnonzero(begins), len(order)).tolist()
    for lo, hi in pairwise(edges):
        for at in range(lo, hi, most):
            yield _Block(there[order[at : min(at + most, hi)]], False)


def _rows(crowd: Crowd, place: int, block: _Block) -> Any:
    """The rows of a block in what was found of the windows of a place: one for all, or one for each member."""
    if block.is_mixed:
        return crowd.place[block.member, place]
    window = int(crowd.place[block.member[0], place])
    return slice(window, window + 1)


def _words(member: Ints, passes: Bools) -> Ints:
    """Members and keys, as words of both, where something passes."""
    flat = np.flatnonzero(passes)
    width = max(passes.shape[1], 1)
    words: Ints = member[flat // width] << 32 | flat % width
    return words


class _Band:
    """HAVING that compares one answer with constants."""

    def __init__(self, crowd: Crowd, found: list[Found]):
        reading, self._crowd = crowd.reading, crowd
        assert reading.compared is not None
        value, valid = _lowered(crowd, found, reading.compared)
        self._place = reading.calls[reading.compared].parts[0].window
        self._key, self._valid = sort_keys(value), valid
        there = crowd.there
        self._is_up = bool((crowd.high[there] == GREATEST).all())
        self._is_down = bool((crowd.low[there] == LEAST).all())

    def of(self, block: _Block) -> Bools:
        rows, member = _rows(self._crowd, self._place, block), block.member
        key = self._key[rows]
        passes: Bools
        if self._is_up:
            passes = key >= self._crowd.low[member, None]
        else:
            passes = key <= self._crowd.high[member, None]
            if not self._is_down:
                passes &= key >= self._crowd.low[member, None]
        if self._valid is not None:
            passes = passes & self._valid[rows]
        return passes


class _Condition:
    """HAVING of any kind, or none."""

    def __init__(self, state: State, crowd: Crowd, found: list[Found]):
        self._state, self._crowd, self._found = state, crowd, found
        self._having = crowd.having
        self._read = set() if crowd.having is None else set(crowd.having.columns)
        self._answers: dict[str, tuple[int, Numbers]] = {}  # and the place of their windows
        self._is_usual = True
        for number, call in enumerate(crowd.reading.calls):
            if f"${number}" in self._read:
                if not is_plain(call.type) or call.text is not None:
                    self._is_usual = False
                    continue
                self._answers[f"${number}"] = (
                    call.parts[0].window,
                    numbers_of(*_lowered(crowd, found, number)),
                )
        self._columns: dict[str, pa.Array] = {}

    def of(self, block: _Block) -> Bools:
        if self._having is None:
            return np.ones((1, 1), np.bool_)
        if self._is_usual:
            try:
                return holds(self._having.tree, self._numbers(block))
            except Unusual:
                self._is_usual = False
        return self._by_arrow(block)

    def _numbers(self, block: _Block) -> dict[str, Numbers]:
        """What the condition reads, for the members of a block."""
        columns = {}
        for name, (place, whole) in self._answers.items():
            rows = _rows(self._crowd, place, block)
            valid = None if whole.valid is None else whole.valid[rows]
            columns[name] = whole._replace(value=whole.value[rows], valid=valid)
        for number, constants in enumerate(self._crowd.constants):
            if f"?{number}" in self._read:
                columns[f"?{number}"] = numbers_of(constants[block.member, None], None)
        return columns

    def _by_arrow(self, block: _Block) -> Bools:
        """As one query alone evaluates it, for each member and each key."""
        crowd, reading = self._crowd, self._crowd.reading
        width, member = reading.width, block.member
        columns = {}
        for number, call in enumerate(reading.calls):
            name, place = f"${number}", call.parts[0].window
            if name in self._read:
                if name not in self._columns:
                    self._columns[name], lost = lower(call, self._found, None, self._state.texts)
                    if lost is not None:
                        raise NoValue(no_sum(reading.query.calls[number]))
                window = crowd.place[member, place]
                slots = (window[:, None] * width + np.arange(width)).ravel()
                columns[name] = self._columns[name].take(pa.array(slots))
        for number, constants in enumerate(crowd.constants):
            if f"?{number}" in self._read:
                columns[f"?{number}"] = pa.array(np.repeat(constants[member], width))
        if reading.keys is not None:
            every = reading.keys.take(np.tile(np.arange(width), len(member)))
            columns |= {key.name: each for key, each in zip(reading.query.keys, every, strict=True)}
        assert self._having is not None
        # an expression without a column takes the length from something
        columns = columns or {"$": pa.array(np.zeros(len(member) * width, np.int64))}
        found = self._having.evaluate(columns)
        return np.asarray(found.fill_null(False)).reshape(len(member), width)


def _lowered(crowd: Crowd, found: list[Found], number: int) -> tuple[Array, Bools | None]:
    """The answers of a call for all windows and keys, 0 where there is none, and where there is one. NoValue if one
    does not exist. Its parts may be in several groups; they are of the same windows, which are stacked alike."""
    reading = crowd.reading
    call = reading.calls[number]
    value, valid, lost = call.aggregate.lower(
        {part.need.component: found[part.window].partials[part.need] for part in call.parts}
    )
    if lost is not None:
        raise NoValue(no_sum(reading.query.calls[number]))
    shape = (-1, reading.width)
    if valid.all():
        return value.reshape(shape), None
    return np.where(valid, value, value.dtype.type(0)).reshape(shape), valid.reshape(shape)


class _Runs:
    """Windows without keys, in one place of a query: one search and one question to each structure for all of them."""

    def __init__(self, windows: Sequence[GroupWindow]):
        self._windows = windows
        self._needs = windows[0].needs
        self._many = ManyWindows([each.window for each in windows])
        width = int((self._many.size - self._many.to).mean())
        self._profile = (GroupLookups(windows[0].number, width, True, len(windows)),)
        self._nothing_known = dict.fromkeys(self._needs, LONG_AGO)

    def look_up(self, state: State, instant: int) -> Found:
        settled = self._many.settle(instant)
        number = self._windows[0].number

        def ask() -> Found:
            synopsis = state.synopses[number]
            assert isinstance(synopsis, RunSynopsis)
            located = synopsis.locate(*self._many.bounds(settled), settled)
            partials = synopsis.partials_of(located, self._needs)
            whole = is_complete(
                located.start, located.end, located.is_whole, self._known_since(state, synopsis)
            )
            return Found(partials, located.start, located.end, whole, self._nothing_known, 1)

        return timed_as(state, self._profile, ask)

    def _known_since(self, state: State, synopsis: RunSynopsis) -> Ints:
        """Of each window; found once until the plan changes."""
        found: Ints | None = state.prepared.known_since.get(self)
        if found is None:
            found = np.array(
                [
                    max(synopsis.known_since(each.window, need) for need in self._needs)
                    for each in self._windows
                ]
            )
            state.prepared.known_since[self] = found
        return found
