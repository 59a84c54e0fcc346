"""Totals of windows as they are answered: a look at all of them without arrays in between."""

from __future__ import annotations

import math

from muntin.kernels.jit import kernel


@kernel
def is_apart(total, shadow, far):
    """Whether any integer total is `far` from its shadow, which was added up in floats: then it has overflown."""
    found = False
    for i in range(len(total)):
        found |= abs(float(total[i]) - shadow[i]) > far  # without a branch it is vectorised
    return found


@kernel
def add_rests(high, low, out):
    """Float totals with the rest that each was rounded by; infinities and NaN have none."""
    for i in range(len(high)):
        whole = high[i] + low[i]
        out[i] = whole if math.isfinite(high[i]) else high[i]
