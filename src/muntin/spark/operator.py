"""A shard at work on Spark: packed rows in, answers out, the same operator as in the embedded engine.

Its clock calls no event late by itself. The runtime tells it how far the whole stream has come, and what
lies before that when it arrives is late: time moves between micro-batches, not within one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import CheckpointError
from muntin.operator.absorb import Counted, absorb
from muntin.operator.flush import flush
from muntin.operator.operator import Operator
from muntin.operator.packed import pack, refusing, unpack
from muntin.operator.portion import Answers, portions
from muntin.plan import request_of
from muntin.query import Query
from muntin.spark.counted import count_late
from muntin.spark.events import read_events
from muntin.spark.job import NO_LIMIT, Job, Route
from muntin.spark.queries import read_query
from muntin.store.aging_slices import StairStore
from muntin.store.cells import Cells
from muntin.store.sequence import Sequence
from muntin.store.slice_store import SliceStore

_PORTION_ROWS = 500_000  # of answers that a worker holds at once


class ShardOperator:
    """One shard of a route."""

    def __init__(self, job: Job, route: Route, columns: pa.Schema | None = None):
        self._delay = job.stream.delay
        self._stream = job.stream_of(route, columns)
        place = (job.fingerprint, route.name, str(self._stream.schema))
        self._parsed = _PARSED.setdefault(place, Parsed())
        self._operator = Operator(
            self._stream, NO_LIMIT, adaptive=False, portion_rows=_PORTION_ROWS, is_planned_by_demand=True
        )
        self._told_overflows = 0

    @property
    def queries(self) -> dict[str, str]:
        """Texts of the queries at work, by name."""
        return {name: each.query.text for name, each in self._operator.shard.registrations.items()}

    def register(self, queries: Mapping[str, str]) -> None:
        """Add queries, all or none; they answer from what is there."""
        self._operator.register({name: request_of(self._parse(text)) for name, text in queries.items()})

    def drop(self, name: str) -> None:
        self._parsed.pop(self._operator.registrations[name].query.text, None)
        self._operator.drop(name)

    def rewind(self, to: int) -> None:
        """Start again at an instant that the stream has passed."""
        self._operator.rewind(to)

    def insert(self, packed: Iterable[tuple[str, bytes]]) -> int:
        """Take in rows of data, in order, as one batch; how many of their events were late."""
        late, chunks = 0, []
        for kind, data in packed:
            if kind == "cells":
                chunks.append(unpack(data))
            elif kind == "counted":
                late += count_late(unpack(data), self._operator.shard.clock.promised)
            else:
                late += self._operator.insert(self._with_all_columns(read_events(data)))
        if chunks:
            self._absorb(chunks)
        return late

    def _with_all_columns(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events logged when fewer columns were read: no query of that time misses the others."""
        for field in self._stream.schema:
            if field.name not in events.schema.names:
                events = events.append_column(field, pa.nulls(events.num_rows, field.type))
        return events

    def take_overflows(self) -> int:
        """How many rows have been left out since the last time, since a value of them does not exist."""
        before, self._told_overflows = self._told_overflows, self._operator.shard.overflows
        return self._told_overflows - before

    def advance(self, greatest: int) -> Iterator[Answers]:
        """The answers that are final now that the stream has come as far as `greatest`, portion by portion."""
        self._see(greatest)
        yield from portions(self._operator, greatest - self._delay)

    def advance_to(self, instant: int) -> Iterator[Answers]:
        """The answers of windows that end up to an instant before which nothing will come any more."""
        yield from portions(self._operator, instant)

    def skip(self, greatest: int, delay: int | None) -> None:
        """As `advance`, when the answers have been given out already, by a job whose delay may have been another."""
        self._see(greatest)
        self._operator.skip(greatest - (self._delay if delay is None else delay))
        self.take_overflows()  # they were told of by whoever gave the answers out

    def _see(self, greatest: int) -> None:
        # what a query registered later can know begins where the whole stream is, not where this shard is
        self._operator.shard.settle_plan()
        clock = self._operator.shard.clock
        clock.greatest = greatest if clock.greatest is None else max(clock.greatest, greatest)

    def flush(self, last: int) -> Iterable[dict[str, pa.Table]]:
        """The answers of windows still open that hold an event, `last` being the latest of all."""
        return flush(self._operator, self.parsed_queries, last)

    @property
    def parsed_queries(self) -> dict[str, Query]:
        return {name: each.query for name, each in self._operator.shard.registrations.items()}

    def snapshot(self) -> pa.Buffer:
        """All state, as bytes."""
        return pack(*self._operator.snapshot())

    def restore(self, packed: bytes) -> None:
        """State from a snapshot, into an operator without queries."""
        with refusing("the state in this checkpoint"):
            description, arrays = unpack(packed)
            queries = {name: self._parse(each["text"]) for name, each in description["registrations"].items()}
            owned = {
                name: array.copy() if isinstance(array, np.ndarray) else array
                for name, array in arrays.items()
            }
            self._operator.restore(description, owned, queries)

    def nbytes(self) -> int:
        return self._operator.shard.nbytes()

    def check(self) -> None:
        """Assert every invariant of the state."""
        self._operator.check()

    def _parse(self, text: str) -> Query:
        """Parsed once per process, whatever the number of shards."""
        if text not in self._parsed:
            self._parsed[text] = read_query(self._stream, text)
        return self._parsed[text]

    def _absorb(self, chunks: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        shard = self._operator.shard
        shard.settle_plan()
        ids = [self._ids_of(arrays) for _, arrays in chunks]
        watermark = shard.clock.promised
        cells = {}
        counted, starts = 0, []
        for store_id, store in shard.stores.items():
            youngest = _cells_store(store)
            parts = [
                _read_part(chunk, id_of, str(store_id.where or ""), youngest, watermark)
                for chunk, id_of in zip(chunks, ids, strict=True)
            ]
            at, key, partials = (list(column) for column in zip(*parts, strict=True))
            cells[store_id] = _joined(at, key, partials, youngest)
            counted = max(counted, len(cells[store_id]))
            starts += cells[store_id].at[:1].tolist()
        if starts:
            greatest = max(description["greatest"] for description, _ in chunks)
            absorb(shard, cells, Counted(counted, min(starts), max(greatest, min(starts))))

    def _ids_of(self, arrays: Mapping[str, Any]) -> Ints:
        """The id of each key of a chunk."""
        for keys in self._operator.shard.keys.values():
            return keys.encode(
                [arrays[f"key {i}"] for i in range(sum(name[:4] == "key " for name in arrays))]
            )
        return np.zeros(1, np.int64)


class Parsed(dict[str, Query]):
    """Queries by text that the shards of a route in one process share; gone with the last of these shards."""


_PARSED: WeakValueDictionary[tuple[str, str, str], Parsed] = (
    WeakValueDictionary()
)  # by job, route and columns


def _cells_store(store: Sequence) -> SliceStore:
    """The slices that cells go to. Which stores take cells is decided by each demand on its own, so a shard and the
    driver agree on it, whatever was registered before; but versions up to 0.1.0 decided otherwise."""
    if isinstance(store, StairStore):
        return store.levels[0]
    if not isinstance(store, SliceStore):
        raise CheckpointError(
            "this checkpoint keeps single events for a query that is folded now: go on with "
            "shared_windows(…, fold=False), or start from a new checkpoint"
        )
    return store


def _read_part(
    chunk: tuple[dict[str, Any], dict[str, Any]], id_of: Ints, where: str, store: SliceStore, watermark: int
) -> tuple[Ints, Ints, list[tuple[Any, ...]]]:
    """The cells of one chunk for one store: those whose slice has not ended before the watermark."""
    description, arrays = chunk
    place = description["where"].index(where)
    at, key = arrays[f"{place} at"], id_of[arrays[f"{place} key"]]
    partials = [
        tuple(arrays[f"{place} {i} {need}"] for i in range(len(store.cells_of(need)))) for need in store.needs
    ]
    in_time = at > watermark - description["steps"][place]
    if in_time.all():
        return at, key, partials
    kept = [tuple(array[in_time] for array in partial) for partial in partials]
    return at[in_time], key[in_time], kept


def _joined(at: list[Ints], key: list[Ints], partials: list[Any], store: SliceStore) -> Cells:
    """Cells of several chunks, in order of slice."""
    starts = np.concatenate(at)
    order = np.argsort(starts, kind="stable") if len(at) > 1 else np.arange(len(starts))
    merged = {
        need: tuple(
            np.concatenate(arrays)[order] for arrays in zip(*(part[i] for part in partials), strict=True)
        )
        for i, need in enumerate(store.needs)
    }
    return Cells(starts[order], np.concatenate(key)[order], merged)
