"""Columns: ascending ones searched, rows of others copied to where they go."""

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


@kernel
def gather_rows(source, rows, places, out):
    """Copy `source[rows[i]]` to `out[places[i]]`; rows are wide, so each is one copy of its words."""
    words = source.shape[1]
    for number in range(len(rows)):
        row, place = rows[number], places[number]
        for word in range(words):
            out[place, word] = source[row, word]


@kernel
def gather_values(source, rows, places, out):
    """The same where a row is a single word."""
    for number in range(len(rows)):
        out[places[number]] = source[rows[number]]
