"""Folding where events are read: cells instead of events travel to the shards.

    events  --prepare--> columns, key ids --a slice store per filter--> cells --by shard of their key--> bytes

The same stores and kernels as in a shard fold what one task reads; a shard then merges the cells. Filters that compare
the same attributes with constants have one store, whose cells are of a key and a lane (`lane.py`). They go to the
shard of the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.kernels.times import ascends
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Asked, Lane
from muntin.shard.bands import fit_lanes
from muntin.shard.intake import WantedColumns, prepare
from muntin.shard.lanes import Lanes
from muntin.spark.job import Fold, read_query, source_of
from muntin.spark.plan_job import folded_demands
from muntin.spark.shard_of import shard_of_keys
from muntin.sql import shared_templates
from muntin.store.needs import Need
from muntin.store.ring import columns_of
from muntin.store.saved import pack
from muntin.store.slice_store import SliceStore
from muntin.stream import Stream
from muntin.table import Table


class FoldPlan:
    """What a route folds, parsed; made once per process."""

    def __init__(self, stream: Stream, fold: Fold, tables: Iterable[Table] = ()):
        self.needs: dict[Expression | None, set[Need]] = {}
        self.lanes: dict[Asked, dict[Lane, int]] = {}
        self.keys: tuple[Expression, ...] = ()
        templates = shared_templates()
        for text in fold.queries:
            query = source_of(read_query(stream, text, templates, tables))
            self.keys = query.key_expressions
            for demand, laned, _ in folded_demands(query):
                self.needs.setdefault(demand.where, set()).add(demand.need)
                if laned is not None:
                    self.lanes.setdefault(laned.asked, {}).update(dict.fromkeys(laned.lanes, 1))
        self.steps = {where: fold.steps[str(where or "")] for where in self.needs}
        arguments: set[Expression] = set()
        predicates: set[Expression] = set()
        for where, needs in self.needs.items():
            some, others = columns_of(needs, None if isinstance(where, Asked) else where)
            arguments |= some
            predicates |= others
        own = {self.keys} if self.keys else set()
        laned_keys: dict[tuple[Expression, ...], frozenset[Asked]] = {}
        for asked in self.lanes:
            laned_keys[asked.store_keys] = laned_keys.get(asked.store_keys, frozenset()) | {asked}
        self.wanted = WantedColumns(
            frozenset(arguments), frozenset(predicates), frozenset(own | laned_keys.keys()), {}, laned_keys
        )


class TaskFold:
    """Cells of the events that one task has read and not yet sent on."""

    def __init__(self, plan: FoldPlan, shards: int):
        self._plan = plan
        self._shards = shards
        self._lanes: dict[Asked, Lanes] = {}
        fit_lanes(self._lanes, plan.lanes, plan.lanes, None)
        self.wanted = replace(plan.wanted, lanes=self._lanes)
        self._begin()

    def _begin(self) -> None:
        plan = self._plan
        self._keys = {some: KeyDictionary([part.type for part in some]) for some in plan.wanted.keys}
        for lanes in self._lanes.values():
            lanes.forget_pairs()
        self._stores = {
            where: SliceStore(where, where.store_keys if isinstance(where, Asked) else plan.keys)
            for where in plan.needs
        }
        for where, store in self._stores.items():
            store.fit(dict.fromkeys(plan.needs[where], True), plan.steps[where], None)

    def insert(self, events: pa.RecordBatch, at: Ints) -> None:
        """Fold events, all or none; O(events)."""
        prepared = prepare(events, at, bool(ascends(at)), self.wanted, {}, self._keys)
        for store in self._stores.values():
            store.insert(prepared)

    def __len__(self) -> int:
        """Cells held."""
        return sum(len(store.cell_key) for store in self._stores.values())

    def take(self, greatest: int) -> Iterator[tuple[int, int, bytes]]:
        """Bucket, start of the first slice and bytes for each shard that some cells belong to; then hold
        none. `greatest` is the latest event time among all events folded."""
        own, bucket_of_key = self._keys.get(self._plan.keys), self._bucket_of_key()
        parts = []
        for where, store in self._stores.items():
            pairs = None
            if isinstance(where, Asked):
                pairs = _Pairs(self._lanes[where], self._keys[where.store_keys], own)
            parts.append(_ByShard(store, pairs, bucket_of_key))
        for bucket in range(self._shards):
            used = np.zeros(1 if own is None else len(own), np.bool_)
            for part in parts:
                used[part.key[part.of(bucket)]] = True
            if not used.any():
                continue
            arrays: dict[str, Any] = {}
            number = np.cumsum(used) - 1
            for place, part in enumerate(parts):
                arrays |= {f"{place} {name}": array for name, array in part.arrays(bucket, number).items()}
            if own is not None:
                columns = own.take(np.flatnonzero(used))
                arrays |= {f"key {i}": column for i, column in enumerate(columns)}
            description = {
                "where": [str(where or "") for where in self._stores],
                "steps": [self._plan.steps[where] for where in self._stores],
                "greatest": greatest,
            }
            start = min(int(part.at[some[0]]) for part in parts if len(some := part.of(bucket)))
            yield bucket, start, pack(description, arrays).to_pybytes()
        self._begin()

    def _bucket_of_key(self) -> Ints:
        own = self._keys.get(self._plan.keys)
        if own is None:
            return np.zeros(1, np.int64)
        return shard_of_keys(own.take(np.arange(len(own))), self._shards)


class _Pairs:
    """Pairs of a key and a lane, by the id that cells know them by."""

    def __init__(self, lanes: Lanes, pairs: KeyDictionary, own: KeyDictionary | None):
        columns, keys = pairs.take(np.arange(len(pairs))), len(lanes.asked.keys)
        self.key = np.zeros(len(pairs), np.int64) if own is None else own.find(columns[:keys])
        self.columns = columns[keys:]  # values of attributes, and the ends of a band
        self.lane = lanes.find_folded(self.columns) if len(pairs) else self.key


class _ByShard:
    """The cells of one store, grouped by shard, in order of slice within each."""

    def __init__(self, store: SliceStore, pairs: _Pairs | None, bucket_of_key: Ints):
        self._store = store
        self._pairs = pairs
        cells = np.diff(store.first_cells(0))
        self.at = np.repeat(store.slice_start, cells)
        self.key = store.cell_key if store.keys else np.zeros(len(self.at), np.int64)
        if pairs is not None:
            self.key = pairs.key[store.cell_key]
        bucket = bucket_of_key[self.key]
        self._order = np.argsort(bucket.astype(np.int16), kind="stable")  # so narrow, it is sorted by radix
        self._edges = np.searchsorted(bucket[self._order], np.arange(bucket_of_key.max(initial=0) + 2))

    def of(self, bucket: int) -> Ints:
        """Which cells belong to a shard."""
        if bucket + 1 >= len(self._edges):
            return self._order[:0]
        return self._order[self._edges[bucket] : self._edges[bucket + 1]]

    def arrays(self, bucket: int, number: Ints) -> dict[str, Any]:
        """The cells that belong to a shard, as a chunk has them (shard/chunk.py); `number` is that of each key."""
        chosen = self.of(bucket)
        found: dict[str, Any] = {"at": self.at[chosen]}
        if self._pairs is None:
            found["key"] = number[self.key[chosen]]
        else:
            pair, found["key"] = np.unique(self._store.cell_key[chosen], return_inverse=True)
            _, one, lane = np.unique(self._pairs.lane[pair], return_index=True, return_inverse=True)
            found |= {"pair key": number[self._pairs.key[pair]], "pair lane": lane}
            of_lanes = [column.take(pa.array(pair[one])) for column in self._pairs.columns]
            found |= {f"lane {i}": column for i, column in enumerate(of_lanes)}
        for need in sorted(self._store.needs, key=str):
            found |= {f"{i} {need}": array[chosen] for i, array in enumerate(self._store.cells_of(need))}
        return found


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
