"""Ids of words (int64), in order of first appearance: by hash, or directly by value.

By hash: `table` holds pairs (word, id), 0 <= place < a power of two; the id is -1 where a place is free,
and collisions go to the next place. `mix` holds two odd multipliers, drawn at random by each process, and
64 - log2(places). Rows are taken in blocks: all their places are asked for before the first is looked at,
so that the waits for memory overlap (1 million distinct words: 1.5 to 2 times as fast).

Directly: `direct[word - base]` is the id, or -1.

`words[id]` is the word of an id; a full `words`, or a word outside `direct`, stops an encoder, which then
says how many rows it has done. Where `valid` is not empty and says no, the row is NULL, which has an id
like any word (-1: none yet).
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.instructions import prefetch
from muntin.kernels.jit import kernel

BLOCK = 64
_HALF = np.uint64(32)


@kernel
def home_of(word, first, second, shift):
    """Where a word would like to be. Takes numbers, not `mix`: see `instructions.py` on arrays as arguments."""
    bits = np.uint64(word) * first
    bits = (bits ^ (bits >> _HALF)) * second
    return np.int64(bits >> shift)


@kernel
def encode_hashed(word, valid, table, mix, words, count, null_id, ids, begin):
    """Ids of rows from `begin` on; (rows done, ids given out, id of NULL)."""
    mask = (len(table) >> 1) - 1
    one, two, shift = mix[0], mix[1], mix[2]
    address = table.ctypes.data
    has_nulls = len(valid) > 0
    place = np.empty(BLOCK, np.int64)
    for first in range(begin, len(word), BLOCK):
        last = min(first + BLOCK, len(word))
        for i in range(first, last):
            place[i - first] = home_of(word[i], one, two, shift)
            prefetch(address + 16 * place[i - first])
        for i in range(first, last):
            if has_nulls and not valid[i]:
                if null_id < 0:
                    if count >= len(words):
                        return i, count, null_id
                    words[count] = 0
                    null_id = count
                    count += 1
                ids[i] = null_id
                continue
            at = place[i - first]
            while table[2 * at + 1] >= 0 and table[2 * at] != word[i]:
                at = (at + 1) & mask
            if table[2 * at + 1] < 0:
                if count >= len(words):
                    return i, count, null_id
                table[2 * at] = word[i]
                table[2 * at + 1] = count
                words[count] = word[i]
                count += 1
            ids[i] = table[2 * at + 1]
    return len(word), count, null_id


@kernel
def encode_direct(word, valid, direct, base, words, count, null_id, ids, begin):
    """Ids of rows from `begin` on; (rows done, ids given out, id of NULL)."""
    origin, span = np.uint64(base), np.uint64(len(direct))
    has_nulls = len(valid) > 0
    for i in range(begin, len(word)):
        if has_nulls and not valid[i]:
            if null_id < 0:
                if count >= len(words):
                    return i, count, null_id
                words[count] = 0
                null_id = count
                count += 1
            ids[i] = null_id
            continue
        at = np.uint64(word[i]) - origin  # unsigned, so that words below the base are far above it
        if at >= span:
            return i, count, null_id
        if direct[at] < 0:
            if count >= len(words):
                return i, count, null_id
            direct[at] = count
            words[count] = word[i]
            count += 1
        ids[i] = direct[at]
    return len(word), count, null_id


@kernel
def find_hashed(word, valid, table, mix, null_id, ids):
    """Ids of known words, -1 for others."""
    mask = (len(table) >> 1) - 1
    one, two, shift = mix[0], mix[1], mix[2]
    for i in range(len(word)):
        if len(valid) > 0 and not valid[i]:
            ids[i] = null_id
            continue
        at = home_of(word[i], one, two, shift)
        while table[2 * at + 1] >= 0 and table[2 * at] != word[i]:
            at = (at + 1) & mask
        ids[i] = table[2 * at + 1]


@kernel
def find_direct(word, valid, direct, base, null_id, ids):
    """Ids of known words, -1 for others."""
    for i in range(len(word)):
        if len(valid) > 0 and not valid[i]:
            ids[i] = null_id
            continue
        at = np.uint64(word[i]) - np.uint64(base)
        ids[i] = direct[at] if at < np.uint64(len(direct)) else -1


@kernel
def fill_hashed(words, null_id, table, mix):
    """Put the words of all ids into an empty table, all ids of which are -1."""
    mask = (len(table) >> 1) - 1
    one, two, shift = mix[0], mix[1], mix[2]
    address = table.ctypes.data
    place = np.empty(BLOCK, np.int64)
    for first in range(0, len(words), BLOCK):
        last = min(first + BLOCK, len(words))
        for id in range(first, last):
            place[id - first] = home_of(words[id], one, two, shift)
            prefetch(address + 16 * place[id - first])
        for id in range(first, last):
            if id == null_id:
                continue
            at = place[id - first]
            while table[2 * at + 1] >= 0:
                at = (at + 1) & mask
            table[2 * at] = words[id]
            table[2 * at + 1] = id


@kernel
def fill_direct(words, null_id, direct, base):
    """Put the words of all ids into an empty `direct`, all -1."""
    for id in range(len(words)):
        if id != null_id:
            direct[words[id] - base] = id


@kernel
def bounds_of(word, valid, low, high):
    """The least and greatest of `low`, `high` and the words of rows that are not NULL."""
    for i in range(len(word)):
        if len(valid) == 0 or valid[i]:
            low = min(low, word[i])
            high = max(high, word[i])
    return low, high


@kernel
def is_run(ids):
    """Whether ids follow one another without a gap."""
    at = 1
    while at < len(ids) and ids[at] == ids[at - 1] + 1:
        at += 1
    return at >= len(ids)
