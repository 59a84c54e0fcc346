"""Ids of texts, in order of first appearance, by hash.

Texts come as Arrow has them: text `i` is `data[offsets[i] : offsets[i + 1]]`. Those with an id are kept
the same way, in `starts` and `arena`. `table`, `mix`, `words`, `valid` and what an encoder returns are as
in word_table.py: each text has a *word*. Up to seven bytes are their own word (with their number in its
top byte), so equal words are equal texts; a longer text has the top bit set and a hash beneath, and when
words are equal its bytes decide. Memory is asked for a block ahead, first the places, then the bytes.

`data` and `arena` have at least eight bytes, so that a word can be loaded near their end too.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.instructions import load_word, prefetch
from muntin.kernels.jit import kernel
from muntin.kernels.word_table import BLOCK, home_of

_ONE = np.uint64(1)
_TOP = np.uint64(1 << 63)
_EIGHT = np.uint64(8)
_FOLD = np.uint64(32)
_COUNT = np.uint64(56)


@kernel
def word_of(address, size, lo, hi, one, two):
    """The word of the text [lo, hi) of `size` bytes at an address."""
    length = hi - lo
    if length == 0:
        return np.int64(0)
    if length < 8:
        last = size - 8  # the last place where eight bytes can be loaded
        if lo <= last:
            bits = load_word(address + lo)
        else:
            bits = load_word(address + last) >> (_EIGHT * np.uint64(lo - last))
        kept = (_ONE << (_EIGHT * np.uint64(length))) - _ONE
        return np.int64((bits & kept) | (np.uint64(length) << _COUNT))
    bits = np.uint64(length) * two
    at = lo
    while at + 8 < hi:
        bits = (bits ^ load_word(address + at)) * one
        bits ^= bits >> _FOLD
        at += 8
    bits = (bits ^ load_word(address + hi - 8)) * two  # the last eight bytes, some of them again
    return np.int64((bits ^ (bits >> _FOLD)) | _TOP)


@kernel
def is_same(left, length, right, right_length):
    """Whether two texts of eight bytes or more are equal."""
    if length != right_length:
        return False
    at = 0
    while at + 8 < length:
        if load_word(left + at) != load_word(right + at):
            return False
        at += 8
    return load_word(left + length - 8) == load_word(right + length - 8)


@kernel
def encode_texts(offsets, data, valid, table, mix, words, starts, arena, count, null_id, ids, begin):
    """Ids of rows from `begin` on; (rows done, ids given out, id of NULL). Stops at a full arena too."""
    mask = (len(table) >> 1) - 1
    one, two, shift = mix[0], mix[1], mix[2]
    places, source, size, store = table.ctypes.data, data.ctypes.data, len(data), arena.ctypes.data
    has_nulls = len(valid) > 0
    word, place = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for first in range(begin, len(ids), BLOCK):
        last = min(first + BLOCK, len(ids))
        for i in range(first, last):
            text = word_of(source, size, np.int64(offsets[i]), np.int64(offsets[i + 1]), one, two)
            word[i - first] = text
            place[i - first] = home_of(text, one, two, shift)
            prefetch(places + 16 * place[i - first])
        for i in range(first, last):  # whose word it seems to be
            at = place[i - first]
            while table[2 * at + 1] >= 0 and table[2 * at] != word[i - first]:
                at = (at + 1) & mask
            place[i - first] = at
            if word[i - first] < 0 and table[2 * at + 1] >= 0:
                prefetch(store + np.int64(starts[table[2 * at + 1]]))
        for i in range(first, last):
            if has_nulls and not valid[i]:
                if null_id < 0:
                    if count >= len(words):
                        return i, count, null_id
                    words[count] = 0
                    starts[count + 1] = starts[count]
                    null_id = count
                    count += 1
                ids[i] = null_id
                continue
            lo, hi = np.int64(offsets[i]), np.int64(offsets[i + 1])
            at, text = place[i - first], word[i - first]
            while True:
                id = table[2 * at + 1]
                if id < 0:
                    start = np.int64(starts[count])
                    if count >= len(words) or start + hi - lo > len(arena):
                        return i, count, null_id
                    for j in range(hi - lo):
                        arena[start + j] = data[lo + j]
                    starts[count + 1] = start + hi - lo
                    table[2 * at] = text
                    table[2 * at + 1] = count
                    words[count] = text
                    id = count
                    count += 1
                    break
                if table[2 * at] == text:
                    start = np.int64(starts[id])
                    if text >= 0 or is_same(
                        source + lo, hi - lo, store + start, np.int64(starts[id + 1]) - start
                    ):
                        break
                at = (at + 1) & mask
            ids[i] = id
    return len(ids), count, null_id


@kernel
def find_text(data, lo, hi, table, mix, starts, arena):
    """The id of the text `data[lo:hi]`, -1 if it is unknown."""
    mask = (len(table) >> 1) - 1
    one, two, shift = mix[0], mix[1], mix[2]
    source, store = data.ctypes.data, arena.ctypes.data
    text = word_of(source, len(data), lo, hi, one, two)
    at = home_of(text, one, two, shift)
    while table[2 * at + 1] >= 0:
        if table[2 * at] == text:
            start, stop = np.int64(starts[table[2 * at + 1]]), np.int64(starts[table[2 * at + 1] + 1])
            if text >= 0 or is_same(source + lo, hi - lo, store + start, stop - start):
                break
        at = (at + 1) & mask
    return table[2 * at + 1]


@kernel
def find_texts(offsets, data, valid, table, mix, starts, arena, null_id, ids):
    """Ids of known texts, -1 for others. By blocks: the places of a block are on their way while its words are made."""
    mask = (len(table) >> 1) - 1
    one, two, shift = mix[0], mix[1], mix[2]
    places, source, size, store = table.ctypes.data, data.ctypes.data, len(data), arena.ctypes.data
    has_nulls = len(valid) > 0
    word, place = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for first in range(0, len(ids), BLOCK):
        last = min(first + BLOCK, len(ids))
        for i in range(first, last):
            text = word_of(source, size, np.int64(offsets[i]), np.int64(offsets[i + 1]), one, two)
            word[i - first] = text
            place[i - first] = home_of(text, one, two, shift)
            prefetch(places + 16 * place[i - first])
        for i in range(first, last):
            if has_nulls and not valid[i]:
                ids[i] = null_id
                continue
            at, text = place[i - first], word[i - first]
            lo, hi = np.int64(offsets[i]), np.int64(offsets[i + 1])
            while table[2 * at + 1] >= 0:
                if table[2 * at] == text:
                    start, stop = np.int64(starts[table[2 * at + 1]]), np.int64(starts[table[2 * at + 1] + 1])
                    if text >= 0 or is_same(source + lo, hi - lo, store + start, stop - start):
                        break
                at = (at + 1) & mask
            ids[i] = table[2 * at + 1]


@kernel
def words_of(starts, arena, mix, words):
    """The word of every text kept."""
    address = arena.ctypes.data
    for id in range(len(words)):
        lo, hi = np.int64(starts[id]), np.int64(starts[id + 1])
        words[id] = word_of(address, len(arena), lo, hi, mix[0], mix[1])


@kernel
def compact_texts(starts, arena, kept, into_starts, into_arena):
    """Copy the texts that are kept, one after another; returns where the last one ends."""
    end, count = np.int64(0), 0
    for id in range(len(kept)):
        if kept[id]:
            lo, hi = np.int64(starts[id]), np.int64(starts[id + 1])
            for j in range(lo, hi):
                into_arena[end + j - lo] = arena[j]
            end += hi - lo
            count += 1
            into_starts[count] = end
    return end
