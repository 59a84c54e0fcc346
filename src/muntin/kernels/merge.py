"""Merge partials into partials, by the rules of a kind of cells.

Like `fold_events`, with cells (partials kept earlier) in place of events: range `r` covers cells `lo[r] .. hi[r] - 1`,
and cell `c` goes to slot `r * width + key[c]`, or nowhere if `key[c] < 0`. Cells of one key need not come in order of
time: components that depend on it carry it.
"""

from __future__ import annotations

from muntin.kernels.combine import combine, put, take
from muntin.kernels.jit import kernel_per_kind


@kernel_per_kind
def merge_partials(kind):
    """The state arrays of the cells come first, then those of the slots."""
    parts = len(kind._fields)

    def merge_partials(lo, hi, width, key, *arrays):
        cells = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        for r in range(len(lo)):
            base = r * width
            for c in range(lo[r], hi[r]):
                k = key[c]
                if k >= 0:
                    put(into, base + k, combine(into, take(into, base + k), take(cells, c)))

    return merge_partials


@kernel_per_kind
def merge_runs(kind):
    """The same where the width is 1: the state stays in registers."""
    parts = len(kind._fields)

    def merge_runs(lo, hi, key, *arrays):
        cells = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        for r in range(len(lo)):
            state = take(into, r)
            for c in range(lo[r], hi[r]):
                if key[c] >= 0:
                    state = combine(into, state, take(cells, c))
            put(into, r, state)

    return merge_runs
