"""Many queries that read the bands above a cut, or below one: what each reads, found for all of them at once.

What has been merged from the end of each group (`band_order.py`) is lowered once. An *entry* is a place in that order:
it is all that one query reads of one key. One walk through the entries finds those that pass HAVING, for all queries
of a lane; only these become rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.band import Band, sort_keys
from muntin.errors import NoValue
from muntin.kernels.bands import entries_within
from muntin.shard.read.band_order import BandOrder, accumulated, bands_of
from muntin.shard.read.evaluate import Rows, answers_of_slots
from muntin.shard.read.in_lanes import InLanes, Windows, gathered, slots_in_lanes, windows_of
from muntin.shard.read.left_out import no_sum
from muntin.shard.read.question import Question
from muntin.shard.read.reading import Reading
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.structure.synopsis import Found

_NOBODY: Ints = np.zeros(0, np.int64)
Asking = Sequence[tuple[Question, Reading]]


class Cut(NamedTuple):
    """What one of several queries reads: all above a cut in a lane, of which that passes which lies in a band."""

    lane: int  # by its number in the order
    cut: int  # as a rank
    low: int
    high: int


def slots_of(state: State, asked: Asking, shared: SharedReads) -> InLanes:
    """The slots of queries that read one window and one lane each, with or without a range of it, at one instant."""
    laned = asked[0][1].laned
    assert laned is not None
    if laned.asked.banded is None:
        return slots_in_lanes(state, asked, shared)
    assert not laned.asked.keys, "where there are keys, entries are found without slots"
    return _slots_without_keys(state, asked, shared)


def _slots_without_keys(state: State, asked: Asking, shared: SharedReads) -> InLanes:
    """One slot for each query; its lane may have no events."""
    read, order = _read(state, asked, shared)
    cuts = _cuts(order, asked, None)
    group, end = order.spans(np.array([each.lane for each in cuts]))
    is_there = group < end
    entry = np.full(len(cuts), -1)
    wanted = np.array([each.cut for each in cuts])
    entry[is_there] = order.first_within(group[is_there], wanted[is_there])
    is_there[is_there] = entry[is_there] < order.first[group[is_there] + 1]
    entry[~is_there] = -1
    needs = asked[0][1].windows[0].needs
    start, ends, complete = _bounds(state, asked, read)
    partials = {need: gathered(need, read.whole, read.of_query, entry) for need in needs}
    found = Found(partials, start, ends, complete, dict.fromkeys(needs, LONG_AGO), 1)
    rows = Rows(1, read.instants[read.of_query], None)
    each_one = np.arange(len(asked) + 1)
    return InLanes(found, rows, each_one[:-1], each_one[1:])


def answers_in_bands(
    state: State, asked: Asking, bands: Sequence[Band], shared: SharedReads
) -> list[pa.Table]:
    """Answers of queries by key that differ in their lane, the cut of their range, their window, and the band that
    HAVING lets pass. NoValue if one has to be left out. O(pairs) a window, and O(queries and entries) for each key."""
    read, order = _read(state, asked, shared)
    first = asked[0][1]
    cuts = _cuts(order, asked, bands)
    entries: list[Ints] = [_NOBODY] * len(asked)
    for number, found in enumerate(read.whole):
        of_window = np.flatnonzero(read.of_query == number)
        value, known = _compared(first, found)
        passing, edges = passing_entries(order, [cuts[place] for place in of_window], value, known)
        for place, begin, end in zip(
            of_window.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True
        ):
            entries[place] = passing[begin:end]
    many = np.array([len(each) for each in entries])
    if not many.any():
        return [first.schema.empty_table()] * len(asked)
    query, entry = np.repeat(np.arange(len(asked)), many), np.concatenate(entries)
    needs = first.windows[0].needs
    window = read.of_query[query]
    start, end, complete = _bounds(state, asked, read)
    partials = {need: gathered(need, read.whole, window, entry) for need in needs}
    chosen = Found(partials, start[query], end[query], complete[query], dict.fromkeys(needs, LONG_AGO), 1)
    rows = Rows(1, read.instants[window], order.key[entry])
    table = answers_of_slots(first, rows, chosen, state.texts)
    return [
        table.slice(begin, length)
        for begin, length in zip((np.cumsum(many) - many).tolist(), many.tolist(), strict=True)
    ]


def passing_entries(order: BandOrder, cuts: Sequence[Cut], value: Ints, known: Bools) -> tuple[Ints, Ints]:
    """For each query the entries that it reads whose value, a sort key, is `known` and lies in its band, in the order
    of keys. Those of query q are `entries[edges[q] : edges[q + 1]]`."""
    lane, cut, low, high = np.array(cuts, np.int64).reshape(-1, 4).T
    by_cut = np.lexsort((cut, lane))
    lanes, begin = np.unique(lane[by_cut], return_index=True)
    end = np.append(begin[1:], len(lane))
    groups = order.spans(lanes)
    sides = (cut[by_cut], low[by_cut], high[by_cut])
    count = np.zeros(len(lane), np.int64)
    entries_within(order.first, order.rank, value, known, *groups, begin, end, *sides, count, _NOBODY)
    edges = np.zeros(len(lane) + 1, np.int64)
    edges[1 + by_cut] = count
    edges = np.cumsum(edges)
    entries = np.empty(edges[-1], np.int64)
    if len(entries):
        filled = edges[by_cut]
        entries_within(order.first, order.rank, value, known, *groups, begin, end, *sides, filled, entries)
    return entries, edges


def _read(state: State, asked: Asking, shared: SharedReads) -> tuple[Windows, BandOrder]:
    """The windows of some queries, merged in the order of bands."""
    laned = asked[0][1].laned
    assert laned is not None
    order = bands_of(state, laned.asked).order(laned.way)
    read = windows_of(asked, shared)
    needs = asked[0][1].windows[0].needs
    whole = [accumulated(order, each, needs, shared.once) for each in read.whole]
    return read._replace(whole=whole), order


def _cuts(order: BandOrder, asked: Asking, bands: Sequence[Band] | None) -> list[Cut]:
    laned = [reading.laned for _, reading in asked if reading.laned is not None]
    lanes = order.numbers([each.lanes[0] for each in laned]).tolist()
    ends = [(0, -1)] * len(laned) if bands is None else [(each.low, each.high) for each in bands]
    return [Cut(lane, order.cut_of(each), *side) for lane, each, side in zip(lanes, laned, ends, strict=True)]


def _compared(reading: Reading, found: Found) -> tuple[Ints, Bools]:
    """The answer that HAVING compares at each place, as a sort key, and where there is one."""
    assert reading.compared is not None
    call = reading.calls[reading.compared]
    value, valid, lost = call.aggregate.lower(
        {part.need.component: found.partials[part.need] for part in call.parts}
    )
    (presence,) = reading.presence
    is_present = found.partials[presence.need][0] > 0
    if lost is not None and bool((lost & is_present).any()):
        raise NoValue(no_sum(reading.query.calls[reading.compared]))
    return sort_keys(value), valid & is_present


def _bounds(state: State, asked: Asking, read: Windows) -> tuple[Ints, Ints, Bools]:
    """Where the window of each query begins and ends, and whether all of it is known."""
    laned = [reading.laned for _, reading in asked if reading.laned is not None]
    lanes = state.lanes[laned[0].asked]
    since = np.array([lanes.known_since(each.lanes) for each in laned])
    needs = asked[0][1].windows[0].needs
    known_since = np.array([max(each.known_since[need] for need in needs) for each in read.whole])
    start, end, is_whole = (
        np.concatenate(side)[read.of_query]
        for side in zip(*((each.start, each.end, each.is_whole) for each in read.whole), strict=True)
    )
    since = np.maximum(since, known_since[read.of_query])
    return start, end, is_whole & ((start >= since) | (end <= start))
