"""Values of many answers in one loop: those that lie in bands, sums that overflow, sums with their rests."""

from __future__ import annotations

import numpy as np

from muntin.component.sum import has_overflown, whole_sum
from muntin.kernels.jit import inner, kernel

_GREATEST, _INFINITY = np.int64(2**63 - 1), np.int64(0x7FF0000000000000)
_NAN = np.int64(0x7FF8000000000000)


@inner
def sort_key(bits, are_floats):
    """An integer in the order of the values: the number itself, or that of a float as it lies in memory."""
    key = bits
    if are_floats:
        if key & _GREATEST > _INFINITY:
            key = _NAN  # above all numbers, whatever its sign and payload
        elif key & _GREATEST == 0:
            key = np.int64(0)  # -0.0 is 0.0
        key ^= (key >> 63) & _GREATEST
    return key


@kernel
def within_bands(bits, are_floats, valid, begin, end, low, high, slots, edges):
    """For each band, the slots `begin .. end - 1` whose sort key is from `low` to `high`, one band after the other.

    One comparison a number, whatever the number of windows and thresholds. `bits` are integers or, if they are
    floats, those floats as they lie in memory. `valid` may be empty: then all are. The slots of band b are
    `slots[edges[b] : edges[b + 1]]`, ascending.
    """
    count = 0
    edges[0] = 0
    for b in range(len(begin)):
        for s in range(begin[b], end[b]):
            key = sort_key(bits[s], are_floats)
            if low[b] <= key <= high[b] and (len(valid) == 0 or valid[s]):
                slots[count] = s
                count += 1
        edges[b + 1] = count


@kernel
def members_passing(
    bits, valid, silent_bits, silent_valid, are_floats, is_keyed, width, pair, pair_key, window, begin, end, low, high,
    first, last, member, key, slot,
):  # fmt: skip
    """Of members `first .. last - 1`, those slots whose number is from `low` to `high`; how many there are.

    A member looks at one window, of which there are `width` slots, and at the pairs `begin .. end - 1` of an order. One
    without pairs, and without keys, has the number of nothing, `silent_bits`, and the slot -1. Members of equal
    windows stand next to each other in no order: what is read twice is still in the processor's cache.
    """
    count = 0
    all_valid = len(valid) == 0
    for m in range(first, last):
        base = window[m] * width
        for p in range(begin[m], end[m]):
            s = base + pair[p]
            number = sort_key(bits[s], are_floats)
            if low[m] <= number <= high[m] and (all_valid or valid[s]):
                member[count] = m
                key[count] = pair_key[p]
                slot[count] = s
                count += 1
        if begin[m] == end[m] and not is_keyed:
            number = sort_key(silent_bits[0], are_floats)
            if low[m] <= number <= high[m] and (len(silent_valid) == 0 or silent_valid[0]):
                member[count] = m
                key[count] = 0
                slot[count] = -1
                count += 1
    return count


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
