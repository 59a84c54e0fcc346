"""Fold events into partials: lift and combine in one loop, one kernel per component.

All have the same shape. Range `r` covers the events `lo[r] .. hi[r] - 1`; event `i` of it goes to
slot `r * width + key[i]`, or nowhere if `key[i] < 0` or not `valid[i]`. `at` is event time. The
state arrays have one element per slot and start as the component's identity.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel


@kernel
def fold_count(lo, hi, width, key, at, value, valid, count):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                count[base + k] += 1


@kernel
def fold_sum_int(lo, hi, width, key, at, value, valid, total, shadow):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                total[base + k] += value[i]
                shadow[base + k] += value[i]


@kernel
def fold_sum_float(lo, hi, width, key, at, value, valid, high, low):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                slot = base + k
                a = high[slot]
                b = value[i]
                s = a + b
                high[slot] = s
                # what the addition rounded away (two-sum); meaningless once infinite
                c = s - a
                lost = (a - (s - c)) + (b - c)
                if np.isfinite(lost):
                    low[slot] += lost


@kernel
def fold_min(lo, hi, width, key, at, value, valid, least):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                slot = base + k
                v = value[i]
                # NaN is greatest: it yields to anything and replaces nothing
                if v < least[slot] or least[slot] != least[slot]:
                    least[slot] = v


@kernel
def fold_max(lo, hi, width, key, at, value, valid, greatest):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                slot = base + k
                v = value[i]
                if v > greatest[slot] or v != v:
                    greatest[slot] = v


@kernel
def fold_first(lo, hi, width, key, at, value, valid, first, first_at):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                slot = base + k
                if at[i] < first_at[slot]:
                    first[slot] = value[i]
                    first_at[slot] = at[i]


@kernel
def fold_last(lo, hi, width, key, at, value, valid, last, last_at):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                slot = base + k
                # equal times: the later arrival wins
                if at[i] >= last_at[slot]:
                    last[slot] = value[i]
                    last_at[slot] = at[i]


@kernel
def fold_m2(lo, hi, width, key, at, value, valid, count, mean, m2):
    for r in range(len(lo)):
        base = r * width
        for i in range(lo[r], hi[r]):
            k = key[i]
            if k >= 0 and valid[i]:
                slot = base + k
                count[slot] += 1
                v = value[i]
                step = v - mean[slot]
                mean[slot] += step / count[slot]
                m2[slot] += step * (v - mean[slot])
