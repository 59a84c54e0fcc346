"""Folding where events are read: cells instead of events travel to the shards.

    events  --prepare--> columns, key ids --a slice store per filter--> cells --by shard of their key--> bytes

The same stores and kernels as in a shard fold what one task reads; a shard then merges the cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.kernels.times import ascends
from muntin.keys.key_dictionary import KeyDictionary
from muntin.plan import demands_of
from muntin.shard.intake import WantedColumns, prepare
from muntin.spark.job import Fold, read_query
from muntin.spark.shard_of import shard_of_keys
from muntin.store.needs import Need
from muntin.store.ring import columns_of
from muntin.store.saved import pack
from muntin.store.slice_store import SliceStore
from muntin.stream import Stream


class FoldPlan:
    """What a route folds, parsed; made once per process."""

    def __init__(self, stream: Stream, fold: Fold):
        self.needs: dict[Expression | None, set[Need]] = {}
        self.keys: tuple[Expression, ...] = ()
        for text in fold.queries:
            query = read_query(stream, text)
            self.keys = query.key_expressions
            for demand in demands_of(query).all():
                self.needs.setdefault(demand.where, set()).add(demand.need)
        self.steps = {where: fold.steps[str(where or "")] for where in self.needs}
        arguments: set[Expression] = set()
        predicates: set[Expression] = set()
        for where, needs in self.needs.items():
            some, others = columns_of(needs, where)
            arguments |= some
            predicates |= others
        keys = frozenset({self.keys} if self.keys else ())
        self.wanted = WantedColumns(frozenset(arguments), frozenset(predicates), keys)


class TaskFold:
    """Cells of the events that one task has read and not yet sent on."""

    def __init__(self, plan: FoldPlan, shards: int):
        self._plan = plan
        self._shards = shards
        self._begin()

    def _begin(self) -> None:
        plan = self._plan
        self._keys = {plan.keys: KeyDictionary([part.type for part in plan.keys])} if plan.keys else {}
        self._stores = {where: SliceStore(where, plan.keys) for where in plan.needs}
        for where, store in self._stores.items():
            store.fit(dict.fromkeys(plan.needs[where], True), plan.steps[where], None)

    def insert(self, events: pa.RecordBatch, at: Ints) -> None:
        """Fold events; O(events)."""
        prepared = prepare(events, at, bool(ascends(at)), self._plan.wanted, {}, self._keys)
        for store in self._stores.values():
            store.insert(prepared)

    def __len__(self) -> int:
        """Cells held."""
        return sum(len(store.cell_key) for store in self._stores.values())

    def take(self, greatest: int) -> Iterator[tuple[int, int, bytes]]:
        """Bucket, start of the first slice and bytes for each shard that some cells belong to; then hold
        none. `greatest` is the latest event time among all events folded."""
        parts = [_ByShard(store, self._plan.keys, self._bucket_of_key()) for store in self._stores.values()]
        for bucket in range(self._shards):
            arrays: dict[str, Any] = {}
            texts, starts = [], []
            used = np.zeros(max((len(keys) for keys in self._keys.values()), default=1), np.bool_)
            for part in parts:
                used[part.key[part.of(bucket)]] = True
            if not used.any():
                continue
            number = np.cumsum(used) - 1
            for place, (where, part) in enumerate(zip(self._stores, parts, strict=True)):
                chosen = part.of(bucket)
                texts.append(str(where or ""))
                arrays[f"{place} at"] = part.at[chosen]
                arrays[f"{place} key"] = number[part.key[chosen]]
                starts += part.at[chosen][:1].tolist()
                for need in sorted(self._plan.needs[where], key=str):
                    for i, array in enumerate(part.store.cells_of(need)):
                        arrays[f"{place} {i} {need}"] = array[chosen]
            for keys in self._keys.values():
                columns = keys.take(np.flatnonzero(used))
                arrays |= {f"key {i}": column for i, column in enumerate(columns)}
            description = {
                "where": texts,
                "steps": [self._plan.steps[where] for where in self._stores],
                "greatest": greatest,
            }
            yield bucket, min(starts), pack(description, arrays).to_pybytes()
        self._begin()

    def _bucket_of_key(self) -> Ints:
        for keys in self._keys.values():
            return shard_of_keys(keys.take(np.arange(len(keys))), self._shards)
        return np.zeros(1, np.int64)


class _ByShard:
    """The cells of one store, grouped by shard, in order of slice within each."""

    def __init__(self, store: SliceStore, keys: tuple[Expression, ...], bucket_of_key: Ints):
        self.store = store
        cells = np.diff(store.first_cells(0))
        self.at = np.repeat(store.slice_start, cells)
        self.key = store.cell_key if keys else np.zeros(len(self.at), np.int64)
        bucket = bucket_of_key[self.key]
        self._order = np.argsort(bucket.astype(np.int16), kind="stable")  # so narrow, it is sorted by radix
        self._edges = np.searchsorted(bucket[self._order], np.arange(bucket_of_key.max(initial=0) + 2))

    def of(self, bucket: int) -> Ints:
        """Which cells belong to a shard."""
        if bucket + 1 >= len(self._edges):
            return self._order[:0]
        return self._order[self._edges[bucket] : self._edges[bucket + 1]]


# Counted slices: how many events a task has read of each slice, whatever queries make of them.
#
# Where events are folded, the cells that travel have no trace of events that no WHERE lets pass. The number
# of late events must not depend on that, so tasks count all events by slice, and a shard that knows the
# watermark adds up the slices that had ended.


class CountedSlices:
    """`step` is the length of a slice in microseconds.

    >>> from muntin.store.saved import unpack
    >>> counted = CountedSlices(10)
    >>> counted.insert(np.array([3, 5, 12, 4]))
    >>> count_late(unpack(counted.take()), 10)
    3
    """

    def __init__(self, step: int):
        self._step = step
        self._runs: list[tuple[Ints, Ints]] = []

    def insert(self, at: Ints) -> None:
        """Count events; O(events). Neighbours are mostly of one slice, so runs of them are few."""
        slices = at // self._step
        edges = np.flatnonzero(np.diff(slices, prepend=slices[0] - 1))
        self._runs.append((slices[edges], np.diff(edges, append=len(at))))
        if sum(len(runs) for runs, _ in self._runs) > _MOST_RUNS:
            self._merge()

    def _merge(self) -> None:
        runs, counts = (np.concatenate(column) for column in zip(*self._runs, strict=True))
        found, place = np.unique(runs, return_inverse=True)
        total = np.zeros(len(found), np.int64)
        np.add.at(total, place, counts)
        self._runs = [(found, total)]

    def take(self) -> bytes:
        """Starts and counts, for a shard."""
        self._merge()
        ((slices, counts),) = self._runs
        packed = pack({"step": self._step}, {"start": slices * self._step, "count": counts})
        return bytes(packed.to_pybytes())


_MOST_RUNS = 1 << 18


def count_late(counted: tuple[dict[str, Any], dict[str, Any]], watermark: int) -> int:
    """Events of slices that had ended by the watermark."""
    description, arrays = counted
    return int(arrays["count"][arrays["start"] <= watermark - description["step"]].sum())
