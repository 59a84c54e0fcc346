"""One answer of one un-keyed query that reads a lane, as plain numbers: the lane is one key of the store it shares.

What depends on the plan alone is settled when the reader is made, as in `point.py`. What is left is to read one key of
a window (`store/key_window.py`, `store/run_window.py`), where the lane has one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.aggregates.component import COMPONENTS
from muntin.answer import is_plain
from muntin.lane import columns_of_lanes
from muntin.shard.read.point import SingleRow
from muntin.shard.read.reading import Reading, call_of, reading_of
from muntin.shard.state import State
from muntin.store.needs import dtype_of
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import KeyReader

_UNKNOWN = -1  # the id of a lane that no event has been in


class LanePointReader:
    """Reads a query at one instant; made once per query and kept until the plan changes."""

    def __init__(self, state: State, name: str, reading: Reading, reader: KeyReader):
        self._clock, self._history = state.clock, state.registrations[name].history
        self._query = query = reading.query
        (asked,) = reading.windows
        self._reader, self._window = reader, asked.window
        places = {need: place for place, need in enumerate(asked.needs)}
        self._calls = [
            (call.aggregate.lower_one, [places[part.need] for part in call.parts]) for call in reading.calls
        ]
        self._nothing = [
            tuple(value for _, value in COMPONENTS[need.component].identity(dtype_of(need)))
            for need in asked.needs
        ]
        assert reading.laned is not None
        lanes, synopsis = state.lanes[reading.laned.asked], state.synopses[asked.number]
        since = [synopsis.known_since(self._window, need) for need in asked.needs]
        self._known_since = max(lanes.known_since(reading.laned.lanes), *since)
        self._pairs = state.keys[reading.laned.asked.store_keys]
        self._lane = columns_of_lanes(reading.laned.asked, reading.laned.lanes)
        self._id = _UNKNOWN
        self._first = reading.outputs[0] if reading.outputs else None
        found = [call_of(output.expression) for output in query.outputs]
        self._row = SingleRow(query, [each if isinstance(each, int) else None for each in found])

    @staticmethod
    def of(state: State, name: str) -> LanePointReader | None:
        """The reader of a query, if it can be read so: one lane, one window of time, no HAVING, numbers only."""
        if not state.manager.placements[name].is_among_lanes:
            return None
        reading = reading_of(state, name)
        query, laned = reading.query, reading.laned
        if laned is None or query.keys or query.having is not None or query.window is None:
            return None
        if len(laned.lanes) > 1 or laned.asked.banded is not None or len(reading.windows) > 1:
            return None
        (asked,) = reading.windows
        if not asked.window.is_time or not all(is_plain(output.expression.type) for output in query.outputs):
            return None
        if not all(call.argument is None or is_plain(call.argument.type) for call in query.calls):
            return None
        reader = state.synopses[asked.number].key_reader(asked.window, asked.needs)
        return None if reader is None else LanePointReader(state, name, reading, reader)

    def value(self, at: int | None) -> tuple[Any] | None:
        """The first output, alone in a tuple; None if it has to be looked up another way."""
        if not isinstance(self._first, int):
            table = self.table(at)
            return None if table is None else (table.column(0)[0].as_py(),)
        settled = self._settled(at)
        if settled is None:
            return None
        partials = self._partials()
        lower, places = self._calls[self._first]
        return (lower(*[partials[place] for place in places]),)

    def table(self, at: int | None) -> pa.Table | None:
        """All outputs, as `lookup` gives them; None if they have to be looked up another way."""
        settled = self._settled(at)
        if settled is None:
            return None
        partials = self._partials()
        values = [lower(*[partials[place] for place in places]) for lower, places in self._calls]
        start, end = self._window.start(settled), settled - self._window.to
        return self._row.table(values, start, end, bool(is_complete(start, end, True, self._known_since)))

    def _settled(self, at: int | None) -> int | None:
        """Where the window ends, if it can be read so."""
        instant = self._clock.now if at is None else at
        if instant is None and self._history is not None:
            instant = self._history.end
        if instant is None:
            return None
        settled: int = self._window.settle(self._query.pace.floor(instant))
        return settled if self._reader.locate(settled) else None

    def _partials(self) -> list[Any]:
        if self._id == _UNKNOWN:
            self._id = int(self._pairs.find(self._lane)[0])
        return (self._reader.partials(self._id) if self._id != _UNKNOWN else []) or self._nothing


def lane_reader_of(state: State, name: str) -> LanePointReader | None:
    """The reader of a query, if it has one; kept until the plan changes."""
    try:
        reader: LanePointReader | None = state.prepared.lane_readers[name]
    except KeyError:
        reader = state.prepared.lane_readers[name] = LanePointReader.of(state, name)
    return reader
