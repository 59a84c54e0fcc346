"""The first value of one key's answer as a plain number: what a look-up costs without arrays.

As in `point.py`, whatever depends on the plan alone is settled when the reader is made. What is left is
the id of the key, one search in time, and to follow the key's chain through the cells of its window; on stairs, in
every level.
"""

from __future__ import annotations

from typing import Any

from muntin.answer import is_plain
from muntin.band import Band, sort_key
from muntin.engine.reading import CallReading, Part, Reading, reading_of
from muntin.engine.shard import Shard
from muntin.kernels.combine import combine_plain
from muntin.kernels.slices import FOLLOWS
from muntin.synopsis import Slices, SliceStore, Stairs
from muntin.synopsis.slices import identity_of

_REMEMBERED = 65_536  # keys whose ids need not be looked for again
UNREAD = object()  # what `value` gives if the key has to be looked up another way


class KeyPointReader:
    """Reads one key of a query whose first output is a call over slices; made once, kept until the plan changes."""

    def __init__(self, shard: Shard, reading: Reading, call: CallReading):
        self._clock = shard.clock
        assert reading.keys is not None
        self._keys = reading.keys
        self._slide = reading.query.slide
        self._band: Band | None = reading.query.having.band if reading.query.having is not None else None
        self._lower = call.aggregate.lower_one
        self._is_count = call.aggregate.name == "count"
        number, self._window, _ = reading.places[call.parts[0].place]
        synopsis = shard.synopses[number]
        assert isinstance(synopsis, Slices | Stairs)
        self._synopsis = synopsis
        (presence,) = reading.presence
        # Whether the key is there at all matters only where an answer over nothing is no NULL, as of COUNT(x).
        self._counts = call.aggregate.name == "count" and call.parts[0].need != presence.need
        self._needs = [part.need for part in ((presence, *call.parts) if self._counts else call.parts)]
        self._identities = [identity_of(need) for need in self._needs]
        self._kinds = [type(self._levels()[0].typed_cells(need)) for need in self._needs]
        self._follow = [FOLLOWS[kind] for kind in self._kinds]
        self._ids: dict[Any, int] = {}

    @staticmethod
    def of(shard: Shard, name: str) -> KeyPointReader | None:
        """The reader of a query, if it can be read so."""
        reading = reading_of(shard, name)
        query, first = reading.query, reading.outputs[0] if reading.outputs else None
        if not query.keys or not isinstance(first, int) or len(reading.presence) != 1:
            return None
        if query.having is not None and reading.compared != first:
            return None
        call = reading.calls[first]
        parts: tuple[Part, ...] = (*reading.presence, *call.parts)
        is_one_place = len({part.place for part in parts}) == 1
        synopsis = shard.synopses[reading.places[parts[0].place].number]
        if not is_one_place or not isinstance(synopsis, Slices | Stairs) or not is_plain(call.type):
            return None
        return KeyPointReader(shard, reading, call)

    def value(self, key: Any, at: int | None) -> Any:
        """The first output for a key; None if it is NULL, or the key has no answer."""
        instant = self._clock.now if at is None else at
        if instant is None:
            return None
        if self._slide:
            instant -= instant % self._slide
        window = self._window
        settled = window.settle(instant)
        start = settled - window.size
        if start < self._synopsis.store.sharp_from(window):
            return UNREAD  # rare: it may have to be refused
        id = self._id_of(key)
        if id < 0:
            return UNREAD if id == _UNSURE else None
        partials = self._read(id, start, settled - window.to)
        if partials is None:
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

    def _levels(self) -> list[SliceStore]:
        synopsis = self._synopsis
        return synopsis.store.levels if isinstance(synopsis, Stairs) else [synopsis.store]

    def _read(self, id: int, start: int, end: int) -> list[Any] | None:
        """The partials of a key over [start, end), None if it has no cell from there on; newest level first."""
        partials: list[Any] | None = None
        for level in self._levels():
            newest_of = level.chains.last
            newest = int(newest_of[id]) if id < len(newest_of) else -1
            first, last = level.run(start, end)
            lo, hi = level.cell_number(first), level.cell_number(last)
            if newest < lo:
                continue
            prior, dropped = level.cell_prior, level.dropped_cells
            partials = partials or list(self._identities)
            for i, (need, follow) in enumerate(zip(self._needs, self._follow, strict=True)):
                partial, count = follow(prior, dropped, newest, lo, hi, *level.cells_of(need))
                if count:
                    newer = partials[i]
                    is_first = newer is self._identities[i]
                    partials[i] = partial if is_first else combine_plain(self._kinds[i], partial, newer)
        return partials

    def _id_of(self, key: Any) -> int:
        id = self._ids.get(key, -1)
        if id < 0:
            id = self._keys.find_one(key if isinstance(key, tuple) else (key,))
            if id >= 0:
                if len(self._ids) >= _REMEMBERED:
                    self._ids.clear()
                self._ids[key] = id
        return id


_UNSURE = -2  # of a key that `find_one` does not know how to look for


def key_reader_of(shard: Shard, name: str) -> KeyPointReader | None:
    """The reader of a query, if it has one; kept until the plan changes."""
    if name not in shard.key_readers:
        shard.key_readers[name] = KeyPointReader.of(shard, name)
    reader: KeyPointReader | None = shard.key_readers[name]
    return reader
