"""Absorbing: a shard takes in cells that were folded elsewhere, as if it had been given their events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muntin.operator.shard import Shard
from muntin.plan.store import StoreId
from muntin.store.aging_slices import StairStore
from muntin.store.cells import Cells
from muntin.store.slice_store import SliceStore


class Counted(NamedTuple):
    """The events behind some cells: how many, and from which time to which."""

    events: int
    least: int
    greatest: int


def absorb(shard: Shard, cells: Mapping[StoreId, Cells], counted: Counted) -> None:
    """Take in cells for each store; all stores of the shard must be of slices or stairs. O(cells).

    The cells' keys are ids of the shard's dictionaries, and none of them lies before the watermark: that is
    for the caller to see to, who knows how wide their slices are.
    """
    shard.settle_plan()
    shard.forget()
    shard.clock.count(*counted)
    for store_id, store in shard.stores.items():
        assert isinstance(store, SliceStore | StairStore)
        store.insert(cells[store_id])
    shard.meter.follow(shard.synopses, counted.events)
    shard.sweepers.sweep()
