"""The first value of one key's answer as a plain number: what a look-up costs without arrays.

As in `point.py`, whatever depends on the plan alone is settled when the reader is made. What is left is the id of the
key, and to read its cells (`store/key_window.py`) or its run (`store/run_window.py`).
"""

from __future__ import annotations

from typing import Any

from muntin.answer import is_plain
from muntin.band import Band, sort_key
from muntin.keys.key_dictionary import KeyDictionary
from muntin.shard.read.reading import CallReading, PartialOf, Reading, reading_of
from muntin.shard.state import State

_REMEMBERED = 65_536  # keys whose ids need not be looked for again
_PLAIN = (int, str)  # keys that a dict tells apart as a column does
UNSURE = -2  # the id of a key that `find_one` does not know how to look for
UNREAD = object()  # what `value` gives if the key has to be looked up another way


class KeyPointReader:
    """Reads one key of a query whose first output is a call over one window; made once, kept until the plan changes."""

    def __init__(self, state: State, name: str, reading: Reading, call: CallReading):
        self._clock, self._history = state.clock, state.registrations[name].history
        assert reading.keys is not None
        self._ids = KeyIds(reading.keys)
        self._slide, self._offset = reading.query.pace
        self._band: Band | None = reading.query.having.band if reading.query.having is not None else None
        self._lower = call.aggregate.lower_one
        self._is_count = call.aggregate.name == "count"
        found = reading.windows[call.parts[0].window]
        self._window, synopsis = found.window, state.synopses[found.number]
        (presence,) = reading.presence
        # Whether the key is there at all matters only where an answer over nothing is no NULL, as of COUNT(x).
        self._counts = call.aggregate.name == "count" and call.parts[0].need != presence.need
        needs = [part.need for part in ((presence, *call.parts) if self._counts else call.parts)]
        reader = synopsis.key_reader(self._window, needs)
        assert reader is not None
        self._reader = reader

    @staticmethod
    def of(state: State, name: str) -> KeyPointReader | None:
        """The reader of a query, if it can be read so."""
        reading = reading_of(state, name)
        query, first = reading.query, reading.outputs[0] if reading.outputs else None
        if not query.keys or not isinstance(first, int) or len(reading.presence) != 1:
            return None
        if reading.laned is not None or reading.has_laned_calls:
            return None  # ids are of pairs there
        if query.top is not None:
            return None  # which depends on all keys
        if query.having is not None and reading.compared != first:
            return None
        call = reading.calls[first]
        parts: tuple[PartialOf, ...] = (*reading.presence, *call.parts)
        is_one_window = len({part.window for part in parts}) == 1
        synopsis = state.synopses[reading.windows[parts[0].window].number]
        if not is_one_window or not is_plain(call.type):
            return None
        if (
            synopsis.key_reader(reading.windows[parts[0].window].window, [part.need for part in parts])
            is None
        ):
            return None
        return KeyPointReader(state, name, reading, call)

    def value(self, key: Any, at: int | None) -> Any:
        """The first output for a key; None if it is NULL, or the key has no answer."""
        instant = self._clock.now if at is None else at
        if instant is None and self._history is not None:
            instant = self._history.end
        if instant is None:
            return UNREAD  # no event yet, but the key may have to be refused
        if self._slide:
            instant -= (instant - self._offset) % self._slide
        settled = self._window.settle(instant)
        if not self._reader.locate(settled):
            return UNREAD  # rare: it may have to be refused
        id = self._ids.find(key)
        if id < 0:
            return UNREAD if id == UNSURE else None
        partials = self._reader.partials(id)
        if not partials:
            return None
        if self._counts and not partials.pop(0)[0]:
            return None  # the key has no event in the window
        value = self._lower(*partials)
        if value == 0 and not self._counts and self._is_count:
            return None  # no event, no answer
        if self._band is not None and (
            value is None or not self._band.low <= sort_key(value) <= self._band.high
        ):
            return None
        return value


class KeyIds:
    """Ids of keys as they are given, remembered for those that are asked for again."""

    def __init__(self, keys: KeyDictionary):
        self._keys = keys
        self._ids: dict[Any, int] = {}

    def find(self, key: Any) -> int:
        """The id of a key; negative if there is none, `UNSURE` if it has to be looked for another way."""
        # 1, 1.0 and True are one key of a dict, but not of a column
        known = key if type(key) in _PLAIN else (key, *map(type, key)) if type(key) is tuple else None
        try:
            id = -1 if known is None else self._ids.get(known, -1)
        except TypeError:  # a part that cannot be hashed is no plain one
            return UNSURE
        if id < 0:
            id = self._keys.find_one(key if isinstance(key, tuple) else (key,))
            if id >= 0 and known is not None:
                if len(self._ids) >= _REMEMBERED:
                    self._ids.clear()
                self._ids[known] = id
        return id


def key_reader_of(state: State, name: str) -> KeyPointReader | None:
    """The reader of a query, if it has one; kept until the plan changes."""
    try:
        reader: KeyPointReader | None = state.prepared.key_readers[name]
    except KeyError:
        reader = state.prepared.key_readers[name] = KeyPointReader.of(state, name)
    return reader
