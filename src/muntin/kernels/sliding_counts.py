"""Counts of blocks: the most frequent items of a block, from the greatest count down; Misra-Gries over many.

Items are codes. Pairs of item and count, sorted by item, are what runs and summaries are made of.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel
from muntin.kernels.ladder import AT, HELD, LOST, SLACK, USED, put_block
from muntin.kernels.sliding_quantiles import sort_units
from muntin.kernels.sorted_runs import merge_halves

_BUCKETS = 256  # counts below this are sorted by counting
_FEW = 64  # pairs that are sooner sorted by insertion


@kernel
def count_sorted(code, held, item, count):
    """Pairs of the sorted code[:held]; returns how many."""
    pairs = 0
    for i in range(held):
        if i and code[i] == code[i - 1]:
            count[pairs - 1] += 1
        else:
            item[pairs], count[pairs] = code[i], 1
            pairs += 1
    return pairs


@kernel
def nth_greatest(count, pairs, nth):
    """The nth greatest of counts, from 0; 0 if there are not so many."""
    if nth >= pairs:
        return np.int64(0)
    tally = np.zeros(_BUCKETS, np.int64)
    for i in range(pairs):
        tally[min(count[i], _BUCKETS - 1)] += 1
    bucket, above = _BUCKETS - 1, 0
    while above + tally[bucket] <= nth:
        above += tally[bucket]
        bucket -= 1
    if bucket < _BUCKETS - 1:
        return np.int64(bucket)
    large = np.sort(count[:pairs][count[:pairs] >= _BUCKETS - 1])
    return np.int64(large[len(large) - 1 - nth])


@kernel
def prune(item, count, pairs, most):
    """Misra-Gries: take the same from all counts so that at most `most` are left; returns pairs and that."""
    if pairs <= most:
        return pairs, np.int64(0)
    taken = nth_greatest(count, pairs, most)
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
def _insert_pairs(item, count, pairs, into_item, into_count):
    """The greatest counts in order, by insertion; returns the greatest one that has no place."""
    used, most, dropped = 0, len(into_item), np.int64(0)
    for i in range(pairs):
        to = used
        while to > 0 and into_count[to - 1] < count[i]:
            to -= 1
        if to == most:
            dropped = max(dropped, count[i])
            continue
        if used == most:
            used -= 1
            dropped = max(dropped, np.int64(into_count[used]))
        for j in range(used, to, -1):
            into_item[j], into_count[j] = into_item[j - 1], into_count[j - 1]
        into_item[to], into_count[to] = item[i], count[i]
        used += 1
    return dropped


@kernel
def _sort_pairs(item, count, pairs, into_item, into_count):
    """As `_insert_pairs`, by counting; the few large counts by comparison."""
    most, dropped = len(into_item), np.int64(0)
    place = np.zeros(_BUCKETS, np.int64)
    for i in range(pairs):
        place[min(count[i], _BUCKETS - 1)] += 1
    total = 0
    for bucket in range(_BUCKETS - 1, -1, -1):
        here = place[bucket]
        place[bucket] = total
        total += here
    large = place[_BUCKETS - 2]
    for i in range(pairs):
        bucket = min(count[i], _BUCKETS - 1)
        if bucket < _BUCKETS - 1:
            to = place[bucket]
            place[bucket] += 1
            if to < most:
                into_item[to], into_count[to] = item[i], count[i]
            else:
                dropped = max(dropped, count[i])
    if large:
        some = np.flatnonzero(count[:pairs] >= _BUCKETS - 1)
        some = some[np.argsort(-count[some], kind="mergesort")]
        for to in range(min(large, most)):
            into_item[to], into_count[to] = item[some[to]], count[some[to]]
        if large > most:
            dropped = max(dropped, count[some[most]])
    return dropped


@kernel
def put_pairs(shape, blocks, scale, level, number, item, count, pairs, held, slack, at):
    """A block of the pairs with the greatest counts, which may each be too low by `slack`."""
    block, entry = put_block(shape, blocks, scale, level, number)
    most = shape.entries << level
    blocks.about[block, HELD], blocks.about[block, AT] = held, at
    blocks.about[block, USED], blocks.about[block, SLACK] = min(pairs, most), slack
    into_item, into_count = blocks.item[entry : entry + most], blocks.count[entry : entry + most]
    if pairs <= _FEW:
        dropped = _insert_pairs(item, count, pairs, into_item, into_count)
    else:
        dropped = _sort_pairs(item, count, pairs, into_item, into_count)
    blocks.about[block, LOST] = slack + dropped


@kernel
def cut_base(shape, blocks, first, code, valid, at, source, into, item, count):
    """The blocks of all sizes up to that of `code`, from items as they came; returns how many pairs `item`
    and `count` have of all of them, and how many elements count."""
    held_of = sort_units(code, valid, 1 << shape.unit_bits, source)
    size, level = 1 << shape.unit_bits, 0
    while True:
        for number in range(len(code) // size):
            lo, held = number * size, held_of[number]
            pairs = count_sorted(source[lo:], held, item, count)
            put_pairs(
                shape, blocks, 0, level, (first + lo) // size, item, count, pairs, held, np.int64(0), at[lo]
            )
        if size == len(code):
            return pairs, held_of[0]
        for lo in range(0, len(code), 2 * size):
            merge_halves(source, lo, size, into)
        for number in range(len(code) // (2 * size)):
            held_of[number] = held_of[2 * number] + held_of[2 * number + 1]
        source, into = into, source
        size *= 2
        level += 1


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
