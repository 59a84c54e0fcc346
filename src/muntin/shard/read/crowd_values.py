"""Members without keys that keep their one row, whatever they ask for: all windows are found together.

    SELECT SUM(n) AS v FROM s [RANGE 60 SECONDS SLIDE 1 SECOND]
    SELECT MAX(m) AS v FROM s [RANGE 90 SECONDS SLIDE 1 SECOND]

There is one search for all starts and ends, and one question to each structure for all windows that need it. The calls
of one aggregate are lowered together, and each column of the answer is put together from these.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates import Partial
from muntin.answer import to_arrow, to_instants
from muntin.arrays import Bools, Ints
from muntin.errors import NoValue
from muntin.many_windows import ManyWindows
from muntin.shard.adapt.meter import GroupLookups
from muntin.shard.adapt.timed import timed_as
from muntin.shard.crowd import Crowd
from muntin.shard.read.left_out import no_sum
from muntin.shard.read.reading import CallReading, GroupWindow, Reading
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.store.sequence import Located
from muntin.structure.runs import RunSynopsis


class _Same(NamedTuple):
    """Calls of one output that are alike, and whose they are."""

    call: CallReading  # any of them
    why_not: str  # why one may have no value
    row: Ints


class _Output(NamedTuple):
    """A column of the answer: the calls, one kind after the other, and the place of each row among them."""

    same: list[_Same]
    place: pa.Array | None  # None: they are in order


class CrowdValues:
    """Of one crowd, as long as its members are the same."""

    def __init__(self, crowd: Crowd):
        self.member = np.flatnonzero(crowd.there)
        self._stacks = [
            _Stack(some, crowd.place[self.member, place]) for place, some in enumerate(crowd.stacks)
        ]
        readings = [each for each in crowd.readings if each is not None]
        self._outputs = [_output(readings, number) for number in range(len(readings[0].outputs))]

    def table(self, state: State, crowd: Crowd, instant: int) -> pa.Table:
        """A row for each member. NoValue if one lacks a value."""
        reading = crowd.reading
        read = [each.read(state, instant) for each in self._stacks]
        start, end, _ = read[reading.presence[0].window].bounds
        if reading.query.window is None:
            end = np.full(len(start), instant)
        complete = np.logical_and.reduce([each.bounds[2] for each in read])
        values = [_column(output, read) for output in self._outputs]
        bounds = [to_instants(start), to_instants(end), pa.array(complete)]
        return pa.Table.from_arrays([*values, *bounds], schema=reading.schema)


class _Read(NamedTuple):
    """What was found of the windows in one place of the queries."""

    bounds: tuple[
        Ints, Ints, Bools
    ]  # of each row: where its window begins and ends, and whether it is complete
    partials: dict[Need, Partial]
    place: dict[Need, Ints]  # of each row its place in these


class _Stack:
    """The windows in one place of the queries, and which of them each row looks at."""

    def __init__(self, windows: Sequence[GroupWindow], of_row: Ints):
        self._windows, self._of_row = windows, of_row
        self._many = ManyWindows([each.window for each in windows])
        width = int((self._many.size - self._many.to).mean())
        self._profile = (GroupLookups(windows[0].number, width, True, len(windows)),)
        wanted: dict[Need, list[int]] = {}
        for number, window in enumerate(windows):
            for need in window.needs:
                wanted.setdefault(need, []).append(number)
        self._asked: dict[tuple[int, ...], list[Need]] = {}  # needs that are read of the same windows
        self._place: dict[Need, Ints] = {}
        for need, some in wanted.items():
            self._asked.setdefault(tuple(some), []).append(need)
            place = np.full(len(windows), -1)
            place[some] = np.arange(len(some))
            self._place[need] = place[of_row]

    def read(self, state: State, instant: int) -> _Read:
        settled = self._many.settle(instant)
        return timed_as(state, self._profile, lambda: self._read(state, settled))

    def _read(self, state: State, settled: Ints) -> _Read:
        synopsis = state.synopses[self._windows[0].number]
        assert isinstance(synopsis, RunSynopsis)
        located = synopsis.locate(*self._many.bounds(settled), settled)
        partials: dict[Need, Partial] = {}
        for some, needs in self._asked.items():
            part = located if len(some) == len(settled) else Located(*(side[list(some)] for side in located))
            partials |= synopsis.partials_of(part, needs)
        complete = located.is_complete(self._known_since(state, synopsis))
        of_row = self._of_row
        return _Read((located.start[of_row], located.end[of_row], complete[of_row]), partials, self._place)

    def _known_since(self, state: State, synopsis: RunSynopsis) -> Ints:
        """Of each window; found once until the plan changes."""
        found: Ints | None = state.prepared.known_since.get(self)
        if found is None:
            found = np.array(
                [
                    max(synopsis.known_since(each.window, need) for need in each.needs)
                    for each in self._windows
                ]
            )
            state.prepared.known_since[self] = found
        return found


def _output(readings: Sequence[Reading], output: int) -> _Output:
    by_kind: dict[Hashable, list[int]] = {}
    for row, reading in enumerate(readings):
        call = reading.calls[_number(reading, output)]
        by_kind.setdefault((call.kind, *[part.window for part in call.parts]), []).append(row)
    same = []
    for rows in by_kind.values():
        reading = readings[rows[0]]
        number = _number(reading, output)
        same.append(_Same(reading.calls[number], no_sum(reading.query.calls[number]), np.array(rows)))
    order = np.concatenate([each.row for each in same])
    return _Output(same, None if len(same) == 1 else pa.array(np.argsort(order)))


def _column(output: _Output, read: Sequence[_Read]) -> pa.Array:
    parts = []
    for call, why_not, row in output.same:
        partials = {}
        for part in call.parts:
            place = read[part.window].place[part.need][row]
            partials[part.need.component] = tuple(
                array[place] for array in read[part.window].partials[part.need]
            )
        value, valid, lost = call.aggregate.lower(partials)
        if lost is not None:
            raise NoValue(why_not)
        parts.append(to_arrow(value, valid, call.type))
    return parts[0] if output.place is None else pa.concat_arrays(parts).take(output.place)


def _number(reading: Reading, output: int) -> int:
    number = reading.outputs[output]
    assert isinstance(number, int)
    return number


def crowd_values_of(crowd: Crowd) -> CrowdValues:
    """O(1) as long as no query has come or gone."""
    if crowd.slots is None:
        crowd.slots = CrowdValues(crowd)
    slots: CrowdValues = crowd.slots
    return slots
