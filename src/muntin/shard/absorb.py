"""Absorbing: a shard takes in cells that were folded elsewhere, as if it had been given their events.

Where events are folded nobody knows the plan of the shards, which follows from all that they have kept. So filters that
could be lanes are folded by lanes. A store of lanes takes such cells as they are, in bands of its own; a store with a
filter takes the cells of all lanes that pass it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.errors import CheckpointError
from muntin.expression import Expression
from muntin.lane import Asked, Laned
from muntin.plan.demand import Demands
from muntin.plan.lanes import folded_by_lanes
from muntin.shard.chunk import Chunk, LanedPart, Part
from muntin.shard.state import State
from muntin.store.cells import Cells, arrange
from muntin.store.needs import Need, dtype_of
from muntin.store.slice_store import SliceStore

Folded = tuple[dict[str, Any], dict[str, Any]]  # a chunk as it was unpacked


def absorb(state: State, folded: Sequence[Folded]) -> None:
    """Take in cells of several chunks; all stores of the shard must be of slices. O(cells).

    Cells of slices that ended before the watermark are late, and left out.
    """
    state.settle_plan()
    chunks = [Chunk(*each, state.clock.promised) for each in folded]
    taking = _Taking(state, chunks)
    cells = {}
    counted = 0
    for store_id, store in state.stores.items():
        if store.youngest is None:
            # Versions up to 0.1.0 chose the stores of a shard by what was registered before.
            raise CheckpointError(
                "this checkpoint keeps single events for a query that is folded now: go on with "
                "shared_windows(…, fold=False), or start from a new checkpoint"
            )
        cells[store_id] = taking.cells_for(store.youngest)
        counted = max(counted, len(cells[store_id]))
    first = min((start for chunk in chunks for start in chunk.starts()), default=None)
    if first is None:
        return
    greatest = max(chunk.greatest for chunk in chunks)
    state.forget()
    state.clock.count(counted, first, max(greatest, first))
    for store_id, store in state.stores.items():
        store.insert(cells[store_id])
    state.meter.time_following(state.synopses, counted)
    state.sweepers.sweep()


class _Taken(NamedTuple):
    """Cells of one chunk for one store, with its ids of keys; partials of some of the needs of the store."""

    at: Ints
    key: Ints
    partials: dict[Need, Partial]


class _Source(NamedTuple):
    """The lanes that a need of a filter can be had from, and what it is called there."""

    laned: Laned
    need: Need


class _Taking:
    """What chunks have for the stores of a shard."""

    def __init__(self, state: State, chunks: Sequence[Chunk]):
        self._state = state
        self._chunks = chunks
        self._ids: dict[tuple[int, tuple[Expression, ...]], Ints] = {}  # of the keys of each chunk
        self._sources: dict[tuple[Expression | None, Need], _Source] | None = None

    def cells_for(self, store: SliceStore) -> Cells:
        """In order of slice."""
        if isinstance(store.where, Asked):
            asked = store.where
            return _joined(
                [self._of_lanes(number, asked, store) for number in range(len(self._chunks))], store
            )
        taken = [each for number in range(len(self._chunks)) for each in self._of_filter(number, store)]
        if all(each.partials.keys() == set(store.needs) for each in taken):
            return _joined(taken, store)
        return _merged(taken, store)

    def _ids_of(self, number: int, keys: tuple[Expression, ...]) -> Ints:
        """The id of each key of a chunk."""
        if (number, keys) not in self._ids:
            columns = self._chunks[number].key_columns(keys) if keys else []
            ids = self._state.keys[keys].encode(columns) if keys else np.zeros(1, np.int64)
            self._ids[number, keys] = ids
        return self._ids[number, keys]

    def _of_lanes(self, number: int, asked: Asked, store: SliceStore) -> _Taken:
        part = self._laned_part(number, asked)
        pair = self._pairs_of(number, asked, part)[part.number]
        kept = part.in_time[pair[part.in_time] >= 0]
        return _take(part, kept, pair[kept], {need: need for need in store.needs})

    def _pairs_of(self, number: int, asked: Asked, part: LanedPart) -> Ints:
        """The id of each pair of a part; -1 if nobody here asks for its lane."""
        lanes, keys = self._state.lanes[asked], asked.keys
        lane = lanes.find_folded(part.lanes)[part.pair_lane]
        asked_for = np.flatnonzero(lane >= 0)
        key = self._ids_of(number, keys)[part.pair_key[asked_for]] if keys else None

        def values_of(some: Ints) -> list[pa.Array]:
            pairs = asked_for[some]
            key_at, lane_at = (pa.array(each[pairs]) for each in (part.pair_key, part.pair_lane))
            of_keys = self._chunks[number].key_columns(keys) if keys else []
            of_lanes = part.lanes[: len(asked.attributes)]
            return [*(each.take(key_at) for each in of_keys), *(each.take(lane_at) for each in of_lanes)]

        ids = np.full(len(lane), -1)
        pairs = self._state.keys[asked.store_keys]
        ids[asked_for] = lanes.pair_ids(pairs, key, lane[asked_for], values_of)
        return ids

    def _of_filter(self, number: int, store: SliceStore) -> list[_Taken]:
        """From cells that were folded by the filter of a store, and from those of lanes."""
        part = self._chunks[number].part(store.where, store.keys)
        ids = self._ids_of(number, store.keys)
        own = {need: need for need in store.needs if part is not None and part.has(need)}
        taken = []
        if part is not None and own:
            taken.append(_take(part, part.in_time, ids[part.number[part.in_time]], own))
        in_lanes: dict[Laned, dict[Need, Need]] = {}
        for need in store.needs:
            if need not in own:
                laned, called = self._source(store.where, need)
                in_lanes.setdefault(laned, {})[need] = called
        for laned, needs in in_lanes.items():
            other = self._laned_part(number, laned.asked)
            kept = other.places_of(laned.lanes)
            taken.append(_take(other, kept, ids[other.pair_key[other.number[kept]]], needs))
        return taken

    def _laned_part(self, number: int, asked: Asked) -> LanedPart:
        part = self._chunks[number].part(asked, asked.keys)
        if not isinstance(part, LanedPart):
            raise _not_folded(asked)
        return part

    def _source(self, where: Expression | None, need: Need) -> _Source:
        """Where a need can be had from that was not folded by its own filter."""
        if self._sources is None:
            self._sources = dict(_sources_of(self._state))
        if (where, need) not in self._sources:
            raise _not_folded(where)
        return self._sources[where, need]


def _sources_of(state: State) -> Iterator[tuple[tuple[Expression | None, Need], _Source]]:
    """For what queries have kept by filters of their own: the lanes it was folded by. O(queries)."""
    for name, placement in state.manager.placements.items():
        of_calls = [None if each is None or each.is_read else each.laned for each in placement.of_calls]
        whole = None if placement.is_among_lanes else placement.laned
        if whole is None and not any(of_calls):
            continue
        calls = tuple(tuple(demand for _, demand in call) for call in placement.calls)
        alone = Demands(calls, tuple(demand for _, demand in placement.presence))
        for mine, theirs, laned in folded_by_lanes(state.registrations[name].query, alone, whole, of_calls):
            if mine is not None and theirs is not None and laned is not None:
                yield (mine.where, mine.need), _Source(laned, theirs.need)


def _not_folded(where: Expression | None) -> CheckpointError:
    return CheckpointError(f"nothing was folded by {where or 'no filter'}, which a query here has")


def _take(part: Part, kept: Ints, key: Ints, needs: Mapping[Need, Need]) -> _Taken:
    """Some cells of a part; `needs` are what a store needs, and what it is called there."""
    partials = {need: tuple(array[kept] for array in part.partial(called)) for need, called in needs.items()}
    return _Taken(part.at[kept], key, partials)


def _joined(taken: Sequence[_Taken], store: SliceStore) -> Cells:
    """Cells that have all needs of a store, in order of slice."""
    at = np.concatenate([each.at for each in taken])
    order = np.argsort(at, kind="stable") if len(taken) > 1 else np.arange(len(at))
    partials = {
        need: tuple(
            np.concatenate(arrays)[order]
            for arrays in zip(*(each.partials[need] for each in taken), strict=True)
        )
        for need in store.needs
    }
    return Cells(at[order], np.concatenate([each.key for each in taken])[order], partials)


def _merged(taken: Sequence[_Taken], store: SliceStore) -> Cells:
    """Cells that have some needs of a store each, put together: one for each slice and key."""
    at, key = (np.concatenate([each[column] for each in taken]) for column in (0, 1))
    order = np.argsort(at, kind="stable")
    cell_of, starts, keys = np.empty(len(at), np.int64), at[:0], key[:0]
    if len(at):
        arranged = arrange(at[:0], np.zeros(1, np.int64), key[:0], at[order], key[order])
        cell_of[order], keys = arranged.cell_of_event, arranged.key
        starts = np.repeat(arranged.start, np.diff(arranged.first_cell, append=len(keys)))
    partials = {}
    for need in store.needs:
        partials[need] = COMPONENTS[need.component].start(dtype_of(need), len(keys))
    begin = 0
    for each in taken:
        end = begin + len(each.at)
        for need, partial in each.partials.items():
            lo, hi = np.zeros(1, np.int64), np.full(1, len(each.at))
            COMPONENTS[need.component].merge(lo, hi, 0, cell_of[begin:end], partial, partials[need])
        begin = end
    return Cells(starts, keys, partials)
