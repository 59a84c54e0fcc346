"""Repeats: for each entry of a key's run, how far the entries with the same value before and after it are.

Entries are numbered as in `value_order.py`. `back` of an entry is its number less that of the entry before it with the
same value, `ahead` that of the entry after it less its own; both are `NEVER` if there is none. An entry that does not
count (NULL, filtered out) has 0 in both. Of a window that ends before number `hi`, entry `i` is the last of its value
if its `ahead` is at least `hi - i`; there are as many of those as different values, and most are known when the window
inside this one has been counted.

The latest entry of each value of each key is in a hash table of rows (key, code of the value, number), with key -1
where a place is free; collisions go to the next place. What has left its run stays until the table is made anew.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import inner, kernel

NEVER = np.int32(2**31 - 1)
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
def _link(k, p, start, left, value, bits, valid, back, ahead, table):
    """The entry at a place of the pool comes, the youngest of its key; 1 if its value is new to the table."""
    if not valid[p]:
        back[p], ahead[p] = 0, 0
        return 0
    number = left[k] + p - start[k]
    code = _code_of(value, bits, p)
    at = _place_of(table, k, code)
    is_new = table[at, 0] < 0
    ahead[p], back[p] = NEVER, NEVER
    if not is_new and number - table[at, 2] < NEVER:
        gap = number - table[at, 2]
        back[p] = gap
        if p - gap >= start[k]:
            ahead[p - gap] = gap
    table[at, 0], table[at, 1], table[at, 2] = k, code, number
    return 1 if is_new else 0


@kernel
def link_entries(key, place, start, left, value, bits, valid, back, ahead, table):
    """Entries have come, in the places of the pool; returns how many values are new to the table."""
    new = 0
    for i in range(len(key)):
        new += _link(key[i], place[i], start, left, value, bits, valid, back, ahead, table)
    return new


@kernel
def link_runs(start, count, left, value, bits, valid, back, ahead, table):
    """Link all entries of all keys, for an empty table; returns how many values are in the table."""
    new = 0
    for k in range(len(start)):
        for p in range(start[k], start[k] + count[k]):
            new += _link(k, p, start, left, value, bits, valid, back, ahead, table)
    return new


@kernel
def unlink_entries(keys, instant, at, start, count, left, value, bits, valid, back, ahead, table):
    """The entries of some keys that are later than an instant go: the ones before them are the latest again."""
    for i in range(len(keys)):
        k = keys[i]
        p = start[k] + count[k] - 1
        while p >= start[k] and at[p] > instant:
            if valid[p]:
                gap = np.int64(back[p])
                table[_place_of(table, k, _code_of(value, bits, p)), 2] = left[k] + p - start[k] - gap
                if p - gap >= start[k]:
                    ahead[p - gap] = NEVER
            p -= 1


@kernel
def count_different(ids, lo, hi, sequence, start, ahead, into):
    """How many different values there are among the entries `lo[s] .. hi[s] - 1` of key `ids[j]`, slot
    `s = r * len(ids) + j`. Of the rows in `sequence`, those that end together follow each other, the longest first."""
    width = len(ids)
    for j in range(width):
        first = start[ids[j]]
        counted_to, end, different = 0, -1, 0
        for q in range(len(sequence) - 1, -1, -1):
            s = sequence[q] * width + j
            if lo[s] >= hi[s]:
                continue
            if hi[s] != end:
                counted_to, end, different = hi[s], hi[s], 0
            part = ahead[first + lo[s] : first + counted_to]
            distance = np.int32(end - lo[s])
            some = np.int32(0)
            for i in range(len(part)):
                some = np.int32(some + (part[i] >= np.int32(distance - i)))
            different += some
            counted_to = lo[s]
            into[s] = different
