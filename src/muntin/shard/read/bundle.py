"""Many look-ups in one: the first values of many un-keyed queries, found together.

Queries whose calls read the same structures differ only in their windows, so their look-ups are one
search for all starts and ends, and one question to each structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.aggregates import Partial
from muntin.answer import is_plain, to_instants
from muntin.arrays import Bools, Ints
from muntin.errors import MuntinError
from muntin.many_windows import ManyWindows
from muntin.query import Query
from muntin.shard.read.answers import answer_one
from muntin.shard.read.in_bands import slots_of
from muntin.shard.read.point import PointCall, PointReader, reader_of
from muntin.shard.read.question import Question
from muntin.shard.read.reading import Reading, call_of, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.structure.track import Asked
from muntin.window import Window


class _Alike(NamedTuple):
    """Queries that read the same structures: where in the answer they stand, and their windows."""

    reading: PointCall  # of any of them
    asked: tuple[Asked, ...]  # for each part, of all of them
    row: Ints
    windows: ManyWindows


class _InLane(NamedTuple):
    """A query that reads a lane: where in the answer it stands, and the call that it is asked for."""

    row: int
    name: str
    query: Query
    reading: Reading
    call: int


class BundleValues(NamedTuple):
    """Arrays with one element per query."""

    value: npt.NDArray[Any]
    valid: Bools
    start: Ints
    end: Ints
    complete: Bools
    lost: Bools  # which of them have no value


class Bundle:
    """Prepared for a list of queries; kept until the plan changes."""

    def __init__(self, state: State, names: Sequence[str]):
        self._state = state
        self._laned: dict[tuple[int, int], list[_InLane]] = {}  # by what they have in common
        self._one_by_one: list[_InLane] = []  # of several lanes or windows each: they are few
        found = [self._in_lane(row, name) or _reader(state, name) for row, name in enumerate(names)]
        readers = [(row, each) for row, each in enumerate(found) if isinstance(each, PointReader)]
        self.names = pa.array(names, pa.string())
        self.members = frozenset(names)
        alike: dict[tuple[object, ...], list[tuple[int, Window]]] = {}
        reading_of = {}
        needs_of: dict[tuple[object, ...], list[list[Need]]] = {}
        for row, reader in readers:
            reading = reader.first
            assert reading is not None
            alikes = ((id(part.track), part.track.asked_with(part.need)) for part in reading.parts)
            same = (reading.aggregate, *alikes)
            alike.setdefault(same, []).append((row, reading.place.window))
            needs_of.setdefault(same, []).append([part.need for part in reading.parts])
            reading_of[same] = reading
        self._alike = []
        for same, members in alike.items():
            columns_of_needs = zip(*needs_of[same], strict=True)
            asked = tuple(
                part.track.asked(some)
                for part, some in zip(reading_of[same].parts, columns_of_needs, strict=True)
            )
            rows, windows = zip(*members, strict=True)
            self._alike.append(_Alike(reading_of[same], asked, np.array(rows), ManyWindows(windows)))
        queries = [each.query for each in found]
        are_whole = all(pa.types.is_integer(query.outputs[0].expression.type) for query in queries)
        self._dtype = np.dtype(np.int64 if are_whole else np.float64)
        self._windows = ManyWindows([query.window for query in queries if query.window])

    def find(self, at: int) -> BundleValues:
        """All values at one instant; O(log n) to find each window, plus what its structure takes."""
        count = len(self._windows)
        instant = self._windows.settle(at)
        value, valid = np.zeros(count, self._dtype), np.zeros(count, np.bool_)
        lost = np.zeros(count, np.bool_)
        complete = np.ones(count, np.bool_)
        for reading, asked, row, windows in self._alike:
            settled = windows.settle(instant[row])
            located = reading.place.store.locate(*windows.bounds(settled))
            partials: dict[str, Partial] = {}
            for (synopsis, need, _, known_since), ask in zip(reading.parts, asked, strict=True):
                synopsis.refuse_forgotten(located, settled)
                partials[need.component] = ask(located.lo, located.hi)
                complete[row] &= located.is_complete(known_since)
            value[row], valid[row], gone = reading.aggregate.lower(partials)
            if gone is not None:
                lost[row] = gone
        for some in self._laned.values():
            self._find_in_lanes(some, instant, value, valid, complete, lost)
        for each in self._one_by_one:
            place = each.row
            answered = answer_one(self._state, Question(each.name, instant[place : place + 1]))
            lost[place] = not answered.table.num_rows
            for found in answered.table.slice(0, 1).to_pylist():
                first, complete[place] = next(iter(found.values())), found["complete"]
                value[place], valid[place] = first or 0, first is not None
        return BundleValues(value, valid, *self._windows.bounds(instant), complete, lost)

    def _in_lane(self, row: int, name: str) -> _InLane | None:
        """A query that reads lanes, noted with its like; None if it reads none."""
        reading = reading_of(self._state, name)
        if (reading.laned is None and not reading.has_laned_calls) or _why_not(self._state, name, ""):
            return None
        first = reading.outputs[0]
        assert isinstance(first, int), "or there would be a reason"
        each = _InLane(row, name, reading.query, reading, first)
        if reading.laned is None or len(reading.windows) > 1 or not reading.is_in_one_lane:
            self._one_by_one.append(each)
        else:
            (window,) = reading.windows
            same = self._state.prepared.number((reading.calls[first], window.needs, reading.laned.way))
            self._laned.setdefault((window.number, same), []).append(each)
        return each

    def _find_in_lanes(self, some: Sequence[_InLane], instant: Ints, value: npt.NDArray[Any], valid: Bools,
                       complete: Bools, lost: Bools) -> None:  # fmt: skip
        """The values of queries that read lanes of one group."""
        row = np.array([each.row for each in some])
        instants = {each: np.array([each]) for each in set(instant[row].tolist())}
        asked = [
            (Question(each.name, instants[at]), each.reading)
            for each, at in zip(some, instant[row].tolist(), strict=True)
        ]
        shared = SharedReads(self._state)
        shared.prefetch([question for question, _ in asked])
        found, _, begin, _ = slots_of(self._state, asked, shared)
        call = some[0].reading.calls[some[0].call]
        numbers, known, gone = call.aggregate.lower(
            {part.need.component: found.partials[part.need] for part in call.parts}
        )
        value[row], valid[row], complete[row] = numbers[begin], known[begin], found.is_whole[begin]
        if gone is not None:
            lost[row] = gone[begin]

    def table(self, at: int | None) -> tuple[pa.Table, tuple[str, ...]]:
        """One row per query, in the order asked for; integers if all values are, else doubles. And the queries that
        have no value, which are not in it."""
        found = self.find(0 if at is None else at)
        columns = {
            "query": self.names,
            "value": pa.array(found.value, mask=~found.valid),
            "window_start": to_instants(found.start, at is not None),
            "window_end": to_instants(found.end, at is not None),
            "complete": pa.array(found.complete),
        }
        table = pa.table(columns)
        if not found.lost.any():
            return table, ()
        return table.filter(pa.array(~found.lost)), tuple(self.names.filter(pa.array(found.lost)).to_pylist())


def _reader(state: State, name: str) -> PointReader:
    reader = reader_of(state, name)
    if reader is None or reader.first is None or not reader.is_by_time:
        raise MuntinError(f"lookup_many cannot answer '{name}': {_why_not(state, name)}; use lookup")
    return reader


def _why_not(
    state: State,
    name: str,
    otherwise: str = "its aggregates, or their arguments, are not all numbers that one structure keeps",
) -> str:
    """What keeps a query out of a bundle, in the order in which users can tell."""
    query = state.registrations[name].query
    if query.is_joined:
        return "it joins a table"
    if query.keys:
        return "it has GROUP BY, so an answer for each key"
    if query.having is not None:
        return "it has HAVING, so perhaps no answer"
    if query.window is None:
        return "it has no window after FROM"
    if query.window.is_session:
        return "it looks at a session, and only time windows can be looked up together"
    if not all(call.window.is_time for call in query.calls) or not query.window.is_time:
        return "it looks at a ROWS window, and only time windows can be looked up together"
    first = query.outputs[0].expression
    if not isinstance(call_of(first), int):
        return "its first value is computed from aggregates, and must be one aggregate"
    if not is_plain(first.type):
        return f"its values are {first.type}, and must be BIGINT or DOUBLE"
    return otherwise
