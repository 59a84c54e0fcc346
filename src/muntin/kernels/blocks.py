"""Blocks of 2**shift places in one pool, with a list of free blocks for each size.

`pool` is any int64 array of the pool: a free block keeps the next free one of its size in its first
place. `free` has, behind the two counters below, the first free block of each size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.jit import kernel

NONE = -1
UNTOUCHED = 0  # places from here on have never been in a block
TAKEN = 1  # places in blocks that are in use
_SIZES = 2


@kernel
def take_block(pool, free, shift):
    """The first place of a block of 2**shift places, or NONE if the pool has no room; O(sizes).

    A larger free block is cut in halves before the pool is used further. Halves are never joined again:
    owners that have too much room copy what they hold into a new pool.
    """
    size = shift
    while size < len(free) - _SIZES and free[_SIZES + size] == NONE:
        size += 1
    if size < len(free) - _SIZES:
        start = free[_SIZES + size]
        free[_SIZES + size] = pool[start]
        while size > shift:
            size -= 1
            _put_free(pool, free, start + (1 << size), size)
    else:
        start = free[UNTOUCHED]
        if start + (1 << shift) > len(pool):
            return NONE
        free[UNTOUCHED] = start + (1 << shift)
    free[TAKEN] += 1 << shift
    return start


@kernel
def give_block(pool, free, start, shift):
    """Take a block back; O(1)."""
    free[TAKEN] -= 1 << shift
    _put_free(pool, free, start, shift)


@kernel
def _put_free(pool, free, start, shift):
    pool[start] = free[_SIZES + shift]
    free[_SIZES + shift] = start


def no_blocks(largest: int) -> Any:
    """`free` of a pool that has no blocks yet; the largest to come has 2**largest places."""
    free = np.full(_SIZES + largest + 1, NONE, np.int64)
    free[:_SIZES] = 0
    return free


def check_blocks(pool: Any, free: Any, start: Any, shift: Any) -> None:
    """Assert that the blocks in use, and the free ones, take every place that was ever used once."""
    places = [np.asarray(start, np.int64)]
    sizes = [np.int64(1) << np.asarray(shift, np.int64)]
    assert sizes[0].sum() == free[TAKEN]
    for each in range(len(free) - _SIZES):
        block = free[_SIZES + each]
        while block != NONE:
            places.append(np.array([block]))
            sizes.append(np.array([1 << each]))
            assert len(places) <= len(pool) + 1  # the list has no cycle
            block = pool[block]
    order = np.argsort(np.concatenate(places))
    place, size = np.concatenate(places)[order], np.concatenate(sizes)[order]
    ends = np.append(place, free[UNTOUCHED])
    assert ends[0] == 0
    assert (ends[1:] == place + size).all()
    assert free[UNTOUCHED] <= len(pool)
