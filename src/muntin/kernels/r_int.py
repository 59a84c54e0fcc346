"""Add up and subtract running prefixes: the loops of R-INT.

A prefix is what all elements numbered below it add up to, from where the ring began; it lies in a
ring like any cell. A prefix sum of integers is a row of two: `total`, wrapped to 64 bits, and how
often it wrapped, so that `total + wraps * 2**64` is exact however long the stream.
"""

from __future__ import annotations

import numpy as np

from muntin.component.ends import LONG_AGO, NEVER
from muntin.component.sum import LAP, has_overflown
from muntin.kernels.combine import combine, put, subtract, take
from muntin.kernels.jit import kernel, kernel_per_kind

CHUNK = 1024  # elements looked at together, small enough to stay in the nearest cache


@kernel_per_kind
def extend_prefix(kind):
    """Append elements, the first with number `end`: the prefix `end` is there, later ones are written."""

    def extend_prefix(prefix, end, lifted):
        prefixes = kind(prefix)
        elements = kind(lifted)
        mask = len(prefix) - 1
        running = take(prefixes, end & mask)
        for i in range(len(lifted)):
            running = combine(prefixes, running, take(elements, i))
            put(prefixes, (end + 1 + i) & mask, running)

    return extend_prefix


@kernel
def extend_sum(prefix, end, total, shadow):
    """The same for integer sums; an element may be a sum over many events that has itself wrapped."""
    for start in range(0, len(total), CHUNK):
        some = total[start : start + CHUNK]
        some_shadow = shadow[start : start + CHUNK]
        _add_up(prefix, end + start, some)
        # Rare, so it may cost a second pass: floats in the loop of `_add_up` make it 3 times slower.
        if _has_wrapped(some, some_shadow):
            _add_own_wraps(prefix, end + start, some, some_shadow)


@kernel
def _has_wrapped(total, shadow):
    has_wrapped = False
    for i in range(len(total)):
        has_wrapped |= has_overflown(total[i], shadow[i])
    return has_wrapped


@kernel
def _add_up(prefix, end, total):
    mask = len(prefix) - 1
    running = prefix[end & mask, 0]
    wraps = prefix[end & mask, 1]
    for i in range(len(total)):
        step = total[i]
        before = running
        running += step
        # all bits set where both terms have one sign and the sum the other, else none
        is_over = ((before ^ running) & (step ^ running)) >> 63
        wraps += is_over & (1 | step >> 63)
        prefix[(end + 1 + i) & mask, 0] = running
        prefix[(end + 1 + i) & mask, 1] = wraps


@kernel
def _add_own_wraps(prefix, end, total, shadow):
    mask = len(prefix) - 1
    wraps = np.int64(0)
    for i in range(len(total)):
        wraps += np.int64(np.rint((shadow[i] - total[i]) / LAP))
        prefix[(end + 1 + i) & mask, 1] += wraps


@kernel_per_kind
def query_prefix(kind):
    """Subtract; returns 0, or `~r` if elements of run `r` are not remembered."""

    def query_prefix(prefix, first, end, lo, hi, out):
        prefixes = kind(prefix)
        answers = kind(out)
        mask = len(prefix) - 1
        for r in range(len(lo)):
            if lo[r] < hi[r]:
                if lo[r] < first or hi[r] > end:
                    return ~r
                above = take(prefixes, hi[r] & mask)
                put(answers, r, subtract(prefixes, above, take(prefixes, lo[r] & mask)))
        return 0

    return query_prefix


@kernel
def query_sum(prefix, first, end, lo, hi, total, shadow):
    """The same for integer sums; `shadow` is the exact sum rounded to a float."""
    mask = len(prefix) - 1
    for r in range(len(lo)):
        if lo[r] < hi[r]:
            if lo[r] < first or hi[r] > end:
                return ~r
            above = prefix[hi[r] & mask, 0]
            below = prefix[lo[r] & mask, 0]
            run = above - below
            is_over = ((above ^ below) & (above ^ run)) >> 63
            wraps = prefix[hi[r] & mask, 1] - prefix[lo[r] & mask, 1] + (is_over & (1 | above >> 63))
            total[r] = run
            shadow[r] = run + wraps * LAP
    return 0


@kernel
def extend_ends(prefix, kept_value, kept_at, end, value, at):
    """Append the elements that hold a value to a list; a NULL has the time of FIRST's or LAST's identity.

    The prefix counts values: value number `v` of the stream lies at `v` of the rings of the list.
    """
    mask = len(prefix) - 1
    running = prefix[end & mask]
    for i in range(len(value)):
        kept_value[running & mask] = value[i]  # if it is none, the next will overwrite it
        kept_at[running & mask] = at[i]
        running += LONG_AGO < at[i] < NEVER
        prefix[(end + 1 + i) & mask] = running


@kernel
def query_first(prefix, kept_value, kept_at, first, end, lo, hi, value, at):
    """The first value of each run; returns 0, or `~r` if elements of run `r` are not remembered."""
    return _query_ends(prefix, kept_value, kept_at, first, end, False, lo, hi, value, at)


@kernel
def query_last(prefix, kept_value, kept_at, first, end, lo, hi, value, at):
    """The same for the last value."""
    return _query_ends(prefix, kept_value, kept_at, first, end, True, lo, hi, value, at)


@kernel
def _query_ends(prefix, kept_value, kept_at, first, end, is_last, lo, hi, value, at):
    mask = len(prefix) - 1
    for r in range(len(lo)):
        if lo[r] < hi[r]:
            if lo[r] < first or hi[r] > end:
                return ~r
            before = prefix[lo[r] & mask]
            after = prefix[hi[r] & mask]
            if before < after:
                v = (after - 1 if is_last else before) & mask
                value[r] = kept_value[v]
                at[r] = kept_at[v]
    return 0
