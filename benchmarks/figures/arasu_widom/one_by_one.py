"""Compiled loops that hand a structure one input at a time.

Called from Python for every single input, all structures would run at the speed of a Python call. So
each kernel of a structure is called from a loop that is itself compiled, with arrays of length one, as
a stream that trickles in would have it. `insert` and `look_up` are resolved by the class of the state
when a loop is compiled, like `combine` in `muntin.kernels.combine`.

The states hold the arrays of the structures in `muntin.synopsis`; nothing is computed in another way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from muntin.kernels import b_int, materialize_all, materialize_none, psoup, quantile_tree, r_int, sorted_runs
from muntin.kernels.combine import put, take
from muntin.kernels.jit import kernel


class RunningSums(NamedTuple):
    prefix: Any


class BaseIntervals(NamedTuple):
    cells: Any
    capacity: int


class Tree(NamedTuple):
    nodes: Any
    state: Any
    cells: Any


class Totals(NamedTuple):
    """materialize_all: the recent elements end at `tail[0]`; answer `j` is that of the last `j` elements."""

    elements: Any
    tail: Any
    sizes: Any
    answers: Any


class Elements(NamedTuple):
    """materialize_none: the same without the answers."""

    elements: Any
    tail: Any


class SortedIntervals(NamedTuple):
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
    r_int.extend_sum(state.prefix, end, lifted[0], lifted[1])


def _look_up_running_sum(state, first, end, lo, hi, out):
    r_int.query_sum(state.prefix, first, end, lo, hi, out[0], out[1])


def _insert_base_intervals(state, first, end, lifted):
    b_int.extend(state.cells, state.capacity, end, lifted)


def _look_up_base_intervals(state, first, end, lo, hi, out):
    b_int.query(state.cells, state.capacity, first, end, lo, hi, out)


def _insert_leaf(state, first, end, lifted):
    psoup.delete_leaves(state.nodes, state.state, state.cells, 1, True)
    psoup.append_leaves(state.nodes, state.state, state.cells, end, lifted)


def _look_up_nodes(state, first, end, lo, hi, out):
    psoup.query_runs(state.nodes, state.state, state.cells, first, end, lo, hi, out)


@kernel
def append_element(elements, tail, kept, lifted):
    """Append to arrays that are moved to their front when full, `kept` elements of them; O(1) amortised."""
    if tail[0] == len(elements[0]):
        for i in range(kept):
            put(elements, i, take(elements, tail[0] - kept + i))
        tail[0] = kept
    put(elements, tail[0], take(lifted, 0))
    tail[0] += 1


def _insert_into_totals(state, first, end, lifted):
    kept = end + 1 - first
    append_element(state.elements, state.tail, kept, lifted)
    tail = state.tail[0]
    recent = state.elements[0][tail - kept - 1 : tail]
    materialize_all.advance_totals(recent, kept, state.sizes, state.answers[0])
    shadow = state.elements[1][tail - kept - 1 : tail]
    materialize_all.advance_totals(shadow, kept, state.sizes, state.answers[1])


def _read_total(state, first, end, lo, hi, out):
    put(out, 0, take(state.answers, hi[0] - lo[0]))


def _insert_element(state, first, end, lifted):
    append_element(state.elements, state.tail, end + 1 - first, lifted)


def _scan_elements(state, first, end, lo, hi, out):
    before = end - state.tail[0]
    lo[0] -= before
    hi[0] -= before
    materialize_none.scan_runs(state.elements, lo, hi, out)


def _insert_sorted(state, first, end, lifted):
    sorted_runs.append_elements(state.rows, end, first, lifted[0])


_INSERT = {
    RunningSums: _insert_running_sum, BaseIntervals: _insert_base_intervals, Tree: _insert_leaf,
    Totals: _insert_into_totals, Elements: _insert_element, SortedIntervals: _insert_sorted,
}  # fmt: skip
_LOOK_UP = {
    RunningSums: _look_up_running_sum, BaseIntervals: _look_up_base_intervals, Tree: _look_up_nodes,
    Totals: _read_total, Elements: _scan_elements,
}  # fmt: skip


@overload(insert)
def _compile_insert(state, first, end, lifted):
    return _INSERT.get(getattr(state, "instance_class", None))


@overload(look_up)
def _compile_look_up(state, first, end, lo, hi, out):
    return _LOOK_UP.get(getattr(state, "instance_class", None))


@kernel
def take_inputs(state, kept, end, hand, is_update, lifted, width, answers):
    """Updates, from `lifted`, and look-ups of the last `width[…]` elements, each in their order, as mixed."""
    inserted = asked = 0
    for i in range(len(is_update)):
        if is_update[i]:
            put(hand.lifted, 0, take(lifted, inserted))
            insert(state, end + 1 - kept, end, hand.lifted)
            inserted += 1
            end += 1
        else:
            hand.lo[0] = end - width[asked]
            hand.hi[0] = end
            put(hand.out, 0, take(hand.nothing, 0))
            look_up(state, end - kept, end, hand.lo, hand.hi, hand.out)
            answers[asked] = hand.out[0][0]
            asked += 1


@kernel
def insert_each(state, kept, end, hand, lifted):
    """Updates only."""
    for i in range(len(lifted[0])):
        put(hand.lifted, 0, take(lifted, i))
        insert(state, end + 1 - kept, end, hand.lifted)
        end += 1


@kernel
def look_up_each(state, kept, end, hand, lo, hi, answers):
    """Look-ups only, of any runs."""
    for i in range(len(lo)):
        hand.lo[0] = lo[i]
        hand.hi[0] = hi[i]
        put(hand.out, 0, take(hand.nothing, 0))
        look_up(state, end - kept, end, hand.lo, hand.hi, hand.out)
        answers[i] = hand.out[0][0]


@kernel
def select_each(rows, lo, hi, rank, answers):
    """Look-ups only, for quantiles: the element of rank `rank[i]` of each run."""
    one_lo = np.empty(1, np.int64)
    one_hi = np.empty(1, np.int64)
    one_rank = np.empty((1, 1), np.int64)
    found = np.empty((1, 1), rows.dtype)
    for i in range(len(lo)):
        one_lo[0] = lo[i]
        one_hi[0] = hi[i]
        one_rank[0, 0] = rank[i]
        quantile_tree.select_ranks(rows, one_lo, one_hi, one_rank, found)
        answers[i] = found[0, 0]


@kernel
def count_pieces(rows, lo, hi):
    """Sorted intervals that make up the runs, and loose elements at their ends: two counts."""
    start = np.empty(130, np.int64)
    stop = np.empty(130, np.int64)
    pieces = loose = 0
    for i in range(len(lo)):
        used, a, z = sorted_runs.split_run(rows, lo[i], hi[i], start, stop, 0)
        pieces += used
        loose += a - lo[i] + hi[i] - z
    return pieces, loose
