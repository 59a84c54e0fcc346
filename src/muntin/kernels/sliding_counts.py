"""Counts of blocks: the most frequent items of a block, from the greatest count down; Misra-Gries over many.

Items are codes. Pairs of item and count, sorted by item, are what runs and summaries are made of.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel
from muntin.kernels.ladder import AT, HELD, LOST, SLACK, USED, put_block

BUCKETS = 256  # counts below the last are sorted by counting


@kernel
def count_sorted(code, held, item, count):
    """Pairs of the sorted code[:held]; returns how many."""
    pairs, start = 0, 0
    for i in range(1, held):
        # written every time, since whether a run ends here is hard to guess
        is_end = code[i] != code[i - 1]
        item[pairs], count[pairs] = code[i - 1], i - start
        pairs += is_end
        start = i if is_end else start
    if held:
        item[pairs], count[pairs] = code[held - 1], held - start
        pairs += 1
    return pairs


@kernel
def count_repeated(code, held, item, count):
    """As `count_sorted`, without the items that occur once; how many those are is the second it returns."""
    pairs, start, ends = 0, 0, 0
    for i in range(1, held):
        is_end = code[i] != code[i - 1]
        item[pairs], count[pairs] = code[i - 1], i - start
        pairs += is_end and i - start > 1
        ends += is_end
        start = i if is_end else start
    if held:
        item[pairs], count[pairs] = code[held - 1], held - start
        pairs += held - start > 1
        ends += 1
    return pairs, ends - pairs


@kernel
def tally_counts(count, pairs, tally):
    """How many pairs there are of each count, the last place for all that are greater; `tally` was empty.
    Returns the greatest place that is used."""
    top = np.int64(0)
    for i in range(pairs):
        place = min(count[i], len(tally) - 1)
        tally[place] += 1
        top = max(top, place)
    return top


@kernel
def nth_greatest(count, pairs, nth, tally, top):
    """The nth greatest of counts that have been tallied, from 0; 0 if there are not so many."""
    if nth >= pairs:
        return np.int64(0)
    place, above = top, np.int64(0)
    while above + tally[place] <= nth:
        above += tally[place]
        place -= 1
    if place < len(tally) - 1:
        return np.int64(place)
    large = np.sort(count[:pairs][count[:pairs] >= place])
    return np.int64(large[len(large) - 1 - nth])


@kernel
def prune(item, count, pairs, most):
    """Misra-Gries: take the same from all counts so that at most `most` are left; returns pairs and that."""
    if pairs <= most:
        return pairs, np.int64(0)
    tally = np.zeros(BUCKETS, np.int64)
    taken = nth_greatest(count, pairs, most, tally, tally_counts(count, pairs, tally))
    left = 0
    for i in range(pairs):
        if count[i] > taken:
            item[left], count[left] = item[i], count[i] - taken
            left += 1
    return left, taken


@kernel
def feed(item, count, used, run_item, run_count, run_pairs, most, scratch_item, scratch_count):
    """Merge the pairs of a run into a summary of at most `most` pairs; returns its length, and by how much
    all counts may be too low because of it: (n taken away) / (most + 1) at most."""
    i, j, at = 0, 0, 0
    while i < used and j < run_pairs:
        x, y = item[i], run_item[j]
        scratch_item[at] = min(x, y)
        scratch_count[at] = (count[i] if x <= y else 0) + (run_count[j] if y <= x else 0)
        i += x <= y
        j += y <= x
        at += 1
    while i < used:
        scratch_item[at], scratch_count[at] = item[i], count[i]
        i, at = i + 1, at + 1
    while j < run_pairs:
        scratch_item[at], scratch_count[at] = run_item[j], run_count[j]
        j, at = j + 1, at + 1
    left, taken = prune(scratch_item, scratch_count, at, most)
    item[:left], count[:left] = scratch_item[:left], scratch_count[:left]
    return left, taken


@kernel
def put_pairs(shape, blocks, scale, level, number, item, count, pairs, singles, held, slack, at, tally):
    """A block of the pairs with the greatest counts, which may each be too low by `slack`; there are more
    pairs of count 1 (`singles`) that it cannot have.

    Pairs that are no greater than one for which there is no room are left out with it: nothing that can be
    said of counts depends on them. `tally` is empty, before and after.
    """
    block, entry = put_block(shape, blocks, scale, level, number)
    top = tally_counts(count, pairs, tally)
    lost = max(nth_greatest(count, pairs, shape.entries << level, tally, top), np.int64(singles > 0))
    # from the greatest count down: where those of each count begin
    begins, last = 0, len(tally) - 1
    for place in range(top, -1, -1):
        here = tally[place]
        tally[place] = begins
        begins += here
    used = 0
    for i in range(pairs):
        often = np.int64(count[i])
        if often <= lost:
            continue
        used += 1
        bucket = min(often, last)
        to = entry + tally[bucket]
        tally[bucket] += 1
        if bucket == last:  # few, and by comparison
            while to > entry and blocks.count[to - 1] < often:
                blocks.item[to], blocks.count[to] = blocks.item[to - 1], blocks.count[to - 1]
                to -= 1
        blocks.item[to], blocks.count[to] = item[i], often
    tally[: top + 1] = 0
    blocks.about[block, HELD], blocks.about[block, AT] = held, at
    blocks.about[block, USED], blocks.about[block, SLACK] = used, slack
    blocks.about[block, LOST] = slack + lost


@kernel
def cut_row(shape, blocks, level, first, size, source, held, at, item, count, tally):
    """Blocks of a size from elements, of which the first has number `first`; those of each are sorted, and
    held[i] of block i count, which come first. `item` and `count` have room for the pairs of a block."""
    for number in range(len(held)):
        lo = number * size
        pairs, singles = count_repeated(source[lo:], held[number], item, count)
        if pairs + singles <= shape.entries << level:
            pairs, singles = count_sorted(source[lo:], held[number], item, count), 0
        block = (first + lo) // size
        put_pairs(shape, blocks, 0, level, block, item, count, pairs, singles, held[number], 0, at[lo], tally)


@kernel
def count_of(item, count, start, used, slack, lost, wanted):
    """How often an item occurs in some blocks, at least and at most."""
    least = most = np.int64(0)
    for block in range(len(start)):
        missing = lost[block]
        for i in range(start[block], start[block] + used[block]):
            if item[i] == wanted:
                least, most = least + count[i], most + count[i]
                missing = slack[block]
                break
        most += missing
    return least, most


@kernel
def sum_items(item, count, spared):
    """Add up counts, and what is spared, of equal items in pairs sorted by item, in place; returns how many
    items there are."""
    items = 0
    for i in range(len(item)):
        if items and item[i] == item[items - 1]:
            count[items - 1] += count[i]
            spared[items - 1] += spared[i]
        else:
            item[items], count[items], spared[items] = item[i], count[i], spared[i]
            items += 1
    return items
