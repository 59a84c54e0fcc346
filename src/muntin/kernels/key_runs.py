"""Key runs: the events of each key side by side, in order of time, in one pool for all keys.

Key `k` has the entries `start[k] .. start[k] + count[k] - 1` of the pool, and room for `room[k]`; `left[k]` events of
it have left. Of each key the entries from the instant `floor` on are needed, and `spare` before it; others leave when
their key needs room. `built[n, k]` of the entries, a multiple of `BLOCK`, have nodes in the tree of component `n` (see
`read_runs`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.combine import as_words, combine, fold, put, take
from muntin.kernels.instructions import prefetch
from muntin.kernels.jit import inner, kernel, kernel_per_kind
from muntin.kernels.sorted_runs import first_not_below

BLOCK = 16  # entries that are folded one by one; a run with room for so many begins at a multiple of it
_SMALLEST = 2
_AHEAD = 4  # keys that are brought near before they are read
_NEAR = 8  # entries that are looked at one by one before a search


@inner
def _room_for(entries):
    """Room for half as many again, unless they are few."""
    if entries <= BLOCK // 2:
        room = _SMALLEST
        while room < entries:
            room *= 2
        return room
    return (entries + entries // 2 + BLOCK - 1) // BLOCK * BLOCK


@inner
def _aligned(end, room):
    return end if room < BLOCK else (end + BLOCK - 1) // BLOCK * BLOCK


@kernel
def tally_keys(key, came):
    """Count the events of each key."""
    for i in range(len(key)):
        came[key[i]] += 1


@kernel
def group_by_key(key, offset, order):
    """The events of each key one after the other, in their order; those of key `k` go to `offset[k]`, which moves."""
    for i in range(len(key)):
        order[offset[key[i]]] = i
        offset[key[i]] += 1


@kernel
def make_room(
    key, came, start, room, count, left, built, at, end, capacity, floor, spare, source, target, many
):
    """Have room for the `came[k]` events of each key `k` that occurs, which becomes negative once it is seen.

    Returns how many runs have to move, from `source` to `target`, `many` entries each; the end of the pool in use; and
    whether there is room for all of them. If not, some keys have not been seen.
    """
    moves = 0
    for i in range(len(key)):
        k = key[i]
        if came[k] <= 0:
            continue
        begin, entries = start[k], count[k]
        if entries + came[k] > room[k]:
            gone = max(0, first_not_below(at, begin, begin + entries, floor) - begin - spare)
            kept = entries - gone
            to, more = begin, room[k]
            if 4 * (kept + came[k]) > 3 * room[k]:
                more = _room_for(kept + came[k])
                to = _aligned(end, more)
                if to + more > capacity:
                    return moves, end, False
                end = to + more
            source[moves], target[moves], many[moves] = begin + gone, to, kept
            moves += 1
            start[k], room[k], count[k] = to, more, kept
            left[k] += gone
            for n in range(len(built)):
                built[n, k] = 0
        came[k] = -came[k]
    return moves, end, True


@kernel
def arrange_runs(came, start, room, count, left, built, at, floor, spare, source, target, many):
    """Arrange all runs anew, one behind the other, each with room for events that come; returns where the last ends."""
    end = 0
    for k in range(len(start)):
        begin, entries = start[k], count[k]
        gone = max(0, first_not_below(at, begin, begin + entries, floor) - begin - spare)
        kept = entries - gone
        coming = kept + abs(came[k])
        more = _room_for(coming) if coming else 0
        end = _aligned(end, more)
        source[k], target[k], many[k] = begin + gone, end, kept
        start[k], room[k], count[k] = end, more, kept
        left[k] += gone
        end += more
        for n in range(len(built)):
            built[n, k] = 0
    return end


def move_entries(old: Any, new: Any, source: Any, target: Any, many: Any) -> None:
    """Move runs of one column, within it or to another."""
    _move_entries(*as_words((old, new)), source, target, many)


@kernel
def _move_entries(old, new, source, target, many):
    for i in range(len(source)):
        begin, to = np.uint64(source[i]), np.uint64(target[i])
        for j in range(np.uint64(many[i])):  # an index that might be negative is looked at twice
            new[to + j] = old[begin + j]


@kernel
def find_places(key, came, start, count, place):
    """Where the events of keys that have room go, in their order."""
    for i in range(len(key)):
        k = key[i]
        came[k] = 0
        place[i] = start[k] + count[k]
        count[k] += 1


@kernel
def take_back(key, instant, at, start, count, built):
    """Take away the entries of some keys that are later than an instant."""
    for i in range(len(key)):
        k = key[i]
        entries = count[k]
        while entries and at[start[k] + entries - 1] > instant:
            entries -= 1
        if entries < count[k]:
            count[k] = entries
            for n in range(len(built)):
                built[n, k] = min(built[n, k], entries // BLOCK * BLOCK)


@inner
def _first_from(at, low, last, instant):
    """The first entry from `low` on that is not before an instant: near in most cases."""
    near = min(last, low + _NEAR)
    while low < near and at[low] < instant:
        low += 1
    if low == near and low < last:
        return first_not_below(at, low, last, instant)
    return low


@kernel
def locate_spans(ids, begins, by_begin, ends, by_end, start, count, at, lo, hi):
    """The entries of keys that lie in [begins[r], ends[r]), counted from the first of their run: slot
    `r * len(ids) + j` is key `ids[j]`. Each edge is looked for behind the one before it. Most windows end after the
    last entry, which is seen without a search. Most of the time goes into waiting for memory, so the times that a
    search looks at first are asked for some keys ahead."""
    width = len(ids)
    address = at.ctypes.data
    for j in range(width):
        ahead = ids[min(j + _AHEAD, width - 1)]
        for i in range(8):
            prefetch(address + 8 * (start[ahead] + i * count[ahead] // 8))
        prefetch(address + 8 * (start[ahead] + count[ahead] - 1))
        first = start[ids[j]]
        last = first + count[ids[j]]
        low = first
        for q in range(len(begins)):
            r = by_begin[q]
            low = _first_from(at, low, last, begins[r])
            lo[r * width + j] = low - first
        high = first
        for q in range(len(ends)):
            r = by_end[q]
            if high < last:
                high = last if at[last - 1] < ends[r] else _first_from(at, high, last, ends[r])
            hi[r * width + j] = max(high - first, lo[r * width + j])


@inner
def _span(k, begin, end, start, count, at):
    """The entries of a key that lie in [begin, end), counted from the first of its run. Most windows end after the last
    entry, which is seen without a search."""
    if count[k] == 0:
        return 0, 0
    first = start[k]
    last = first + count[k]
    low = first
    if at[first] < begin:
        low = first_not_below(at, first + 1, last, begin)
    high = last
    if at[last - 1] >= end:
        high = max(low, first_not_below(at, low, last, end))
    return low - first, high - first


@kernel
def locate_points(ids, begins, ends, start, count, at, lo, hi):
    """The entries of key `ids[p]` that lie in [begins[p], ends[p]), for each point."""
    for p in range(len(ids)):
        lo[p], hi[p] = _span(ids[p], begins[p], ends[p], start, count, at)


@kernel
def extend_spans(ids, begins, start, at, shorter, lo):
    """The first entry of key `ids[p]` from `begins[p]` on, given that of a shorter window with the same end."""
    for p in range(len(ids)):
        first = start[ids[p]]
        last = first + shorter[p]
        lo[p] = shorter[p]
        if shorter[p] > 0 and at[last - 1] >= begins[p]:
            lo[p] = first_not_below(at, first, last, begins[p]) - first


@kernel
def keep_latest(key, settled, spare, seen, kept):
    """Of the events before number `settled`, keep the `spare` latest of each key, and all after it."""
    for i in range(len(key) - 1, -1, -1):
        k = key[i]
        if i >= settled:
            kept[i] = True
        else:
            seen[k] += 1
            kept[i] = seen[k] <= spare


@kernel
def close_counts(key, slide, seen, slots, counts):
    """Where the number of a key's events, `seen` before them, becomes a multiple of `slide`; returns how often."""
    closed = 0
    for i in range(len(key)):
        k = key[i]
        if k >= 0:
            seen[k] += 1
            if seen[k] % slide == 0:
                slots[closed], counts[closed] = k, seen[k]
                closed += 1
    return closed


