"""Assign events to cells, one cell per (slice, key) that holds an event, and read them key by key."""

from __future__ import annotations

from muntin.kernels.combine import (
    Counts,
    Firsts,
    FloatSums,
    Greatests,
    IntSums,
    Lasts,
    Leasts,
    Moments,
    combine,
    put,
    take,
)
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


@kernel
def merge_chains(cells, prior, dropped, last, ids, lo, hi, into):
    """Partials of some keys over runs of cells `lo[r] .. hi[r] - 1` (numbers); slot `r * keys + j`.

    Follows each key's chain back from its newest cell; older cells stand left of newer ones.
    """
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


@kernel
def follow_chain(cells, prior, dropped, newest, lo, hi):
    """The partial of a key's cells numbered `lo .. hi - 1`, and how many there are; its newest is given."""
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


# For a single key: to take a NamedTuple out of Python costs as much as all the rest, so these take the
# arrays, and say by their name of which component they are.


@kernel
def follow_counts(prior, dropped, newest, lo, hi, count):
    return follow_chain(Counts(count), prior, dropped, newest, lo, hi)


@kernel
def follow_int_sums(prior, dropped, newest, lo, hi, total, shadow):
    return follow_chain(IntSums(total, shadow), prior, dropped, newest, lo, hi)


@kernel
def follow_float_sums(prior, dropped, newest, lo, hi, high, low):
    return follow_chain(FloatSums(high, low), prior, dropped, newest, lo, hi)


@kernel
def follow_leasts(prior, dropped, newest, lo, hi, value):
    return follow_chain(Leasts(value), prior, dropped, newest, lo, hi)


@kernel
def follow_greatests(prior, dropped, newest, lo, hi, value):
    return follow_chain(Greatests(value), prior, dropped, newest, lo, hi)


@kernel
def follow_firsts(prior, dropped, newest, lo, hi, value, at):
    return follow_chain(Firsts(value, at), prior, dropped, newest, lo, hi)


@kernel
def follow_lasts(prior, dropped, newest, lo, hi, value, at):
    return follow_chain(Lasts(value, at), prior, dropped, newest, lo, hi)


@kernel
def follow_moments(prior, dropped, newest, lo, hi, count, mean, m2):
    return follow_chain(Moments(count, mean, m2), prior, dropped, newest, lo, hi)


FOLLOWS = {
    Counts: follow_counts, IntSums: follow_int_sums, FloatSums: follow_float_sums, Leasts: follow_leasts,
    Greatests: follow_greatests, Firsts: follow_firsts, Lasts: follow_lasts, Moments: follow_moments,
}  # fmt: skip
