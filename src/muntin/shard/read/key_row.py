"""All columns of one key's answer, as a table of one row: what serving a key over a network asks for.

`key_point.py` reads the first value alone. As there, whatever depends on the plan alone is settled when the reader is
made. What is left is the id of the key, to read its cells or its run, and to pack a row.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.answer import is_plain
from muntin.band import Band, sort_key
from muntin.shard.read.key_point import UNSURE, KeyIds
from muntin.shard.read.point import SingleRow
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.state import State
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import KeyReader

_KEY_TYPES = {
    pa.int64(): int,
    pa.string(): str,
}  # as they are given, so that a key need not be taken from its column


NOBODY: Any = object()  # what a key has that has no answer
_EPOCH = datetime(1970, 1, 1)


class _Row(NamedTuple):
    values: list[Any]  # of all calls
    start: int
    end: int
    is_complete: bool


class KeyRowReader:
    """Reads one key of a query with one window; made once, kept until the plan changes."""

    def __init__(self, state: State, name: str, reading: Reading, reader: KeyReader):
        self._clock, self._history = state.clock, state.registrations[name].history
        self._slide, self._offset = reading.query.pace
        (asked,) = reading.windows
        self._reader, self._window = reader, asked.window
        places = {need: place for place, need in enumerate(asked.needs)}
        self._presence = places[reading.presence[0].need]
        self._calls = [
            (call.aggregate.lower_one, [places[part.need] for part in call.parts]) for call in reading.calls
        ]
        synopsis = state.synopses[asked.number]
        self._known_since = max(synopsis.known_since(asked.window, need) for need in asked.needs)
        self._compared = reading.compared
        self._band: Band | None = reading.query.having.band if reading.query.having is not None else None
        assert reading.keys is not None
        self._ids = KeyIds(reading.keys)
        self._types = [key.expression.type for key in reading.query.keys]
        self._given = [_KEY_TYPES[kind] for kind in self._types]
        self._row = SingleRow(
            reading.query, [each if isinstance(each, int) else None for each in reading.outputs]
        )
        self._none = reading.schema.empty_table()
        # which call each output is, if all of them are one
        calls = [each for each in reading.outputs if isinstance(each, int)]
        self._outputs = calls if len(calls) == len(reading.outputs) else None
        self._names = reading.schema.names

    @staticmethod
    def of(state: State, name: str) -> KeyRowReader | None:
        """The reader of a query, if it can be read so: one window of time, plain keys, numbers only."""
        reading = reading_of(state, name)
        query = reading.query
        if not query.keys or query.window is None or len(reading.windows) > 1 or len(reading.presence) != 1:
            return None
        if reading.laned is not None or reading.has_laned_calls:
            return None  # ids are of pairs there
        if query.top is not None:
            return None  # which depends on all keys
        if query.having is not None and (reading.compared is None or query.tolerance is not None):
            return None
        (asked,) = reading.windows
        types = [
            *(output.expression.type for output in query.outputs), *(call.type for call in reading.calls)
        ]  # fmt: skip
        are_keys_plain = all(key.expression.type in _KEY_TYPES for key in query.keys)
        reads_keys = any(name[0] != "$" for output in query.outputs for name in output.expression.columns)
        if not asked.window.is_time or not are_keys_plain or reads_keys or not all(map(is_plain, types)):
            return None
        reader = state.synopses[asked.number].key_reader(asked.window, asked.needs)
        return None if reader is None else KeyRowReader(state, name, reading, reader)

    def table(self, key: Any, at: int | None) -> pa.Table | None:
        """The row of a key, or no row; None if it has to be looked up another way. NoValue if a value does not
        exist."""
        found = self._read(key, at)
        if not isinstance(found, _Row):
            return self._none if found is NOBODY else None
        parts = key if isinstance(key, tuple) else (key,)
        keys = [pa.array([part], kind) for part, kind in zip(parts, self._types, strict=True)]
        return self._row.table(*found, keys)

    def plain(self, key: Any, at: int | None) -> Any:
        """The row of a key as Python objects; `NOBODY` if there is none, None if it has to be looked up another way."""
        if self._outputs is None:
            return None
        found = self._read(key, at)
        if not isinstance(found, _Row):
            return found
        values, start, end, is_complete = found
        parts = key if isinstance(key, tuple) else (key,)
        outputs = [values[call] for call in self._outputs]
        bounds = [_EPOCH + timedelta(microseconds=side) for side in (start, end)]
        return dict(zip(self._names, (*parts, *outputs, *bounds, is_complete), strict=True))

    def _read(self, key: Any, at: int | None) -> Any:
        """A `_Row`, `NOBODY`, or None."""
        parts = key if isinstance(key, tuple) else (key,)
        if [type(part) for part in parts] != self._given:
            return None  # it may have to be refused: what is kept must not have changed by then
        settled = self._settled(at)
        if settled is None:
            return None
        id = self._ids.find(key if len(parts) > 1 else parts[0])
        if id < 0:
            return None if id == UNSURE else NOBODY
        partials = self._reader.partials(id)
        if not partials or not partials[self._presence][0]:
            return NOBODY
        values = [lower(*[partials[place] for place in places]) for lower, places in self._calls]
        if not self._passes(values):
            return NOBODY
        start, end = self._window.start(settled), settled - self._window.to
        return _Row(values, start, end, bool(is_complete(start, end, True, self._known_since)))

    def _passes(self, values: list[Any]) -> bool:
        """Whether HAVING lets the row pass."""
        if self._band is None or self._compared is None:
            return True
        value = values[self._compared]
        return value is not None and bool(self._band.low <= sort_key(value) <= self._band.high)

    def _settled(self, at: int | None) -> int | None:
        """Where the window ends, if it can be read so."""
        instant = self._clock.now if at is None else at
        if instant is None and self._history is not None:
            instant = self._history.end
        if instant is None:
            return None
        if self._slide:
            instant -= (instant - self._offset) % self._slide
        settled: int = self._window.settle(instant)
        return settled if self._reader.locate(settled) else None


def key_row_reader_of(state: State, name: str) -> KeyRowReader | None:
    """The reader of a query, if it has one; kept until the plan changes."""
    try:
        reader: KeyRowReader | None = state.prepared.key_rows[name]
    except KeyError:
        reader = state.prepared.key_rows[name] = KeyRowReader.of(state, name)
    return reader
