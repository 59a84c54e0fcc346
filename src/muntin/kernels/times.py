"""A look at the times of a batch: is it in order, and what is late?

The first two loops have no branch and are compiled to several events a step: each takes a fifth of the
time of the third, and a batch in order needs no more.
"""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def extremes_of(at):
    """The least and the greatest of some times."""
    least = greatest = at[0]
    for i in range(len(at)):
        least = min(least, at[i])
        greatest = max(greatest, at[i])
    return least, greatest


@kernel
def ascends(at):
    """Whether no time is less than the one before."""
    descents = 0
    for i in range(1, len(at)):
        descents += at[i] < at[i - 1]
    return descents == 0


@kernel
def scan_times(at, seen, delay, promised):
    """(whether times ascend, how many events are late, the greatest time).

    An event is late by the watermark as the events before it left it: the greatest of `seen` and
    their times, less the delay, or `promised` if that is later.
    """
    ascends = True
    late = 0
    before = at[0]
    for i in range(len(at)):
        t = at[i]
        if t < before:
            ascends = False
        before = t
        if t < promised or t < seen - delay:
            late += 1
        if t > seen:
            seen = t
    return ascends, late, seen


@kernel
def mark_late(at, seen, delay, promised, late):
    """Which events `scan_times` counted."""
    for i in range(len(at)):
        t = at[i]
        late[i] = t < promised or t < seen - delay
        if t > seen:
            seen = t
