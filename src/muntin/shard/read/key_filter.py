"""The keys of a query that pass HAVING, by an index: what a look-up costs without the steps that only others need.

Arasu & Widom call such a query a substream filter. An index names candidates, these are read, and those that pass make
the table. As in `point.py`, whatever depends on the plan alone is settled when the reader is made.
"""

from __future__ import annotations

from time import perf_counter_ns

import numpy as np
import pyarrow as pa

from muntin.answer import is_plain, to_arrow, to_instants
from muntin.arrays import LONG_AGO, Ints, unchanged
from muntin.band import sort_keys
from muntin.key_index.finders import KeyBand
from muntin.shard.adapt.meter import GroupLookups
from muntin.shard.read.question import Question
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.state import State
from muntin.structure.synopsis import Found


class KeyFilter:
    """Reads a query per key over one window, of which HAVING compares one aggregate with constants; made once, kept
    until the plan changes."""

    def __init__(self, state: State, name: str, reading: Reading):
        self._state, self._name, self._reading = state, name, reading
        assert reading.range is not None
        assert reading.compared is not None
        assert reading.query.having is not None
        self._range = reading.range
        self._compared = reading.compared
        self._outputs = [
            (number, reading.calls[number].type) for number in reading.outputs if isinstance(number, int)
        ]
        # each call that is read: how it is lowered, and from what
        self._calls = [
            (number, call.aggregate.lower, [(part.need.component, part.need) for part in call.parts])
            for number, call in enumerate(reading.calls)
            if number == reading.compared or number in reading.outputs
        ]
        band = reading.rough_band or reading.query.having.band
        assert band is not None
        self._low, self._high = band.low, band.high
        (read,) = reading.windows
        self._window, self._needs = read.window, read.needs
        self._synopsis = state.synopses[read.number]
        self._profile = (GroupLookups(read.number, read.window.size, True, 1),)
        (presence,) = reading.presence
        self._presence = presence.need

    @staticmethod
    def of(state: State, name: str) -> KeyFilter | None:
        """The reader of a query, if it can be read so."""
        reading = reading_of(state, name)
        if reading.range is None or reading.compared is None or reading.query.window is None:
            return None
        if reading.query.top is not None:
            return None
        is_one = len(reading.windows) == len(reading.presence) == 1
        is_simple = all(
            isinstance(output, int) and is_plain(reading.calls[output].type) for output in reading.outputs
        )
        return KeyFilter(state, name, reading) if is_one and is_simple and reading.laned is None else None

    def ask(self, instant: int) -> pa.Table | Question:
        """The answers at an instant, on the slide of the query; or what is to be asked in the general way, if no index
        is used, or a key has no answer."""
        state, reading = self._state, self._reading
        watermark = state.clock.watermark
        settled = self._window.settle(instant)
        _, low, high, is_forced, tolerance = self._range
        candidates = self._synopsis.candidates(
            self._range.part.need, self._window, settled, LONG_AGO if watermark is None else watermark,
            KeyBand(low, high, reading.width, 1, is_forced, tolerance),
        )  # fmt: skip
        if candidates is None:
            return Question(self._name, np.array([instant]))
        ids = candidates.ids
        if not len(ids):
            return reading.schema.empty_table()
        at = np.array([settled])
        before = perf_counter_ns()
        found = self._synopsis.lookup(self._window, at, self._needs, ids, len(ids))
        state.meter.looked_up(self._profile, perf_counter_ns() - before, 1)
        table = self._table(found, ids)
        return (
            Question(self._name, np.array([instant]), ids, band=reading.rough_band)
            if table is None
            else table
        )

    def _table(self, found: Found, ids: Ints) -> pa.Table | None:
        """Those of the candidates that pass; None if an answer of one of them does not exist."""
        reading, partials = self._reading, found.partials
        lowered = {}
        for number, lower, parts in self._calls:
            value, valid, lost = lower({component: partials[need] for component, need in parts})
            if lost is not None:
                return None
            lowered[number] = value, valid
        value, valid = lowered[self._compared]
        order = sort_keys(value)
        passing = (order >= self._low) & (order <= self._high) & valid & (partials[self._presence][0] > 0)
        kept = passing.nonzero()[0]
        many = len(kept)
        if not many:
            return reading.schema.empty_table()
        assert reading.keys is not None
        columns = reading.keys.take(ids[kept])
        for number, kind in self._outputs:
            value, valid = lowered[number]
            columns.append(to_arrow(value[kept], valid[kept], kind))
        columns += [to_instants(side.repeat(many)) for side in (found.start, found.end)]
        columns.append(pa.array(unchanged(many, bool(found.complete(self._needs)[0]))))
        return pa.Table.from_arrays(columns, schema=reading.schema)


def key_filter_of(state: State, name: str) -> KeyFilter | None:
    """The reader of a query, if it has one; kept until the plan changes."""
    try:
        reader: KeyFilter | None = state.prepared.key_filters[name]
    except KeyError:
        reader = state.prepared.key_filters[name] = KeyFilter.of(state, name)
    return reader
