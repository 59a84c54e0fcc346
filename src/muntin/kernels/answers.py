"""Values of many answers in one loop: those that lie in bands, sums that overflow, sums with their rests."""

from __future__ import annotations

import numpy as np

from muntin.component.sum import has_overflown, whole_sum
from muntin.kernels.jit import kernel


@kernel
def within_bands(bits, are_floats, valid, begin, end, low, high, slots, edges):
    """For each band, the slots `begin .. end - 1` whose sort key is from `low` to `high`, one band after the other.

    One comparison a number, whatever the number of windows and thresholds. `bits` are integers or, if they are
    floats, those floats as they lie in memory. `valid` may be empty: then all are. The slots of band b are
    `slots[edges[b] : edges[b + 1]]`, ascending.
    """
    greatest, infinity = np.int64(2**63 - 1), np.int64(0x7FF0000000000000)
    nan = np.int64(0x7FF8000000000000)
    count = 0
    edges[0] = 0
    for b in range(len(begin)):
        for s in range(begin[b], end[b]):
            key = bits[s]
            if are_floats:
                if key & greatest > infinity:
                    key = nan  # above all numbers, whatever its sign and payload
                elif key & greatest == 0:
                    key = np.int64(0)  # -0.0 is 0.0
                key ^= (key >> 63) & greatest
            if low[b] <= key <= high[b] and (len(valid) == 0 or valid[s]):
                slots[count] = s
                count += 1
        edges[b + 1] = count


@kernel
def any_overflown(total, shadow):
    """Whether any integer total has overflown."""
    found = False
    for i in range(len(total)):
        found |= has_overflown(total[i], shadow[i])  # without a branch it is vectorised
    return found


@kernel
def add_rests(high, low, out):
    """Float totals with the rest that each was rounded by."""
    for i in range(len(high)):
        out[i] = whole_sum(high[i], low[i])
