"""stamp tree: the keys of every level of a collective index, in order of their stamps.

Events get a *slot* each, in the order of arrival; 256 slots are a *bucket*. On each level a key is in the bucket of
the slot that holds its stamp there, in a linked list, and a tree of bits says which buckets are not empty:

    slot            0 .... 255 | 256 .. 511 | 512 .. 767 | 768 ...
    stamp           ...  14:02   14:02 ...    14:07 ...    14:11
    level 0         -            -            c            a, b         head, and link[level, key]
    level 1         c            -            a, b         -
    bits, level 1   1            0            1            0            a bit per word of them above, and so on

* Stamps move to slots that exist already, so a level changes in O(1), and O(log64 slots) if a bucket becomes
  empty or is not so any more. No key is compared with another.
* "All keys with a stamp since 14:05 on this level": a binary search for the slot, then bucket after bucket.
  Only in the first one can there be keys that are older, at most 256.
* Events need not come in order of time as long as those of each key do. A running maximum of the
  stamps is searched in place of them; stamps behind it are then compared one by one.
* When all slots are taken, those that nothing refers to are dropped, and the rest numbered anew. At least as many
  arrivals as there are stamps on the levels, divided by the parts, pay for that.
* Keys with the same number of levels are in a list too, so that those without a stamp on a level can be found.

The paper leaves the search tree open. Any that sorts by stamp compares keys, O(log K) for each of the 2p levels that
an arrival changes. A bit per slot and level in place of the lists was simpler, but took eight times the memory of
the heads, and there are as many slots as stamps on all levels together.

Reference: Arasu & Widom, VLDB 2004, Figure 7 (SEARCHTREE).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from muntin.arrays import Ints
from muntin.kernels.stamp_tree import (
    BEFORE,
    BUCKET,
    BUCKET_BITS,
    END,
    IS_ORDERED,
    LIVE,
    MOVES,
    NEXT,
    NOBODY,
    NONE,
    TOUCHED,
    find_keys,
    forget_keys,
    regroup,
    relink,
    renumber_slots,
    used_slots,
)

SMALLEST = 1 << 12  # slots of an empty tree
Links = npt.NDArray[np.int32]


class Tree(NamedTuple):
    """The arrays, for kernels. Those by key and level lie key by key: an arrival touches many levels of one key."""

    at: Ints  # [slot] stamp
    latest: Ints  # [slot] the latest stamp up to here; the same if slots are in order of time
    key: Ints  # [slot]
    head: Links  # [bucket, level] the first key
    link: Links  # [key, level, 3] the next key of the bucket, the one before, and the bucket
    bits: Ints  # [word, level] which buckets have a key; then which words are not 0, and so on
    tier: Ints  # where the words of each of these begin
    depth: Ints  # [key] how many levels have a stamp of it: the first ones
    first: Links  # [depth] a key with so many
    peer: Links  # [key, 2] the next such key and the one before
    reach: Ints  # [key] how many levels may have changed since it was last put into buckets
    touched: Ints  # the keys with any
    state: Ints  # END, IS_ORDERED, LIVE, TOUCHED and what was counted: see the kernels


class StampTree:
    """The order of `slots[level, key]`, which the owner keeps and hands to each call.

    Whoever changes slots says so in `reach` and `touched`; the buckets follow before the next look-up, so that a key
    that moved many times in the meantime is moved once.
    """

    def __init__(self, levels: int, keys: int):
        self.arrays = empty_tree(SMALLEST, levels, keys)

    def edge(self, since: int) -> int:
        """The first slot whose stamp may be `since` or later; O(log slots)."""
        return int(self.arrays.latest[: self.arrays.state[END]].searchsorted(since))

    def follow(self, slots: Ints) -> None:
        """Put the keys that were touched where they belong; O(levels touched)."""
        if self.arrays.state[TOUCHED]:
            relink(slots, self.arrays)
            regroup(slots, self.arrays)

    def keys_between(self, slots: Ints, near: int, far: int, since: int) -> Ints:
        """Keys with a stamp of `since` or later on level `near` and none on `far` (-1: whatever is there).

        O(log slots + keys listed), from the side that has fewer.
        """
        keys: Ints = find_keys(slots, self.arrays, near, far, since)
        return keys

    def forget(self, slots: Ints, total: Ints, before: int) -> None:
        """Drop the keys whose newest stamp is older than `before`; O(levels) for each, O(log slots) besides."""
        self.follow(slots)
        forget_keys(slots, total, self.arrays, self.edge(before))
        self.follow(slots)

    def renew(self, slots: Ints, total: Ints, keys: int, parts: int, before: int) -> None:
        """Drop slots that nothing needs, sort the rest by stamp, and rebuild for the levels and keys of `slots`.

        O(levels * keys + slots). Leaves so many slots free that this is O(parts) for each event until the next time.
        """
        old, end = self.arrays, int(self.arrays.state[END])
        is_used = np.zeros(end, np.bool_)
        stamps = used_slots(slots, keys, old.at, before, is_used)
        kept = np.flatnonzero(is_used)
        if not old.state[IS_ORDERED]:
            kept = kept[np.argsort(old.at[kept], kind="stable")]
        slot_of = np.full(end, NONE)
        slot_of[kept] = np.arange(len(kept))
        free = max(len(kept), stamps // parts, slots.shape[0] * keys // (4 * parts))
        new = self.arrays = empty_tree(len(kept) + free, *slots.shape)
        new.at[: len(kept)] = old.at[kept]
        new.latest[: len(kept)] = new.at[: len(kept)]  # in order now
        new.key[: len(kept)] = old.key[kept]
        new.state[END] = len(kept)
        renumber_slots(slots, total, keys, slot_of, new)
        self.follow(slots)
        new.state[MOVES:] = old.state[MOVES:]

    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def check(self, slots: Ints, keys: int) -> None:
        """Assert every invariant; O(levels * (keys + buckets))."""
        self.follow(slots)
        tree, end = self.arrays, int(self.arrays.state[END])
        # the running maximum is one, and the note whether it equals the stamps is true
        np.testing.assert_array_equal(tree.latest[:end], np.maximum.accumulate(tree.at[:end]))
        assert bool(tree.state[IS_ORDERED]) == bool((tree.latest[:end] == tree.at[:end]).all())
        for level, row in enumerate(slots):
            # every slot referred to is an event of that key
            there = np.flatnonzero(row != NONE)
            assert (there < keys).all()
            np.testing.assert_array_equal(tree.key[row[there]], there)
            # each stamp is in the list of its bucket, and nothing else is in any
            lists = [walk(tree.link[:, level], int(first)) for first in tree.head[:, level]]
            found = {key: bucket for bucket, each in enumerate(lists) for key in each}
            assert found == dict(zip(there.tolist(), (row[there] >> BUCKET_BITS).tolist(), strict=True))
            noted = tree.link[:, level, BUCKET]
            assert found == {key: noted[key] for key in np.flatnonzero(noted != NOBODY).tolist()}
            # a bit is set where a bucket is not empty, and in the tiers above where a word is not 0
            below = np.array([bool(each) for each in lists])
            for start, stop in pairwise(tree.tier.tolist()):
                words = np.ascontiguousarray(tree.bits[start:stop, level])
                wanted = np.zeros(64 * len(words), np.bool_)
                wanted[: len(below)] = below
                np.testing.assert_array_equal(np.unpackbits(words.view(np.uint8), bitorder="little"), wanted)
                below = words != 0
        # the levels of a key are the first ones, it is in the list of so many, and counted if there are any
        is_there = slots[:, :keys] != NONE
        np.testing.assert_array_equal(is_there, np.arange(len(slots))[:, None] < tree.depth[:keys])
        for depth in range(1, len(slots) + 1):
            found_keys = sorted(walk(tree.peer, int(tree.first[depth])))
            assert found_keys == np.flatnonzero(tree.depth == depth).tolist()
        assert tree.state[LIVE] == np.count_nonzero(tree.depth)
        # nobody is touched any more
        assert not tree.reach.any()


def walk(link: npt.NDArray[Any], key: int) -> list[int]:
    """The keys of a list; each knows the one before."""
    found: list[int] = []
    while key != NOBODY:
        assert link[key, BEFORE] == (found[-1] if found else NOBODY)
        found.append(key)
        key = int(link[key, NEXT])
    return found


def empty_tree(slots: int, levels: int, keys: int) -> Tree:
    """A tree with room for so much."""
    slots = max(SMALLEST, 1 << (slots - 1).bit_length())
    words = [slots >> BUCKET_BITS]
    while len(words) == 1 or words[-1] > 1:
        words.append(-(-words[-1] // 64))
    link = np.empty((keys, levels, 3), np.int32)
    link[:, :, BUCKET] = NOBODY
    return Tree(
        at=np.empty(slots, np.int64),
        latest=np.empty(slots, np.int64),
        key=np.empty(slots, np.int64),
        head=np.full((words[0], levels), NOBODY, np.int32),
        link=link,
        bits=np.zeros((sum(words[1:]), levels), np.int64),
        tier=np.cumsum([0, *words[1:]]),
        depth=np.zeros(keys, np.int64),
        first=np.full(levels + 1, NOBODY, np.int32),
        peer=np.empty((keys, 2), np.int32),
        reach=np.zeros(keys, np.int64),
        touched=np.empty(keys, np.int64),
        state=np.array([0, 1, 0, 0, 0, 0, 0]),
    )
