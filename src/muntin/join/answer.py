"""From matches to answers: the columns of pairs, WHERE, and what SELECT makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.errors import WindowTooLarge
from muntin.join.fold_pairs import fold_pairs
from muntin.join.group import JoinGroup
from muntin.join.registration import JoinRegistration
from muntin.query import Output
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.left_out import NONE, LeftOut, either, evaluate_each

_LENGTH = "#"  # stands for the columns of pairs of which none is read


class Pairs(NamedTuple):
    """Matches that pass WHERE, in order, with the columns a query reads of them."""

    match: Ints  # which ones they are in the store
    columns: dict[str, pa.Array]
    left_out: LeftOut = NONE  # those of which WHERE has no value

    def take(self, rows: Ints | None) -> dict[str, pa.Array]:
        """Columns of some of them, None for all."""
        if rows is None:
            return self.columns
        index = pa.array(rows)
        return {name: column.take(index) for name, column in self.columns.items()}


def read_pairs(group: JoinGroup, registration: JoinRegistration, chosen: Ints) -> Pairs:
    """The chosen matches, as far as they pass WHERE."""
    query, all = registration.query, group.matches.all
    columns: dict[str, pa.Array] = {_LENGTH: pa.array(chosen)}
    for side, state, number in zip(query.sides, group.sides, (all.left, all.right), strict=True):
        for name in side.columns:
            columns[f"{side.name}.{name}"] = state.log.take(name, number[chosen])
    pairs = Pairs(chosen, columns)
    if query.where is None or not len(chosen):
        return pairs
    passing, lost, reason = evaluate_each(query.where, columns)
    kept = np.flatnonzero(np.asarray(passing.fill_null(False)))
    if len(kept) == len(chosen):
        return pairs
    left_out = NONE if lost is None else LeftOut(int(lost.sum()), reason)
    return Pairs(chosen[kept], pairs.take(kept), left_out)


def answer(
    registration: JoinRegistration, pairs: Pairs, rows: Ints | None, at: Ints, instants: Ints
) -> Answered:
    """Answers at `instants`: `rows` are the pairs seen at each (None: each once), `at` their instants, in
    order. Without those of which a value does not exist."""
    query = registration.query
    if query.fold is not None:
        columns = {name: column for name, column in pairs.take(rows).items() if name != _LENGTH}
        table, left_out, gone = fold_pairs(query.fold, columns, at, instants)
        at = np.asarray(table.column("window_end").cast(pa.int64()))
        values = table.columns[:-3]
    else:
        values, gone, left_out = select_pairs(query.outputs, pairs.columns, rows)
        at = at if gone is None else at[~gone]
    table = pa.Table.from_arrays([*values, *bounds(registration, at)], schema=query.answer_schema())
    return Answered(table, pairs.left_out.also(left_out), gone)


def select_pairs(
    outputs: Sequence[Output], columns: Mapping[str, pa.Array], rows: Ints | None
) -> tuple[list[pa.Array], Bools | None, LeftOut]:
    """What SELECT makes of some pairs (None: of all), which of them it leaves out since a value of them does not
    exist (None: none), and why."""
    found = [evaluate_each(output.expression, columns) for output in outputs]
    lost = reduce(either, (each.lost for each in found), None)
    values = [each.column for each in found]
    if rows is not None:
        index = pa.array(rows)
        values = [value.take(index) for value in values]
    if lost is None:
        return values, None, NONE
    gone = lost if rows is None else lost[rows]
    there = pa.array(~gone)
    reason = next(each.reason for each in found if each.reason)
    return [value.filter(there) for value in values], gone, LeftOut(int(gone.sum()), reason)


def bounds(registration: JoinRegistration, at: Ints) -> list[pa.Array]:
    """window_start, window_end and complete of answers at some instants."""
    left, right = (side.window for side in registration.query.sides)
    starts, ends = at - max(left.size, right.size), at - min(left.to, right.to)
    return [to_instants(starts), to_instants(ends), pa.array(registration.complete(at))]


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
    return answer_at(group, registration, instant)


def answer_at(group: JoinGroup, registration: JoinRegistration, instant: int) -> Answered:
    """Answers at one instant of which nothing has been forgotten: every match in its windows, once."""
    chosen = group.matches.choose(*registration.ranges(instant, instant), registration.since)
    pairs = read_pairs(group, registration, chosen)
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
    table, *_ = answer(registration, read_pairs(group, registration, none), None, none, np.zeros(1, np.int64))
    unknown = [pa.nulls(table.num_rows, pa.timestamp("us"))] * 2
    columns = [*table.columns[:-3], *unknown, table.columns[-1]]
    return Answered(pa.Table.from_arrays(columns, schema=query.answer_schema()))
