"""How wide a window is in elements of its store: what its look-ups cost depends on it."""

from __future__ import annotations

from muntin.store.aging_slices import StairStore
from muntin.store.granularity import granules_within
from muntin.store.ring import EventRing
from muntin.store.sequence import Sequence
from muntin.store.slice_store import SliceStore


def elements_in(width: int, is_time: bool, store: Sequence) -> float:
    """About how many elements a window holds: for time windows over events, at their mean rate; O(1)."""
    kept = len(store)
    if not is_time:
        return float(min(width, kept))
    if isinstance(store, SliceStore):
        return float(min(width // store.grid.step, kept))
    if isinstance(store, StairStore):
        return float(min(granules_within(store.plan, width), kept))
    assert isinstance(store, EventRing)
    if not kept:
        return 0.0
    lasted = int(store.at[-1]) - int(store.at[0]) + 1
    return kept * min(1.0, width / lasted)
