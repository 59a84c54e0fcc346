"""Append cells to a slice store and fill them, in one pass: from events, or from cells of finer slices.

As `append_cells` in `kernels/slices.py` and `fold_together` in `kernels/fold.py`, one after the other, would: which
cell an event belongs to is known while its line of memory is near, and no cell is written before it is folded into.

Run `r`, `lo[r] .. hi[r] - 1`, is a slice. The first one's cells begin at number `begin`, before `following` if the
slice has been there already; new cells are numbered from `following` on. `last[k]` is the number of the newest cell of
key k. All arrays of cells begin with number `begin`. What is not wanted is given as arrays that are never touched:
`every` is the count of all events, the others are components of one input. The last thing `wanted` is that cells are
asked for ahead.
"""

from __future__ import annotations

import numpy as np

from muntin.component.count import Counts
from muntin.component.extremes import Greatests, Leasts
from muntin.component.sum import FloatSums, IntSums
from muntin.kernels.combine import combine, fold, put, take
from muntin.kernels.instructions import prefetch
from muntin.kernels.jit import inner, kernel, kernel_per_kind

BLOCK = 64
_WORD = 8  # bytes of an element of every array of cells
_LINE = np.uint64(3)  # log2 of the keys whose newest cells are noted in one line of memory
_SPREAD = np.uint64(0x9E3779B1)
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)


@kernel
def deal(key, part, parts, place, own):
    """Where the events are whose keys belong to one of `parts`, and these keys; how many there are.

    Keys whose newest cells share a line of memory belong to the same part, so that no two threads write there. There is
    no branch, which would be mispredicted for every other event.
    """
    mine, many = np.uint64(part), 0
    for i in range(len(key)):
        place[many], own[many] = i, key[i]
        line = np.uint64(key[i]) >> _LINE
        many += (((line * _SPREAD) & _LOW) * np.uint64(parts)) >> _HALF == mine
    return many


@inner
def ask_for(key, first, end, last, newest, origin, every, count, total, rest, least, greatest):
    """Have the newest cells of keys brought near, wherever they are: `last` first, then what each array has of them.
    A cell cost 50 ns otherwise, and costs 38 so, where 500,000 keys have one in two slices of three. Where 10,000 keys
    have cells that stay near anyway, an event costs 7 ns if nobody asks for them, and 11 if they are asked for."""
    for i in range(first, end):
        prefetch(newest + _WORD * key[i])
    for i in range(first, end):
        ahead = _WORD * max(last[np.uint64(key[i])] - origin, 0)  # of older slices nothing is needed
        prefetch(every + ahead)
        prefetch(count + ahead)
        prefetch(total + ahead)
        prefetch(rest + ahead)
        prefetch(least + ahead)
        prefetch(greatest + ahead)


@kernel_per_kind
def fold_appended(kind):
    """Fold events into cells, the sums of this kind; how many cells are new. `nothing` has the least and the greatest
    of no event."""

    def fold_appended(lo, hi, key, value, valid, is_all_valid, last, begin, following, cell_key, prior, first_cell,
                      wanted, nothing, every, count, total, rest, least, greatest):  # fmt: skip
        counts_every, counts, sums, finds_min, finds_max, are_far = wanted
        alls, counted, summed = Counts(every), Counts(count), kind(total, rest)
        leasts, greatests = Leasts(least), Greatests(greatest)
        newest = last.ctypes.data
        # what is not wanted has no memory, and to ask for that would take long
        at_every = every.ctypes.data if counts_every else cell_key.ctypes.data
        at_count = count.ctypes.data if counts else at_every
        at_total, at_rest = (total.ctypes.data, rest.ctypes.data) if sums else (at_every, at_every)
        at_least = least.ctypes.data if finds_min else at_every
        at_greatest = greatest.ctypes.data if finds_max else at_every
        origin, made = begin, following
        for r in range(len(lo)):
            begin = made if r else begin
            first_cell[r] = begin
            for block in range(lo[r], hi[r], BLOCK):
                end = min(block + BLOCK, hi[r])
                if are_far:
                    ask_for(key, block, end, last, newest, origin,
                            at_every, at_count, at_total, at_rest, at_least, at_greatest)  # fmt: skip
                for i in range(np.uint64(block), np.uint64(end)):
                    k = np.uint64(key[i])
                    number = last[k]
                    c = np.uint64(number - origin)
                    if number < begin:
                        c = np.uint64(made - origin)
                        cell_key[c], prior[c] = key[i], number
                        last[k] = made
                        made += 1
                        if counts_every:
                            every[c] = 0
                        if counts:
                            count[c] = 0
                        if sums:
                            total[c], rest[c] = 0, 0.0
                        if finds_min:
                            least[c] = nothing[0]
                        if finds_max:
                            greatest[c] = nothing[1]
                    if counts_every:
                        put(alls, c, fold(alls, take(alls, c), 0, 0))
                    if is_all_valid or valid[i]:
                        v = value[i]
                        if counts:
                            put(counted, c, fold(counted, take(counted, c), v, 0))
                        if sums:
                            put(summed, c, fold(summed, take(summed, c), v, 0))
                        if finds_min:
                            put(leasts, c, fold(leasts, take(leasts, c), v, 0))
                        if finds_max:
                            put(greatests, c, fold(greatests, take(greatests, c), v, 0))
        return made - following

    return fold_appended


