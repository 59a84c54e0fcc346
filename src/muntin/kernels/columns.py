"""Search ascending columns."""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def find_run(column, head, tail, start, end):
    """Where in `column[head:tail]`, which ascends, [start, end) begins and ends; O(log n).

    One call for both: calling costs as much as the search. Most windows end now, which is seen without
    a search.
    """
    lo = head
    high = tail
    while lo < high:
        middle = (lo + high) >> 1
        if column[middle] < start:
            lo = middle + 1
        else:
            high = middle
    if lo == tail or column[tail - 1] < end:
        return lo, tail
    hi = lo
    high = tail - 1
    while hi < high:
        middle = (hi + high) >> 1
        if column[middle] < end:
            hi = middle + 1
        else:
            high = middle
    return lo, hi
