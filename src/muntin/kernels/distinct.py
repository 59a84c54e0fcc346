"""Latest occurrences: a hash table of them, and a Fenwick tree that counts those in a run.

The table has places `code` and `last`, 0 <= place < a power of two; `last` is the number of the latest
element with that code, or -1 where the place is free. Collisions go to the next place, and a removal
moves later ones back, so no marks of removed codes pile up. `count[i]` of the Fenwick tree covers the
places (i - (i & -i), i] of a ring of elements; element `n` has place `n & (width - 1)`, counted from 1.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel
from muntin.kernels.sorted_runs import LEAF_BITS, first_not_below, split_run

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(32)


@kernel
def home_of(code, places):
    """Where a code would like to be."""
    bits = np.uint64(code)
    bits = (bits ^ (bits >> _FOLD)) * _GOLDEN
    return np.int64((bits ^ (bits >> _FOLD)) & np.uint64(places - 1))


@kernel
def find_place(code, table_code, table_last):
    """Place of a code, or the free place where it would go."""
    places = len(table_code)
    at = home_of(code, places)
    while table_last[at] >= 0 and table_code[at] != code:
        at = (at + 1) & (places - 1)
    return at


@kernel
def remove_place(at, table_code, table_last):
    """Free a place and close the gap."""
    mask = len(table_code) - 1
    table_last[at] = -1
    gap = at
    while True:
        at = (at + 1) & mask
        if table_last[at] < 0:
            return
        # one that may not move back further than its home stays
        if (at - home_of(table_code[at], mask + 1)) & mask >= (at - gap) & mask:
            table_code[gap] = table_code[at]
            table_last[gap] = table_last[at]
            table_last[at] = -1
            gap = at


@kernel
def rehash(table_code, table_last, into_code, into_last):
    """Fill an empty table, into_last all -1, with the codes of another."""
    for at in range(len(table_code)):
        if table_last[at] >= 0:
            place = find_place(table_code[at], into_code, into_last)
            into_code[place] = table_code[at]
            into_last[place] = table_last[at]


@kernel
def add_at(count, number, change):
    """One more or one fewer latest occurrence at an element; O(log n)."""
    width = len(count) - 1
    i = (number & (width - 1)) + 1
    while i <= width:
        count[i] += change
        i += i & -i


@kernel
def count_before(count, place):
    """Latest occurrences in the first `place` places of the ring; O(log n)."""
    total = 0
    while place > 0:
        total += count[place]
        place &= place - 1
    return total


@kernel
def count_latest(table_last, count):
    """Fill an empty Fenwick tree from the table."""
    for at in range(len(table_last)):
        if table_last[at] >= 0:
            add_at(count, table_last[at], 1)


@kernel
def append_codes(code, end, previous, table_code, table_last, count, size):
    """Elements `end`, `end` + 1, … arrive. Stops when the table is half full.

    Returns how many came in, and the number of different codes now.
    """
    for i in range(len(code)):
        if 2 * size >= len(table_code):
            return i, size
        at = find_place(code[i], table_code, table_last)
        previous[i] = table_last[at]
        if table_last[at] >= 0:
            add_at(count, table_last[at], -1)
        else:
            table_code[at] = code[i]
            size += 1
        table_last[at] = end + i
        add_at(count, end + i, 1)
    return len(code), size


@kernel
def rewind_codes(code, previous, start, first, table_code, table_last, count, size):
    """Take back elements, numbered from `start`, newest first; returns the number of codes left."""
    for i in range(len(code) - 1, -1, -1):
        at = find_place(code[i], table_code, table_last)
        add_at(count, start + i, -1)
        if previous[i] >= first:
            table_last[at] = previous[i]
            add_at(count, previous[i], 1)
        else:
            remove_place(at, table_code, table_last)
            size -= 1
    return size


@kernel
def forget_codes(code, first, table_code, table_last, count, size):
    """Drop elements, numbered from `first`, oldest first; returns the number of codes left."""
    for i in range(len(code)):
        at = find_place(code[i], table_code, table_last)
        if table_last[at] == first + i:
            remove_place(at, table_code, table_last)
            add_at(count, first + i, -1)
            size -= 1
    return size


@kernel
def count_suffixes(lo, first, count, size, found):
    """Different codes in [lo, end): all but those seen last in [first, lo). O(log n) each."""
    mask = len(count) - 2
    start = first & mask
    before_start = count_before(count, start)
    for q in range(len(lo)):
        stop = lo[q] & mask
        gone = count_before(count, stop) - before_start
        if stop < start or (stop == start and lo[q] > first):
            gone += size
        found[q] = size - gone


@kernel
def count_runs(rows, lo, hi, found):
    """Different codes in [lo, hi): elements whose previous occurrence lies before lo. O(log^2 W) each.

    `rows` are sorted runs of the numbers of previous occurrences.
    """
    flat = rows.reshape(-1)
    mask = rows.shape[1] - 1
    start = np.empty(2 * (LEAF_BITS + rows.shape[0]), np.int64)
    stop = np.empty_like(start)
    for q in range(len(lo)):
        pieces, a, z = split_run(rows, lo[q], hi[q], start, stop, 0)
        total = 0
        for n in range(lo[q], a):
            total += rows[0, n & mask] < lo[q]
        for n in range(z, hi[q]):
            total += rows[0, n & mask] < lo[q]
        for p in range(pieces):
            total += first_not_below(flat, start[p], stop[p], lo[q]) - start[p]
        found[q] = total