@kernel_per_kind
def merge_appended(kind):
    """The same with cells of finer slices in place of events, their state arrays before those that they go to."""

    def merge_appended(lo, hi, key, last, begin, following, cell_key, prior, first_cell, wanted,
                       old_every, old_count, old_total, old_rest, old_least, old_greatest,
                       every, count, total, rest, least, greatest):  # fmt: skip
        counts_every, counts, sums, finds_min, finds_max, are_far = wanted
        old_alls, old_counted, old_summed = Counts(old_every), Counts(old_count), kind(old_total, old_rest)
        old_leasts, old_greatests = Leasts(old_least), Greatests(old_greatest)
        alls, counted, summed = Counts(every), Counts(count), kind(total, rest)
        leasts, greatests = Leasts(least), Greatests(greatest)
        newest = last.ctypes.data
        # what is not wanted has no memory, and to ask for that would take long
        at_every = every.ctypes.data if counts_every else cell_key.ctypes.data
        at_count = count.ctypes.data if counts else at_every
        at_total, at_rest = (total.ctypes.data, rest.ctypes.data) if sums else (at_every, at_every)
        at_least = least.ctypes.data if finds_min else at_every
        at_greatest = greatest.ctypes.data if finds_max else at_every
        origin, made = begin, following
        for r in range(len(lo)):
            begin = made if r else begin
            first_cell[r] = begin
            for block in range(lo[r], hi[r], BLOCK):
                end = min(block + BLOCK, hi[r])
                if are_far:
                    ask_for(key, block, end, last, newest, origin,
                            at_every, at_count, at_total, at_rest, at_least, at_greatest)  # fmt: skip
                for i in range(np.uint64(block), np.uint64(end)):
                    k = np.uint64(key[i])
                    number = last[k]
                    if number < begin:
                        c = np.uint64(made - origin)
                        cell_key[c], prior[c] = key[i], number
                        last[k] = made
                        made += 1
                        if counts_every:
                            put(alls, c, take(old_alls, i))
                        if counts:
                            put(counted, c, take(old_counted, i))
                        if sums:
                            put(summed, c, take(old_summed, i))
                        if finds_min:
                            put(leasts, c, take(old_leasts, i))
                        if finds_max:
                            put(greatests, c, take(old_greatests, i))
                        continue
                    c = np.uint64(number - origin)
                    if counts_every:
                        put(alls, c, combine(alls, take(alls, c), take(old_alls, i)))
                    if counts:
                        put(counted, c, combine(counted, take(counted, c), take(old_counted, i)))
                    if sums:
                        put(summed, c, combine(summed, take(summed, c), take(old_summed, i)))
                    if finds_min:
                        put(leasts, c, combine(leasts, take(leasts, c), take(old_leasts, i)))
                    if finds_max:
                        put(greatests, c, combine(greatests, take(greatests, c), take(old_greatests, i)))
        return made - following

    return merge_appended


FOLD = {"i": fold_appended(IntSums), "f": fold_appended(FloatSums)}
MERGE = {"i": merge_appended(IntSums), "f": merge_appended(FloatSums)}
