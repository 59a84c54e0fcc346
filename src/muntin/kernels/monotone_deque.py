"""Find and search suffix extremes: the loops of the monotone deque.

`value` holds the remembered elements in a row, the first of them number `first`; `number` the
numbers of those that beat every later one.
"""

from __future__ import annotations

from muntin.component.extremes import exceeds, undercuts
from muntin.kernels.jit import kernel


@kernel
def _beats(one, other, is_max):
    if is_max:
        return exceeds(one, other) and not exceeds(other, one)
    return undercuts(one, other) and not undercuts(other, one)


@kernel
def find_extremes(value, first, start, stop, is_max, found):
    """Put the numbers of elements that beat every later one of `start .. stop - 1` at the end of `found`.

    Going backward only a record needs a second look, so most elements cost one comparison. `start` and
    `stop` are indices into `value`, `start < stop <= start + len(found)`; returns how many there are.
    """
    free = len(found) - 1
    best = value[stop - 1]
    found[free] = first + stop - 1
    for back in range(2, stop - start + 1):
        one = value[stop - back]
        if _beats(one, best, is_max):
            best = one
            free -= 1
            found[free] = first + stop - back
    return len(found) - free


@kernel
def count_beating(value, first, number, best, is_max):
    """How many extremes, from the oldest on, beat the newcomer `best`; O(log n), for they descend."""
    lo = 0
    hi = len(number)
    while lo < hi:
        middle = (lo + hi) >> 1
        if _beats(value[number[middle] - first], best, is_max):
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def query(value, first, end, number, lo, hi, out):
    """The extreme of each run `lo[r] .. end - 1`: the oldest of `number` in it; O(log n).

    Returns 0, or `~r` if run `r` is not remembered or ends before `end`.
    """
    for r in range(len(lo)):
        if lo[r] < hi[r]:
            if lo[r] < first or hi[r] != end:
                return ~r
            low = 0
            high = len(number)
            while low < high:
                middle = (low + high) >> 1
                if number[middle] < lo[r]:
                    low = middle + 1
                else:
                    high = middle
            out[r] = value[number[low] - first]
    return 0
