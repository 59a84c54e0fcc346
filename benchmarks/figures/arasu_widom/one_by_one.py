"""Compiled loops that hand a structure one input at a time.

Called from Python for every single input, all structures would run at the speed of a Python call. So
the loop over the inputs is compiled too, and works on the arrays of the structures in
`muntin.plan.synopses`. It calls their kernels, or the parts of them: the kernels are made for batches, and
some set something up for each call (cut the batch into chunks, allocate scratch, find out which windows
are full), which at one input a call takes longer than the input. That is left out here, for all
structures alike.

`insert` and `look_up` are resolved by the class of the state when a loop is compiled, like `combine` in
`muntin.kernels.combine`. They are put into the loop as they stand (`inline`): handing arrays to a function
counts references, which took longer than R-INT's addition. All are in this one file because Numba's cache
notices a change of the loop's own file only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from muntin.kernels import b_int, psoup, r_int, sorted_runs
from muntin.kernels.combine import combine, put, scan_runs, take
from muntin.kernels.jit import kernel
from muntin.kernels.psoup import LEFT, RIGHT, ROOT, SPLIT
from muntin.kernels.quantile_tree import select_one
from muntin.kernels.sorted_runs import LEAF

MOST_PIECES = 130  # of a run in a quantile tree: two per level of a 64-bit number, and the loose elements


class RunningSums(NamedTuple):
    """R-INT."""

    prefix: Any


class BaseIntervals(NamedTuple):
    """B-INT."""

    cells: Any
    capacity: int


class Tree(NamedTuple):
    """PSoup."""

    nodes: Any
    state: Any
    cells: Any


class Totals(NamedTuple):
    """materialize_all: the recent elements end at `tail[0]`; answer `j` is that of the last `j` elements."""

    total: Any
    shadow: Any
    tail: Any
    sizes: Any
    answer: Any
    answer_shadow: Any


class Elements(NamedTuple):
    """materialize_none: the recent elements, which end at `tail[0]`."""

    elements: Any
    tail: Any


class SortedIntervals(NamedTuple):
    """A quantile tree."""

    rows: Any


class Hand(NamedTuple):
    """Arrays of length one, through which inputs go in and answers come out."""

    lifted: Any  # the partial of one element
    lo: Any
    hi: Any
    nothing: Any  # the identity
    out: Any


def insert(state, first, end, lifted):
    """Append one element, which gets the number `end`; those below `first` need not be kept."""
    raise NotImplementedError("in compiled code only")


def look_up(state, first, end, lo, hi, out):
    """Answer one run `[lo[0], hi[0])` into `out`, which holds the identity; lo and hi may be changed."""
    raise NotImplementedError("in compiled code only")


def _insert_running_sum(state, first, end, lifted):
    prefix = state.prefix
    before, after = end & (len(prefix) - 1), (end + 1) & (len(prefix) - 1)
    step, running = lifted[0][0], prefix[before, 0]
    total = running + step
    is_over = ((running ^ total) & (step ^ total)) >> 63
    prefix[after, 0] = total
    prefix[after, 1] = prefix[before, 1] + (is_over & (1 | step >> 63))


def _subtract_running_sums(state, first, end, lo, hi, out):
    r_int.query_sum(state.prefix, first, end, lo, hi, out[0], out[1])


def _insert_base_intervals(state, first, end, lifted):
    cells = state.cells
    put(cells, end & (state.capacity - 1), take(lifted, 0))
    below, slots, number = 0, state.capacity, end + 1
    while number & 1 == 0 and slots > 1:  # the interval above is complete
        above = below + slots
        slots >>= 1
        number >>= 1
        q = (number - 1) & (slots - 1)
        left = below + 2 * q
        put(cells, above + q, combine(cells, take(cells, left), take(cells, left + 1)))
        below = above


def _combine_base_intervals(state, first, end, lo, hi, out):
    b_int.query(state.cells, state.capacity, first, end, lo, hi, out)


def _insert_leaf(state, first, end, lifted):
    psoup.delete_leaves(state.nodes, state.state, state.cells, 1, True)
    psoup.append_leaves(state.nodes, state.state, state.cells, end, lifted)


def _combine_nodes(state, first, end, lo, hi, out):
    if lo[0] < hi[0]:
        walk_tree(state.nodes, state.state[ROOT], state.cells, first, end, lo[0], hi[0], out)


@kernel
def walk_tree(nodes, node, cells, start, stop, lo, hi, out):
    """The nodes below `node`, which covers [start, stop), that make up [lo, hi); without a stack."""
    while start < lo or hi < stop:  # down to where the run parts
        split = nodes[node, SPLIT]
        if split >= hi:
            node, stop = nodes[node, LEFT], split
        elif split <= lo:
            node, start = nodes[node, RIGHT], split
        else:
            break
    if lo <= start and stop <= hi:
        put(out, 0, take(cells, node))
        return
    split = nodes[node, SPLIT]
    right = nodes[node, RIGHT]
    node = nodes[node, LEFT]
    total = take(out, 0)
    while start < lo:  # the left part, from right to left
        middle = nodes[node, SPLIT]
        if middle <= lo:
            node, start = nodes[node, RIGHT], middle
        else:
            total = combine(cells, take(cells, nodes[node, RIGHT]), total)
            node = nodes[node, LEFT]
    total = combine(cells, take(cells, node), total)
    while hi < stop:  # the right part, from left to right
        middle = nodes[right, SPLIT]
        if middle >= hi:
            right, stop = nodes[right, LEFT], middle
        else:
            total = combine(cells, total, take(cells, nodes[right, LEFT]))
            right = nodes[right, RIGHT]
    put(out, 0, combine(cells, total, take(cells, right)))


@kernel
def make_room(array, tail, kept):
    """Move the last `kept` elements to the front of a full array; returns where they end."""
    if tail < len(array):
        return tail
    for i in range(kept):
        array[i] = array[tail - kept + i]
    return kept


def _insert_into_totals(state, first, end, lifted):
    kept = end + 1 - first
    total, shadow, tail = state.total, state.shadow, state.tail
    make_room(shadow, tail[0], kept)
    at = make_room(total, tail[0], kept)
    total[at] = lifted[0][0]
    shadow[at] = lifted[1][0]
    tail[0] = at + 1
    add_to_totals(total, at, state.sizes, state.answer)
    add_to_totals(shadow, at, state.sizes, state.answer_shadow)


@kernel
def add_to_totals(value, at, size, answer):
    """`advance_totals` of materialize_all for one element, all windows being full."""
    for j in range(len(size)):
        answer[j] += value[at] - value[at - size[j]]


def _read_total(state, first, end, lo, hi, out):
    window = hi[0] - lo[0]
    out[0][0] = state.answer[window]
    out[1][0] = state.answer_shadow[window]


def _insert_element(state, first, end, lifted):
    kept = end + 1 - first
    total, shadow, tail = state.elements[0], state.elements[1], state.tail
    make_room(shadow, tail[0], kept)
    at = make_room(total, tail[0], kept)
    put(state.elements, at, take(lifted, 0))
    tail[0] = at + 1


def _scan_elements(state, first, end, lo, hi, out):
    before = end - state.tail[0]
    lo[0] -= before
    hi[0] -= before
    scan_runs(state.elements, lo, hi, out)


def _insert_sorted(state, first, end, lifted):
    sorted_runs.append_elements(state.rows, end, first, lifted[0])


_INSERT = {
    RunningSums: _insert_running_sum, BaseIntervals: _insert_base_intervals, Tree: _insert_leaf,
    Totals: _insert_into_totals, Elements: _insert_element, SortedIntervals: _insert_sorted,
}  # fmt: skip
_LOOK_UP = {
    RunningSums: _subtract_running_sums, BaseIntervals: _combine_base_intervals, Tree: _combine_nodes,
    Totals: _read_total, Elements: _scan_elements,
}  # fmt: skip


@overload(insert, inline="always")
def _compile_insert(state, first, end, lifted):
    return _INSERT.get(getattr(state, "instance_class", None))


@overload(look_up, inline="always")
def _compile_look_up(state, first, end, lo, hi, out):
    return _LOOK_UP.get(getattr(state, "instance_class", None))


@kernel
def take_inputs(state, kept, end, hand, is_update, lifted, width, answers):
    """Updates, from `lifted`, and look-ups of the last `width[…]` elements, each in their order, as mixed."""
    one, lo, hi, nothing, out = hand
    inserted = asked = 0
    for i in range(len(is_update)):
        if is_update[i]:
            put(one, 0, take(lifted, inserted))
            insert(state, end + 1 - kept, end, one)
            inserted += 1
            end += 1
        else:
            lo[0] = end - width[asked]
            hi[0] = end
            put(out, 0, take(nothing, 0))
            look_up(state, end - kept, end, lo, hi, out)
            answers[asked] = out[0][0]
            asked += 1


@kernel
def insert_each(state, kept, end, hand, lifted):
    """Updates only."""
    one = hand.lifted
    for i in range(len(lifted[0])):
        put(one, 0, take(lifted, i))
        insert(state, end + 1 - kept, end, one)
        end += 1


@kernel
def look_up_each(state, kept, end, hand, run_lo, run_hi, answers):
    """Look-ups only, of any runs."""
    _, lo, hi, nothing, out = hand
    for i in range(len(run_lo)):
        lo[0] = run_lo[i]
        hi[0] = run_hi[i]
        put(out, 0, take(nothing, 0))
        look_up(state, end - kept, end, lo, hi, out)
        answers[i] = out[0][0]


@kernel
def select_each(rows, lo, hi, rank, answers):
    """Look-ups only, for quantiles: the element of rank `rank[i]` of each run, as in `select_ranks`."""
    flat = rows.reshape(-1)
    mask = rows.shape[1] - 1
    loose = np.empty(2 * LEAF, rows.dtype)
    start = np.empty(MOST_PIECES, np.int64)
    stop = np.empty(MOST_PIECES, np.int64)
    pivot = np.empty(MOST_PIECES, rows.dtype)
    cut = np.empty(MOST_PIECES, np.int64)
    for i in range(len(lo)):
        pieces, a, z = sorted_runs.split_run(rows, lo[i], hi[i], start, stop, 1)
        start[0] = stop[0] = 0
        for n in range(lo[i], a):
            sorted_runs.insert_sorted(rows[0, n & mask], 0, stop[0], loose)
            stop[0] += 1
        for n in range(z, hi[i]):
            sorted_runs.insert_sorted(rows[0, n & mask], 0, stop[0], loose)
            stop[0] += 1
        answers[i] = select_one(loose, flat, start, stop, pieces, rank[i], hi[i] - lo[i], pivot, cut)


@kernel
def count_pieces(rows, lo, hi):
    """Sorted intervals that make up the runs, and loose elements at their ends: two counts."""
    start = np.empty(MOST_PIECES, np.int64)
    stop = np.empty(MOST_PIECES, np.int64)
    pieces = loose = 0
    for i in range(len(lo)):
        used, a, z = sorted_runs.split_run(rows, lo[i], hi[i], start, stop, 0)
        pieces += used
        loose += a - lo[i] + hi[i] - z
    return pieces, loose


@kernel
def find_each(at, since, until, lo, hi):
    """The elements of windows by time: the first at `since[i]` or later, and the first at `until[i]` or later."""
    for i in range(len(since)):
        lo[i] = first_at(at, since[i])
        hi[i] = first_at(at, until[i])


@kernel
def first_at(at, instant):
    """Place of the first time that is no earlier than an instant, among ascending ones."""
    low, high = 0, len(at)
    while low < high:
        middle = (low + high) >> 1
        if at[middle] < instant:
            low = middle + 1
        else:
            high = middle
    return low
