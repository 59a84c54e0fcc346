"""A look at the times of a batch: is it in order, what is late, and what lies too far ahead?

The first two loops have no branch and are compiled to several events a step: each takes a fifth of the
time of the third, and a batch in order needs no more.
"""

from __future__ import annotations

from muntin.kernels.jit import kernel

ADMITTED, LATE, AHEAD = 0, 1, 2


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


@kernel
def judge_times(at, seen, delay, promised, reached, ahead, verdict):
    """Whether each event is admitted, late or ahead, as the events admitted before it have moved time.

    `reached` is how far time has come whatever the events say: the clock on the wall, or a promise.
    """
    for i in range(len(at)):
        t = at[i]
        if t > max(seen, reached) + ahead:
            verdict[i] = AHEAD
        elif t < promised or t < seen - delay:
            verdict[i] = LATE
        else:
            verdict[i] = ADMITTED
            seen = max(seen, t)
