"""Fold runs of events without keys: like `fold`, with one slot per run and the state in registers.

Run `r` covers the events `lo[r] .. hi[r] - 1` and goes to slot `r`, which may hold a partial already.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel


@kernel
def count_runs(lo, hi, value, valid, count):
    for r in range(len(lo)):
        c = 0
        for i in range(lo[r], hi[r]):
            c += valid[i]
        count[r] += c


@kernel
def sum_runs_int(lo, hi, value, valid, total, shadow):
    for r in range(len(lo)):
        t = total[r]
        s = shadow[r]
        for i in range(lo[r], hi[r]):
            if valid[i]:
                t += value[i]
                s += value[i]
        total[r] = t
        shadow[r] = s


@kernel
def sum_runs_float(lo, hi, value, valid, high, low):
    for r in range(len(lo)):
        a = high[r]
        rest = low[r]
        for i in range(lo[r], hi[r]):
            if valid[i]:
                b = value[i]
                s = a + b
                c = s - a
                lost = (a - (s - c)) + (b - c)
                a = s
                if np.isfinite(lost):
                    rest += lost
        high[r] = a
        low[r] = rest


@kernel
def min_runs(lo, hi, value, valid, least):
    for r in range(len(lo)):
        m = least[r]
        for i in range(lo[r], hi[r]):
            v = value[i]
            if valid[i] and (v < m or m != m):
                m = v
        least[r] = m


@kernel
def max_runs(lo, hi, value, valid, greatest):
    for r in range(len(lo)):
        m = greatest[r]
        for i in range(lo[r], hi[r]):
            v = value[i]
            if valid[i] and (v > m or v != v):
                m = v
        greatest[r] = m