# The tree of a run: a node for each block of BLOCK entries, and one for each aligned pair of nodes, in order of time:
#
#     blocks     0   1   2   3   4        block b lies at 2 b, a node over 2 ** l blocks from b on at 2 b + 2 ** l - 1
#     level 1      1       5
#     level 2          3
#
# It is a B-INT without its lowest levels, which take most of the space and save little time. Nodes of all runs lie in
# the same arrays, whose last element is the identity. If that is all there is, entries are folded one by one.


@kernel
def build_nodes(nodes, nothing, begin, entries, built, at, value, valid):
    """Have nodes for all full blocks of a run; O(BLOCK) for each that is new."""
    origin = begin // BLOCK * 2
    for block in range(built // BLOCK, entries // BLOCK):
        state = nothing
        for i in range(begin + block * BLOCK, begin + (block + 1) * BLOCK):
            if valid[i]:
                state = fold(nodes, state, value[i], at[i])
        put(nodes, origin + 2 * block, state)
        span = 1
        while (block + 1) % (2 * span) == 0:
            older = origin + 2 * (block + 1 - 2 * span) + span - 1
            put(nodes, older + span, combine(nodes, take(nodes, older), take(nodes, older + 2 * span)))
            span *= 2
    return entries // BLOCK * BLOCK


@inner
def _read(nodes, nothing, begin, entries, built, lo, hi, at, value, valid):
    """The partial of entries `lo .. hi - 1` of a run, and how many of its entries have nodes since."""
    first, last = (lo + BLOCK - 1) // BLOCK, hi // BLOCK
    if first >= last or len(nodes[0]) == 1:
        first, last = lo // BLOCK, lo // BLOCK  # no node, and all entries after it
        i = lo
    else:
        if built < last * BLOCK:
            built = build_nodes(nodes, nothing, begin, entries, built, at, value, valid)
        i = min(lo, first * BLOCK)
    merged = nothing
    block = first
    while True:
        if i == first * BLOCK:
            while block < last:
                span = 1
                while block % (2 * span) == 0 and block + 2 * span <= last:
                    span *= 2
                merged = combine(nodes, merged, take(nodes, begin // BLOCK * 2 + 2 * block + span - 1))
                block += span
                i = block * BLOCK
        if i >= hi:
            return merged, built
        if valid[begin + i]:
            merged = fold(nodes, merged, value[begin + i], at[begin + i])
        i += 1


@kernel_per_kind
def read_runs(kind):
    """Partials of the entries `lo[s] .. hi[s] - 1` of key `keys[s]`, by its tree: O(BLOCK + log entries) each.

    The state arrays of the nodes come first, then those of the slots, which hold identities.
    """
    parts = len(kind._fields)

    def read_runs(keys, lo, hi, start, count, built, at, value, valid, *arrays):
        nodes = kind(*arrays[:parts])
        into = kind(*arrays[parts:])
        for slot in range(len(keys)):
            if lo[slot] < hi[slot]:
                k = keys[slot]
                merged, built[k] = _read(
                    nodes,
                    take(into, slot),
                    start[k],
                    count[k],
                    built[k],
                    lo[slot],
                    hi[slot],
                    at,
                    value,
                    valid,
                )
                put(into, slot, merged)

    return read_runs


@inner
def _read_one(nodes, k, lo, hi, start, count, built, at, value, valid):
    nothing = take(nodes, len(nodes[0]) - 1)
    merged, built[k] = _read(nodes, nothing, start[k], count[k], built[k], lo, hi, at, value, valid)
    return merged


@kernel_per_kind
def read_run(kind):
    """The partial of the entries `lo .. hi - 1` of one key, which has some; the last node is the identity."""

    def read_one(k, lo, hi, start, count, built, at, value, valid, one):
        return _read_one(kind(one), k, lo, hi, start, count, built, at, value, valid)

    def read_two(k, lo, hi, start, count, built, at, value, valid, one, two):
        return _read_one(kind(one, two), k, lo, hi, start, count, built, at, value, valid)

    def read_three(k, lo, hi, start, count, built, at, value, valid, one, two, three):
        return _read_one(kind(one, two, three), k, lo, hi, start, count, built, at, value, valid)

    # `*arrays` would cost as much as a third of the call
    return (read_one, read_two, read_three)[len(kind._fields) - 1]
