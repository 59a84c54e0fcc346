"""Ordered sets of (code, key) pairs, many in one pool: each a treap of small buckets.

A bucket holds up to 2**LARGEST pairs, in no order, all at or above its *bound*, and below the bound of the
next bucket. The buckets of a set form a search tree by bound, and a heap by a hash of their number. A
set that fits one bucket, as most do, is that bucket alone: no order to keep, no tree to walk.

`buckets` is a NamedTuple described in `synopsis/dyadic.py`; a set is a place of `root`, which has the number of its
topmost bucket, or NONE. All costs are expected ones, over the hash.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.blocks import NONE, give_block, take_block
from muntin.kernels.jit import kernel

BUCKET = np.dtype(
    [
        ("code", np.int64),  # bound: a code, and
        ("key", np.int32),  # a key
        ("left", np.int32),  # subtree with lower bounds; of a free bucket the next free one
        ("right", np.int32),  # subtree with higher bounds
        ("start", np.int32),  # of its block in the pool of pairs
        ("size", np.int16),  # pairs
        ("shift", np.int16),  # its block has 2**shift places
    ],
    align=True,
)
LARGEST = 5
UNTOUCHED, FREE = 0, 1  # places of `buckets.spare`: the first bucket never used, the first free one
OPERATIONS, STEPS = 0, 1  # places of `buckets.work`: pairs put or taken; buckets and pairs looked at
_LEFT, _RIGHT = 0, 1


@kernel
def insert_pair(buckets, root, place, code, key):
    """Put a pair into a set that does not have it; O(log n). Two blocks and a bucket must be free."""
    buckets.work[OPERATIONS] += 1
    if root[place] == NONE:
        home = _new_bucket(buckets, 0, code, key)
        root[place] = home
    else:
        home = _home_of(buckets, root[place], code, key)
        one = buckets.bucket[home]
        if _is_before(code, key, one.code, one.key):
            one.code = code  # it is the first bucket: its bound may sink
            one.key = key
        if one.size == 1 << one.shift:
            if one.shift < LARGEST:
                _resize(buckets, home, one.shift + 1)
            else:
                upper = _split_bucket(buckets, root, place, home)
                above = buckets.bucket[upper]
                if not _is_before(code, key, above.code, above.key):
                    home = upper
    one = buckets.bucket[home]
    buckets.code[one.start + one.size] = code
    buckets.key[one.start + one.size] = key
    one.size += 1


@kernel
def delete_pair(buckets, root, place, code, key):
    """Take a pair out of a set that has it; O(log n)."""
    buckets.work[OPERATIONS] += 1
    home = _home_of(buckets, root[place], code, key)
    one = buckets.bucket[home]
    at = one.start
    while buckets.key[at] != key:  # a set has a key once
        at += 1
    buckets.work[STEPS] += at - one.start
    one.size -= 1
    buckets.code[at] = buckets.code[one.start + one.size]
    buckets.key[at] = buckets.key[one.start + one.size]
    if one.size == 0:
        _take_out(buckets, root, place, home)
        _free_bucket(buckets, home)
    elif one.size << 2 <= 1 << one.shift:
        _resize(buckets, home, one.shift - 1)


@kernel
def clear_set(buckets, root, place):
    """Empty a set; O(buckets). Rotations instead of a stack bring each bucket to the top in turn."""
    top = root[place]
    root[place] = NONE
    while top != NONE:
        one = buckets.bucket[top]
        left = one.left
        if left != NONE:
            one.left = buckets.bucket[left].right
            buckets.bucket[left].right = top
            top = left
        else:
            right = one.right
            _free_bucket(buckets, top)
            top = right


@kernel
def collect_keys(buckets, top, low, high, waiting, found, count):
    """Append the keys of a set's pairs with low <= code <= high to `found`, from `count` on; the new count.

    O(log n) and O(1) for each key found: every bucket but the first and the last holds one at least.
    `waiting` is scratch, and grows if the tree is deeper than it is long.
    """
    depth = 0
    first = NONE  # the last bucket whose bound is at or below low
    while top != NONE:
        buckets.work[STEPS] += 1
        one = buckets.bucket[top]
        if one.code < low:
            first = top
            top = one.right
        else:
            if depth == len(waiting):
                waiting = np.concatenate((waiting, waiting))
            waiting[depth] = top
            depth += 1
            top = one.left
    if first != NONE:
        count = _collect_bucket(buckets, first, low, high, found, count)
    while depth > 0:
        depth -= 1
        top = waiting[depth]
        one = buckets.bucket[top]
        if one.code > high:
            break
        count = _collect_bucket(buckets, top, low, high, found, count)
        top = one.right
        while top != NONE:
            buckets.work[STEPS] += 1
            if depth == len(waiting):
                waiting = np.concatenate((waiting, waiting))
            waiting[depth] = top
            depth += 1
            top = buckets.bucket[top].left
    return count


@kernel
def renumber_pairs(buckets, new_id, bound_id):
    """Give all keys new ids, in the same order; `bound_id` is that of the next key that stays. O(pairs)."""
    for number in range(buckets.spare[UNTOUCHED]):
        one = buckets.bucket[number]
        if one.size > 0:
            one.key = bound_id[one.key]
            for at in range(one.start, one.start + one.size):
                buckets.key[at] = new_id[buckets.key[at]]


@kernel
def priority(number):
    """A hash of a bucket's number: higher ones are nearer to the root."""
    x = np.int64(number + 1) * np.int64(-7046029254386353131)
    x = (x ^ (x >> 30)) * np.int64(-4658895280553007687)
    return x ^ (x >> 27)


