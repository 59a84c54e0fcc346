"""A sticky sample: one element of each 2**r is kept, r growing with age, and counts those like it that follow.

Which of the 2**r elements of a block it is, coins decide: of its two halves' samples, one each time. A coin is
a hash of the seed, the level and the block's number, so that it falls alike whenever it is tossed.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel

_EMPTY = -1
_LARGEST = 62  # level


@kernel
def coin(seed, level, number):
    """Which half of a block its sample comes from: 0 or 1."""
    x = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x ^= np.uint64(level) * np.uint64(0xD1B54A32D192ED03)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) & np.uint64(1))


@kernel
def level_of(position, end, youngest, highest, level):
    """One element in 2**level is kept where an element is: the block it is in must have come to its end, and
    be `youngest << level` old. Levels only grow, so the last one is where to begin."""
    while level < highest:
        block_end = ((position >> (level + 1)) + 1) << (level + 1)
        if end - block_end < youngest << (level + 1):
            break
        level += 1
    return level


@kernel
def thin(code, count, position, at, level, used, end, youngest, highest, seed, counts, place_of):
    """Keep what is sampled, in place; returns how much that is.

    With `counts`, what an element that goes has counted is added to the one before it that is like it; if
    there is none, it is lost. `place_of` is a hash table with room for twice as many as are there.
    """
    mask = len(place_of) - 1
    if counts:
        place_of[:] = _EMPTY
    kept = 0
    for i in range(used):
        wanted = level_of(position[i], end, youngest, highest, np.int64(level[i]))
        survives = True
        for each in range(level[i] + 1, wanted + 1):
            half = (position[i] >> (each - 1)) & 1
            if coin(seed, each, position[i] >> each) != half:
                survives = False
                break
        place = np.int64(0)
        if counts:
            place = np.int64((np.uint64(code[i]) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
            while place_of[place] != _EMPTY and code[place_of[place]] != code[i]:
                place = (place + 1) & mask
        if survives:
            code[kept], count[kept], position[kept], at[kept] = code[i], count[i], position[i], at[i]
            level[kept] = wanted
            if counts:
                place_of[place] = kept
            kept += 1
        elif counts and place_of[place] != _EMPTY:
            count[place_of[place]] += count[i]
    return kept
