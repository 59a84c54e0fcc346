"""Push to, trim, search and copy the suffix maxima of many keys.

The steps of a key lie in one block of the pool, oldest first: `at` strictly ascends, `code` strictly
descends. `maxima` is a NamedTuple, described in `key_index/suffix_maxima.py`; `maxima.key` has a record of
the type below for each key.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.blocks import NONE, give_block, take_block
from muntin.kernels.jit import inner, kernel

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
STEPS = 0  # places of `maxima.work`: steps held by all keys
PUSHED = 1  # steps pushed since the last sweep


@kernel
def needs_room(row):
    """A key has no free place behind its newest step, or a block that is far too large."""
    places = 1 << max(row.shift, 0)
    return row.shift == NONE or row.head + row.size == places or (row.size + 1) << 3 <= places


@kernel
def make_room(maxima, key):
    """Let a key have a free place behind its newest step; False if the pool has none. O(1) amortised.

    Only called where there is need: all arrays of `maxima` are handed over, and handing an array to a function
    counts references. Done for every event that took two thirds of the time.
    """
    row = maxima.key[key]
    if row.shift == NONE:
        start = take_block(maxima.at, maxima.free, 0)
        if start == NONE:
            return False
        row.start = start
        row.shift = 0
        row.head = 0
    elif (row.size + 1) << 3 <= 1 << row.shift:
        _resize(maxima, key, row.shift - 2)  # seven of eight places came free since it grew
    if row.head + row.size == 1 << row.shift:
        if row.head > 0 and row.size <= row.head:
            _move(maxima, row.start + row.head, row.start, row.size)
            row.head = 0
        else:
            return _resize(maxima, key, row.shift + 1)
    return True


@inner
def put_step(step_at, step_code, row, at, code):
    """Put a step behind the newest one of a key, whose record is `row`; there is room."""
    top = row.start + row.head + row.size
    step_at[top] = at
    step_code[top] = code
    row.size += 1


@kernel
def insert_events(maxima, key, at, code, done):
    """Push events `done`, `done` + 1, … of a batch; O(1) amortised each.

    Returns how many are done: fewer than all if the pool must grow first.
    """
    keys, step_at, step_code = maxima.key, maxima.at, maxima.code
    steps = pushed = 0
    for i in range(done, len(key)):
        row = keys[key[i]]
        bottom = row.start + row.head
        while row.size > 0 and step_code[bottom + row.size - 1] <= code[i]:
            row.size -= 1
            steps -= 1
        if row.size > 0 and step_at[bottom + row.size - 1] == at[i]:
            continue  # a greater one of the same instant is in every window that it is in
        if needs_room(row) and not make_room(maxima, key[i]):
            done = i
            break
        put_step(step_at, step_code, row, at[i], code[i])
        steps += 1
        pushed += 1
    else:
        done = len(key)
    maxima.work[STEPS] += steps
    maxima.work[PUSHED] += pushed
    return done


@kernel
def trim(maxima, key, since):
    """Drop the steps of a key before `since`; O(1) each, and O(1)."""
    row = maxima.key[key]
    while row.size > 0 and maxima.at[row.start + row.head] < since:
        row.base = maxima.at[row.start + row.head] + 1
        row.head += 1
        row.size -= 1
        row.indexed = max(0, row.indexed - 1)
        maxima.work[STEPS] -= 1


@kernel
def sweep(maxima, since):
    """Trim every key, and free the blocks of those that have no step left; O(keys + steps dropped)."""
    for key in range(len(maxima.key)):
        trim(maxima, key, since)
        row = maxima.key[key]
        if row.size == 0 and row.shift != NONE:
            give_block(maxima.at, maxima.free, row.start, row.shift)
            row.shift = NONE
            row.head = 0
    maxima.work[PUSHED] = 0


@kernel
def first_step(maxima, key, since):
    """The place of a key's first step at or after `since`, or NONE; O(log steps)."""
    row = maxima.key[key]
    low = row.start + row.head
    high = low + row.size
    if row.size == 0 or maxima.at[high - 1] < since:
        return NONE
    while low < high:
        middle = (low + high) >> 1
        if maxima.at[middle] < since:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def codes_of(maxima, keys, since, code, valid):
    """The greatest code of each key at or after `since`, and whether there is one."""
    for i in range(len(keys)):
        valid[i] = False
        if 0 <= keys[i] < len(maxima.key):
            place = first_step(maxima, keys[i], since)
            if place != NONE:
                code[i] = maxima.code[place]
                valid[i] = True


@kernel
def scan_keys(maxima, since, low, high, found):
    """Write the keys whose greatest code at or after `since` lies in [low, high] into `found`; their number.

    O(keys * log steps), whatever is found.
    """
    count = 0
    for key in range(len(maxima.key)):
        row = maxima.key[key]
        if row.size == 0:
            continue
        first = row.start + row.head
        last = first + row.size - 1
        # The newest step is the lowest and the oldest the highest: most keys need no search.
        if maxima.at[last] < since or maxima.code[last] > high or maxima.code[first] < low:
            continue
        if maxima.at[first] < since:
            first = first_step(maxima, key, since)
        if low <= maxima.code[first] <= high:
            found[count] = key
            count += 1
    return count


@kernel
def copy_stairs(maxima, into, new_id):
    """The steps of all keys that stay, `new_id[key] >= 0`, into empty maxima; False if they lack room."""
    for key in range(len(maxima.key)):
        if new_id[key] < 0:
            continue
        old = maxima.key[key]
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
            into.at[start + i] = maxima.at[old.start + old.head + i]
            into.code[start + i] = maxima.code[old.start + old.head + i]
        into.work[STEPS] += old.size
    into.work[PUSHED] = maxima.work[PUSHED]
    return True


@kernel
def _resize(maxima, key, shift):
    """Give a key a block of another size; False, and nothing changed, if the pool has no room."""
    row = maxima.key[key]
    start = take_block(maxima.at, maxima.free, shift)
    if start == NONE:
        return False
    _move(maxima, row.start + row.head, start, row.size)
    give_block(maxima.at, maxima.free, row.start, row.shift)
    row.start = start
    row.shift = shift
    row.head = 0
    return True


@kernel
def _move(maxima, source, target, count):
    """Copy steps to a place before them, or to another block."""
    for i in range(count):
        maxima.at[target + i] = maxima.at[source + i]
        maxima.code[target + i] = maxima.code[source + i]
