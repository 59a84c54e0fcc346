"""A layout of cells: where those go that are there, and those that a batch adds, when it does not simply follow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.slices import assign_cells


class Layout(NamedTuple):
    """Slices and cells after a batch, counted from the first slice that it touches."""

    start: Ints
    first_cell: Ints
    key: Ints  # of each cell
    cell_of_event: Ints
    cell_of_old: Ints


def lay_out(old_start: Ints, old_offset: Ints, old_key: Ints, event_slice: Ints, event_key: Ints) -> Layout:
    """Where the cells of `old_start` go, and those of events in order of time, which need not be later. O(both)."""
    most_slices, most_cells = len(old_start) + len(event_slice), len(old_key) + len(event_slice)
    start, offset = np.empty(most_slices, np.int64), np.empty(most_slices + 1, np.int64)
    key, cell_of_event = np.empty(most_cells, np.int64), np.empty(len(event_slice), np.int64)
    cell_of_old = np.empty(len(old_key), np.int64)
    known = int(max(event_key.max(), old_key.max(initial=0))) + 1
    cell_of_key, slice_of_key = np.empty(known, np.int64), np.full(known, -1)
    slices, cells = assign_cells(
        event_slice, event_key, old_start, old_offset, old_key, cell_of_key, slice_of_key,
        start, offset, key, cell_of_event, cell_of_old,
    )  # fmt: skip
    return Layout(start[:slices], offset[:slices], key[:cells], cell_of_event, cell_of_old)
