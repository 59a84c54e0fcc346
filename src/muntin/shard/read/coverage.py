"""Covered: whether the windows of a query lie within what is known, found without any row of its answer."""

from __future__ import annotations

import numpy as np

from muntin.answer import Coverage
from muntin.arrays import LONG_AGO
from muntin.shard.read.evaluate import is_covered
from muntin.shard.read.picked import pick, taken, taken_rows
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.state import State


def coverage_of(state: State, name: str) -> Coverage:
    """Of a query as of now; O(windows), and if some count events, a look-up."""
    reading, now = reading_of(state, name), state.now_of(name)
    if now is not None:
        now = reading.query.pace.floor(now)
    known, covered_from, is_by_count = LONG_AGO, LONG_AGO, False
    laned = reading.laned
    of_query = LONG_AGO if laned is None else state.lanes[laned.asked].known_since(laned.lanes)
    for number, window, needs, of_call in reading.windows:
        if window.to == window.size:  # holds nothing, of which nothing is missing
            continue
        synopsis = state.synopses[number]
        of_lanes = of_query
        if of_call is not None:
            of_lanes = state.lanes[of_call.asked].known_since(of_call.lanes)
        since = max(of_lanes, *(synopsis.known_since(window, need) for need in needs))
        if (
            now is not None
            and window.is_time
            and window.start(window.settle(now)) < synopsis.forgotten_before
        ):
            since = max(since, synopsis.forgotten_before)  # what others had kept until the query came
        known = max(known, since)
        if window.is_time:
            reached = reading.query.pace.ceil(window.pace.ceil(window.first_from(since)))
            covered_from = max(covered_from, reached if since > LONG_AGO else LONG_AGO)
        else:
            is_by_count |= since > LONG_AGO
    if known == LONG_AGO or now is None:
        return Coverage(known == LONG_AGO)
    complete = now >= covered_from and (not is_by_count or _is_whole(state, reading, now))
    instant = None if is_by_count or covered_from == LONG_AGO else np.datetime64(covered_from, "us")
    return Coverage(complete, np.datetime64(known, "us"), instant)


def _is_whole(state: State, reading: Reading, now: int) -> bool:
    """Whether the windows of all keys that have events are covered."""
    if not reading.width:
        return False
    instants, laned = np.array([now]), reading.laned
    picked = None if laned is None else pick(state, laned)
    if picked is not None and not len(picked.keys):
        return False
    ids = None if picked is None else np.sort(picked.pairs)
    width = reading.width if ids is None else len(ids)
    found = {  # not timed: what is asked for here says nothing of what users look up
        number: state.synopses[each.number].lookup(
            each.window, each.window.settle(instants), each.needs, ids, width
        )
        for number, each in enumerate(reading.windows)
        if each.laned is None  # those of lanes are time windows, of which enough is known by now
    }
    if laned is not None and picked is not None and ids is not None:
        since, among = state.lanes[laned.asked].known_since(laned.lanes), picked.among(ids)
        for number, each in found.items():
            needs, window = reading.windows[number].needs, reading.windows[number].window
            found[number] = (
                taken(each, among, needs, since)
                if window.is_time
                else taken_rows(each, among, needs, since, window, 1)
            )
    return is_covered(reading, found)
