"""The rows of a crowd at an instant: those of all its members in one table, found in a few passes over arrays.

read       what the store has of each window that some member looks at: a slot for each pair of key and lane
compare    one loop over members and the slots of their lanes finds the few that pass HAVING
change     EMIT CHANGES: those that were in and are no longer, and the reverse
tabulate   rows of the slots that are left, member by member
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Partial
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.errors import NoValue
from muntin.kernels.answers import members_passing
from muntin.shard.crowd import Crowd
from muntin.shard.read.alike import joined
from muntin.shard.read.evaluate import Rows, always, columns_of, compared_numbers, tabulate
from muntin.shard.read.picked import LaneOrder, order_of
from muntin.shard.read.question import Question
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.needs import Need, dtype_of
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import Found

_NOBODY = np.zeros(0, np.int64)
_SLOTS = 1 << 21  # that are compared before room for those that pass is made anew
_KEY = 0xFFFFFFFF


class CrowdRows(NamedTuple):
    """Rows, ordered by member and then as the answers of one query are."""

    table: pa.Table
    member: Ints  # of each row
    inside: Ints  # EMIT CHANGES: who is in now, as words of member and key


class _Spans(NamedTuple):
    """Where the lanes of members lie in the order of pairs, for as long as that order and the lanes are the same."""

    order: LaneOrder
    version: tuple[int, int]
    number: Ints  # of each member's lane in the order; -1 if no event has been in it
    begin: Ints
    end: Ints
    known_from: Ints  # the instant from which on all events of the lane have been kept


class _Slots(NamedTuple):
    """Some members with a slot each: `slot` is in what was found of all windows together, -1 for that of nothing."""

    member: Ints
    key: Ints
    slot: Ints


def rows_of(state: State, crowd: Crowd, instants: Ints, inside: Ints, shared: SharedReads) -> CrowdRows:
    """What the members of a crowd have to say at one instant, before which `inside` were in. NoValue if a row has to be
    left out, which each member must find out for itself. O(pairs and windows) and O(slots of members' lanes)."""
    reading, spans = crowd.reading, _spans_of(state, crowd)
    width, question = reading.width, Question("", instants)
    asked = question if width else question._replace(ids=_NOBODY)
    found = [shared.find(window, asked, width) for window in crowd.windows]
    passing = _passing(crowd, spans, found)
    if crowd.emits_changes:
        words = passing.member << 32 | passing.key
        changed, enters = _changed(inside, words)
        passing = _locate(crowd, spans, passing, words, changed, width)
    else:
        words = _NOBODY
    table = _tabulated(state, crowd, spans, found, passing, instants)
    if crowd.emits_changes:
        change = pa.array(np.where(enters, "enter", "leave"), pa.string())
        schema = reading.query.emission_schema()
        table = pa.Table.from_arrays([*table.columns, change], schema=schema)
    return CrowdRows(table, passing.member, words)


def _spans_of(state: State, crowd: Crowd) -> _Spans:
    """O(1) as long as no pair is new, and no query has come or gone."""
    order, lanes = order_of(state, crowd.asked), state.lanes[crowd.asked]
    spans: _Spans | None = crowd.spans
    version = (order.version, lanes.version)
    if spans is not None and spans.order is order and spans.version == version:
        return spans
    number = order.numbers(crowd.attributes)
    known_from = lanes.known_from_of(crowd.attributes)
    crowd.spans = spans = _Spans(order, version, number, *order.spans_of(number), known_from)
    return spans


def _passing(crowd: Crowd, spans: _Spans, found: list[Found]) -> _Slots:
    """The slots of members that pass HAVING, member by member and key by key."""
    reading, order = crowd.reading, spans.order
    width, is_keyed = reading.width, reading.keys is not None
    needs = reading.windows[0].needs
    numbers = compared_numbers(reading, _stacked(needs, found))
    silent = compared_numbers(reading, _nothing(needs))
    edges = np.append(0, np.cumsum(np.maximum(spans.end - spans.begin, 1)))
    members, keys, slots = list[Ints](), list[Ints](), list[Ints]()
    first = 0
    while first < len(crowd):
        last = max(first + 1, int(edges.searchsorted(edges[first] + _SLOTS, "right")) - 1)
        room = int(edges[last] - edges[first])
        member, key, slot = np.empty((3, room), np.int64)
        many = members_passing(
            numbers.bits, numbers.valid, silent.bits, silent.valid, numbers.are_floats, is_keyed, width, order.pair,
            order.key, crowd.window, spans.begin, spans.end, crowd.low, crowd.high, first, last, member, key, slot,
        )  # fmt: skip
        for side, part in ((members, member), (keys, key), (slots, slot)):
            side.append(part[:many].copy() if 2 * many < room else part[:many])
        first = last
    return _Slots(*(np.concatenate(side) if side else _NOBODY for side in (members, keys, slots)))


def _changed(before: Ints, now: Ints) -> tuple[Ints, Bools]:
    """The words that are in one of two sets, ascending, and whether each is in the second."""
    changed = np.setxor1d(before, now, assume_unique=True)
    at = now.searchsorted(changed)
    enters: Bools = np.append(now, -1)[at] == changed
    return changed, enters


def _locate(crowd: Crowd, spans: _Spans, passing: _Slots, words: Ints, changed: Ints, width: int) -> _Slots:
    """The slots of members and keys that enter or leave."""
    member, key = changed >> 32, changed & _KEY
    slot = np.full(len(changed), -1)
    at = words.searchsorted(changed)
    enters = np.append(words, -1)[at] == changed
    slot[enters] = passing.slot[at[enters]]
    left = np.flatnonzero(~enters)
    pair = spans.order.find(spans.number[member[left]], key[left])
    slot[left] = np.where(pair < 0, -1, crowd.window[member[left]] * width + pair)
    return _Slots(member, key, slot)


def _tabulated(
    state: State, crowd: Crowd, spans: _Spans, found: list[Found], rows: _Slots, instants: Ints
) -> pa.Table:
    """One row for each slot."""
    reading = crowd.reading
    if not len(rows.member):
        return reading.schema.empty_table()
    needs, window = reading.windows[0].needs, crowd.window[rows.member]
    start, end, is_whole = (
        np.concatenate(side)[window]
        for side in zip(*((each.start, each.end, each.is_whole) for each in found), strict=True)
    )
    known_since = np.array([max(each.known_since[need] for need in needs) for each in found])
    since = np.maximum(known_since[window], spans.known_from[rows.member])
    whole = _stacked(needs, found)
    compact = Found(
        {need: _taken(need, whole.partials[need], rows.slot) for need in needs},
        start, end, is_complete(start, end, is_whole, since), dict.fromkeys(needs, LONG_AGO), 1,
    )  # fmt: skip
    slots = Rows(1, np.repeat(instants, len(rows.slot)), rows.key if reading.keys is not None else None)
    answers = tabulate(reading, slots, [compact], columns_of(reading, [compact], state.texts), always)
    if answers.left_out.rows:
        raise NoValue(answers.left_out.reason)
    return answers.table


def _stacked(needs: tuple[Need, ...], found: list[Found]) -> Found:
    """The partials that were found of several windows, one below the other."""
    if len(found) == 1:
        return found[0]
    partials = {
        need: tuple(joined(arrays) for arrays in zip(*(each.partials[need] for each in found), strict=True))
        for need in needs
    }
    return found[0]._replace(partials=partials)


def _nothing(needs: tuple[Need, ...]) -> Found:
    """One slot of a window that holds no event."""
    partials = {
        need: tuple(np.array([value], dtype) for dtype, value in COMPONENTS[need.component].identity(dtype_of(need)))
        for need in needs
    }  # fmt: skip
    return Found(partials, _NOBODY, _NOBODY, np.zeros(0, np.bool_), {}, 1)


def _taken(need: Need, partial: Partial, slot: Ints) -> Partial:
    """The partials of some slots."""
    is_nothing = slot < 0
    if not is_nothing.any():
        return tuple(array[slot] for array in partial)
    identity = COMPONENTS[need.component].identity(dtype_of(need))
    taken = tuple(
        array[np.where(is_nothing, 0, slot)] if len(array) else np.empty(len(slot), array.dtype)
        for array in partial
    )
    for array, (_, value) in zip(taken, identity, strict=True):
        array[is_nothing] = value
    return taken
