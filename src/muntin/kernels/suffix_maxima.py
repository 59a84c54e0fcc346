"""Push to, trim, search and copy staircases: the loops over the suffix maxima of many keys.

The steps of a key lie in one block of the pool, oldest first: `at` strictly ascends, `code` strictly
descends. `stairs` is a NamedTuple, described in `key_index/suffix_maxima.py`; `stairs.key` has a record of
the type below for each key.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.blocks import NONE, give_block, take_block
from muntin.kernels.jit import kernel

KEY = np.dtype(
    [
        ("start", np.int64),  # of its block in the pool
        ("base", np.int64),  # the first position that its oldest step answers for (dyadic.py)
        ("head", np.int32),  # places of the block before its oldest step
        ("size", np.int32),  # steps
        ("indexed", np.int32),  # steps, from the oldest on, whose segments are in the index
        ("shift", np.int8),  # its block has 2**shift places; NONE without a block
        ("is_waiting", np.bool_),  # it is among the keys that have steps to be indexed
    ],
    align=True,
)
STEPS = 0  # places of `stairs.work`: steps held by all keys
PUSHED = 1  # steps pushed since the last sweep


@kernel
def needs_room(row):
    """A key has no free place behind its newest step, or a block that is far too large."""
    places = 1 << max(row.shift, 0)
    return row.shift == NONE or row.head + row.size == places or (row.size + 1) << 3 <= places


@kernel
def make_room(stairs, key):
    """Let a key have a free place behind its newest step; False if the pool has none. O(1) amortised.

    Only called where there is need: all arrays of `stairs` are handed over, and handing an array to a function
    counts references. Done for every event that took two thirds of the time.
    """
    row = stairs.key[key]
    if row.shift == NONE:
        start = take_block(stairs.at, stairs.free, 0)
        if start == NONE:
            return False
        row.start = start
        row.shift = 0
        row.head = 0
    elif (row.size + 1) << 3 <= 1 << row.shift:
        _resize(stairs, key, row.shift - 2)  # seven of eight places came free since it grew
    if row.head + row.size == 1 << row.shift:
        if row.head > 0 and row.size <= row.head:
            _move(stairs, row.start + row.head, row.start, row.size)
            row.head = 0
        else:
            return _resize(stairs, key, row.shift + 1)
    return True


@kernel
def insert_events(stairs, key, at, code, done):
    """Push events `done`, `done` + 1, … of a batch; O(1) amortised each.

    Returns how many are done: fewer than all if the pool must grow first.
    """
    keys, step_at, step_code = stairs.key, stairs.at, stairs.code
    steps = pushed = 0
    for i in range(done, len(key)):
        row = keys[key[i]]
        bottom = row.start + row.head
        while row.size > 0 and step_code[bottom + row.size - 1] <= code[i]:
            row.size -= 1
            steps -= 1
        if row.size > 0 and step_at[bottom + row.size - 1] == at[i]:
            continue  # a greater one of the same instant is in every window that it is in
        if needs_room(row):
            if not make_room(stairs, key[i]):
                done = i
                break
            bottom = row.start + row.head
        step_at[bottom + row.size] = at[i]
        step_code[bottom + row.size] = code[i]
        row.size += 1
        steps += 1
        pushed += 1
    else:
        done = len(key)
    stairs.work[STEPS] += steps
    stairs.work[PUSHED] += pushed
    return done


@kernel
def trim(stairs, key, since):
    """Drop the steps of a key before `since`; O(1) each, and O(1)."""
    row = stairs.key[key]
    while row.size > 0 and stairs.at[row.start + row.head] < since:
        row.base = stairs.at[row.start + row.head] + 1
        row.head += 1
        row.size -= 1
        row.indexed = max(0, row.indexed - 1)
        stairs.work[STEPS] -= 1


@kernel
def sweep(stairs, since):
    """Trim every key, and free the blocks of those that have no step left; O(keys + steps dropped)."""
    for key in range(len(stairs.key)):
        trim(stairs, key, since)
        row = stairs.key[key]
        if row.size == 0 and row.shift != NONE:
            give_block(stairs.at, stairs.free, row.start, row.shift)
            row.shift = NONE
            row.head = 0
    stairs.work[PUSHED] = 0


@kernel
def first_step(stairs, key, since):
    """The place of a key's first step at or after `since`, or NONE; O(log steps)."""
    row = stairs.key[key]
    low = row.start + row.head
    high = low + row.size
    if row.size == 0 or stairs.at[high - 1] < since:
        return NONE
    while low < high:
        middle = (low + high) >> 1
        if stairs.at[middle] < since:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def codes_of(stairs, keys, since, code, valid):
    """The greatest code of each key at or after `since`, and whether there is one."""
    for i in range(len(keys)):
        valid[i] = False
        if 0 <= keys[i] < len(stairs.key):
            place = first_step(stairs, keys[i], since)
            if place != NONE:
                code[i] = stairs.code[place]
                valid[i] = True


@kernel
def scan_keys(stairs, since, low, high, found):
    """Write the keys whose greatest code at or after `since` lies in [low, high] into `found`; their number.

    O(keys * log steps), whatever is found.
    """
    count = 0
    for key in range(len(stairs.key)):
        row = stairs.key[key]
        if row.size == 0:
            continue
        first = row.start + row.head
        last = first + row.size - 1
        # The newest step is the lowest and the oldest the highest: most keys need no search.
        if stairs.at[last] < since or stairs.code[last] > high or stairs.code[first] < low:
            continue
        if stairs.at[first] < since:
            first = first_step(stairs, key, since)
        if low <= stairs.code[first] <= high:
            found[count] = key
            count += 1
    return count


@kernel
def copy_stairs(stairs, into, new_id):
    """The steps of all keys that stay, `new_id[key] >= 0`, into empty stairs; False if they lack room."""
    for key in range(len(stairs.key)):
        if new_id[key] < 0:
            continue
        old = stairs.key[key]
        new = into.key[new_id[key]]
        new.is_waiting = old.is_waiting  # also without a step: the list of waiting keys is elsewhere
        if old.size == 0:
            continue
        shift = 0
        while 1 << shift < old.size:
            shift += 1
        start = take_block(into.at, into.free, shift)
        if start == NONE:
            return False
        new.start = start
        new.base = old.base
        new.head = 0
        new.size = old.size
        new.indexed = old.indexed
        new.shift = shift
        for i in range(old.size):
            into.at[start + i] = stairs.at[old.start + old.head + i]
            into.code[start + i] = stairs.code[old.start + old.head + i]
        into.work[STEPS] += old.size
    into.work[PUSHED] = stairs.work[PUSHED]
    return True


@kernel
def _resize(stairs, key, shift):
    """Give a key a block of another size; False, and nothing changed, if the pool has no room."""
    row = stairs.key[key]
    start = take_block(stairs.at, stairs.free, shift)
    if start == NONE:
        return False
    _move(stairs, row.start + row.head, start, row.size)
    give_block(stairs.at, stairs.free, row.start, row.shift)
    row.start = start
    row.shift = shift
    row.head = 0
    return True


@kernel
def _move(stairs, source, target, count):
    """Copy steps to a place before them, or to another block."""
    for i in range(count):
        stairs.at[target + i] = stairs.at[source + i]
        stairs.code[target + i] = stairs.code[source + i]
