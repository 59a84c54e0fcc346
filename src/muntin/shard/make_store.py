"""A store of the kind that its id names, which begins now."""

from __future__ import annotations

from muntin.plan.group import STREAM_RING, StoreId
from muntin.shard.clock import Clock
from muntin.store.aging_slices import AgingSlices
from muntin.store.ring import EventRing
from muntin.store.sequence import Sequence
from muntin.store.session_store import SessionStore
from muntin.store.slice_store import SliceStore

_CELLS = {"slices": SliceStore, "stairs": AgingSlices, "sessions": SessionStore}


def make_store(store_id: StoreId, clock: Clock) -> Sequence:
    """An empty one."""
    if store_id.kind != "ring":
        cells: Sequence = _CELLS[store_id.kind](store_id.where, store_id.keys)
        return cells
    ring = EventRing(store_id.where)
    if clock.now is not None:
        # only the ring of the whole stream can know how many events it missed
        ring.begin_at(clock.now, clock.events if store_id == STREAM_RING else None)
    return ring
