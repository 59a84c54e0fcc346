"""Bands of an axis that is cut in places: the band of each event, and what lies in all bands above one."""

from __future__ import annotations

import numpy as np

from muntin.kernels.answers import sort_key
from muntin.kernels.combine import combine, put, take
from muntin.kernels.jit import kernel, kernel_per_kind


@kernel
def find_bands(bits, are_floats, valid, lane, first, cut, shift, start, number, out):
    """The number of the band of each event in its lane; -1 if it is in no lane, or nobody asks for the band.

    `bits` are integers or, if they are floats, those floats as they lie in memory. `valid` may be empty: then all are;
    so may `lane`: then all are in the first one. The cuts of lane l are `cut[first[l] : first[l + 1]]`, ascending, and
    each begins a band.

    A search among a hundred cuts mispredicts most of its branches. If there is one lane, `start[b]` is the last cut
    that is not above the first value of bucket b, each of `2 ** shift` values, so that few cuts are left to compare.
    """
    are_all_valid, is_one_lane = len(valid) == 0, len(lane) == 0
    for i in range(len(bits)):
        at = 0 if is_one_lane else lane[i]
        found = np.int64(-1)
        if at >= 0 and (are_all_valid or valid[i]):
            key = sort_key(bits[i], are_floats)
            place, end = first[at], first[at + 1]
            if place < end and cut[np.uint64(place)] <= key:
                many = end - place
                if len(start):
                    bucket = (
                        np.uint64(key) - np.uint64(cut[0])
                    ) >> shift  # without a sign it cannot overflow
                    if bucket < np.uint64(len(start) - 1):
                        place = start[bucket]
                        many = start[bucket + np.uint64(1)] - place + 1
                    else:
                        place, many = end - 1, 1
                while many > 1:
                    half = many >> 1
                    if cut[np.uint64(place + half)] <= key:
                        place += half
                    many -= half
                found = number[np.uint64(place)]
        out[i] = found


@kernel_per_kind
def accumulate(kind):
    """For each place of a group, the partials from there to the end of the group, merged.

    The places of group g are `first[g] .. first[g + 1] - 1`. What is at place p is cell `cell[p]` of `width` at each of
    some instants. The state arrays of the cells come first, then those of the places.
    """
    parts = len(kind._fields)

    def accumulate(first, cell, width, instants, *arrays):
        cells, into = kind(*arrays[:parts]), kind(*arrays[parts:])
        many = len(cell)
        for r in range(instants):
            for g in range(len(first) - 1):
                place = first[g + 1] - 1
                merged = take(cells, r * width + cell[place])
                put(into, r * many + place, merged)
                while place > first[g]:
                    place -= 1
                    merged = combine(cells, take(cells, r * width + cell[place]), merged)
                    put(into, r * many + place, merged)

    return accumulate


@kernel
def first_within(first, rank, group, cut, out):
    """Of each of some groups the first place whose rank is not below its cut; the end of the group if there is none."""
    for i in range(len(group)):
        place, end = first[group[i]], first[group[i] + 1]
        while place < end:
            middle = (place + end) >> 1
            if rank[middle] < cut[i]:
                place = middle + 1
            else:
                end = middle
        out[i] = place


@kernel
def entries_within(first, rank, bits, are_floats, valid, group_begin, group_end, query_begin, query_end, cut, low, high,
                   edges, entries):  # fmt: skip
    """For each query, the entries whose value is from `low` to `high`: of each group of its lane, the first entry that
    is not below its cut is the one that counts. One walk through the entries of a group for all queries of a lane.

    Lane l has the groups `group_begin[l] .. group_end[l] - 1` and the queries `query_begin[l] .. query_end[l] - 1`,
    these by ascending cuts. `bits` and `valid` are as in `find_bands`. `edges[q]` is where the
    entries of query q begin. If there is no room for `entries`, `edges[q]` will be how many query q has.
    """
    counts, are_all_valid = len(entries) == 0, len(valid) == 0
    for lane in range(len(group_begin)):
        for group in range(group_begin[lane], group_end[lane]):
            entry, end = first[group], first[group + 1]
            for query in range(query_begin[lane], query_end[lane]):
                while entry < end and rank[entry] < cut[query]:
                    entry += 1
                if entry == end:
                    break
                number = sort_key(bits[entry], are_floats)
                if low[query] <= number <= high[query] and (are_all_valid or valid[entry]):
                    if not counts:
                        entries[edges[query]] = entry
                    edges[query] += 1


@kernel
def entries_above(first, rank, key, group_begin, group_end, query_begin, query_end, query, cut, out):
    """For each query and each group of its lane, the first entry that is not below its cut, as the element
    `out[query, key]` of the key of that group; nothing is written if there is none.

    Lane l has the groups `group_begin[l] .. group_end[l] - 1` and the queries with the numbers
    `query[query_begin[l] : query_end[l]]`, these by ascending cuts.
    """
    for lane in range(len(group_begin)):
        for group in range(group_begin[lane], group_end[lane]):
            entry, end = first[group], first[group + 1]
            of = key[entry]
            for place in range(query_begin[lane], query_end[lane]):
                while entry < end and rank[entry] < cut[query[place]]:
                    entry += 1
                if entry == end:
                    break
                out[query[place], of] = entry
