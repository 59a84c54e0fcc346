"""Build and read base intervals: the loops of B-INT.

The cells of all levels lie in one set of arrays: level `j` is a ring of `capacity >> j` cells that
begins at `2 * capacity - (2 * capacity >> j)`; cell `q` of it covers elements `q << j` to
`(q + 1 << j) - 1`. Both halves of an interval lie side by side on the level below, and all levels
wrap at the same element.
"""

from __future__ import annotations

from muntin.kernels.combine import combine, move, put, take
from muntin.kernels.instructions import leading_zeros, trailing_zeros
from muntin.kernels.jit import kernel, kernel_per_kind

# Elements that go through all levels together, to be still in the nearest cache at each.
CHUNK = 1024


@kernel
def extend(cells, capacity, end, lifted):
    """Append lifted elements, the first with number `end`; returns how often it combined."""
    combines = 0
    count = len(lifted[0])
    done = 0
    while done < count:
        slot = end & (capacity - 1)
        size = min(count - done, CHUNK, capacity - slot)  # does not wrap
        for i in range(size):
            put(cells, slot + i, take(lifted, done + i))
        below = 0
        slots = capacity
        lo = end
        hi = end + size
        while slots > 1:
            # the intervals of the next level that end in the chunk; their left half may be older
            lo >>= 1
            hi >>= 1
            if lo == hi:
                break
            above = below + slots
            slots >>= 1
            q = lo & (slots - 1)
            for i in range(hi - lo):
                left = below + 2 * (q + i)
                put(cells, above + q + i, combine(cells, take(cells, left), take(cells, left + 1)))
            combines += hi - lo
            below = above
        end += size
        done += size
    return combines


@kernel
def query(cells, capacity, first, end, lo, hi, out):
    """Combine the fewest intervals that make up each run, from left to right, into `out`.

    `out` holds identities. Returns how many intervals were read, or `~r` if elements of run `r` are
    not remembered.
    """
    read = 0
    for r in range(len(lo)):
        if lo[r] >= hi[r]:
            continue
        if lo[r] < first or hi[r] > end:
            return ~r
        total, some = _combine_run(cells, capacity, lo[r], hi[r])
        put(out, r, combine(cells, take(out, r), total))
        read += some
    return read


@kernel
def _combine_run(cells, capacity, at, stop):
    """The partial of a run that is not empty, and how many intervals it is made of."""
    level, cell = _widest(capacity, at, stop)
    total = take(cells, cell)
    at += 1 << level
    read = 1
    while at < stop:
        level, cell = _widest(capacity, at, stop)
        total = combine(cells, total, take(cells, cell))
        at += 1 << level
        read += 1
    return total, read


@kernel
def _widest(capacity, at, stop):
    """The longest interval that begins at `at` and does not reach beyond `stop`: its level and cell."""
    level = min(trailing_zeros(at), 63 - leading_zeros(stop - at))
    slots = capacity >> level
    return level, 2 * (capacity - slots) + ((at >> level) & (slots - 1))


@kernel_per_kind
def query_point(kind):
    """A single run that is not empty."""

    def query_one(capacity, lo, hi, one):
        return _combine_run(kind(one), capacity, lo, hi)

    def query_two(capacity, lo, hi, one, two):
        return _combine_run(kind(one, two), capacity, lo, hi)

    def query_three(capacity, lo, hi, one, two, three):
        return _combine_run(kind(one, two, three), capacity, lo, hi)

    # `*arrays` would cost as much as a third of the call
    return (query_one, query_two, query_three)[len(kind._fields) - 1]


@kernel
def resize(old, old_capacity, new, new_capacity, first, end):
    """Copy every interval within `first .. end - 1` to cells of another capacity."""
    level = 0
    while (old_capacity >> level) > 0 and (new_capacity >> level) > 0:
        old_slots = old_capacity >> level
        new_slots = new_capacity >> level
        oldest = (first + (1 << level) - 1) >> level
        move(old, 2 * (old_capacity - old_slots), old_slots, new, 2 * (new_capacity - new_slots), new_slots,
             oldest, end >> level)  # fmt: skip
        level += 1
