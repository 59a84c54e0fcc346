"""Dyadic index: which segments of positions contain a given one, and have a value in a given range.

A segment [start, stop) is cut into at most 2 log2 n dyadic nodes, runs of 2**level positions that begin at a
multiple of their length, and its (value, key) pair is kept in order at each of them. A position lies in
one node of each level; their pairs are those of the segments that contain it:

    level 2   |      [0, 4)      |      [4, 8)      |
    level 1   |  [0, 2) | [2, 4) |  [4, 6) | [6, 8) |     [1, 6) is kept at [1, 2), [2, 4) and [4, 6);
    level 0   | 0  | 1  | 2 | 3  | 4  | 5  | 6 | 7  |     5 lies in [5, 6), [4, 6) and [4, 8)

Positions are forgotten from the first on, and with the last of its positions a node.

Pairs at a node. Most nodes have one or two pairs, a few have one for every key, so a node's set is a *treap
of buckets*: up to 32 pairs in no order are a bucket, and only larger sets need a tree over buckets. Treaps of
single pairs and one sorted run with an unsorted tail of 32 were measured beside it: MEASURED
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from muntin.kernels import buckets as bucket_kernels
from muntin.kernels import dyadic as kernels
from muntin.kernels.blocks import NONE, TAKEN, check_blocks, no_blocks
from muntin.synopsis.contract import Ints

_SMALLEST = 64  # positions
_SMALLEST_POOL = 4096  # pairs


class Nodes(NamedTuple):
    """Where the set of each node begins."""

    root: npt.NDArray[np.int32]  # the topmost bucket of each node's set, level by level, each level a ring
    offset: Ints  # of each level in `root`
    mask: Ints  # of each level: its places less one


class Buckets(NamedTuple):
    """The sets of all nodes."""

    bucket: npt.NDArray[Any]  # a record for each; see kernels/buckets.py
    code: Ints  # of each pair in the pool
    key: npt.NDArray[np.int32]  # of each pair in the pool
    free: Ints  # free blocks of the pool; see kernels/blocks.py
    spare: Ints  # the first bucket never used, the first free one
    work: Ints  # operations on sets; buckets and pairs looked at


class DyadicIndex:
    """Segments are put in and taken out by `kernels/staircase_index.py`, which keeps them in step with stairs.

    >>> index = DyadicIndex()
    >>> index.extend(8)
    >>> kernels.insert_segment(index.nodes, index.buckets, 0, 1, 6, 40, 7)  # key 7 has the value 40 in [1, 6)
    >>> index.keys_in(5, 30, 50, keys=8)
    array([7])
    """

    def __init__(self) -> None:
        self.first = 0  # positions before it are forgotten
        self.end = 0  # positions so far
        self.nodes = _no_nodes(_SMALLEST, 0)
        self.buckets = _no_buckets(_SMALLEST_POOL)
        self._waiting = np.empty(64, np.int64)

    def extend(self, positions: int) -> None:
        """There are so many more positions; O(1) amortised each."""
        if self.end + positions - self.first > self._capacity():
            self._fit(self.end + positions - self.first)
        self.end += positions

    def forget(self, first: int) -> None:
        """Positions before `first` are not asked for any more; O(1) amortised for each, and each pair."""
        kernels.forget_nodes(self.nodes, self.buckets, self.first, first)
        self.first = first
        if self._capacity() > max(_SMALLEST, 8 * (self.end - first)):
            self._fit(self.end - first)

    def keys_in(self, position: int, first: int, last: int, keys: int) -> Ints:
        """The keys, all numbered below `keys`, of segments that contain a position and have a code in [first, last].

        Ascending; each once, for the segments of a key do not overlap. O(log^2 n + keys found), and sorting those.
        """
        found = np.empty(keys, np.int64)
        count = kernels.find_keys(
            self.nodes, self.buckets, self.end, position, first, last, self._waiting, found
        )
        return np.sort(found[:count])

    def grow(self) -> None:
        """Twice the pool, and twice the buckets."""
        old = self.buckets
        self.buckets = old._replace(
            bucket=np.concatenate([old.bucket, np.zeros_like(old.bucket)]),
            code=np.concatenate([old.code, np.empty_like(old.code)]),
            key=np.concatenate([old.key, np.empty_like(old.key)]),
        )

    def renumber(self, new_id: Ints) -> None:
        """Give keys new ids, in the same order; those that go must have no segment. O(pairs)."""
        least = np.where(new_id < 0, np.iinfo(np.int32).max, new_id)
        end = new_id.max(initial=-1) + 1  # bounds of buckets may have belonged to a key that goes
        bound_id = np.minimum(np.minimum.accumulate(np.append(least, end)[::-1])[::-1], end)
        bucket_kernels.renumber_pairs(self.buckets, new_id, bound_id)

    def clear(self) -> None:
        """Take all segments out and give the room back; O(nodes)."""
        work = self.buckets.work
        self.nodes.root[:] = NONE
        self.buckets = _no_buckets(_SMALLEST_POOL)._replace(work=work)

    def is_sparse(self) -> bool:
        """Most of the pool is free: time to put all segments in anew."""
        return len(self.buckets.code) > max(_SMALLEST_POOL, 8 * int(self.buckets.free[TAKEN]))

    def pairs(self) -> int:
        """How many pairs all nodes have."""
        size = self.buckets.bucket["size"][: self.buckets.spare[bucket_kernels.UNTOUCHED]]
        return int(size[size > 0].sum())

    def operations(self) -> tuple[int, int]:
        """Pairs put to and taken from nodes so far; buckets and pairs looked at, in look-ups as well."""
        return int(self.buckets.work[0]), int(self.buckets.work[1])

    def nbytes(self) -> int:
        """Bytes of state."""
        return sum(array.nbytes for array in (*self.nodes, *self.buckets))

    def check(self, segments: Iterable[tuple[int, int, int, int]]) -> None:
        """Assert every invariant; `segments` are the (start, stop, code, key) that must be here."""
        expected: dict[int, set[tuple[int, int]]] = {}
        for start, stop, code, key in segments:
            for place in self._places_of(start, stop):
                expected.setdefault(place, set()).add((code, key))
        numbers: list[int] = []
        for place in range(len(self.nodes.root)):
            pairs = check_set(self.buckets, int(self.nodes.root[place]), numbers)
            # each node has exactly the pairs of the segments it is part of, once
            assert sorted(pairs) == sorted(expected.get(place, set()))
        # every bucket is in one set or free
        assert len(set(numbers)) == len(numbers)
        free, used = [], int(self.buckets.spare[bucket_kernels.UNTOUCHED])
        number = int(self.buckets.spare[bucket_kernels.FREE])
        while number != NONE:
            free.append(number)
            assert len(free) <= used
            number = int(self.buckets.bucket["left"][number])
        assert sorted(free + numbers) == list(range(used))
        one = self.buckets.bucket[numbers]
        check_blocks(self.buckets.code, self.buckets.free, one["start"], one["shift"])

    def _places_of(self, start: int, stop: int) -> Iterator[int]:
        """The places of the nodes in use that a segment is cut into, found the long way."""
        while start < stop:
            level = max(
                each for each in range(64) if start % (1 << each) == 0 and start + (1 << each) <= stop
            )
            start += 1 << level
            if start > self.first:
                number = (start - 1) >> level
                yield int(self.nodes.offset[level] + (number & self.nodes.mask[level]))

    def _capacity(self) -> int:
        return int(self.nodes.mask[0]) + 1

    def _fit(self, positions: int) -> None:
        nodes = _no_nodes(max(_SMALLEST, positions), len(self.nodes.offset))
        kernels.copy_roots(self.nodes, nodes, self.first, self.end)
        self.nodes = nodes


def check_set(buckets: Buckets, root: int, numbers: list[int]) -> list[tuple[int, int]]:
    """Assert that a set is in order; its pairs. The numbers of its buckets are added to `numbers`."""
    pairs: list[tuple[int, int]] = []
    bounds: list[tuple[int, int]] = []

    def walk(number: int) -> None:
        one = buckets.bucket[number]
        for child in (int(one["left"]), int(one["right"])):
            # a heap by priority
            assert child == NONE or bucket_kernels.priority(child) <= bucket_kernels.priority(number)
        if one["left"] != NONE:
            walk(int(one["left"]))
        # a search tree by bound, and no pair on the wrong side of one
        bound = (int(one["code"]), int(one["key"]))
        assert not bounds or (bound > bounds[-1] and max(pairs) < bound)
        bounds.append(bound)
        numbers.append(number)
        part = slice(one["start"], one["start"] + one["size"])
        inside = list(zip(buckets.code[part].tolist(), buckets.key[part].tolist(), strict=True))
        # buckets are never empty, and large blocks never nearly so
        assert 0 < one["size"] <= 1 << one["shift"] <= 1 << bucket_kernels.LARGEST
        assert min(inside) >= bound
        pairs.extend(inside)
        if one["right"] != NONE:
            walk(int(one["right"]))

    if root != NONE:
        walk(root)
    return pairs


def _no_nodes(positions: int, levels: int) -> Nodes:
    """Nodes over so many positions, of so many levels at least: nodes once in use may be larger."""
    shift = (positions - 1).bit_length()
    width = [1 << max(0, shift - level) for level in range(max(levels, shift + 1))]
    offset = np.cumsum([0, *width], dtype=np.int64)
    return Nodes(np.full(offset[-1], NONE, np.int32), offset[:-1], np.array(width, np.int64) - 1)


def _no_buckets(capacity: int) -> Buckets:
    return Buckets(
        np.zeros(capacity // 4, bucket_kernels.BUCKET),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int32),
        no_blocks(bucket_kernels.LARGEST),
        np.array([0, NONE]),
        np.zeros(2, np.int64),
    )
