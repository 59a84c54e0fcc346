"""Dyadic index: which segments of positions contain a given one, and have a value in a given range.

A segment [start, stop) is cut into at most 2 log2 n dyadic nodes, runs of 2**level positions that begin at a
multiple of their length, and its (value, key) pair is kept in order at each of them. A position lies in
one node of each level; their pairs are those of the segments that contain it:

    level 2   |      [0, 4)      |      [4, 8)      |
    level 1   |  [0, 2) | [2, 4) |  [4, 6) | [6, 8) |     [1, 6) is kept at [1, 2), [2, 4) and [4, 6);
    level 0   | 0  | 1  | 2 | 3  | 4  | 5  | 6 | 7  |     5 lies in [5, 6), [4, 6) and [4, 8)

Positions are forgotten from the first on, and with the last of its positions a node.

Pairs at a node are in a *treap* (`kernels/treap.py`): most nodes have one or two, a few have one for
every key. The other choice, one sorted run a node with an unsorted tail of up to 32, was measured with the
same inserts, deletions and look-ups (CPU time per event, about 16 pairs put and taken for each):

| keys, events, what | treap | sorted run and tail |
|---|---:|---:|
| 5,000 Zipf, 150,000, inserts alone | 1.8 us | 1.4 us |
| the same, and a look-up for each event | 2.5 us | 1.8 us |
| 200,000 Zipf, 400,000, inserts alone | 3.8 us | 4.1 us |
| 200,000 equally frequent, 400,000, inserts alone | 7.5 us | 26 us |

A run is moved at every merge, O(n / 32) for each pair: that is faster while nodes are small, and breaks
the bound where they are large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from muntin.arrays import Ints
from muntin.kernels import dyadic as kernels
from muntin.kernels import treap
from muntin.kernels.blocks import NONE

_SMALLEST = 64  # positions
_SMALLEST_POOL = 1024  # pairs


class Nodes(NamedTuple):
    """The arrays of a dyadic index."""

    root: npt.NDArray[np.int32]  # the topmost pair of each node, level by level, each level a ring
    offset: Ints  # of each level in `root`
    mask: Ints  # of each level: its nodes less one
    pair: npt.NDArray[Any]  # the pool of pairs, a record each; see kernels/treap.py
    state: Ints  # of the pool: what is free, and counters


class DyadicIndex:
    """Segments are put in and taken out by `kernels/staircase_index.py`, which keeps them in step with maxima.

    >>> index = DyadicIndex()
    >>> index.extend(8)
    >>> kernels.insert_segment(index.nodes, 0, 1, 6, 40, 7)  # key 7 has the value 40 in [1, 6)
    >>> index.keys_in(5, 30, 50, keys=8)
    array([7])
    """

    def __init__(self) -> None:
        self.first = 0  # positions before it are forgotten
        self.end = 0  # positions so far
        self.nodes = Nodes(*_no_roots(_SMALLEST, 0), *_no_pairs())
        self._waiting = np.empty(64, np.int64)

    def extend(self, positions: int) -> None:
        """There are so many more positions; O(1) amortised each."""
        if self.end + positions - self.first > self._capacity():
            self._fit(self.end + positions - self.first)
        self.end += positions

    def forget(self, first: int) -> None:
        """Positions before `first` are not asked for any more; O(1) amortised for each, and each pair."""
        kernels.forget_nodes(self.nodes, self.first, first)
        self.first = first
        if self._capacity() > max(_SMALLEST, 8 * (self.end - first)):
            self._fit(self.end - first)

    def keys_in(self, position: int, first: int, last: int, keys: int) -> Ints:
        """The keys, all numbered below `keys`, of segments that contain a position and have a code in [first, last].

        Ascending; each once, for the segments of a key do not overlap. O(log^2 n + keys found), and sorting those.
        """
        found = np.empty(keys, np.int64)
        count = kernels.find_keys(self.nodes, self.end, position, first, last, self._waiting, found)
        return np.sort(found[:count])

    def grow(self) -> None:
        """Twice the pool."""
        pair = np.concatenate([self.nodes.pair, np.zeros_like(self.nodes.pair)])
        self.nodes = self.nodes._replace(pair=pair)

    def renumber(self, new_id: Ints) -> None:
        """Give keys new ids, in the same order; those that go must have no segment. O(pairs)."""
        treap.renumber_pairs(self.nodes.pair, self.nodes.state, new_id)

    def clear(self) -> None:
        """Take all segments out and give the room back; O(nodes)."""
        counters = self.nodes.state[treap.CHANGED :].copy()
        self.nodes.root[:] = NONE
        pair, state = _no_pairs()
        state[treap.CHANGED :] = counters
        self.nodes = self.nodes._replace(pair=pair, state=state)

    def is_sparse(self) -> bool:
        """Most of the pool is free: time to put all segments in anew."""
        return len(self.nodes.pair) > max(_SMALLEST_POOL, 8 * self.pairs())

    def pairs(self) -> int:
        """How many pairs all nodes have."""
        return int(self.nodes.state[treap.HELD])

    def operations(self) -> tuple[int, int]:
        """Pairs put to and taken from nodes so far, and pairs looked at for that and in look-ups."""
        return int(self.nodes.state[treap.CHANGED]), int(self.nodes.state[treap.LOOKED])

    def nbytes(self) -> int:
        """Bytes of state."""
        return sum(array.nbytes for array in self.nodes)

    def check(self, segments: Iterable[tuple[int, int, int, int]]) -> None:
        """Assert every invariant; `segments` are the (start, stop, code, key) that must be here."""
        expected: dict[int, set[tuple[int, int]]] = {}
        for start, stop, code, key in segments:
            for node in self._sets_of(start, stop):
                expected.setdefault(node, set()).add((code, key))
        places: list[int] = []
        for node, root in enumerate(self.nodes.root.tolist()):
            pairs = check_treap(self.nodes.pair, root, places)
            # each node has exactly the pairs of the segments that it is part of
            assert pairs == sorted(expected.get(node, set()))
        # every place of the pool is in one node or free
        state = self.nodes.state
        assert len(places) == state[treap.HELD]
        place = int(state[treap.FREE])
        while place != NONE:
            places.append(place)
            assert len(places) <= state[treap.UNTOUCHED]
            place = int(self.nodes.pair["left"][place])
        assert sorted(places) == list(range(state[treap.UNTOUCHED]))

    def _sets_of(self, start: int, stop: int) -> Iterator[int]:
        """The nodes in use, by their place in `root`, that a segment is cut into, found the long way."""
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
        roots = _no_roots(max(_SMALLEST, positions), len(self.nodes.offset))
        nodes = Nodes(*roots, self.nodes.pair, self.nodes.state)
        kernels.copy_roots(self.nodes, nodes, self.first, self.end)
        self.nodes = nodes


def check_treap(pair: npt.NDArray[Any], root: int, places: list[int]) -> list[tuple[int, int]]:
    """Assert that a treap is one; its pairs in order. Their places are added to `places`."""
    pairs: list[tuple[int, int]] = []
    path: list[int] = []
    place = root
    while path or place != NONE:
        while place != NONE:
            # a heap by priority
            assert not path or treap.priority(place) <= treap.priority(path[-1])
            path.append(place)
            place = int(pair["left"][place])
        place = path.pop()
        # a search tree by pair
        here = (int(pair["code"][place]), int(pair["key"][place]))
        assert not pairs or here > pairs[-1]
        pairs.append(here)
        places.append(place)
        place = int(pair["right"][place])
    return pairs


def _no_roots(positions: int, levels: int) -> tuple[npt.NDArray[np.int32], Ints, Ints]:
    """Nodes over so many positions, of so many levels at least: nodes once in use may be larger."""
    shift = (positions - 1).bit_length()
    width = [1 << max(0, shift - level) for level in range(max(levels, shift + 1))]
    offset = np.cumsum([0, *width], dtype=np.int64)
    return np.full(offset[-1], NONE, np.int32), offset[:-1], np.array(width, np.int64) - 1


def _no_pairs() -> tuple[npt.NDArray[Any], Ints]:
    return np.zeros(_SMALLEST_POOL, treap.PAIR), np.array([0, NONE, 0, 0, 0])
