"""Repeats: for each entry of a key's run, how many entries ago its key had the same value.

Entries are numbered as in `value_order.py`. The gap of an entry is its number less that of the entry before it with
the same value, `FIRST_TIME` if there is none, and 0 if it does not count (NULL, filtered out). So of the entries from
`lo` on, `i` is the first of its value if its gap is greater than `i - lo`; the number of those is that of different
values, wherever the window ends.

The latest entry of each value of each key is in a hash table of rows (key, code of the value, number), with key -1
where a place is free; collisions go to the next place. What has left its run stays until the table is made anew.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import inner, kernel

FIRST_TIME = np.int32(2**31 - 1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)
_FOLD = np.uint64(32)
_NAN = 0x7FF8000000000000


@inner
def _code_of(value, bits, p):
    """Equal for values that are equal: of floats the bits, but all NaN are one value, and -0.0 is 0.0."""
    v = value[p]
    if v == 0:
        return 0
    return bits[p] if v == v else _NAN


@inner
def _place_of(table, k, code):
    """The place of a value of a key, or the free place where it would go."""
    bits = np.uint64(code) * _GOLDEN + np.uint64(k) * _OTHER
    bits = (bits ^ (bits >> _FOLD)) * _GOLDEN
    mask = len(table) - 1
    at = np.int64((bits ^ (bits >> _FOLD)) & np.uint64(mask))
    while table[at, 0] >= 0 and (table[at, 0] != k or table[at, 1] != code):
        at = (at + 1) & mask
    return at


@inner
def _link(table, k, code, number):
    """An entry comes: its gap, and 1 if its value is new."""
    at = _place_of(table, k, code)
    if table[at, 0] < 0:
        table[at, 0], table[at, 1], table[at, 2] = k, code, number
        return FIRST_TIME, 1
    gap = np.int32(min(number - table[at, 2], np.int64(FIRST_TIME)))
    table[at, 2] = number
    return gap, 0


@kernel
def link_entries(key, place, start, left, value, bits, valid, gap, table):
    """Gaps of entries that have come, in the places of the pool; returns how many values are new to the table."""
    new = 0
    for i in range(len(key)):
        p = place[i]
        gap[p] = 0
        if valid[p]:
            k = key[i]
            gap[p], is_new = _link(table, k, _code_of(value, bits, p), left[k] + p - start[k])
            new += is_new
    return new


@kernel
def link_runs(start, count, left, value, bits, valid, gap, table):
    """Gaps of all entries of all keys, for an empty table; returns how many values are in the table."""
    new = 0
    for k in range(len(start)):
        for p in range(start[k], start[k] + count[k]):
            gap[p] = 0
            if valid[p]:
                gap[p], is_new = _link(table, k, _code_of(value, bits, p), left[k] + p - start[k])
                new += is_new
    return new


@kernel
def unlink_entries(keys, instant, at, start, count, left, value, bits, valid, gap, table):
    """The entries of some keys that are later than an instant go: the ones before them are the latest again."""
    for i in range(len(keys)):
        k = keys[i]
        p = start[k] + count[k] - 1
        while p >= start[k] and at[p] > instant:
            if valid[p]:
                place = _place_of(table, k, _code_of(value, bits, p))
                table[place, 2] = left[k] + p - start[k] - gap[p] if gap[p] < FIRST_TIME else -FIRST_TIME
            p -= 1


@kernel
def count_different(keys, lo, hi, start, gap, into):
    """How many different values there are among the entries `lo[s] .. hi[s] - 1` of key `keys[s]`."""
    for s in range(len(keys)):
        if lo[s] < hi[s]:
            first, different = start[keys[s]], np.int32(0)
            part = gap[first + lo[s] : first + hi[s]]
            for i in range(len(part)):
                different = np.int32(different + (part[i] > np.int32(i)))
            into[s] = different
