"""Fold events into partials, and merge partials into partials, by the rules of a kind of cells.

A range `r` covers the events `lo[r] .. hi[r] - 1`. `at` is event time; an event that is not `valid` counts nowhere. The
state arrays, one element per slot, come last. They start as the component's identity, or hold partials already.
"""

from __future__ import annotations

import numpy as np

from muntin.component.count import Counts
from muntin.component.extremes import Greatests, Leasts
from muntin.component.sum import FloatSums, IntSums
from muntin.kernels.combine import combine, fold, lift, put, take
from muntin.kernels.jit import kernel, kernel_per_kind


@kernel_per_kind
def fold_events(kind):
    """Event `i` of range `r` goes to slot `r * width + key[i]`, or nowhere if `key[i] < 0`."""

    def fold_events(lo, hi, width, key, at, value, valid, *arrays):
        into = kind(*arrays)
        for r in range(len(lo)):
            base = r * width
            for i in range(lo[r], hi[r]):
                k = key[i]
                if k >= 0 and valid[i]:
                    put(into, base + k, fold(into, take(into, base + k), value[i], at[i]))

    return fold_events


@kernel_per_kind
def fold_runs(kind):
    """Range `r` goes to slot `r`: the state stays in registers."""

    def fold_runs(lo, hi, at, value, valid, *arrays):
        into = kind(*arrays)
        for r in range(len(lo)):
            begin, end = np.uint64(lo[r]), np.uint64(hi[r])  # unsigned: see `take`
            is_all_valid = True  # nearly always: then there is a loop that does not ask
            for i in range(begin, end):
                is_all_valid &= valid[i]
            state = take(into, r)
            for i in range(begin, end):
                folded = fold(into, state, value[i], at[i])
                # no branch, which would be mispredicted
                state = folded if is_all_valid or valid[i] else state
            put(into, r, state)

    return fold_runs


@kernel_per_kind
def lift_events(kind):
    """Event `i` alone becomes partial `i`: the state arrays, then those of one identity, for what is not valid."""
    parts = len(kind._fields)

    def lift_events(at, value, valid, *arrays):
        into = kind(*arrays[:parts])
        nothing = kind(*arrays[parts:])
        for i in range(len(value)):
            put(into, i, take(nothing, 0))
            if valid[i]:
                put(into, i, lift(into, value[i], at[i]))

    return lift_events


# Into cells of slices: event `i` goes to cell `cell[i] - origin`. The components that most aggregates are made of are
# folded in one loop. A component at a time would read the events and their cells again for each: four of them together
# cost half as much (5 ns an event against 11, at 10,000 keys). What is not wanted is given as arrays that are never
# touched.


@kernel
def count_cells(cell, origin, count):
    """Count events, whatever they hold."""
    for i in range(len(cell)):
        count[cell[i] - origin] += 1


@kernel_per_kind
def fold_together(kind):
    """count, sum (of this kind), min and max of one input."""

    def fold_together(cell, origin, value, valid, is_all_valid, counts, sums, finds_min, finds_max,
                      count, total, rest, least, greatest):  # fmt: skip
        counted = Counts(count)
        summed = kind(total, rest)
        leasts = Leasts(least)
        greatests = Greatests(greatest)
        for i in range(len(cell)):
            if is_all_valid or valid[i]:
                c = cell[i] - origin
                v = value[i]
                if counts:
                    put(counted, c, fold(counted, take(counted, c), v, 0))
                if sums:
                    put(summed, c, fold(summed, take(summed, c), v, 0))
                if finds_min:
                    put(leasts, c, fold(leasts, take(leasts, c), v, 0))
                if finds_max:
                    put(greatests, c, fold(greatests, take(greatests, c), v, 0))

    return fold_together


fold_ints = fold_together(IntSums)
fold_floats = fold_together(FloatSums)


@kernel_per_kind
def merge_partials(kind):
    """Like `fold_events`, with cells (partials kept earlier) in place of events.

    Range `r` covers cells `lo[r] .. hi[r] - 1`, and cell `c` goes to slot `r * width + key[c]`, or nowhere if
    `key[c] < 0`. Cells of one key need not come in order of time: components that depend on it carry it. The state
    arrays of the cells come first, then those of the slots.
    """
    parts = len(kind._fields)

    def merge_partials(lo, hi, width, key, *arrays):
        cells = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        for r in range(len(lo)):
            base = r * width
            for c in range(lo[r], hi[r]):
                k = key[c]
                if k >= 0:
                    put(into, base + k, combine(into, take(into, base + k), take(cells, c)))

    return merge_partials


@kernel_per_kind
def merge_runs(kind):
    """The same where the width is 1: the state stays in registers."""
    parts = len(kind._fields)

    def merge_runs(lo, hi, key, *arrays):
        cells = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        for r in range(len(lo)):
            state = take(into, r)
            for c in range(lo[r], hi[r]):
                if key[c] >= 0:
                    state = combine(into, state, take(cells, c))
            put(into, r, state)

    return merge_runs
