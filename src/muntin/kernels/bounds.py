"""Bounds of what windows hold of every pair, kept in a grid of keys and lanes; see `shard/read/window_bounds.py`.

Pair p has the place `place[p]` of the grid, -1 if nobody asks for it. Cells come in the order of their arrival, so
their places are all over the grid: the places of a block are asked for before the first is touched.
"""

from __future__ import annotations

import numpy as np

from muntin.component.sum import has_overflown, whole_sum
from muntin.kernels.instructions import prefetch
from muntin.kernels.jit import inner, kernel

BLOCK = 64
_MOST = 1e300  # beyond, a float is no longer told from what is not finite
_MOST_INT = float(2**61)  # beyond, a sum of integers may have no value
_MOST_COUNT = float(2**24)  # up to here a float32 counts exactly


@inner
def ask_for(place, key, first, last, address, size, at):
    """Find the places of cells `first .. last - 1`, and have the memory there brought near."""
    for c in range(first, last):
        at[c - first] = place[key[c]]
        prefetch(address + size * at[c - first])


@kernel
def add_counts(place, key, lo, hi, sign, count, into):
    """Add (or subtract) the counts of cells `lo .. hi - 1`."""
    address, size = into.ctypes.data, into.itemsize
    at = np.empty(BLOCK, np.int64)
    for first in range(lo, hi, BLOCK):
        last = min(first + BLOCK, hi)
        ask_for(place, key, first, last, address, size, at)
        for c in range(first, last):
            p = at[c - first]
            if p >= 0:
                total = into[p] + sign * count[c]
                into[p] = total if total <= _MOST_COUNT else np.nan


@kernel
def add_ints(place, key, lo, hi, sign, total, shadow, into):
    """The same for sums of integers; the largest that came about is returned. One that may overflow is NaN from then
    on, which passes every comparison."""
    address, size = into.ctypes.data, into.itemsize
    at = np.empty(BLOCK, np.int64)
    most = 0.0
    for first in range(lo, hi, BLOCK):
        last = min(first + BLOCK, hi)
        ask_for(place, key, first, last, address, size, at)
        for c in range(first, last):
            p = at[c - first]
            if p >= 0:
                value = np.nan if has_overflown(total[c], shadow[c]) else total[c] * 1.0
                value = into[p] + sign * value
                if not abs(value) <= _MOST_INT:
                    value = np.nan
                into[p] = value
                most = max(most, abs(value)) if value == value else most
    return most


@kernel
def add_floats(place, key, lo, hi, sign, high, low, into):
    """The same for sums of floats. Infinities and NaN stay NaN from then on."""
    address, size = into.ctypes.data, into.itemsize
    at = np.empty(BLOCK, np.int64)
    most = 0.0
    for first in range(lo, hi, BLOCK):
        last = min(first + BLOCK, hi)
        ask_for(place, key, first, last, address, size, at)
        for c in range(first, last):
            p = at[c - first]
            if p >= 0:
                step = whole_sum(high[c], low[c])
                value = into[p] + sign * step
                if not (abs(value) <= _MOST and abs(step) <= _MOST):
                    value = np.nan
                else:
                    most = max(most, abs(value), abs(step))
                into[p] = value
    return most


@kernel
def cells_reaching(place, key, lo, hi, value, is_up, room, floor, least, found):
    """The places of those cells among `lo .. hi - 1` whose value is not below the floor of its column; how many, -1 if
    there is no room for all. If not `is_up`, values change their signs.

    NaN is the greatest number: it is above every floor, with its sign changed above none. `least` is below all floors,
    so that few cells are looked at closer.
    """
    count = 0
    for c in range(lo, hi):
        v = value[c] * 1.0 if is_up else -(value[c] * 1.0)
        if v < least or (v != v and not is_up):
            continue
        p = place[key[c]]
        if p >= 0 and not v < floor[p % room]:
            if count == len(found):
                return -1
            found[count] = p
            count += 1
    return count


@kernel
def sums_reaching(sums, sign, room, keys, column, begins, floor, bottom, found_key, found_lane):
    """The keys and lanes of which a sum may reach its floor; how many, -1 if there is no room for all.

    The steps of a lane follow each other, from its highest band to the lowest: `begins` marks the first. A step adds
    column `column` of the key. What has been added up so far is compared with `floor`, and with `bottom`, below which
    a sum may have no value. NaN passes.
    """
    count = 0
    for key in range(keys):
        base = key * room
        lane = -1
        total = 0.0
        is_found = False
        for s in range(len(column)):
            if begins[s]:
                lane += 1
                total = 0.0
                is_found = False
            total += sign * sums[base + column[s]]
            if not (bottom <= total < floor[s]) and not is_found:
                if count == len(found_key):
                    return -1
                found_key[count] = key
                found_lane[count] = lane
                count += 1
                is_found = True
    return count


@kernel
def pairs_in_grid(pair, room, lane, key, first, column, rank, found_pair, found_rank, edges):
    """The pairs of keys in lanes, those of one key and lane in the order of the columns `first[l] .. first[l + 1] - 1`
    of the lane; how many. Those of number g are `found_pair[edges[g] : edges[g + 1]]`."""
    count = 0
    edges[0] = 0
    for g in range(len(lane)):
        base = key[g] * room
        for c in range(first[lane[g]], first[lane[g] + 1]):
            p = pair[base + column[c]]
            if p >= 0:
                found_pair[count] = p
                found_rank[count] = rank[c]
                count += 1
        edges[g + 1] = count
    return count
