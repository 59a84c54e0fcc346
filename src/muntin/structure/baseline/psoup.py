r"""psoup: a balanced search tree over the recent elements, with the aggregate of every subtree.

| | |
|---|---|
| Full name | PSoup (an augmented search tree), here a leaf-oriented AVL tree |
| Answers | aggregates with fixed-size partials, over suffix and historical windows |
| Insert | O(log n), and O(log n) for each element that leaves |
| Lookup | O(log n), whatever the width of the window |
| Space | O(n): two nodes for each element |
| Shares | one tree per component for all windows |
| Reference | Arasu & Widom, VLDB 2004, section 3.1.3, after Chandrasekaran & Franklin, VLDB 2002 |

A baseline. Leaves are the elements in order of arrival; every inner node holds the partial of the
leaves below it. Elements come in at the far right and leave at the far left; rotations keep the height
within 1.45 log2(n), and every node on the way to the root is combined anew:

            (0..4)
           /      \
       (0..2)    (3..4)          the run [1, 5) = leaf 1, leaf 2, node (3..4)
       /    \     /  \
     (0,1)   2   3    4
     /   \
    0     1

The paper measured a red-black tree. Nothing here is saved up over a batch: each element costs what it
would cost alone.
"""

from __future__ import annotations

from math import log2

import numpy as np

from muntin.aggregates.component import COMPONENTS, Component, cells_of
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels.combine import SMALLEST, ring_capacity
from muntin.kernels.psoup import (
    COLUMNS,
    FREE,
    HEIGHT,
    LEFT,
    NONE,
    PARENT,
    RIGHT,
    ROOT,
    SPLIT,
    append_leaves,
    combine_children,
    copy_tree,
    delete_leaves,
    free_all,
    query_runs,
)
from muntin.structure.intervals import Intervals, check_rewind, known_runs


class PSoup(Intervals):
    """Aggregates of one component in a tree.

    >>> tree = PSoup(COMPONENTS["max"], np.dtype(np.int64))
    >>> tree.extend((np.array([3, 1, 4, 1, 5]),))
    >>> tree.query(np.array([0, 1]), np.array([2, 4]))
    (array([3, 4]),)
    """

    name = "psoup"
    components = COMPONENTS.keys()

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        super().__init__(component, dtype, first)
        self._nodes, self._state = _empty_nodes(SMALLEST)
        self._cells = self._empty_cells(SMALLEST)

    def extend(self, lifted: Partial) -> None:
        """O(log n) for each element."""
        needed = 2 * (self.end - self.first + len(lifted[0]))
        if needed > len(self._nodes):
            self._fit(needed)
        arrays = tuple(np.require(array, requirements=["C", "W"]) for array in lifted)
        append_leaves(self._nodes, self._state, self._cells, self.end, arrays)
        self.end += len(lifted[0])

    def rewind(self, end: int) -> None:
        """O(log n) for each element taken back."""
        check_rewind(self.first, self.end, end)
        delete_leaves(self._nodes, self._state, self._cells, self.end - end, False)
        self.end = end

    def forget(self, first: int) -> None:
        """O(log n) for each element forgotten."""
        first = min(max(first, self.first), self.end)
        delete_leaves(self._nodes, self._state, self._cells, first - self.first, True)
        self.first = first
        self._fit(2 * (self.end - self.first))

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(log n) for each run."""
        lo, hi = known_runs(self.first, self.end, lo, hi)
        out = self.component.start(self.dtype, len(lo))
        cells = cells_of(self.component.name, self.dtype, out)
        query_runs(self._nodes, self._state, self._cells, self.first, self.end, lo, hi, cells)
        return out

    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._nodes, self._state, *self._cells))

    def height(self) -> int:
        """Edges between the root and the deepest leaf; O(1)."""
        return int(self._nodes[self._state[ROOT], HEIGHT]) if self.end > self.first else 0

    def check(self) -> None:
        nodes, count = self._nodes, self.end - self.first
        # a tree of n leaves has n - 1 inner nodes; all others are free, each once
        free, node = set(), int(self._state[FREE])
        while node != NONE:
            assert node not in free
            free.add(node)
            node = int(nodes[node, LEFT])
        assert len(free) == len(nodes) - max(0, 2 * count - 1)
        # the height is logarithmic, as follows from the balance of each node
        assert self.height() <= 1.4405 * log2(count + 2)
        root = int(self._state[ROOT])
        assert (root == NONE) == (count == 0)
        if count:
            assert nodes[root, PARENT] == NONE
            # the leaves are all that is remembered
            assert self._check_below(root, self.first, self.end, free) == count

    def _check_below(self, node: int, start: int, stop: int, free: set[int]) -> int:
        nodes = self._nodes
        left, right = int(nodes[node, LEFT]), int(nodes[node, RIGHT])
        assert node not in free
        if left == NONE:
            # a leaf is one element
            assert (right, nodes[node, HEIGHT], stop - start) == (NONE, 0, 1)
            return 1
        # the heights of two children differ by at most one
        assert abs(nodes[left, HEIGHT] - nodes[right, HEIGHT]) <= 1
        assert nodes[node, HEIGHT] == 1 + max(nodes[left, HEIGHT], nodes[right, HEIGHT])
        assert nodes[left, PARENT] == nodes[right, PARENT] == node
        # an inner node holds what its children combine to, to the bit
        both = self._empty_cells(1)
        combine_children(nodes, self._cells, node, both)
        for array, expected in zip(self._cells, both, strict=True):
            assert array[node] == expected[0] or (array[node] != array[node] and expected[0] != expected[0])
        # its leaves are parted by their numbers
        split = int(nodes[node, SPLIT])
        below = self._check_below(left, start, split, free) + self._check_below(right, split, stop, free)
        assert below == stop - start
        return below

    def _fit(self, needed: int) -> None:
        capacity = ring_capacity(len(self._nodes), needed)
        if capacity != len(self._nodes):
            (nodes, state), cells = _empty_nodes(capacity), self._empty_cells(capacity)
            copy_tree(self._nodes, self._state, self._cells, nodes, state, cells)
            self._nodes, self._state, self._cells = nodes, state, cells

    def _empty_cells(self, capacity: int) -> Partial:
        arrays = self.component.start(self.dtype, capacity)
        cells: Partial = cells_of(self.component.name, self.dtype, arrays)
        return cells


def _empty_nodes(capacity: int) -> tuple[Ints, Ints]:
    nodes, state = np.zeros((capacity, COLUMNS), np.int64), np.zeros(2, np.int64)
    free_all(nodes, state)
    return nodes, state
