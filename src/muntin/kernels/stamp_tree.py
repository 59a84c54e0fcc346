"""Bring the buckets of a stamp tree up to date with the slots, and list the keys on one side of an instant.

`key_index/stamp_tree.py` says what the arrays mean. The loops are written out: handing a dozen arrays to a function
counts references to each of them, which made a move from bucket to bucket take 300 ns where it takes 20.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.instructions import trailing_zeros
from muntin.kernels.jit import kernel

NONE = -(2**62)  # no stamp, no slot: less than any other
NOBODY = -1  # ends a list; also the bucket of a key that is in none
BUCKET_BITS = 8  # 256 slots: the most that a look-up may read in vain, and what a head is shared by
NEXT, BEFORE, BUCKET = range(3)  # columns of links
END, IS_ORDERED, LIVE, TOUCHED, MOVES, STEPS, VISITS = range(7)  # elements of `state`


@kernel
def relink(slots, tree):
    """Put the keys that have been touched into the buckets of the slots they have now; O(levels touched)."""
    head, link, bits, tier, state = tree.head, tree.link, tree.bits, tree.tier, tree.state
    touched, reach = tree.touched, tree.reach
    tiers = len(tier) - 1
    moves = 0
    steps = 0
    for n in range(state[TOUCHED]):
        key = touched[n]
        for level in range(reach[key]):
            old = link[key, level, BUCKET]
            new = slots[level, key] >> BUCKET_BITS
            new = NOBODY if new < 0 else new
            if new == old:
                continue
            moves += 1
            if old != NOBODY:
                after = link[key, level, NEXT]
                before = link[key, level, BEFORE]
                if after != NOBODY:
                    link[after, level, BEFORE] = before
                if before != NOBODY:
                    link[before, level, NEXT] = after
                else:
                    head[old, level] = after
                    if after == NOBODY:
                        bit = old
                        for t in range(tiers):
                            word = tier[t] + (bit >> 6)
                            bits[word, level] &= ~(1 << (bit & 63))
                            steps += 1
                            if bits[word, level] != 0:
                                break
                            bit >>= 6
            if new != NOBODY:
                after = head[new, level]
                link[key, level, NEXT] = after
                link[key, level, BEFORE] = NOBODY
                head[new, level] = key
                if after != NOBODY:
                    link[after, level, BEFORE] = key
                else:
                    bit = new
                    for t in range(tiers):
                        word = tier[t] + (bit >> 6)
                        was = bits[word, level]
                        bits[word, level] = was | (1 << (bit & 63))
                        steps += 1
                        if was != 0:
                            break
                        bit >>= 6
            link[key, level, BUCKET] = new
    state[MOVES] += moves
    state[STEPS] += moves + steps


@kernel
def regroup(slots, tree):
    """Put the keys that have been touched among those with as many levels; then none is touched any more."""
    depth_of, first, peer, state = tree.depth, tree.first, tree.peer, tree.state
    touched, reach = tree.touched, tree.reach
    levels = slots.shape[0]
    for n in range(state[TOUCHED]):
        key = touched[n]
        reach[key] = 0
        old = depth_of[key]
        depth = old
        while depth > 0 and slots[depth - 1, key] == NONE:
            depth -= 1
        while depth < levels and slots[depth, key] != NONE:
            depth += 1
        if depth == old:
            continue
        depth_of[key] = depth
        if old > 0:
            after = peer[key, NEXT]
            before = peer[key, BEFORE]
            if after != NOBODY:
                peer[after, BEFORE] = before
            if before != NOBODY:
                peer[before, NEXT] = after
            else:
                first[old] = after
        if depth > 0:
            after = first[depth]
            peer[key, NEXT] = after
            peer[key, BEFORE] = NOBODY
            if after != NOBODY:
                peer[after, BEFORE] = key
            first[depth] = key
        state[LIVE] += (1 if depth > 0 else 0) - (1 if old > 0 else 0)
    state[TOUCHED] = 0


@kernel
def next_bucket(bits, tier, level, bucket):
    """The first bucket of a level, from `bucket` on, that holds a key, or -1; O(log64 buckets)."""
    at = bucket
    t = 0
    while True:
        word = at >> 6
        if word >= tier[t + 1] - tier[t]:
            return -1
        rest = bits[tier[t] + word, level] >> (at & 63)
        if rest != 0:
            at += trailing_zeros(rest)
            break
        t += 1
        if t == len(tier) - 1:
            return -1
        at = word + 1
    while t > 0:
        t -= 1
        at = (at << 6) + trailing_zeros(bits[tier[t] + at, level])
    return at


@kernel
def list_newer(slots, tree, near, far, edge, since, most, out):
    """Keys with a stamp of `since` or later on level `near` and none on `far` (< 0: whatever is there); how many.

    `edge` is the first slot that may be as late as `since`. Gives up, with -1, after `most` keys. If slots are
    in order, only in the bucket of the edge there may be a key that is read in vain.
    """
    head, link, bits, tier, at, state = tree.head, tree.link, tree.bits, tree.tier, tree.at, tree.state
    ordered = state[IS_ORDERED] != 0
    count = 0
    walked = 0
    buckets = 1
    bucket = next_bucket(bits, tier, near, edge >> BUCKET_BITS)
    while bucket >= 0 and walked <= most:
        buckets += 1
        key = head[bucket, near]
        while key != NOBODY:
            walked += 1
            slot = slots[near, key]
            if slot >= edge and (ordered or at[slot] >= since):
                other = slots[far, key] if far >= 0 else NONE
                if other < edge or (not ordered and at[other] < since):
                    out[count] = key
                    count += 1
            key = link[key, near, NEXT]
        bucket += 1
        rest = bits[bucket >> 6, near] >> (bucket & 63) if bucket & 63 else 0
        if rest != 0:  # mostly; the call would take longer than the keys of the bucket
            bucket += trailing_zeros(rest)
        else:
            bucket = next_bucket(bits, tier, near, bucket)
    state[VISITS] += walked + buckets
    return count if walked <= most else -1


@kernel
def list_older(slots, tree, near, far, edge, since, most, out):
    """The same keys, found among those with an older stamp on level `far`, and those with none there."""
    head, link, bits, tier, at, state = tree.head, tree.link, tree.bits, tree.tier, tree.at, tree.state
    first, peer = tree.first, tree.peer
    ordered = state[IS_ORDERED] != 0
    last = (edge if ordered else state[END]) >> BUCKET_BITS
    count = 0
    walked = 0
    buckets = 1
    bucket = next_bucket(bits, tier, far, 0)
    while 0 <= bucket <= last and walked <= most:
        buckets += 1
        key = head[bucket, far]
        while key != NOBODY:
            walked += 1
            other = slots[far, key]
            if other < edge or (not ordered and at[other] < since):
                slot = slots[near, key]
                if slot >= edge and (ordered or at[slot] >= since):
                    out[count] = key
                    count += 1
            key = link[key, far, NEXT]
        bucket += 1
        rest = bits[bucket >> 6, far] >> (bucket & 63) if bucket & 63 else 0
        if rest != 0:  # mostly; the call would take longer than the keys of the bucket
            bucket += trailing_zeros(rest)
        else:
            bucket = next_bucket(bits, tier, far, bucket)
    for depth in range(near + 1, far + 1):  # with fewer levels a key has no stamp on `near` either
        buckets += 1
        key = first[depth]
        while key != NOBODY and walked <= most:
            walked += 1
            slot = slots[near, key]
            if slot >= edge and (ordered or at[slot] >= since):
                out[count] = key
                count += 1
            key = peer[key, NEXT]
    state[VISITS] += walked + buckets
    return count if walked <= most else -1


@kernel
def list_either(slots, tree, near, far, edge, since, out):
    """The same keys, from the side with fewer to read.

    Nobody counts them beforehand: both sides are tried with a limit that grows, so that all trials together read
    little more than the smaller side alone.
    """
    if far < 0:
        return list_newer(slots, tree, near, far, edge, since, slots.shape[1], out)
    most = min(64, slots.shape[1])
    while True:
        count = list_newer(slots, tree, near, far, edge, since, most, out)
        if count < 0:
            count = list_older(slots, tree, near, far, edge, since, most, out)
        if count >= 0:
            return count
        most *= 4


@kernel
def find_keys(slots, tree, near, far, since):
    """The same keys, after the buckets have followed the slots: all of a look-up in one call from Python."""
    if tree.state[TOUCHED] > 0:
        relink(slots, tree)
        regroup(slots, tree)
    out = np.empty(tree.state[LIVE], np.int64)
    edge = np.searchsorted(tree.latest[: tree.state[END]], since)
    return out[: list_either(slots, tree, near, far, edge, since, out)]


@kernel
def forget_keys(slots, total, tree, edge):
    """Take all slots from the keys whose newest slot is before `edge`, and count their events from 0 again.

    O(levels) for each. They are touched then; no other may be.
    """
    head, link, bits, tier, state = tree.head, tree.link, tree.bits, tree.tier, tree.state
    touched, reach, depth = tree.touched, tree.reach, tree.depth
    count = 0
    visits = 1
    bucket = next_bucket(bits, tier, 0, 0)
    while 0 <= bucket <= edge >> BUCKET_BITS:
        key = head[bucket, 0]
        while key != NOBODY:
            visits += 1
            if slots[0, key] < edge:
                for level in range(depth[key]):
                    slots[level, key] = NONE
                total[key] = 0
                reach[key] = depth[key]
                touched[count] = key
                count += 1
            key = link[key, 0, NEXT]
        bucket = next_bucket(bits, tier, 0, bucket + 1)
    state[TOUCHED] = count
    state[VISITS] += visits


@kernel
def used_slots(slots, keys, at, before, is_used):
    """Mark the slots that some level of some key refers to and whose stamp is not older than `before`; how many."""
    count = 0
    for key in range(keys):
        for level in range(slots.shape[0]):
            slot = slots[level, key]
            if slot != NONE and at[slot] >= before:
                is_used[slot] = True
                count += 1
    return count


@kernel
def renumber_slots(slots, total, keys, slot_of, tree):
    """Refer to slots by other numbers, NONE for one that is gone; all keys are touched then."""
    for key in range(keys):
        depth = 0
        for level in range(slots.shape[0]):
            slot = slots[level, key]
            if slot != NONE:
                slots[level, key] = slot_of[slot]
                depth = level + 1
        if slots[0, key] == NONE:
            total[key] = 0
        tree.reach[key] = depth
        tree.touched[key] = key
    tree.state[TOUCHED] = keys
