"""Repeats: for each entry of a key's run, how far the next entry with the same value is.

Entries are numbered as in `value_order.py`. `ahead` of an entry is the number of the next one with its value less its
own, `NEVER` if there is none yet, 0 if it does not count (NULL, filtered out). Of a window that ends before number
`hi`, entry `i` is the last of its value if its `ahead` is at least `hi - i`; there are as many of those as different
values, and most are known when the window inside this one has been counted.

The latest entry of each value of each key is in a hash table of rows (key, number), with key -1 where a place is free;
its value is with the run. Collisions go to the next place. A row whose entry has left its run is in the way of others,
and taken by the next value that comes by.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.instructions import prefetch
from muntin.kernels.jit import inner, kernel

NEVER = np.int32(2**31 - 1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)
_FOLD = np.uint64(32)
_NAN = 0x7FF8000000000000
_LINE = 16  # entries that are brought near together


@inner
def _code_of(value, bits, p):
    """Equal for values that are equal: of floats the bits, but all NaN are one value, and -0.0 is 0.0."""
    v = value[p]
    if v == 0:
        return 0
    return bits[p] if v == v else _NAN


@inner
def _home_of(k, code, places):
    """Where a value of a key would like to be."""
    bits = np.uint64(code) * _GOLDEN + np.uint64(k) * _OTHER
    bits = (bits ^ (bits >> _FOLD)) * _GOLDEN
    return np.int64((bits ^ (bits >> _FOLD)) & np.uint64(places - 1))


@inner
def _place_of(table, k, code, start, left, value, bits):
    """The place of a value of a key, and True; or where it would go, and False."""
    mask = len(table) - 1
    at = _home_of(k, code, mask + 1)
    gone = -1
    while table[at, 0] >= 0:
        owner, number = table[at, 0], table[at, 1]
        if number < left[owner]:
            gone = at if gone < 0 else gone
        elif owner == k and _code_of(value, bits, start[k] + number - left[k]) == code:
            return at, True
        at = (at + 1) & mask
    return (at if gone < 0 else gone), False


@inner
def _link(k, p, start, left, value, bits, valid, ahead, table):
    """The entry at a place of the pool comes, the youngest of its key; 1 if it takes a free place of the table."""
    if not valid[p]:
        ahead[p] = 0
        return 0
    ahead[p] = NEVER
    number = left[k] + p - start[k]
    at, is_known = _place_of(table, k, _code_of(value, bits, p), start, left, value, bits)
    if is_known:
        gap = number - table[at, 1]
        ahead[p - gap] = gap
    is_free = table[at, 0] < 0
    table[at, 0], table[at, 1] = k, number
    return 1 if is_free else 0


@kernel
def link_entries(key, place, start, left, value, bits, valid, ahead, table):
    """Entries have come to places of the pool; returns how many places of the table they have taken."""
    taken = 0
    for i in range(len(key)):
        taken += _link(key[i], place[i], start, left, value, bits, valid, ahead, table)
    return taken


@kernel
def link_runs(first, last, start, count, left, value, bits, valid, ahead, table):
    """Link all entries of the keys in [first, last); returns how many places of the table they have taken."""
    taken = 0
    for k in range(first, last):
        for p in range(start[k], start[k] + count[k]):
            taken += _link(k, p, start, left, value, bits, valid, ahead, table)
    return taken


@kernel
def count_kept(table, left):
    """How many rows of a table are of entries that have not left."""
    kept = 0
    for at in range(len(table)):
        k = table[at, 0]
        kept += k >= 0 and table[at, 1] >= left[k]
    return kept


@kernel
def keep_rows(table, start, left, value, bits, into):
    """Put the rows of entries that have not left into an empty table."""
    mask = len(into) - 1
    for row in range(len(table)):
        k, number = table[row, 0], table[row, 1]
        if k >= 0 and number >= left[k]:
            at = _home_of(k, _code_of(value, bits, start[k] + number - left[k]), mask + 1)
            while into[at, 0] >= 0:
                at = (at + 1) & mask
            into[at, 0], into[at, 1] = k, number


@kernel
def unlink_entries(keys, instant, at, start, count, left, value, bits, valid, ahead, table):
    """The entries of some keys that are later than an instant go: the ones before them are the latest again.

    Returns how many places of the table have been taken.
    """
    taken = 0
    for i in range(len(keys)):
        k = keys[i]
        last = start[k] + count[k]
        while last > start[k] and at[last - 1] > instant:
            last -= 1
            if valid[last]:
                place, is_known = _place_of(table, k, _code_of(value, bits, last), start, left, value, bits)
                if is_known:
                    table[place, 1] = -1
        for p in range(start[k], last):
            if last - p <= ahead[p] < NEVER:
                place, _ = _place_of(table, k, _code_of(value, bits, p), start, left, value, bits)
                taken += table[place, 0] < 0
                ahead[p] = NEVER
                table[place, 0], table[place, 1] = k, left[k] + p - start[k]
    return taken


@kernel
def count_different(ids, lo, hi, sequence, start, count, ahead, into):
    """How many different values there are among the entries `lo[s] .. hi[s] - 1` of key `ids[j]`, slot
    `s = r * len(ids) + j`. Of the rows in `sequence`, those that end together follow each other, the longest first."""
    width = len(ids)
    address = ahead.ctypes.data
    for j in range(width):
        near = ids[min(j + 1, width - 1)]
        for p in range(start[near], start[near] + count[near], _LINE):
            prefetch(address + 4 * p)
        first = start[ids[j]]
        counted_to, end, different = 0, -1, 0
        for q in range(len(sequence) - 1, -1, -1):
            s = sequence[q] * width + j
            if lo[s] >= hi[s]:
                continue
            if hi[s] != end or lo[s] > counted_to:  # two may end at the same entry at other times
                counted_to, end, different = hi[s], hi[s], 0
            part = ahead[first + lo[s] : first + counted_to]
            distance = np.int32(end - lo[s])
            some = np.int32(0)
            for i in range(len(part)):
                some = np.int32(some + (part[i] >= np.int32(distance - i)))
            different += int(some)
            counted_to = lo[s]
            into[s] = different
