"""Sums of windows as they are answered: a look at all of them without arrays in between."""

from __future__ import annotations

from muntin.component.sum import has_overflown, whole_sum
from muntin.kernels.jit import kernel


@kernel
def any_overflown(total, shadow):
    """Whether any integer total has."""
    found = False
    for i in range(len(total)):
        found |= has_overflown(total[i], shadow[i])  # without a branch it is vectorised
    return found


@kernel
def add_rests(high, low, out):
    """Float totals with the rest that each was rounded by."""
    for i in range(len(high)):
        out[i] = whole_sum(high[i], low[i])
