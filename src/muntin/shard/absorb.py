"""Absorbing: a shard takes in cells that were folded elsewhere, as if it had been given their events.

A chunk of cells is what one task folded: a description that JSON can hold, and arrays. The arrays `key 0`, `key 1`, …
are the different keys of the chunk. For each filter, in the order of `where`, `0 at`, `0 key` and `0 1 <need>` are the
slice, the number of the key and the partials of each cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muntin.arrays import Ints
from muntin.errors import CheckpointError
from muntin.shard.state import State
from muntin.store.cells import Cells
from muntin.store.slice_store import SliceStore

Chunk = tuple[dict[str, Any], dict[str, Any]]


def absorb(state: State, chunks: Sequence[Chunk]) -> None:
    """Take in cells of several chunks; all stores of the shard must be of slices. O(cells).

    Cells of slices that ended before the watermark are late, and left out.
    """
    state.settle_plan()
    ids = [_ids_of(state, arrays) for _, arrays in chunks]
    watermark = state.clock.promised
    cells = {}
    counted, starts = 0, []
    for store_id, store in state.stores.items():
        youngest = store.youngest
        if youngest is None:
            # Versions up to 0.1.0 chose the stores of a shard by what was registered before.
            raise CheckpointError(
                "this checkpoint keeps single events for a query that is folded now: go on with "
                "shared_windows(…, fold=False), or start from a new checkpoint"
            )
        parts = [
            _read_part(chunk, id_of, str(store_id.where or ""), youngest, watermark)
            for chunk, id_of in zip(chunks, ids, strict=True)
        ]
        at, key, partials = (list(column) for column in zip(*parts, strict=True))
        cells[store_id] = _joined(at, key, partials, youngest)
        counted = max(counted, len(cells[store_id]))
        starts += cells[store_id].at[:1].tolist()
    if not starts:
        return
    greatest = max(description["greatest"] for description, _ in chunks)
    state.forget()
    state.clock.count(counted, min(starts), max(greatest, min(starts)))
    for store_id, store in state.stores.items():
        store.insert(cells[store_id])
    state.meter.time_following(state.synopses, counted)
    state.sweepers.sweep()


def _ids_of(state: State, arrays: Mapping[str, Any]) -> Ints:
    """The id of each key of a chunk."""
    for keys in state.keys.values():
        return keys.encode([arrays[f"key {i}"] for i in range(sum(name[:4] == "key " for name in arrays))])
    return np.zeros(1, np.int64)


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
