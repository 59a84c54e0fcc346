"""Combine the elements of each run, one after the other."""

from __future__ import annotations

from muntin.kernels.combine import combine, put, take
from muntin.kernels.jit import kernel


@kernel
def scan_runs(cells, lo, hi, out):
    """The combination of cells [lo[r], hi[r]) into element r of `out`, which holds identities."""
    for r in range(len(lo)):
        total = take(out, r)
        for i in range(lo[r], hi[r]):
            total = combine(cells, total, take(cells, i))
        put(out, r, total)
