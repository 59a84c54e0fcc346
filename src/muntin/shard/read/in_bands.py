"""Many queries without keys that read the bands above a cut, or below one: what each reads, found for all at once.

What has been merged from the end of each group (`band_order.py`) is all that a query reads: one place in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.shard.read.band_order import BandOrder, accumulated, bands_of
from muntin.shard.read.evaluate import Rows
from muntin.shard.read.in_lanes import InLanes, Windows, gathered, slots_in_lanes, windows_of
from muntin.shard.read.question import Question
from muntin.shard.read.reading import Reading
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import Found

Asking = Sequence[tuple[Question, Reading]]


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
    laned = [reading.laned for _, reading in asked if reading.laned is not None]
    lane, cut = (
        order.numbers([each.lanes[0] for each in laned]),
        np.array([order.cut_of(each) for each in laned]),
    )
    entry = order.find(lane, np.zeros(len(asked), np.int64), cut)
    needs = asked[0][1].windows[0].needs
    start, ends, complete = _bounds(state, asked, read)
    partials = {need: gathered(need, read.whole, read.of_query, entry) for need in needs}
    found = Found(partials, start, ends, complete, dict.fromkeys(needs, LONG_AGO), 1)
    rows = Rows(1, read.instants[read.of_query], None)
    each_one = np.arange(len(asked) + 1)
    return InLanes(found, rows, each_one[:-1], each_one[1:])


def _read(state: State, asked: Asking, shared: SharedReads) -> tuple[Windows, BandOrder]:
    """The windows of some queries, merged in the order of bands."""
    laned = asked[0][1].laned
    assert laned is not None
    order = bands_of(state, laned.asked).order(laned.way)
    read = windows_of(asked, shared)
    needs = asked[0][1].windows[0].needs
    whole = [accumulated(order, each, needs, shared.once) for each in read.whole]
    return read._replace(whole=whole), order


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
    return start, end, is_complete(start, end, is_whole, since)
