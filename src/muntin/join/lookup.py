"""The answer of a join at one instant, and from which instant on there is one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO
from muntin.errors import WindowTooLarge
from muntin.join.answer import answer, read_pairs
from muntin.join.cohorts import in_order
from muntin.join.from_cohorts import answers_from_cohorts
from muntin.join.group import JoinGroup, JoinRegistration
from muntin.shard.read.evaluate import Answered


def lookup(group: JoinGroup, registration: JoinRegistration, at: int | None) -> Answered:
    """Answers at one instant: `at`, or just after the latest event of both streams."""
    query = registration.query
    instant = at if at is not None else group.now
    if instant is None:
        return _before_the_first_event(group, registration)
    if query.slide:
        instant -= instant % query.slide
    if instant < earliest_instant(group, registration):
        since = np.datetime64(earliest_instant(group, registration), "us")
        raise WindowTooLarge(
            f"the windows of {query.left} and {query.right} at {np.datetime64(instant, 'us')} have been "
            f"forgotten; they can be looked up from {since} on"
        )
    found = None
    if query.slide:
        (found,) = answers_from_cohorts(group, [(registration, instant // query.slide, False)], makes=False)
    return answer_anew(group, registration, instant) if found is None else found


def answer_anew(group: JoinGroup, registration: JoinRegistration, instant: int) -> Answered:
    """Answers at one instant of which nothing has been forgotten: every match in its windows, once."""
    chosen = group.matches.choose(*registration.ranges(instant, instant), registration.since)
    pairs = read_pairs(
        group, registration.query, in_order(group, registration, chosen), registration.query.where
    )
    return answer(registration, pairs, None, np.full(len(pairs.match), instant), np.array([instant]))


def earliest_instant(group: JoinGroup, registration: JoinRegistration) -> int:
    """From which instant on nothing of a query's windows has been forgotten that it could have known."""
    query = registration.query
    covered = max(
        state.forgotten_to + side.window.size for state, side in zip(group.sides, query.sides, strict=True)
    )
    # what is owed to `advance` is spared, unless it had to be given up
    emitted_to = LONG_AGO if registration.emitted_to is None else registration.emitted_to
    owed = min(group.spared_at, emitted_to)
    spared = max(owed, group.given_up_to)
    return min(covered, spared - (spared % query.slide if query.slide else 0))


def _before_the_first_event(group: JoinGroup, registration: JoinRegistration) -> Answered:
    query = registration.query
    if query.fold is None or query.keys:
        return Answered(query.answer_schema().empty_table())
    none = np.zeros(0, np.int64)
    table, *_ = answer(
        registration, read_pairs(group, query, none, query.where), None, none, np.zeros(1, np.int64)
    )
    unknown = [pa.nulls(table.num_rows, pa.timestamp("us"))] * 2
    columns = [*table.columns[:-3], *unknown, table.columns[-1]]
    return Answered(pa.Table.from_arrays(columns, schema=query.answer_schema()))
