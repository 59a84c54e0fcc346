"""Many queries in the lanes of one store: what each reads, found for all of them at once.

The store has a slot for each pair of a key and a lane. Queries that read the same window and lane share their slots;
all slots are gathered from the windows in one step, those of one window and lane side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Ints
from muntin.shard.read.evaluate import Rows
from muntin.shard.read.lane_order import order_of
from muntin.shard.read.question import Question
from muntin.shard.read.reading import GroupWindow, Reading
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import Found

_NOBODY = np.zeros(0, np.int64)


class InLanes(NamedTuple):
    """Slots of some queries: query `i` has those from `begin[i]` to `end[i] - 1`."""

    found: Found
    rows: Rows
    begin: Ints
    end: Ints


def slots_in_lanes(state: State, asked: Sequence[tuple[Question, Reading]], shared: SharedReads) -> InLanes:
    """The slots of queries that read one window and one lane each, at one instant each, of one group.
    O(slots), and O(log lanes) a query."""
    first = asked[0][1]
    assert first.laned is not None
    order = order_of(state, first.laned.asked)
    lanes = [reading.laned.lanes[0] for _, reading in asked if reading.laned is not None]
    known_from = state.lanes[first.laned.asked].known_from(lanes)
    lane_begin, lane_end = order.spans(lanes)
    whole, instants, window_of = windows_of(asked, shared)
    # of queries that read the same window and lane, the first stands for all
    _, one, which_one = np.unique(
        np.stack([window_of, lane_begin, lane_end, known_from]),
        axis=1,
        return_index=True,
        return_inverse=True,
    )
    which_one = which_one.ravel()
    of, begin, end = window_of[one], lane_begin[one], lane_end[one]
    is_silent = begin == end
    many = np.maximum(end - begin, 1) if first.keys is None else end - begin
    edges = np.append(0, np.cumsum(many))
    # where in the order of pairs each slot stands
    position = np.arange(edges[-1]) + np.repeat(begin - edges[:-1], many)
    pair = np.append(order.pair, 0)[position]
    pair[np.repeat(is_silent, many)] = -1
    needs = first.windows[0].needs
    slot_window = np.repeat(of, many)
    start, end_at, is_whole = (
        np.concatenate(side)[slot_window]
        for side in zip(*((each.start, each.end, each.is_whole) for each in whole), strict=True)
    )
    known_since = np.array([max(each.known_since[need] for need in needs) for each in whole])
    since = np.maximum(known_since[of], known_from[one])
    complete = is_complete(start, end_at, is_whole, np.repeat(since, many))
    found = Found(
        {need: gathered(need, whole, slot_window, pair) for need in needs},
        start,
        end_at,
        complete,
        dict.fromkeys(needs, LONG_AGO),
        1,
    )
    key = None if first.keys is None else np.append(order.key, 0)[position]
    rows = Rows(1, instants[slot_window], key)
    return InLanes(found, rows, edges[:-1][which_one], edges[1:][which_one])


class Windows(NamedTuple):
    """What was found of the windows of some queries, the instant of each, and which one each query reads."""

    whole: list[Found]
    instants: Ints
    of_query: Ints


def windows_of(asked: Sequence[tuple[Question, Reading]], shared: SharedReads) -> Windows:
    """The windows of queries that read one each, at one instant each, of one group, for all pairs of its store."""
    windows: dict[tuple[GroupWindow, int], int] = {}
    whole: list[Found] = []
    instants: list[int] = []
    of_query = np.empty(len(asked), np.int64)
    for place, (question, reading) in enumerate(asked):
        (window,) = reading.windows
        which = (window, id(question.instants))
        if which not in windows:
            windows[which] = len(whole)
            all_pairs = question if reading.width else question._replace(ids=_NOBODY)
            whole.append(shared.find(window, all_pairs, reading.width))
            instants.append(int(question.instants[0]))
        of_query[place] = windows[which]
    return Windows(whole, np.array(instants), of_query)


def gathered(need: Need, whole: Sequence[Found], window: Ints, pair: Ints) -> Partial:
    """The partial of each slot; of a pair that is not there, that of nothing."""
    width = whole[0].width
    identity = COMPONENTS[need.component].identity(dtype_of(need))
    place = np.where(pair < 0, len(whole) * width, window * width + pair)
    return tuple(
        np.concatenate([*(each.partials[need][number] for each in whole), np.array([value], dtype)])[place]
        for number, (dtype, value) in enumerate(identity)
    )
