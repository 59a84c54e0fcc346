"""Rows of partials, one element per key, over runs of slices; and cells where there is no row."""

from __future__ import annotations

from muntin.kernels.combine import combine, put, take
from muntin.kernels.jit import kernel, kernel_per_kind


@kernel
def merge_cells(cells, key, lo, hi, into, offset):
    """Merge the cells `lo .. hi - 1` into a row; those of a key come in order of time."""
    for c in range(lo, hi):
        slot = offset + key[c]
        put(into, slot, combine(cells, take(into, slot), take(cells, c)))


@kernel
def merge_rows(rows, left, right, into, width):
    """A row from the two of its halves."""
    for k in range(width):
        put(rows, into + k, combine(rows, take(rows, left + k), take(rows, right + k)))


@kernel_per_kind
def read_nested(kind):
    """Windows that end together: runs `[lo[w], hi)` of slice numbers, `lo` descending; returns cells read.

    Each window is the one before it and a bit more, so what is older is merged on the left of what was
    merged already, and a copy of it is window w's answer, from `slot[w]` of `out` on, unless that is -1.
    `first_cell[s]` is where slice number `first + s` begins in the cells. Level `i` (from 1) has a row for
    every aligned run of `2 ** i` slices below number `made`, in a ring of `mask[i] + 1` rows from `base[i]` on.
    The state arrays are those of cells, rows, what was merged, and answers.
    """
    one, two, three = len(kind._fields), 2 * len(kind._fields), 3 * len(kind._fields)

    def read_nested(key, first_cell, first, row_width, base, mask, made, lo, hi, slot, width, *arrays):
        cells, rows = kind(*arrays[:one]), kind(*arrays[one:two])
        acc, out = kind(*arrays[two:three]), kind(*arrays[three:])
        visited = 0
        right = hi
        for w in range(len(lo)):
            while right > lo[w]:
                level = 0
                if right <= made:
                    while (
                        level + 1 < len(base)
                        and right & ((1 << (level + 1)) - 1) == 0
                        and right - (1 << (level + 1)) >= lo[w]
                    ):
                        level += 1
                right -= 1 << level
                if level:
                    offset = (base[level] + ((right >> level) & mask[level])) * row_width
                    for k in range(width):
                        put(acc, k, combine(cells, take(rows, offset + k), take(acc, k)))
                else:
                    # cells of one slice have different keys, so their order does not matter
                    begin, end = first_cell[right - first], first_cell[right - first + 1]
                    visited += end - begin
                    for c in range(begin, end):
                        put(acc, key[c], combine(cells, take(cells, c), take(acc, key[c])))
            if slot[w] >= 0:
                for k in range(width):
                    put(out, slot[w] + k, take(acc, k))
        return visited

    return read_nested
