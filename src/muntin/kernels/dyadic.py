"""Keep segments [start, stop) of positions at dyadic nodes, and find all that contain a position.

Node (level, n) stands for the positions [n * 2**level, (n + 1) * 2**level). It has a set of (code, key)
pairs (`treap.py`), the one that `_set_of` says. `nodes` is a NamedTuple described in
`key_index/dyadic.py`.

Nodes share sets with later ones of their level. Those that may be in use at the same time do not: a
node is used only once all its positions are (*whole*), and until the last of them is forgotten.
"""

from __future__ import annotations

from muntin.kernels.jit import inner, kernel
from muntin.kernels.sorted_runs import piece_at
from muntin.kernels.treap import clear_set, collect_keys, delete_pair, insert_pair

_HIGHEST = 61  # level of a node: positions are less than 2**62


@kernel
def _set_of(nodes, level, number):
    return nodes.offset[level] + (number & nodes.mask[level])


@inner
def _change_segment(nodes, first, start, stop, code, key, is_new):
    """Put a pair at the nodes that make up [start, stop), or take it away; but not at those before `first`.

    At most 2 log2(stop - start) + 1 nodes, O(log n) each.
    """
    root, pair, state = nodes.root, nodes.pair, nodes.state
    level = 0
    while start < stop:
        level = piece_at(start, stop, level, _HIGHEST)
        start += 1 << level
        if start > first:
            s = _set_of(nodes, level, (start - 1) >> level)
            if is_new:
                insert_pair(root, pair, state, s, code, key)
            else:
                delete_pair(root, pair, state, s, code, key)


@kernel
def insert_segment(nodes, first, start, stop, code, key):
    """Put a pair at the nodes that make up a segment."""
    _change_segment(nodes, first, start, stop, code, key, True)


@kernel
def delete_segment(nodes, first, start, stop, code, key):
    """Take a pair away from where `insert_segment` put it; nodes before `first` have been cleared."""
    _change_segment(nodes, first, start, stop, code, key, False)


@kernel
def find_keys(nodes, end, position, low, high, waiting, found):
    """Write the keys of all segments that contain a position, with low <= code <= high, to `found`.

    `end` is the number of positions so far. O(log n) nodes, O(log n) each and O(1) for each key found.
    Returns how many there are.
    """
    root, pair, state = nodes.root, nodes.pair, nodes.state
    count = 0
    for level in range(len(nodes.offset)):
        number = position >> level
        if (number + 1) << level > end:
            break  # neither this node nor one above it is whole
        count = collect_keys(
            root, pair, state, _set_of(nodes, level, number), low, high, waiting, found, count
        )
    return count


@kernel
def forget_nodes(nodes, first, new_first):
    """Clear the nodes whose last position lies in [first, new_first); O(1) amortised for each position
    and each pair."""
    root, pair, state = nodes.root, nodes.pair, nodes.state
    for level in range(len(nodes.offset)):
        for number in range(first >> level, new_first >> level):
            clear_set(root, pair, state, _set_of(nodes, level, number))


@kernel
def copy_roots(nodes, into, first, end):
    """The roots of all nodes in use, at the sets that they have among `into`."""
    for level in range(len(nodes.offset)):
        for number in range(first >> level, end >> level):
            into.root[_set_of(into, level, number)] = nodes.root[_set_of(nodes, level, number)]
