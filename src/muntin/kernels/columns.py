"""Search ascending columns."""

from __future__ import annotations

from muntin.kernels.jit import kernel
from muntin.kernels.sorted_runs import first_not_below


@kernel
def find_run(column, head, tail, start, end):
    """Where in `column[head:tail]`, which ascends, [start, end) begins and ends; O(log n).

    One call for both: calling costs as much as the search. Most windows end now, which is seen without
    a search.
    """
    lo = first_not_below(column, head, tail, start)
    if lo == tail or column[tail - 1] < end:
        return lo, tail
    return lo, first_not_below(column, lo, tail - 1, end)
