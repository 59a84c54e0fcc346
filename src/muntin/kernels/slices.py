"""Assign events to cells, one cell per (slice, key) that holds an event."""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def assign_cells(event_slice, event_key, old_slice, old_offset, old_key, cell_of_key, slice_of_key,
                 new_slice, new_offset, new_key, cell_of_event, cell_of_old):  # fmt: skip
    """Lay out the cells of old slices and a batch together; returns (slices, cells) used.

    `event_slice` ascends. Old slice `j` owns old cells `old_offset[j] .. old_offset[j + 1] - 1`. In
    each slice old cells come first, then new keys as they appear. `cell_of_key` and `slice_of_key`
    are scratch, one element per key, `slice_of_key` filled with -1.
    """
    slices = 0
    cells = 0
    i = 0
    j = 0
    events = len(event_slice)
    olds = len(old_slice)
    while i < events or j < olds:
        if j >= olds or (i < events and event_slice[i] <= old_slice[j]):
            start = event_slice[i]
        else:
            start = old_slice[j]
        new_slice[slices] = start
        new_offset[slices] = cells
        if j < olds and old_slice[j] == start:
            for c in range(old_offset[j], old_offset[j + 1]):
                k = old_key[c]
                new_key[cells] = k
                cell_of_old[c] = cells
                cell_of_key[k] = cells
                slice_of_key[k] = slices
                cells += 1
            j += 1
        while i < events and event_slice[i] == start:
            k = event_key[i]
            if slice_of_key[k] != slices:
                slice_of_key[k] = slices
                cell_of_key[k] = cells
                new_key[cells] = k
                cells += 1
            cell_of_event[i] = cell_of_key[k]
            i += 1
        slices += 1
    new_offset[slices] = cells
    return slices, cells
