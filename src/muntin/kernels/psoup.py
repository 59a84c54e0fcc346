"""A leaf-oriented AVL tree in arrays: append a leaf, delete one at either end, combine a run.

Every node is a leaf, an element, or has two children and the combination of their cells. `nodes` has
a row per node, with the columns below, and `state` the root and the first free node. All elements
below an inner node's left child are numbered below its split, those below its right child from the
split on; rotations leave that as it is.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.combine import combine, put, take
from muntin.kernels.jit import kernel

# One row per node rather than an array per column: a node is then in one or two lines of the cache, and
# calls that are not inlined pass one array, not five. That made updates 2.5 times as fast.
LEFT, RIGHT, PARENT, HEIGHT, SPLIT = range(5)
COLUMNS = 5
NONE = -1  # no node; a leaf has it for both children. A free node has the next free one as its left
ROOT, FREE = 0, 1  # places of `state`
_DEEPEST = 128  # an AVL tree of 2**64 leaves is not deeper than 93


@kernel
def append_leaves(nodes, state, cells, end, lifted):
    """Append elements, the first with number `end`; there must be two free nodes for each."""
    for i in range(len(lifted[0])):
        leaf = _new_node(nodes, state)
        put(cells, leaf, take(lifted, i))
        last = state[ROOT]
        if last == NONE:
            state[ROOT] = leaf
            continue
        while nodes[last, LEFT] != NONE:
            last = nodes[last, RIGHT]
        above = _new_node(nodes, state)
        _replace(nodes, state, last, above)
        nodes[above, SPLIT] = end + i
        _adopt(nodes, above, last, leaf)
        _repair(nodes, state, cells, above)


@kernel
def delete_leaves(nodes, state, cells, count, is_first):
    """Delete `count` elements, one by one, at the front (`is_first`) or at the back."""
    for _ in range(count):
        leaf = state[ROOT]
        while nodes[leaf, LEFT] != NONE:
            leaf = nodes[leaf, LEFT] if is_first else nodes[leaf, RIGHT]
        above = nodes[leaf, PARENT]
        _free_node(nodes, state, leaf)
        if above == NONE:
            state[ROOT] = NONE
            continue
        sibling = nodes[above, RIGHT] if is_first else nodes[above, LEFT]
        _replace(nodes, state, above, sibling)
        _free_node(nodes, state, above)
        _repair(nodes, state, cells, nodes[sibling, PARENT])


@kernel
def query_runs(nodes, state, cells, first, end, lo, hi, out):
    """Combine the nodes that make up each run, from left to right, into `out`, which holds identities."""
    node_of = np.empty(_DEEPEST, np.int64)
    start_of = np.empty(_DEEPEST, np.int64)
    stop_of = np.empty(_DEEPEST, np.int64)
    for r in range(len(lo)):
        if lo[r] >= hi[r]:
            continue
        total = take(out, r)
        node_of[0], start_of[0], stop_of[0] = state[ROOT], first, end
        waiting = 1
        while waiting:
            waiting -= 1
            node, start, stop = node_of[waiting], start_of[waiting], stop_of[waiting]
            while start < lo[r] or hi[r] < stop:  # not all of it is in the run: go down
                split = nodes[node, SPLIT]
                if split >= hi[r]:
                    node, stop = nodes[node, LEFT], split
                elif split <= lo[r]:
                    node, start = nodes[node, RIGHT], split
                else:
                    node_of[waiting], start_of[waiting], stop_of[waiting] = nodes[node, RIGHT], split, stop
                    waiting += 1
                    node, stop = nodes[node, LEFT], split
            total = combine(cells, total, take(cells, node))
        put(out, r, total)


@kernel
def free_all(nodes, state):
    """An empty tree: every node is free, the lowest to be used first."""
    for node in range(len(nodes)):
        nodes[node, LEFT] = node + 1
    nodes[len(nodes) - 1, LEFT] = NONE
    state[ROOT] = NONE
    state[FREE] = 0


@kernel
def copy_tree(nodes, state, cells, into, into_state, into_cells):
    """The same tree in an empty set of nodes of another capacity, numbered from the root down."""
    if state[ROOT] == NONE:
        return
    waiting = np.empty(_DEEPEST, np.int64)
    parent = np.empty(_DEEPEST, np.int64)
    waiting[0], parent[0] = state[ROOT], NONE
    depth = 1
    while depth:
        depth -= 1
        node, above = waiting[depth], parent[depth]
        new = _new_node(into, into_state)
        into[new, PARENT] = above
        into[new, HEIGHT] = nodes[node, HEIGHT]
        into[new, SPLIT] = nodes[node, SPLIT]
        put(into_cells, new, take(cells, node))
        if above == NONE:
            into_state[ROOT] = new
        elif into[above, LEFT] == NONE:
            into[above, LEFT] = new
        else:
            into[above, RIGHT] = new
        if nodes[node, LEFT] != NONE:
            waiting[depth], parent[depth] = nodes[node, RIGHT], new
            waiting[depth + 1], parent[depth + 1] = nodes[node, LEFT], new
            depth += 2


@kernel
def combine_children(nodes, cells, node, out):
    """What the cell of an inner node should be, into the first of `out`."""
    put(out, 0, combine(cells, take(cells, nodes[node, LEFT]), take(cells, nodes[node, RIGHT])))


@kernel
def _new_node(nodes, state):
    node = state[FREE]
    state[FREE] = nodes[node, LEFT]
    nodes[node, LEFT] = NONE
    nodes[node, RIGHT] = NONE
    nodes[node, PARENT] = NONE
    nodes[node, HEIGHT] = 0
    return node


@kernel
def _free_node(nodes, state, node):
    nodes[node, LEFT] = state[FREE]
    state[FREE] = node


@kernel
def _replace(nodes, state, old, new):
    """Put `new` in the place that `old` has below its parent."""
    above = nodes[old, PARENT]
    nodes[new, PARENT] = above
    if above == NONE:
        state[ROOT] = new
    elif nodes[above, LEFT] == old:
        nodes[above, LEFT] = new
    else:
        nodes[above, RIGHT] = new


@kernel
def _adopt(nodes, node, left, right):
    nodes[node, LEFT] = left
    nodes[node, RIGHT] = right
    nodes[left, PARENT] = node
    nodes[right, PARENT] = node


@kernel
def _update(nodes, cells, node):
    """Height and cell of a node from its children's."""
    left, right = nodes[node, LEFT], nodes[node, RIGHT]
    nodes[node, HEIGHT] = 1 + max(nodes[left, HEIGHT], nodes[right, HEIGHT])
    put(cells, node, combine(cells, take(cells, left), take(cells, right)))


