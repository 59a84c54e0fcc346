"""Build and read landmark intervals: the loops of L-INT.

One partition (windows of similar width) has a landmark at every multiple of its `WIDTH`. For every
element it keeps `1 + DEPTH` cells, in as many rings that follow each other from `BASE`:

    ring 0      backward: from the element to just before the next landmark
    ring 1 + k  forward: from the k-th landmark before the element (k = 0: the nearest) to the element

So the forward row of a landmark runs along ring 1 and goes on in ring 2 after the next landmark, as far
as `LONGEST`. With landmarks 3 apart, rows of 5 and so a DEPTH of 2 ("6-8" is the partial of 6, 7, 8):

    element     6     7     8   |  9     10     11   |  12
    ring 0            7-8   8   |        10-11  11   |           built when element 8, 11, … is here
    ring 1      6     6-7   6-8 |  9     9-10   9-11 |  12       the row of landmark 6, then 9, then 12
    ring 2      3-6   3-7       |  6-9   6-10        |  9-12     the row of landmark 3, then 6, then 9
"""

from __future__ import annotations

from muntin.kernels.combine import combine, move, put, take
from muntin.kernels.jit import kernel

# Columns of the table of partitions
WIDTH = 0  # the narrowest window, also the distance between landmarks
LONGEST = 1  # the widest window: a forward row holds this many cells
DEPTH = 2  # landmarks that an element can be reached from: LONGEST / WIDTH, rounded up
HORIZON = 3  # how far back the oldest window begins
KEPT = 4  # number of the oldest element that has its cells here
ORIGIN = 5  # where the rows began: nothing earlier is in any of them
CAPACITY = 6  # of each ring
BASE = 7  # index of the first cell of ring 0
COLUMNS = 8


@kernel
def extend(rows, table, values, end, lifted):
    """Append lifted elements, the first with number `end`; returns how often it combined."""
    count = len(lifted[0])
    mask = len(values[0]) - 1
    for i in range(count):
        put(values, (end + i) & mask, take(lifted, i))
    combines = 0
    for p in range(len(table)):
        combines += _extend_partition(rows, table[p], values, end, end + count)
    return combines


@kernel
def _extend_partition(rows, part, values, start, stop):
    width = part[WIDTH]
    combines = 0
    while start < stop:
        landmark = start - start % width
        until = min(landmark + width, stop)
        for k in range(part[DEPTH]):
            from_landmark = landmark - k * width
            if from_landmark + width <= part[KEPT]:
                break  # nobody asks for a run that begins there
            combines += _extend_forward(
                rows, part, values, k, start, min(until, from_landmark + part[LONGEST])
            )
        if until == landmark + width:
            combines += _build_backward(rows, part, values, max(landmark + 1, part[KEPT]), until)
        start = until
    return combines


@kernel
def _extend_forward(rows, part, values, k, start, stop):
    """Go on with the row of the k-th landmark before `start`; no landmark within `start + 1 .. stop - 1`."""
    if start >= stop:
        return 0
    capacity = part[CAPACITY]
    ring = part[BASE] + (1 + k) * capacity
    value_mask = len(values[0]) - 1
    is_landmark = start % part[WIDTH] == 0
    combines = stop - start
    total = take(values, start & value_mask)
    if start == part[ORIGIN] or (is_landmark and k == 0):
        combines -= 1
    else:
        before = ring - capacity if is_landmark else ring
        total = combine(rows, take(rows, before + ((start - 1) & (capacity - 1))), total)
    put(rows, ring + (start & (capacity - 1)), total)
    for i in range(start + 1, stop):
        total = combine(rows, total, take(values, i & value_mask))
        put(rows, ring + (i & (capacity - 1)), total)
    return combines


@kernel
def _build_backward(rows, part, values, first, landmark):
    """The partials of `i .. landmark - 1` for each `i` from `first` on."""
    if first >= landmark:
        return 0
    mask = part[CAPACITY] - 1
    value_mask = len(values[0]) - 1
    total = take(values, (landmark - 1) & value_mask)
    put(rows, part[BASE] + ((landmark - 1) & mask), total)
    for back in range(2, landmark - first + 1):
        i = landmark - back
        total = combine(rows, take(values, i & value_mask), total)
        put(rows, part[BASE] + (i & mask), total)
    return landmark - first - 1


@kernel
def query(rows, table, values, first, end, lo, hi, out):
    """Combine the cells that make up each run, from left to right, into `out`, which holds identities.

    Returns how many were read, or `~r` if elements of run `r` are not remembered.
    """
    read = 0
    for r in range(len(lo)):
        at = lo[r]
        stop = hi[r]
        if at >= stop:
            continue
        if at < first or stop > end:
            return ~r
        total = take(out, r)
        p = _choose(table, at, stop)
        if p < 0:
            value_mask = len(values[0]) - 1
            for i in range(at, stop):
                total = combine(rows, total, take(values, i & value_mask))
            read += stop - at
        else:
            # single fields: a row of the table would be counted in and out of use at every run
            width = table[p, WIDTH]
            longest = table[p, LONGEST]
            capacity = table[p, CAPACITY]
            backward = table[p, BASE]
            block = at // width
            if at > block * width and (block + 1) * width <= stop:
                total = combine(rows, total, take(rows, backward + (at & (capacity - 1))))
                read += 1
                block += 1
            # else it is a landmark, or ORIGIN, where the row of the landmark before it begins
            while block * width < stop:
                until = stop
                if stop - block * width > longest:
                    until = block * width + longest // width * width
                ring = 1 + (until - 1) // width - block
                cell = backward + ring * capacity + ((until - 1) & (capacity - 1))
                total = combine(rows, total, take(rows, cell))
                read += 1
                if until == stop:
                    break
                block = until // width
        put(out, r, total)
    return read


@kernel
def _choose(table, at, stop):
    """The partition to answer a run from; -1 if only the values can."""
    p = -1
    while p + 1 < len(table) and table[p + 1, WIDTH] <= stop - at:
        p += 1
    if p >= 0 and stop - at <= table[p, LONGEST] and table[p, KEPT] <= at:
        return p
    # a window that is not full, at the start of the stream or because slices are missing: the rows of
    # wider ones will do if a landmark lies in it, or if it begins where they began
    for wider in range(p + 1, len(table)):
        if table[wider, KEPT] <= at:
            past = at % table[wider, WIDTH]
            if past == 0 or at - past + table[wider, WIDTH] <= stop or table[wider, ORIGIN] == at:
                return wider
    # no window that was announced: walk from landmark to landmark
    while p >= 0 and table[p, KEPT] > at:
        p -= 1
    return p


@kernel
def resize(old, old_table, new, new_table, end):
    """Copy the cells of every partition to where another table puts them."""
    for p in range(len(old_table)):
        for ring in range(1 + old_table[p, DEPTH]):
            old_capacity = old_table[p, CAPACITY]
            new_capacity = new_table[p, CAPACITY]
            move(old, old_table[p, BASE] + ring * old_capacity, old_capacity,
                 new, new_table[p, BASE] + ring * new_capacity, new_capacity,
                 old_table[p, KEPT], end)  # fmt: skip