@kernel
def _collect_bucket(buckets, number, low, high, found, count):
    one = buckets.bucket[number]
    buckets.work[STEPS] += one.size
    for at in range(one.start, one.start + one.size):
        if low <= buckets.code[at] <= high:
            found[count] = buckets.key[at]
            count += 1
    return count


@kernel
def _is_before(code, key, other_code, other_key):
    return code < other_code or (code == other_code and key < other_key)


@kernel
def _home_of(buckets, top, code, key):
    """The last bucket whose bound is at or below a pair; the first of all if there is none."""
    home = NONE
    last = NONE
    while top != NONE:
        buckets.work[STEPS] += 1
        last = top
        one = buckets.bucket[top]
        if _is_before(code, key, one.code, one.key):
            top = one.left
        else:
            home = top
            top = one.right
    return home if home != NONE else last


@kernel
def _split_bucket(buckets, root, place, home):
    """Move the upper half of a full bucket to a new one and return that."""
    one = buckets.bucket[home]
    start = one.start
    for i in range(start + 1, start + one.size):
        code = buckets.code[i]
        key = buckets.key[i]
        j = i
        while j > start and _is_before(code, key, buckets.code[j - 1], buckets.key[j - 1]):
            buckets.code[j] = buckets.code[j - 1]
            buckets.key[j] = buckets.key[j - 1]
            j -= 1
        buckets.code[j] = code
        buckets.key[j] = key
    buckets.work[STEPS] += one.size
    half = one.size >> 1
    upper = _new_bucket(buckets, LARGEST, buckets.code[start + half], buckets.key[start + half])
    above = buckets.bucket[upper]
    for i in range(half, one.size):
        buckets.code[above.start + i - half] = buckets.code[start + i]
        buckets.key[above.start + i - half] = buckets.key[start + i]
    above.size = one.size - half
    one.size = half
    _put_in(buckets, root, place, upper)
    return upper


@kernel
def _hang(buckets, root, place, parent, side, child):
    if parent == NONE:
        root[place] = child
    elif side == _LEFT:
        buckets.bucket[parent].left = child
    else:
        buckets.bucket[parent].right = child


@kernel
def _put_in(buckets, root, place, new):
    """Hang a bucket into the tree at its priority, with what was there parted below it by its bound."""
    one = buckets.bucket[new]
    rank = priority(new)
    parent, side, top = NONE, _LEFT, root[place]
    while top != NONE and priority(top) > rank:
        buckets.work[STEPS] += 1
        parent = top
        other = buckets.bucket[top]
        if _is_before(one.code, one.key, other.code, other.key):
            side, top = _LEFT, other.left
        else:
            side, top = _RIGHT, other.right
    _hang(buckets, root, place, parent, side, new)
    below, below_side, above, above_side = new, _LEFT, new, _RIGHT
    while top != NONE:
        buckets.work[STEPS] += 1
        other = buckets.bucket[top]
        if _is_before(one.code, one.key, other.code, other.key):
            _hang(buckets, root, place, above, above_side, top)
            above, above_side, top = top, _LEFT, other.left
        else:
            _hang(buckets, root, place, below, below_side, top)
            below, below_side, top = top, _RIGHT, other.right
    _hang(buckets, root, place, below, below_side, NONE)
    _hang(buckets, root, place, above, above_side, NONE)


@kernel
def _take_out(buckets, root, place, gone):
    """Take a bucket out of the tree and join what hung below it."""
    one = buckets.bucket[gone]
    parent, side, top = NONE, _LEFT, root[place]
    while top != gone:
        buckets.work[STEPS] += 1
        parent = top
        other = buckets.bucket[top]
        if _is_before(one.code, one.key, other.code, other.key):
            side, top = _LEFT, other.left
        else:
            side, top = _RIGHT, other.right
    left, right = one.left, one.right
    while left != NONE and right != NONE:
        buckets.work[STEPS] += 1
        if priority(left) > priority(right):
            _hang(buckets, root, place, parent, side, left)
            parent, side, left = left, _RIGHT, buckets.bucket[left].right
        else:
            _hang(buckets, root, place, parent, side, right)
            parent, side, right = right, _LEFT, buckets.bucket[right].left
    _hang(buckets, root, place, parent, side, left if left != NONE else right)


@kernel
def _new_bucket(buckets, shift, code, key):
    number = buckets.spare[FREE]
    if number != NONE:
        buckets.spare[FREE] = buckets.bucket[number].left
    else:
        number = buckets.spare[UNTOUCHED]
        buckets.spare[UNTOUCHED] += 1
    one = buckets.bucket[number]
    one.code = code
    one.key = key
    one.left = NONE
    one.right = NONE
    one.start = take_block(buckets.code, buckets.free, shift)
    one.size = 0
    one.shift = shift
    return number


@kernel
def _free_bucket(buckets, number):
    one = buckets.bucket[number]
    give_block(buckets.code, buckets.free, one.start, one.shift)
    one.left = buckets.spare[FREE]
    one.size = NONE
    buckets.spare[FREE] = number


@kernel
def _resize(buckets, number, shift):
    """Move a bucket's pairs to a block of another size; nothing happens if the pool has no room."""
    one = buckets.bucket[number]
    start = take_block(buckets.code, buckets.free, shift)
    if start == NONE:
        return
    for i in range(one.size):
        buckets.code[start + i] = buckets.code[one.start + i]
        buckets.key[start + i] = buckets.key[one.start + i]
    give_block(buckets.code, buckets.free, one.start, one.shift)
    one.start = start
    one.shift = shift
