"""Counts of blocks: the most frequent items of a block, from the greatest count down; Misra-Gries over many.

Items are codes. Pairs of item and count, sorted by item, are what runs and summaries are made of.

A hash table gives each item of a run a number, in order of first appearance. Its array `slot` has a power of two of
places, at least twice as many as there can be items. A place holds 0 if it is free, else one more than the number of
its item. Collisions go to the next place.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.distinct import home_of
from muntin.kernels.instructions import trailing_zeros
from muntin.kernels.jit import inner, kernel
from muntin.kernels.ladder import AT, HELD, LOST, SLACK, USED, put_block


@inner
def place_of(code, slot, name):
    """The place of an item among those that have numbers, or the free one where it would go."""
    at = home_of(code, len(slot))
    while slot[at] != 0 and name[slot[at] - 1] != code:
        at = (at + 1) & (len(slot) - 1)
    return at


@kernel
def count_items(code, slot, item, count):
    """Pairs of item and count; returns how many."""
    slot[:] = 0
    items = 0
    for i in range(len(code)):
        at = place_of(code[i], slot, item)
        if slot[at] == 0:
            item[items], count[items] = code[i], 0
            items += 1
            slot[at] = items
        count[slot[at] - 1] += 1
    return items


@kernel
def sum_items(item, count, spared, slot):
    """Add up counts, and what is spared, of equal items, in place; returns how many items there are."""
    slot[:] = 0
    items = 0
    for i in range(len(item)):
        at = place_of(item[i], slot, item)
        if slot[at] == 0:
            item[items], count[items], spared[items] = item[i], count[i], spared[i]
            items += 1
            slot[at] = items
        else:
            into = slot[at] - 1
            count[into] += count[i]
            spared[into] += spared[i]
    return items


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


@inner
def count_repeated(code, same, first, held, item, count):
    """Pairs of the items that occur more than once among sorted elements from `first` on, and how many occur once.

    Bit i of `same`, 64 to a word, says whether element i is like the one before it: items that occur once cost
    nothing, and one that occurs often no more than one that occurs twice. O(held / 64 + pairs).
    """
    pairs, ones, stop, goes_on = 0, 0, first + held, False
    for word in range(first >> 6, (stop + 63) >> 6):
        begin, bits = word << 6, same[word]
        if first >= begin:
            bits &= np.int64(-2) << (first - begin)  # the first is like none
        if stop - begin < 64:
            bits &= (np.int64(1) << (stop - begin)) - 1
        is_open, goes_on = goes_on, False
        while bits != 0:
            at = trailing_zeros(bits)
            run = min(trailing_zeros(~(bits >> at)), 64 - at)
            if at > 0 or not is_open:
                item[pairs], count[pairs] = code[begin + at], 1
                pairs += 1
            count[pairs - 1] += run
            ones += run
            goes_on = at + run == 64
            bits &= bits + (bits & -bits)  # without its lowest run
    return pairs, held - ones - pairs


@inner
def tally_counts(count, pairs, tally):
    """How many pairs there are of each count, the last place for all that are greater; `tally` was empty.
    Returns the greatest place that is used."""
    top = np.int64(0)
    for i in range(pairs):
        place = min(count[i], len(tally) - 1)
        tally[place] += 1
        top = max(top, place)
    return top


@inner
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
def put_pairs(shape, blocks, scale, level, number, item, count, pairs, held, slack, at, tally):
    """A block of the pairs with the greatest counts, which may each be too low by `slack`."""
    block, entry = put_block(shape, blocks, scale, level, number)
    about, block_item, block_count = blocks.about, blocks.item, blocks.count
    used, lost = put_greatest(
        block_item, block_count, entry, shape.entries << level, item, count, pairs, 0, tally
    )
    put_facts(about, block, held, used, slack, lost, at)


@inner
def put_facts(about, block, held, used, slack, lost, at):
    """What is known of a block beside its pairs."""
    about[block, HELD], about[block, AT] = held, at
    about[block, USED], about[block, SLACK], about[block, LOST] = used, slack, slack + lost


@inner
def put_greatest(block_item, block_count, entry, room, item, count, pairs, singles, tally):
    """The pairs with the greatest counts, from `entry` on, where there is room for so many; there are more pairs of
    count 1 (`singles`) that it cannot have. Returns how many there are, and the greatest count that has none.

    Pairs that are no greater than one for which there is no room are left out with it: nothing that can be
    said of counts depends on them. `tally` is empty, before and after.
    """
    top = tally_counts(count, pairs, tally)
    lost = max(nth_greatest(count, pairs, room, tally, top), np.int64(singles > 0))
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
            while to > entry and block_count[to - 1] < often:
                block_item[to], block_count[to] = block_item[to - 1], block_count[to - 1]
                to -= 1
        block_item[to], block_count[to] = item[i], often
    for place in range(top + 1):
        tally[place] = 0
    return used, lost


@kernel
def cut_rows(
    shape, blocks, lowest, rows, first, source, same, held, at, counted, most, item, count, tally
):  # fmt: skip
    """Blocks of several sizes, from `lowest` on, from elements of which the first has number `first`.

    source[r] has them sorted within each block of the r-th size, and the last row all of them; of block i of the
    smallest size held[i] count, which come first, and `counted` of all. `same` as in `count_repeated`, row after
    row. `item` and `count` have room for all pairs. What they have in the end are those of the last row, as Misra
    and Gries would have kept them, `most` of them; returned are how many, and what was taken from each.
    """
    elements, code = source.shape[1], source.reshape(-1)
    # once, since each look at a field is counted in and out
    about, block_item, block_count = blocks.about, blocks.item, blocks.count
    for row in range(rows):
        level = lowest + row * shape.radix_bits
        bits = shape.unit_bits + level
        if row:
            for i in range(elements >> bits):
                held[i] = held[i << shape.radix_bits : (i + 1) << shape.radix_bits].sum()
        if blocks.size[0, level] == 0:
            blocks.first[0, level] = first >> bits
        blocks.size[0, level] += elements >> bits
        begin, begin_entry = blocks.block_start[0, level], blocks.entry_start[0, level]
        room, width = blocks.room[0, level], shape.entries << level
        place = (first >> bits) % room
        for number in range(elements >> bits):
            lo = number << bits
            pairs, singles = count_repeated(code, same, row * elements + lo, held[number], item, count)
            if pairs + singles <= width:
                pairs = count_sorted(code[row * elements + lo :], held[number], item, count)
                singles = 0
            entry = begin_entry + place * width
            used, lost = put_greatest(
                block_item, block_count, entry, width, item, count, pairs, singles, tally
            )
            put_facts(about, begin + place, held[number], used, 0, lost, at[lo])
            place = place + 1 if place + 1 < room else 0
    last = (len(source) - 1) * elements
    pairs, singles = count_repeated(code, same, last, counted, item, count)
    if pairs + singles <= most:
        return count_sorted(code[last:], counted, item, count), np.int64(0)
    # what occurs once is below the one for which there is no room, or is that one
    taken = max(nth_greatest(count, pairs, most, tally, tally_counts(count, pairs, tally)), np.int64(1))
    tally[:] = 0
    left = 0
    for i in range(pairs):
        item[left], count[left] = item[i], count[i] - taken
        left += count[left] > 0
    return left, taken


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
