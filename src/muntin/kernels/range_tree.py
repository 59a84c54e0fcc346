"""Base intervals sorted by an attribute, each with a tree of partials over that order.

Element number `n` has place `n & (width - 1)`, for a width that is a power of two. `keys` and `order`
have a row per level: row 0 of `keys` holds the elements as they came; row r >= 1 holds each base
interval of `LEAF << (r - 1)` elements in order of their key, and `order` which of the interval's
elements it is, counted from its first. Intervals are aligned to their length, so none wraps.

Cells are partials of one component. The first `width` are those of the elements, by place. Then each
row has `2 * (width >> BLOCK_BITS)`: the partials of blocks of `BLOCK` neighbours in its order, of two
blocks, of four, …, up to the whole interval.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.combine import combine, put, take
from muntin.kernels.instructions import leading_zeros, trailing_zeros
from muntin.kernels.jit import kernel
from muntin.kernels.sorted_runs import first_above, first_not_below, piece_at

# Shorter intervals are not kept: look-ups test the loose elements at both ends of a run one by one.
LEAF_BITS = 6  # what `sort_leaf` sorts
LEAF = 1 << LEAF_BITS
# Nor are partials of fewer neighbours: those at both ends of a band are read one by one.
BLOCK_BITS = 3
BLOCK = 1 << BLOCK_BITS


@kernel
def put_elements(ring, start, values):
    """Elements `start`, `start` + 1, … get their place."""
    mask = len(ring) - 1
    for i in range(len(values)):
        ring[np.uint64((start + i) & mask)] = values[i]


@kernel
def sort_few(source, lo, count, keys, order):
    """Insertion sort, stable, of `count` elements into the same places of `keys` and `order`."""
    for i in range(count):
        key = source[lo + i]
        at = lo + i
        while at > lo and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            order[at] = order[at - 1]
            at -= 1
        keys[at] = key
        order[at] = i


@kernel
def merge_halves(source, source_order, lo, half, into, into_order, to):
    """Stable merge of two sorted halves with their order, from both ends at once (see sorted_runs).

    With signed indices, which must be tested for counting from the end, it took twice as long.
    """
    one = np.uint64(1)
    a, b = np.uint64(lo), np.uint64(lo + half)
    c, d = b - one, b + np.uint64(half) - one
    front, back = np.uint64(to), np.uint64(to + 2 * half - 1)
    step = np.int32(half)
    for _ in range(half):
        x, y = source[a], source[b]
        i, j = source_order[a], np.int32(source_order[b] + step)
        is_left = x <= y
        into[front] = x if is_left else y
        into_order[front] = i if is_left else j
        a += np.uint64(is_left)
        b += np.uint64(not is_left)
        front += one
        x, y = source[c], source[d]
        i, j = source_order[c], np.int32(source_order[d] + step)
        is_left = x > y
        into[back] = x if is_left else y
        into_order[back] = i if is_left else j
        c -= np.uint64(is_left)
        d -= np.uint64(not is_left)
        back -= one


@kernel
def sort_leaf(source, lo, keys, order, spare_keys, spare_order):
    """Sort the LEAF elements from place `lo` on: by sixteens, which are merged to and fro."""
    for i in range(0, LEAF, 16):
        sort_few(source, lo + i, 16, keys, order)
    for i in range(0, LEAF, 32):
        merge_halves(keys, order, lo + i, 16, spare_keys, spare_order, i)
    merge_halves(spare_keys, spare_order, 0, 32, keys, order, lo)


@kernel
def sort_intervals(keys, order, start, end, first):
    """Sort the intervals that end in (start, end] and begin at `first` or later."""
    mask = keys.shape[1] - 1
    spare_keys, spare_order = np.empty(LEAF, np.int64), np.empty(LEAF, np.int32)
    for row in range(1, keys.shape[0]):
        bits = LEAF_BITS + row - 1
        for q in range(start >> bits, end >> bits):
            if q << bits < first:
                continue
            lo = (q << bits) & mask
            if row == 1:
                sort_leaf(keys[0], lo, keys[1], order[1], spare_keys, spare_order)
            else:
                merge_halves(keys[row - 1], order[row - 1], lo, 1 << (bits - 1), keys[row], order[row], lo)


@kernel
def fold_intervals(cells, order, start, end, first):
    """Combine the trees of the same intervals, which are sorted."""
    width = order.shape[1]
    blocks = width >> BLOCK_BITS
    for row in range(1, order.shape[0]):
        bits = LEAF_BITS + row - 1
        base = width + (row - 1) * 2 * blocks
        which = order[row]
        for q in range(start >> bits, end >> bits):
            if q << bits < first:
                continue
            lo = (q << bits) & (width - 1)
            block = base + (lo >> BLOCK_BITS)
            for i in range(1 << (bits - BLOCK_BITS)):
                at = lo + (i << BLOCK_BITS)
                total = take(cells, lo + which[np.uint64(at)])
                for j in range(1, BLOCK):
                    total = combine(cells, total, take(cells, lo + which[np.uint64(at + j)]))
                put(cells, block + i, total)
            for level in range(1, bits - BLOCK_BITS + 1):
                below = base + 2 * (blocks - (blocks >> (level - 1))) + (lo >> (BLOCK_BITS + level - 1))
                above = base + 2 * (blocks - (blocks >> level)) + (lo >> (BLOCK_BITS + level))
                for i in range(1 << (bits - BLOCK_BITS - level)):
                    left = below + 2 * i
                    put(cells, above + i, combine(cells, take(cells, left), take(cells, left + 1)))


@kernel
def count_bands(keys, lo, hi, low, high, out):
    """out[r] = how many elements of run [lo[r], hi[r]) have a key from low[r] to high[r]."""
    mask = keys.shape[1] - 1
    highest = LEAF_BITS + keys.shape[0] - 2
    for r in range(len(lo)):
        a = min((lo[r] + LEAF - 1) >> LEAF_BITS << LEAF_BITS, hi[r])
        z = max(hi[r] >> LEAF_BITS << LEAF_BITS, a)
        count = 0
        for n in range(lo[r], a):
            count += low[r] <= keys[0, n & mask] <= high[r]
        for n in range(z, hi[r]):
            count += low[r] <= keys[0, n & mask] <= high[r]
        bits = LEAF_BITS
        while a < z:
            bits = piece_at(a, z, bits, highest)
            run = keys[bits - LEAF_BITS + 1]
            start = a & mask
            begin = first_not_below(run, start, start + (1 << bits), low[r])
            count += first_above(run, begin, start + (1 << bits), high[r]) - begin
            a += 1 << bits
        out[r] = count


@kernel
def combine_bands(cells, keys, order, lo, hi, low, high, out):
    """Combine the elements of each run that lie in its band into `out`, which holds identities.

    In no order that means anything: components for which order matters carry it with them.
    """
    width = keys.shape[1]
    mask = width - 1
    blocks = width >> BLOCK_BITS
    highest = LEAF_BITS + keys.shape[0] - 2
    for r in range(len(lo)):
        a = min((lo[r] + LEAF - 1) >> LEAF_BITS << LEAF_BITS, hi[r])
        z = max(hi[r] >> LEAF_BITS << LEAF_BITS, a)
        total = take(out, r)
        for n in range(lo[r], a):
            if low[r] <= keys[0, n & mask] <= high[r]:
                total = combine(cells, total, take(cells, n & mask))
        bits = LEAF_BITS
        while a < z:
            bits = piece_at(a, z, bits, highest)
            row = bits - LEAF_BITS + 1
            start = a & mask
            at = first_not_below(keys[row], start, start + (1 << bits), low[r])
            stop = first_above(keys[row], at, start + (1 << bits), high[r])
            base = width + (row - 1) * 2 * blocks
            while at < stop:
                level = min(trailing_zeros(at), 63 - leading_zeros(stop - at)) - BLOCK_BITS
                if level < 0:
                    total = combine(cells, total, take(cells, start + order[row, at]))
                    at += 1
                else:
                    # no longer than the interval: it begins within it and ends by its end
                    cell = base + 2 * (blocks - (blocks >> level)) + (at >> (BLOCK_BITS + level))
                    total = combine(cells, total, take(cells, cell))
                    at += BLOCK << level
            a += 1 << bits
        for n in range(z, hi[r]):
            if low[r] <= keys[0, n & mask] <= high[r]:
                total = combine(cells, total, take(cells, n & mask))
        put(out, r, total)