@kernel
def _rotate_left(nodes, state, cells, node):
    """node (a, up (b, c)) becomes up (node (a, b), c); returns up."""
    up = nodes[node, RIGHT]
    _replace(nodes, state, node, up)
    _adopt(nodes, node, nodes[node, LEFT], nodes[up, LEFT])
    _adopt(nodes, up, node, nodes[up, RIGHT])
    _update(nodes, cells, node)
    return up


@kernel
def _rotate_right(nodes, state, cells, node):
    """node (up (a, b), c) becomes up (a, node (b, c)); returns up."""
    up = nodes[node, LEFT]
    _replace(nodes, state, node, up)
    _adopt(nodes, node, nodes[up, RIGHT], nodes[node, RIGHT])
    _adopt(nodes, up, nodes[up, LEFT], node)
    _update(nodes, cells, node)
    return up


@kernel
def _lean(nodes, node):
    """How much higher the right child is."""
    return nodes[nodes[node, RIGHT], HEIGHT] - nodes[nodes[node, LEFT], HEIGHT]


@kernel
def _repair(nodes, state, cells, node):
    """Balance and update a node and all above it, up to the root."""
    while node != NONE:
        lean = _lean(nodes, node)
        if lean > 1:
            if _lean(nodes, nodes[node, RIGHT]) < 0:
                _update(nodes, cells, _rotate_right(nodes, state, cells, nodes[node, RIGHT]))
            node = _rotate_left(nodes, state, cells, node)
        elif lean < -1:
            if _lean(nodes, nodes[node, LEFT]) > 0:
                _update(nodes, cells, _rotate_left(nodes, state, cells, nodes[node, LEFT]))
            node = _rotate_right(nodes, state, cells, node)
        _update(nodes, cells, node)
        node = nodes[node, PARENT]
