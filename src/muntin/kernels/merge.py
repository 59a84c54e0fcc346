"""Merge partials into partials: combine, one kernel per component.

Same shape as `fold`, with cells (partials kept earlier) in place of events: range `r` covers cells
`lo[r] .. hi[r] - 1`, and cell `c` goes to slot `r * width + key[c]`, or nowhere if `key[c] < 0`.
Cells of one key need not come in order of time: components that depend on it carry it.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel


@kernel
def merge_count(lo, hi, width, key, cell_count, count):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                count[base + k] += cell_count[c]


@kernel
def merge_sum_int(lo, hi, width, key, cell_total, cell_shadow, total, shadow):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                total[base + k] += cell_total[c]
                shadow[base + k] += cell_shadow[c]


@kernel
def merge_sum_float(lo, hi, width, key, cell_high, cell_low, high, low):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                slot = base + k
                a = high[slot]
                b = cell_high[c]
                s = a + b
                high[slot] = s
                d = s - a
                lost = (a - (s - d)) + (b - d)
                if np.isfinite(lost):
                    low[slot] += lost + cell_low[c]


@kernel
def merge_min(lo, hi, width, key, cell_least, least):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                slot = base + k
                v = cell_least[c]
                if v < least[slot] or least[slot] != least[slot]:
                    least[slot] = v


@kernel
def merge_max(lo, hi, width, key, cell_greatest, greatest):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                slot = base + k
                v = cell_greatest[c]
                if v > greatest[slot] or v != v:
                    greatest[slot] = v


@kernel
def merge_first(lo, hi, width, key, cell_first, cell_first_at, first, first_at):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                slot = base + k
                if cell_first_at[c] < first_at[slot]:
                    first[slot] = cell_first[c]
                    first_at[slot] = cell_first_at[c]


@kernel
def merge_last(lo, hi, width, key, cell_last, cell_last_at, last, last_at):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0:
                slot = base + k
                if cell_last_at[c] >= last_at[slot]:
                    last[slot] = cell_last[c]
                    last_at[slot] = cell_last_at[c]


@kernel
def merge_m2(lo, hi, width, key, cell_count, cell_mean, cell_m2, count, mean, m2):
    for r in range(len(lo)):
        base = r * width
        for c in range(lo[r], hi[r]):
            k = key[c]
            if k >= 0 and cell_count[c] > 0:
                slot = base + k
                n = count[slot]
                if n == 0:
                    count[slot] = cell_count[c]
                    mean[slot] = cell_mean[c]
                    m2[slot] = cell_m2[c]
                else:
                    both = n + cell_count[c]
                    step = cell_mean[c] - mean[slot]
                    count[slot] = both
                    mean[slot] += step * cell_count[c] / both
                    m2[slot] += cell_m2[c] + step * step * n * cell_count[c] / both
