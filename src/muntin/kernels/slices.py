"""Assign events to cells, one cell per (slice, key) that holds an event, and read them key by key."""

from __future__ import annotations

import numpy as np

from muntin.kernels.combine import combine, put, take
from muntin.kernels.jit import kernel, kernel_per_kind


@kernel
def number_slices(at, start, step, number, events):
    """Number slices of one width from the one at `start` on: which one each event falls in, and how many each has."""
    # A product with the inverse is off by less than one while there are fewer than 2 ** 51 slices, and several are made
    # in a step. To divide takes four times as long.
    inverse = 1.0 / step
    for i in range(len(at)):
        far = at[i] - start
        n = np.int64(far * inverse)
        n -= n * step > far
        n += (n + 1) * step <= far
        number[i] = n
    for i in range(len(at)):
        events[number[i]] += 1


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


@kernel
def append_cells(lo, hi, key, last, begin, following, cell_of_event, new_key, new_prior, first_cell):
    """Assign events of the newest slices to cells; returns how many cells are new.

    Run `r` of events, `lo[r] .. hi[r] - 1`, is a slice. The first one's cells begin at number `begin`,
    before `following` if the slice has been there already; new cells are numbered from `following`
    on. `last[k]` is the number of key k's newest cell, `prior` leads from a cell to the one before it
    of the same key: so a cell is found without a search, and a key's cells without the others'.
    """
    made = following
    for r in range(len(lo)):
        if r > 0:
            begin = made
        first_cell[r] = begin
        for i in range(lo[r], hi[r]):
            k = key[i]
            c = last[k]
            if c < begin:
                new_key[made - following] = k
                new_prior[made - following] = c
                c = made
                last[k] = c
                made += 1
            cell_of_event[i] = c
    return made - following


@kernel
def link_cells(key, first, last, prior):
    """Chain the cells numbered from `first` on, whose keys are given, behind those before them."""
    for i in range(len(key)):
        k = key[i]
        prior[i] = last[k]
        last[k] = first + i


@kernel
def unlink_cells(key, prior, last):
    """Take the newest cells out of their chains."""
    for i in range(len(key) - 1, -1, -1):
        last[key[i]] = prior[i]


@kernel_per_kind
def merge_chains(kind):
    """Partials of some keys over runs of cells `lo[r] .. hi[r] - 1` (numbers); slot `r * keys + j`.

    Follows each key's chain back from its newest cell; older cells stand left of newer ones. The state arrays of the
    cells come first, then those of the slots.
    """
    parts = len(kind._fields)

    def merge_chains(prior, dropped, last, ids, lo, hi, *arrays):
        cells = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        width = len(ids)
        for r in range(len(lo)):
            for j in range(width):
                c = last[ids[j]] if ids[j] < len(last) else -1
                while c >= hi[r]:
                    c = prior[c - dropped]
                slot = r * width + j
                merged = take(into, slot)
                while c >= lo[r]:
                    merged = combine(cells, take(cells, c - dropped), merged)
                    c = prior[c - dropped]
                put(into, slot, merged)

    return merge_chains


@kernel_per_kind
def merge_points(kind):
    """Partials of key `ids[p]` over the cells `lo[p] .. hi[p] - 1` (numbers), for each point p; as `merge_chains`.

    Where a point is of the same key as the one before it and ends no later, its chain is followed from there.
    """
    parts = len(kind._fields)

    def merge_points(prior, dropped, last, ids, lo, hi, *arrays):
        cells = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        newest = -1
        for p in range(len(ids)):
            if p == 0 or ids[p] != ids[p - 1] or hi[p] > hi[p - 1]:
                newest = last[ids[p]] if ids[p] < len(last) else -1
            while newest >= hi[p]:
                newest = prior[newest - dropped]
            merged, c = take(into, p), newest
            while c >= lo[p]:
                merged = combine(cells, take(cells, c - dropped), merged)
                c = prior[c - dropped]
            put(into, p, merged)

    return merge_points


@kernel
def _follow(cells, prior, dropped, newest, lo, hi):
    c = newest
    while c >= hi:
        c = prior[c - dropped]
    merged = take(cells, 0)
    count = 0
    while c >= lo:
        cell = take(cells, c - dropped)
        merged = combine(cells, cell, merged) if count else cell
        count += 1
        c = prior[c - dropped]
    return merged, count


@kernel_per_kind
def follow_chain(kind):
    """The partial of a key's cells numbered `lo .. hi - 1`, and how many there are; its newest is given."""

    def follow_one(prior, dropped, newest, lo, hi, one):
        return _follow(kind(one), prior, dropped, newest, lo, hi)

    def follow_two(prior, dropped, newest, lo, hi, one, two):
        return _follow(kind(one, two), prior, dropped, newest, lo, hi)

    def follow_three(prior, dropped, newest, lo, hi, one, two, three):
        return _follow(kind(one, two, three), prior, dropped, newest, lo, hi)

    # `*arrays` would cost as much as a third of the call
    return (follow_one, follow_two, follow_three)[len(kind._fields) - 1]
