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
def _select(values, hi, at, spare):
    """The value that place `at` of values[:hi] would have if they were sorted (Hoare, 1961). Values are copied to both
    sides of a pivot, and one side moves on: a processor could not guess which. They are lost."""
    lo = 0
    while hi - lo > _FEW:
        a, b, c = values[lo], values[(lo + hi) // 2], values[hi - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        less, others = lo, 0
        for q in range(lo, hi):
            v = values[q]
            values[less] = v
            spare[others] = v
            is_less = v < pivot
            less += is_less
            others += 1 - is_less
        if at < less:
            hi = less
            continue
        greater = less
        for q in range(others):
            values[greater] = spare[q]
            greater += spare[q] > pivot
        equal = others - (greater - less)
        if at < less + equal:
            return pivot
        lo, hi, at = less, greater, at - equal
    for i in range(lo + 1, hi):
        v = values[i]
        j = i
        while j > lo and values[j - 1] > v:
            values[j] = values[j - 1]
            j -= 1
        values[j] = v
    return values[at]


@kernel
def select_ranks(grouped, offset, rank, work, picked):
    """The value of a rank, from 1, of each slot that has any; `work` has two rows with room for those of any slot."""
    for s in range(len(rank)):
        first, many = offset[s], offset[s + 1] - offset[s]
        if many > 0:
            work[0, :many] = grouped[first : first + many]
            picked[s] = _select(work[0], many, rank[s] - 1, work[1])
