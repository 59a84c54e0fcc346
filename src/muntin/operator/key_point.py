"""The first value of one key's answer as a plain number: what a look-up costs without arrays.

As in `point.py`, whatever depends on the plan alone is settled when the reader is made, and where a window
lies in the cells when it is first read. What is left is the id of the key, and to follow its chain through
the cells of the window; on stairs, those of every level.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from muntin.aggregate.contract import Partial
from muntin.answer import is_plain
from muntin.arrays import Ints
from muntin.band import Band, sort_key
from muntin.kernels.combine import combine_plain
from muntin.kernels.slices import FOLLOWS
from muntin.operator.reading import CallReading, Part, Reading, reading_of
from muntin.operator.shard import Shard
from muntin.store.slice_store import SliceStore
from muntin.structure.slices import Slices, identity_of
from muntin.structure.stairs import Stairs

_REMEMBERED = 65_536  # keys whose ids need not be looked for again
UNREAD = object()  # what `value` gives if the key has to be looked up another way


class _Run(NamedTuple):
    """Cells `lo .. hi - 1` (numbers) of a window, in a level of its store."""

    lo: int
    hi: int
    last: Ints
    prior: Ints
    dropped: int
    cells: list[Partial]


class _Place(NamedTuple):
    """Where a window lies in a version of its store; the youngest level first."""

    version: int
    settled: int
    runs: list[_Run]


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
        assert isinstance(synopsis, Slices | Stairs)
        self._store = synopsis.store
        youngest = self._levels()[0]
        (presence,) = reading.presence
        # Whether the key is there at all matters only where an answer over nothing is no NULL, as of COUNT(x).
        self._counts = call.aggregate.name == "count" and call.parts[0].need != presence.need
        needs = [part.need for part in ((presence, *call.parts) if self._counts else call.parts)]
        self._parts = [
            (
                youngest.names_of(need),
                FOLLOWS[type(youngest.typed_cells(need))],
                identity_of(need),
                type(youngest.typed_cells(need)),
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
        if not is_one_place or not isinstance(synopsis, Slices | Stairs) or not is_plain(call.type):
            return None
        return KeyPointReader(shard, name, reading, call)

    def value(self, key: Any, at: int | None) -> Any:
        """The first output for a key; None if it is NULL, or the key has no answer."""
        instant = self._clock.now if at is None else at
        if instant is None and self._history is not None:
            instant = self._history.end
        if instant is None:
            return UNREAD  # no event yet, but the key may have to be refused
        if self._slide:
            instant -= instant % self._slide
        window = self._window
        settled = window.settle(instant)
        place = self._place
        if place is None or place.version != self._store.version or place.settled != settled:
            if settled - window.size < self._store.sharp_from(window):
                return UNREAD  # rare: it may have to be refused
            place = self._place = self._find(settled)
        id = self._id_of(key)
        if id < 0:
            return UNREAD if id == _UNSURE else None
        partials: list[Any] = []
        for run in place.runs:
            lo, hi, last, prior, dropped, run_cells = run
            newest = int(last[id]) if id < len(last) else -1
            if newest < lo:
                continue
            older = []
            for (_, follow, identity, _), cells in zip(self._parts, run_cells, strict=True):
                partial, count = follow(prior, dropped, newest, lo, hi, *cells)
                older.append(partial if count else identity)
            partials = self._combine(older, partials) if partials else older
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

    def _levels(self) -> list[SliceStore]:
        store = self._store
        return [store] if isinstance(store, SliceStore) else store.levels

    def _combine(self, older: list[Any], newer: list[Any]) -> list[Any]:
        kinds = (kind for *_, kind in self._parts)
        return [combine_plain(*each) for each in zip(kinds, older, newer, strict=True)]

    def _find(self, settled: int) -> _Place:
        """Where the window that ends at an instant lies."""
        window = self._window
        start, end, runs = settled - window.size, settled - window.to, []
        for level in self._levels():
            lo, hi = map(level.cell_number, level.run(start, end))
            cells = [level.cells_named(names) for names, *_ in self._parts]
            runs.append(_Run(lo, hi, level.chains.last, level.cell_prior, level.dropped_cells, cells))
        return _Place(self._store.version, settled, runs)

    def _id_of(self, key: Any) -> int:
        # 1, 1.0 and True are one key of a dict, but not of a column
        known = key if type(key) in _PLAIN else (key, *map(type, key)) if type(key) is tuple else None
        try:
            id = -1 if known is None else self._ids.get(known, -1)
        except TypeError:  # a part that cannot be hashed is no plain one
            return _UNSURE
        if id < 0:
            id = self._keys.find_one(key if isinstance(key, tuple) else (key,))
            if id >= 0 and known is not None:
                if len(self._ids) >= _REMEMBERED:
                    self._ids.clear()
                self._ids[known] = id
        return id


_PLAIN = (int, str)
_UNSURE = -2  # of a key that `find_one` does not know how to look for


def key_reader_of(shard: Shard, name: str) -> KeyPointReader | None:
    """The reader of a query, if it has one; kept until the plan changes."""
    if name not in shard.prepared.key_readers:
        shard.prepared.key_readers[name] = KeyPointReader.of(shard, name)
    reader: KeyPointReader | None = shard.prepared.key_readers[name]
    return reader
