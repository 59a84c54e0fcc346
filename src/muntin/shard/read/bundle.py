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

from muntin.aggregate import Partial
from muntin.answer import is_plain, to_instants
from muntin.arrays import Bools, Ints
from muntin.errors import MuntinError
from muntin.shard.read.point import PointCall, PointReader, reader_of
from muntin.shard.read.reading import call_of
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.structure.track import Asked
from muntin.window import Window


class _Alike(NamedTuple):
    """Queries that read the same structures: where in the answer they stand, and their windows."""

    reading: PointCall  # of any of them
    asked: tuple[Asked, ...]  # for each part, of all of them
    row: Ints
    size: Ints
    to: Ints
    slide: Ints


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
        readers = [_reader(state, name) for name in names]
        self._state = state
        self.names = pa.array(names, pa.string())
        self.members = frozenset(names)
        alike: dict[tuple[object, ...], list[tuple[int, Window]]] = {}
        reading_of = {}
        needs_of: dict[tuple[object, ...], list[list[Need]]] = {}
        for row, reader in enumerate(readers):
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
            windows_of = np.array([(row, w.size, w.to, w.slide) for row, w in members]).T
            self._alike.append(_Alike(reading_of[same], asked, *windows_of))
        are_whole = all(pa.types.is_integer(reader.query.outputs[0].expression.type) for reader in readers)
        self._dtype = np.dtype(np.int64 if are_whole else np.float64)
        windows = [reader.query.window for reader in readers]
        columns = [
            (w.size, w.to, reader.query.slide) for w, reader in zip(windows, readers, strict=True) if w
        ]
        self._size, self._to, self._slide = np.array(columns, np.int64).reshape(-1, 3).T

    def find(self, at: int) -> BundleValues:
        """All values at one instant; O(log n) to find each window, plus what its structure takes."""
        count = len(self._size)
        instant = _rounded(np.full(count, at), self._slide)
        value, valid = np.zeros(count, self._dtype), np.zeros(count, np.bool_)
        lost = np.zeros(count, np.bool_)
        complete = np.ones(count, np.bool_)
        for reading, asked, row, size, to, slide in self._alike:
            settled = _rounded(instant[row], slide)
            located = reading.place.store.locate(settled - size, settled - to)
            partials: dict[str, Partial] = {}
            for (synopsis, need, _, known_since), ask in zip(reading.parts, asked, strict=True):
                synopsis.refuse_forgotten(located, settled)
                partials[need.component] = ask(located.lo, located.hi)
                complete[row] &= located.is_complete(known_since)
            value[row], valid[row], gone = reading.aggregate.lower(partials)
            if gone is not None:
                lost[row] = gone
        return BundleValues(value, valid, instant - self._size, instant - self._to, complete, lost)

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
    if reader is None or reader.first is None:
        raise MuntinError(f"lookup_many cannot answer '{name}': {_why_not(state, name)}; use lookup")
    return reader


def _why_not(state: State, name: str) -> str:
    """What keeps a query out of a bundle, in the order in which users can tell."""
    query = state.registrations[name].query
    if query.keys:
        return "it has GROUP BY, so an answer for each key"
    if query.having is not None:
        return "it has HAVING, so perhaps no answer"
    if query.window is None:
        return "it has no window after FROM"
    if not all(call.window.is_time for call in query.calls) or not query.window.is_time:
        return "it looks at a ROWS window, and only time windows can be looked up together"
    first = query.outputs[0].expression
    if not isinstance(call_of(first), int):
        return "its first value is computed from aggregates, and must be one aggregate"
    if not is_plain(first.type):
        return f"its values are {first.type}, and must be BIGINT or DOUBLE"
    return "its aggregates, or their arguments, are not all numbers that one structure keeps"


def _rounded(instant: Ints, slide: Ints) -> Ints:
    return instant - np.where(slide > 0, instant % np.maximum(slide, 1), 0)
