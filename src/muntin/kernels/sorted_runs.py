"""Sorted base intervals in a ring: sort the leaves, merge halves, split a run into pieces.

`rows` is a 2-d array whose width is a power of two. Element number `n` has place `n & (width - 1)` in
every row. Row 0 holds the elements as they came; row r >= 1 holds, sorted, each base interval of
`LEAF << (r - 1)` elements, at the places of its elements. Intervals are aligned to their length, so
none wraps around the end of the ring.
"""

from __future__ import annotations

from muntin.kernels.jit import kernel

# Intervals below 16 elements are not kept: look-ups sort the loose ends of a run themselves. Of 8, 16 and
# 32, this was the fastest in look-ups, and as fast as any in updates.
LEAF_BITS = 4
LEAF = 1 << LEAF_BITS


@kernel
def merge_halves(source, lo, half, into):
    """Stable merge of the sorted source[lo : lo + half] and the `half` elements after it.

    From both ends at once: `half` steps each can run off neither half, so no step tests for an end,
    and the two chains of steps overlap in the processor.
    """
    a, b = lo, lo + half
    c, d = b - 1, b + half - 1
    front, back = lo, d
    for _ in range(half):
        x, y = source[a], source[b]
        is_left = x <= y
        into[front] = x if is_left else y
        a += is_left
        b += not is_left
        front += 1
        x, y = source[c], source[d]
        is_left = x > y
        into[back] = x if is_left else y
        c -= is_left
        d -= not is_left
        back -= 1


@kernel
def insert_sorted(value, lo, end, into):
    """Put `value` after all that are not greater in the sorted into[lo:end]."""
    i = end
    while i > lo and into[i - 1] > value:
        into[i] = into[i - 1]
        i -= 1
    into[i] = value


@kernel
def build_runs(rows, from_row, start, end, first):
    """Sort the intervals that end in (start, end] and begin at `first` or later, from row `from_row` on."""
    mask = rows.shape[1] - 1
    for row in range(max(from_row, 1), rows.shape[0]):
        bits = LEAF_BITS + row - 1
        for q in range(start >> bits, end >> bits):
            if q << bits < first:
                continue
            lo = (q << bits) & mask
            if row == 1:
                for i in range(lo, lo + LEAF):
                    insert_sorted(rows[0, i], lo, i, rows[1])
            else:
                merge_halves(rows[row - 1], lo, 1 << (bits - 1), rows[row])


@kernel
def append_elements(rows, end, first, value):
    """Elements `end`, `end` + 1, … get their place and their intervals."""
    mask = rows.shape[1] - 1
    for i in range(len(value)):
        rows[0, (end + i) & mask] = value[i]
    build_runs(rows, 1, end, end + len(value), first)


@kernel
def move_elements(source, first, end, into):
    """Copy the elements [first, end) of all common rows to a ring of another width."""
    source_mask, into_mask = source.shape[1] - 1, into.shape[1] - 1
    for row in range(min(source.shape[0], into.shape[0])):
        for n in range(first, end):
            into[row, n & into_mask] = source[row, n & source_mask]


@kernel
def piece_at(at, stop, bits, highest):
    """Bits of the longest interval kept that begins at `at` and ends by `stop`; `bits`: of the one before.

    Lengths rise, then fall.
    """
    while bits < highest and at & ((2 << bits) - 1) == 0 and at + (2 << bits) <= stop:
        bits += 1
    while at + (1 << bits) > stop:
        bits -= 1
    return bits


@kernel
def split_run(rows, lo, hi, start, stop, used):
    """Pieces of [lo, hi): sorted intervals, and fewer than LEAF elements loose at either end.

    Piece p is `rows.reshape(-1)[start[p]:stop[p]]`, for p from `used` on. Returns the number of pieces
    after the last, and (a, z): the elements [lo, a) and [z, hi) are loose.
    """
    width = rows.shape[1]
    a = (lo + LEAF - 1) >> LEAF_BITS << LEAF_BITS
    z = hi >> LEAF_BITS << LEAF_BITS
    if a >= z:
        return used, hi, hi
    highest = LEAF_BITS + rows.shape[0] - 2
    bits = LEAF_BITS
    at = a
    while at < z:
        bits = piece_at(at, z, bits, highest)
        start[used] = (bits - LEAF_BITS + 1) * width + (at & (width - 1))
        stop[used] = start[used] + (1 << bits)
        used += 1
        at += 1 << bits
    return used, a, z


@kernel
def first_not_below(run, lo, hi, bound):
    """First place of the sorted run[lo:hi] with a value >= bound; O(log n), without branches to guess."""
    n = hi - lo
    while n > 0:
        half = (n + 1) >> 1
        lo = lo + half if run[lo + half - 1] < bound else lo
        n -= half
    return lo


@kernel
def first_above(run, lo, hi, bound):
    """First place of the sorted run[lo:hi] with a value > bound."""
    n = hi - lo
    while n > 0:
        half = (n + 1) >> 1
        lo = lo + half if run[lo + half - 1] <= bound else lo
        n -= half
    return lo
