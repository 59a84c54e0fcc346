"""Light quantiles: values of many keys brought together by key, and ranks found in them without sorting.

`slot_of[key]` is the slot of a key, or -1 if nobody asks for it. The values of slot `s` lie in `grouped` from
`offset[s]` to `offset[s + 1]`, in no order.
"""

from __future__ import annotations

from muntin.kernels.jit import inner, kernel

_FEW = 12  # are sorted one by one


@kernel
def count_slots(key, slot_of, count):
    """Count the values of each slot."""
    for i in range(len(key)):
        s = slot_of[key[i]]
        if s >= 0:
            count[s] += 1


@kernel
def group_values(key, value, slot_of, place, grouped):
    """Put values where those of their slot go next, which moves on."""
    for i in range(len(key)):
        s = slot_of[key[i]]
        if s >= 0:
            grouped[place[s]] = value[i]
            place[s] += 1


@inner
def _select(values, lo, hi, at):
    """Have the value at place `at` of values[lo:hi] that it would have if they were sorted (Hoare, 1961)."""
    while hi - lo > _FEW:
        middle = (lo + hi) // 2
        a, b, c = values[lo], values[middle], values[hi - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = lo, hi - 1
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if at <= j:
            hi = j + 1
        elif at >= i:
            lo = i
        else:
            return
    for i in range(lo + 1, hi):
        v = values[i]
        j = i
        while j > lo and values[j - 1] > v:
            values[j] = values[j - 1]
            j -= 1
        values[j] = v


@kernel
def select_ranks(grouped, offset, rank, picked):
    """The value of a rank, from 1, of each slot that has any; values change their places within their slot."""
    for s in range(len(rank)):
        if offset[s] < offset[s + 1]:
            at = offset[s] + rank[s] - 1
            _select(grouped, offset[s], offset[s + 1], at)
            picked[s] = grouped[at]
