"""A shard: all the state of one stream, or of some of its keys.

The clock, the dictionaries, the rings and a synopsis per window group. Queries come and go, events
are taken in, and what no window needs any more is forgotten.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.engine.clock import Clock
from muntin.engine.keys import Dictionary, KeyDictionary
from muntin.engine.prepare import Wanted, arguments_of_text, prepare
from muntin.engine.registration import Registration
from muntin.engine.source import to_record_batch, to_times
from muntin.expression import Expression
from muntin.plan import WindowGroup, WindowManager
from muntin.query import Query
from muntin.stream import Stream
from muntin.synopsis import Rescan, RescanRows, RingSynopsis, Slices, Synopsis
from muntin.synopsis.contract import Ints
from muntin.synopsis.ring import EventRing

Keys = tuple[Expression, ...]
RingId = tuple[Expression | None, Keys]
_STREAM_RING: RingId = (None, ())
_FOREVER = 2**63 - 1


class Shard:
    """State for all queries over one stream."""

    def __init__(self, stream: Stream, backlog_bytes: int):
        self.stream = stream
        self.clock = Clock(stream.delay)
        self.manager = WindowManager()
        self.registrations: dict[str, Registration] = {}
        self.synopses: dict[int, Synopsis] = {}
        self.rings: dict[RingId, EventRing] = {}
        self.keys: dict[Keys, KeyDictionary] = {}
        self.texts: dict[Expression, Dictionary] = {}
        self._wanted = Wanted(frozenset(), frozenset(), frozenset())
        self._backlog_bytes = backlog_bytes
        self._needed_bytes = 0  # of state when it was last without backlog
        self._oldest_owed: tuple[int, bool] | None = None  # what `_owed_since` depends on; None: stale

    # -- queries -----------------------------------------------------------------------------------

    def register(self, name: str, query: Query) -> None:
        """Place a query in groups and fit their synopses; answers at once from what is there."""
        placement = self.manager.register(name, query)
        self.registrations[name] = Registration(query, self.clock.watermark)
        self._oldest_owed = None
        self.fit(placement.groups())

    def drop(self, name: str) -> None:
        """Take a query out and free what only it needed."""
        del self.registrations[name]
        self._oldest_owed = None
        self.fit(self.manager.drop(name).groups())

    def fit(self, numbers: set[int]) -> None:
        """Bring synopses, rings and dictionaries in line with the groups that changed."""
        for number in numbers:
            group = self.manager.groups.get(number)
            if group is None:
                self.synopses.pop(number, None)
                continue
            if number not in self.synopses:
                self.synopses[number] = self._build(group)
            self.synopses[number].fit(group.needs(), self.clock.now)
        self._fit_rings()
        self._fit_dictionaries()

    def _build(self, group: WindowGroup) -> Synopsis:
        if group.synopsis == Slices.name:
            return Slices(group.where, group.keys)
        ring = self._ring(_ring_id(group))
        kind = Rescan if group.synopsis == Rescan.name else RescanRows
        return kind(ring, group.where, group.keys, self._text_order)

    def _ring(self, ring_id: RingId) -> EventRing:
        if ring_id not in self.rings:
            ring = self.rings[ring_id] = EventRing(ring_id[0])
            if self.clock.now is not None:
                # only the ring of the whole stream can know how many events it missed
                ring.begin_at(self.clock.now, self.clock.events if ring_id == _STREAM_RING else 0)
        return self.rings[ring_id]

    def _fit_rings(self) -> None:
        for ring_id, ring in list(self.rings.items()):
            readers = self._readers(ring)
            if not readers:
                del self.rings[ring_id]
                continue
            columns = [reader.columns() for reader in readers]
            ring.keep(
                sorted(set().union(*(arguments for arguments, _ in columns)), key=str),
                sorted(set().union(*(predicates for _, predicates in columns)), key=str),
                sorted({reader.keys for reader in readers if reader.keys}, key=str),
                self.clock.now,
            )

    def _readers(self, ring: EventRing) -> list[RingSynopsis]:
        synopses = self.synopses.values()
        return [each for each in synopses if isinstance(each, RingSynopsis) and each.ring is ring]

    def _fit_dictionaries(self) -> None:
        groups = self.manager.groups.values()
        inputs = {need.input for group in groups for _, need in group.uses}
        arguments = frozenset(each.argument for each in inputs if each.argument is not None)
        predicates = {each.filter for each in inputs} | {group.where for group in groups}
        keys = frozenset(group.keys for group in groups if group.keys)
        self._wanted = Wanted(arguments, frozenset(each for each in predicates if each is not None), keys)
        self.keys = {
            some: self.keys.get(some) or KeyDictionary([part.type for part in some])
            for some in sorted(keys, key=str)
        }
        self.texts = {
            argument: self.texts.get(argument) or Dictionary(argument.type)
            for argument in sorted(arguments_of_text(arguments), key=str)
        }

    def _text_order(self, argument: Expression) -> tuple[Ints, Ints]:
        return self.texts[argument].order()

    # -- events ------------------------------------------------------------------------------------

    def insert(self, batch: Any) -> int:
        """Take in a batch; returns how many of its events were late. All or nothing."""
        events = to_record_batch(self.stream, batch)
        at = to_times(self.stream, events)
        late = self.clock.late(at)
        if late.any():
            kept = ~late
            events, at = events.filter(pa.array(kept)), at[kept]
        prepared = prepare(events, at, self._wanted, self.texts, self.keys)
        self.forget()  # only now, so that what the last batch closed could still be asked for
        self.clock.observe(at, int(late.sum()))
        for ring in self.rings.values():
            ring.insert(prepared)
        for synopsis in self.synopses.values():
            synopsis.insert(prepared)
        return int(late.sum())

    def note_emitted(self) -> None:
        """Queries have given out answers: what is still owed must be computed anew."""
        self._oldest_owed = None

    def forget(self) -> None:
        """Drop events that no window needs, and the backlog of closed windows if it is too large."""
        watermark = self.clock.watermark
        if watermark is None:
            return
        oldest = min(self._owed_since(), watermark)
        if oldest < watermark and self.nbytes() > self._needed_bytes + self._backlog_bytes:
            oldest = watermark
        # time may have been promised beyond the events, but look-ups stand just after the last one
        self._advance(min(oldest, watermark, self.clock.now or watermark))
        if oldest >= watermark:
            self._needed_bytes = self.nbytes()

    def _owed_since(self) -> int:
        """The instant from which on some query still owes windows."""
        if self._oldest_owed is None:
            owed = [each.emitted_to for each in self.registrations.values()]
            since = [_FOREVER if instant is None else instant for instant in owed]
            self._oldest_owed = min(since, default=_FOREVER), None in owed
        since_emitted, owes_all = self._oldest_owed
        first = self.clock.first if owes_all and self.clock.first is not None else _FOREVER
        return min(since_emitted, first)

    def _advance(self, instant: int) -> None:
        kept_from = {number: group.earliest_lookup(instant) for number, group in self.manager.groups.items()}
        for number, synopsis in self.synopses.items():
            synopsis.advance(kept_from[number])
        for ring in self.rings.values():
            readers = self._readers(ring)
            if not any(isinstance(reader, RescanRows) and reader.keys for reader in readers):
                ring.drop_first(min(reader.first_needed() for reader in readers))

    # -- upkeep ------------------------------------------------------------------------------------

    def nbytes(self) -> int:
        """Bytes of state: rings and synopses."""
        rings = sum(ring.nbytes() for ring in self.rings.values())
        return rings + sum(synopsis.nbytes() for synopsis in self.synopses.values())

    def check(self) -> None:
        """Assert every invariant of everything kept."""
        for ring in self.rings.values():
            ring.check()
        for synopsis in self.synopses.values():
            synopsis.check()
        # there is a synopsis for each group, and each is fitted to what its group needs
        assert self.synopses.keys() == self.manager.groups.keys()


def _ring_id(group: WindowGroup) -> RingId:
    return (group.where, group.keys) if group.synopsis == RescanRows.name else _STREAM_RING
