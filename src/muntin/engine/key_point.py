"""The first value of one key's answer as a plain number: what a look-up costs without arrays.

As in `point.py`, whatever depends on the plan alone is settled when the reader is made, and where a window
lies in the cells when it is first read. What is left is the id of the key, and to follow its chain through
the cells of the window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from muntin.aggregate.contract import Partial
from muntin.answer import is_plain
from muntin.band import Band, sort_key
from muntin.engine.reading import CallReading, Part, Reading, reading_of
from muntin.engine.shard import Shard
from muntin.kernels.slices import FOLLOWS
from muntin.synopsis import Slices
from muntin.synopsis.contract import Ints

_REMEMBERED = 65_536  # keys whose ids need not be looked for again
UNREAD = object()  # what `value` gives if the key has to be looked up another way


class _Place(NamedTuple):
    """Cells `lo .. hi - 1` (numbers) of a window, in a version of the store."""

    version: int
    settled: int
    lo: int
    hi: int
    last: Ints
    prior: Ints
    dropped: int
    cells: list[Partial]


class KeyPointReader:
    """Reads one key of a query whose first output is a call over slices; made once, kept until the plan changes."""

    def __init__(self, shard: Shard, name: str, reading: Reading, call: CallReading):
        self._clock, self._history = shard.clock, shard.registrations[name].history
        assert reading.keys is not None
        self._keys = reading.keys
        self._slide = reading.query.slide
        self._band: Band | None = reading.query.having.band if reading.query.having is not None else None
        self._lower = call.aggregate.lower_one
        self._is_count = call.aggregate.name == "count"
        number, self._window, _ = reading.places[call.parts[0].place]
        synopsis = shard.synopses[number]
        assert isinstance(synopsis, Slices)
        self._store = synopsis.store
        (presence,) = reading.presence
        # Whether the key is there at all matters only where an answer over nothing is no NULL, as of COUNT(x).
        self._counts = call.aggregate.name == "count" and call.parts[0].need != presence.need
        needs = [part.need for part in ((presence, *call.parts) if self._counts else call.parts)]
        self._parts = [
            (
                self._store.names_of(need),
                FOLLOWS[type(self._store.typed_cells(need))],
                synopsis.identity_of(need),
            )
            for need in needs
        ]
        self._ids: dict[Any, int] = {}
        self._place: _Place | None = None

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
        if not is_one_place or not isinstance(synopsis, Slices) or not is_plain(call.type):
            return None
        return KeyPointReader(shard, name, reading, call)

    def value(self, key: Any, at: int | None) -> Any:
        """The first output for a key; None if it is NULL, or the key has no answer."""
        instant = self._clock.now if at is None else at
        if instant is None and self._history is not None:
            instant = self._history.end
        if instant is None:
            return None
        if self._slide:
            instant -= instant % self._slide
        window = self._window
        settled = window.settle(instant)
        place = self._place
        if place is None or place.version != self._store.version or place.settled != settled:
            if settled - window.size < self._store.forgotten_before:
                return UNREAD  # rare: it may have to be refused
            place = self._place = self._find(settled)
        id = self._id_of(key)
        if id < 0 or id >= len(place.last):
            return UNREAD if id == _UNSURE else None
        lo, hi, prior, dropped = place.lo, place.hi, place.prior, place.dropped
        newest = int(place.last[id])
        if newest < lo:
            return None
        partials = []
        for (_, follow, identity), cells in zip(self._parts, place.cells, strict=True):
            partial, count = follow(prior, dropped, newest, lo, hi, *cells)
            partials.append(partial if count else identity)
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

    def _find(self, settled: int) -> _Place:
        """Where the window that ends at an instant lies."""
        store, window = self._store, self._window
        first, last = store.run(settled - window.size, settled - window.to)
        cells = [store.cells_named(names) for names, _, _ in self._parts]
        return _Place(
            store.version, settled, store.cell_number(first), store.cell_number(last),
            store.chains.last, store.cell_prior, store.dropped_cells, cells,
        )  # fmt: skip

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
    if name not in shard.prepared.key_readers:
        shard.prepared.key_readers[name] = KeyPointReader.of(shard, name)
    reader: KeyPointReader | None = shard.prepared.key_readers[name]
    return reader
