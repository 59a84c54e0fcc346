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

from muntin.arrays import Bools, Ints
from muntin.errors import NoValue
from muntin.shard.crowd import Crowd
from muntin.shard.read.crowd_slots import CrowdSlots, Passing, slots_of
from muntin.shard.read.crowd_values import crowd_values_of
from muntin.shard.read.crowd_watch import Few
from muntin.shard.read.crowd_whole import whole_slots_of
from muntin.shard.read.evaluate import Rows, always, columns_of, tabulate
from muntin.shard.read.question import Question
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.structure.synopsis import Found

_NOBODY = np.zeros(0, np.int64)
_KEY = 0xFFFFFFFF


class CrowdRows(NamedTuple):
    """Rows, ordered by member and then as the answers of one query are."""

    table: pa.Table
    member: Ints  # of each row
    inside: Ints  # EMIT CHANGES: who is in now, as words of member and key


def rows_of(
    state: State, crowd: Crowd, instants: Ints, inside: Ints, shared: SharedReads, few: Few | None = None
) -> CrowdRows:
    """What the members of a crowd have to say at one instant, before which `inside` were in; few pairs, if these are
    all that can matter. NoValue if a row has to be left out, which each member must find out for itself. O(pairs and
    windows) and O(slots of members' lanes)."""
    reading = crowd.reading
    slots: CrowdSlots
    if crowd.is_of_rows:
        values = crowd_values_of(crowd)
        return CrowdRows(values.table(state, crowd, int(instants[0])), values.member, _NOBODY)
    if not crowd.is_laned:
        if not reading.width:
            return CrowdRows(reading.schema.empty_table(), _NOBODY, _NOBODY)
        slots = whole_slots_of(state, crowd)
        found = slots.look_up(crowd, instants, shared)
    elif few is not None:
        slots, found = few.slots, few.slots.read(crowd, few.found, always)
    else:
        slots = slots_of(state, crowd)
        width, question = reading.width, Question("", instants)
        asked = question if width else question._replace(ids=_NOBODY)
        whole = [shared.find(window, asked, width) for window in crowd.windows]
        found = slots.read(crowd, whole, shared.once)
    passing = slots.passing(crowd, found)
    if not crowd.emits_changes:
        return CrowdRows(_tabulated(state, crowd, slots, found, passing, instants), passing.member, _NOBODY)
    now = passing.member << 32 | passing.key
    changed, enters = _changed(inside, now)
    member, key = changed >> 32, changed & _KEY
    rows = Passing(member, key, slots.find(crowd, member, key))
    table = _tabulated(state, crowd, slots, found, rows, instants)
    change = pa.array(np.where(enters, "enter", "leave"), pa.string())
    schema = reading.query.emission_schema()
    return CrowdRows(pa.Table.from_arrays([*table.columns, change], schema=schema), member, now)


def _changed(before: Ints, now: Ints) -> tuple[Ints, Bools]:
    """The words that are in one of two sets, ascending, and whether each is in the second."""
    changed = np.setxor1d(before, now, assume_unique=True)
    at = now.searchsorted(changed)
    enters: Bools = np.append(now, -1)[at] == changed
    return changed, enters


def _tabulated(
    state: State, crowd: Crowd, slots: CrowdSlots, found: list[Found], rows: Passing, instants: Ints
) -> pa.Table:
    """One row for each slot."""
    reading = crowd.reading
    if not len(rows.member):
        return reading.schema.empty_table()
    compact = slots.compact(crowd, found, rows)
    one_each = Rows(1, np.repeat(instants, len(rows.member)), rows.key if reading.keys is not None else None)
    constants = {f"?{number}": pa.array(each[rows.member]) for number, each in enumerate(crowd.constants)}
    chosen = columns_of(reading, compact, state.texts)
    answers = tabulate(reading, one_each, compact, chosen, always, crowd.outputs, constants)
    if answers.left_out.rows:
        raise NoValue(answers.left_out.reason)
    return answers.table
