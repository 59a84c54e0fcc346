"""Events as they are, to the shards that own their keys: for queries that need every single one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.keys.key_dictionary import KeyDictionary
from muntin.spark.key_hash import shard_of_keys


class EventSorter:
    """Events that one task has read and not yet sent on, of one route."""

    def __init__(self, keys: tuple[Expression, ...], columns: tuple[str, ...], shards: int):
        self._expressions = keys
        self._columns = list(columns)
        self._shards = shards
        self._keys = KeyDictionary([part.type for part in keys]) if keys else None
        self._held: list[pa.RecordBatch] = []
        self._times: list[Ints] = []

    def insert(self, events: pa.RecordBatch, at: Ints) -> None:
        self._held.append(events.select(self._columns))
        self._times.append(at)

    def __len__(self) -> int:
        """Events held."""
        return sum(map(len, self._times))

    def take(self, greatest: int) -> Iterator[tuple[int, int, bytes]]:
        """Bucket, least time and bytes for each shard that some events belong to; then hold none. O(events)."""
        events, at = pa.concat_batches(self._held), np.concatenate(self._times)
        self._held, self._times = [], []
        if self._shards == 1:
            yield 0, int(at.min()), _to_bytes(events)
            return
        if self._keys is None:
            yield from self._dealt(events, at)
            return
        bucket = self._bucket_of_event(events)
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(self._shards + 1))
        for each in range(self._shards):
            chosen = order[edges[each] : edges[each + 1]]
            if len(chosen):
                yield each, int(at[chosen].min()), _to_bytes(events.take(pa.array(chosen)))

    def _dealt(self, events: pa.RecordBatch, at: Ints) -> Iterator[tuple[int, int, bytes]]:
        """Without keys it makes no difference who gets which: as many each, side by side."""
        edges = np.arange(self._shards + 1) * len(at) // self._shards
        for each, (lo, hi) in enumerate(itertools.pairwise(edges.tolist())):
            if lo < hi:
                yield each, int(at[lo:hi].min()), _to_bytes(events.slice(lo, hi - lo))

    def _bucket_of_event(self, events: pa.RecordBatch) -> np.ndarray:
        assert self._keys is not None
        given = dict(zip(events.schema.names, events.columns, strict=True))
        ids = self._keys.encode([_one_array(part.evaluate(given)) for part in self._expressions])
        keys = self._keys.take(np.arange(len(self._keys)))
        return shard_of_keys(keys, self._shards).astype(np.int16)[ids]  # so narrow, it is sorted by radix


def read_events(packed: bytes) -> pa.RecordBatch:
    """What `take` wrote."""
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_next_batch()


def _to_bytes(events: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_batch(events)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
