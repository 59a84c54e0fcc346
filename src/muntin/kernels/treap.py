"""Ordered sets of (code, key) pairs, many in one pool: each a treap.

A treap is a search tree by pair, and a heap by a *priority* that is as good as random: here a hash of the
pair's place in the pool. That keeps paths at O(log n), expected over the hash, with nothing to store and
nothing to balance.

Set s has its topmost pair at place `root[s]` of the pool `pair`, or NONE. Free places are a list through `left`.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.blocks import NONE
from muntin.kernels.jit import inner, kernel

PAIR = np.dtype(
    [
        ("code", np.int64),
        ("key", np.int32),
        ("left", np.int32),  # the subtree of lower pairs
        ("right", np.int32),  # the subtree of higher pairs
    ],
    align=True,
)
# Places of `state`: the first place of the pool never used, the first free one, pairs held, and
# counters: pairs put and taken, pairs looked at.
UNTOUCHED, FREE, HELD, CHANGED, LOOKED = range(5)
_LEFT, _RIGHT = 0, 1


@inner
def _below(pair, top, code, key):
    """Where to look on below `top`: the side, and what hangs there."""
    side, next_top = _RIGHT, pair[top].right
    if _is_before(code, key, pair[top]):
        side, next_top = _LEFT, pair[top].left
    return side, next_top


@kernel
def insert_pair(root, pair, state, s, code, key):
    """Put a pair into a set that does not have it; O(log n). The pool must have room."""
    new = _new_pair(pair, state, code, key)
    rank = priority(new)
    parent, side, top = NONE, _LEFT, root[s]
    looked = 1
    while top != NONE and priority(top) > rank:
        looked += 1
        parent = top
        side, top = _below(pair, top, code, key)
    _hang(root, pair, s, parent, side, new)
    # what was there hangs below it now, parted into the lower and the higher
    lower, lower_side, higher, higher_side = new, _LEFT, new, _RIGHT
    while top != NONE:
        looked += 1
        if _is_before(code, key, pair[top]):
            _hang(root, pair, s, higher, higher_side, top)
            higher, higher_side, top = top, _LEFT, pair[top].left
        else:
            _hang(root, pair, s, lower, lower_side, top)
            lower, lower_side, top = top, _RIGHT, pair[top].right
    _hang(root, pair, s, lower, lower_side, NONE)
    _hang(root, pair, s, higher, higher_side, NONE)
    state[CHANGED] += 1
    state[LOOKED] += looked


@kernel
def delete_pair(root, pair, state, s, code, key):
    """Take a pair out of a set that has it; O(log n)."""
    parent, side, top = NONE, _LEFT, root[s]
    looked = 1
    while pair[top].key != key:  # a set has a key once
        looked += 1
        parent = top
        side, top = _below(pair, top, code, key)
    left, right = pair[top].left, pair[top].right
    _free_pair(pair, state, top)
    while left != NONE and right != NONE:
        looked += 1
        if priority(left) > priority(right):
            _hang(root, pair, s, parent, side, left)
            parent, side, left = left, _RIGHT, pair[left].right
        else:
            _hang(root, pair, s, parent, side, right)
            parent, side, right = right, _LEFT, pair[right].left
    _hang(root, pair, s, parent, side, left if left != NONE else right)
    state[CHANGED] += 1
    state[LOOKED] += looked


@kernel
def clear_set(root, pair, state, s):
    """Empty a set; O(pairs). Rotations instead of a stack bring each pair to the top in turn."""
    top = root[s]
    root[s] = NONE
    while top != NONE:
        left = pair[top].left
        if left != NONE:
            pair[top].left = pair[left].right
            pair[left].right = top
            top = left
        else:
            right = pair[top].right
            _free_pair(pair, state, top)
            top = right


@kernel
def collect_keys(root, pair, state, s, low, high, waiting, found, count):
    """Append the keys of a set's pairs with low <= code <= high to `found`, from `count` on; the new count.

    O(log n + keys found). `waiting` is scratch; a longer one is taken should the tree be deeper.
    """
    top = root[s]
    depth = looked = 0
    while top != NONE:  # the way to the lowest that is not below `low`; what is above it waits
        looked += 1
        if pair[top].code < low:
            top = pair[top].right
        else:
            if depth == len(waiting):
                waiting = np.concatenate((waiting, waiting))
            waiting[depth] = top
            depth += 1
            top = pair[top].left
    while depth > 0:
        depth -= 1
        top = waiting[depth]
        if pair[top].code > high:
            break
        found[count] = pair[top].key
        count += 1
        top = pair[top].right
        while top != NONE:
            looked += 1
            if depth == len(waiting):
                waiting = np.concatenate((waiting, waiting))
            waiting[depth] = top
            depth += 1
            top = pair[top].left
    state[LOOKED] += looked
    return count


@kernel
def renumber_pairs(pair, state, new_id):
    """Give the keys of all pairs new ids, in the same order; O(pool)."""
    for place in range(state[UNTOUCHED]):
        if pair[place].key != NONE:
            pair[place].key = new_id[pair[place].key]


@kernel
def priority(place):
    """A hash of a place: higher ones are nearer to the root."""
    x = np.int64(place + 1) * np.int64(-7046029254386353131)
    x = (x ^ (x >> 30)) * np.int64(-4658895280553007687)
    return x ^ (x >> 27)


@kernel
def _is_before(code, key, other):
    return code < other.code or (code == other.code and key < other.key)


@kernel
def _hang(root, pair, s, parent, side, child):
    if parent == NONE:
        root[s] = child
    elif side == _LEFT:
        pair[parent].left = child
    else:
        pair[parent].right = child


@kernel
def _new_pair(pair, state, code, key):
    place = state[FREE]
    if place != NONE:
        state[FREE] = pair[place].left
    else:
        place = state[UNTOUCHED]
        state[UNTOUCHED] += 1
    pair[place].code = code
    pair[place].key = key
    state[HELD] += 1
    return place


@kernel
def _free_pair(pair, state, place):
    pair[place].left = state[FREE]
    pair[place].key = NONE
    state[FREE] = place
    state[HELD] -= 1
