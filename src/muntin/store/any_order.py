"""Events out of order, folded as they stand: to sort them takes ten times as long as to fold them.

Without keys a batch has few slices, so each event finds the cell of its own by a division. What the cells hold then is
what sorted events would have given, as long as it does not depend on which of two events came first.
"""

from __future__ import annotations

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.arrays import scratch
from muntin.kernels.slices import number_slices
from muntin.kernels.times import extremes_of
from muntin.store.batch import Batch
from muntin.store.cells import TOGETHER, Cells, fold_cells
from muntin.store.grid import Grid
from muntin.store.needs import EVERY_EVENT, Need, dtype_of


def in_slices(batch: Batch, grid: Grid, needs: tuple[Need, ...]) -> Batch:
    """Events without keys in order of slice, as one cell for each slice that has some; O(events). Where the order of
    events tells, they are sorted: a sum of floats is off by other bits, FIRST is another value."""
    if batch.is_in_order:
        return batch
    least, greatest = (int(each) for each in extremes_of(batch.at))
    start = int(grid.start_of(np.array([least]))[0])
    slices = (greatest - start) // grid.step + 1
    is_any_order = all(need.component in TOGETHER and dtype_of(need).kind == "i" for need in needs)
    if not is_any_order or not grid.is_uniform_from(start) or slices > len(batch):
        return batch.in_order()
    cell, events = scratch("cell", len(batch)), np.zeros(slices, np.int64)
    number_slices(batch.at, start, grid.step, cell, events)
    into = {
        need: COMPONENTS[need.component].start(dtype_of(need), slices)
        for need in needs
        if need != EVERY_EVENT
    }
    fold_cells(batch, cell, 0, into)
    if EVERY_EVENT in needs:
        into[EVERY_EVENT] = (events,)
    held = np.flatnonzero(events)
    partials = {need: tuple(array[held] for array in partial) for need, partial in into.items()}
    return Cells(start + held * grid.step, np.zeros(len(held), np.int64), partials)
