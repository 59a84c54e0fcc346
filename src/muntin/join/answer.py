"""From matches to answers: the columns of pairs, WHERE, and what SELECT makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.arrays import Bools, Ints
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.join.group import JoinGroup, JoinRegistration
from muntin.join.part import part_columns, part_schema
from muntin.join_query import PAIR_NUMBER, PAIR_TIME, JoinQuery
from muntin.keys.key_dictionary import KeyDictionary
from muntin.plan import request_of
from muntin.query import Output, Query
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.left_out import NONE, LeftOut, either, evaluate_each
from muntin.shard.shard import Shard

_LENGTH = "#"  # stands for the columns of pairs of which none is read


class Pairs(NamedTuple):
    """Matches that pass WHERE, in order, with the columns a query reads of them."""

    match: Ints  # which ones they are in the store
    columns: dict[str, pa.Array]
    left_out: LeftOut = NONE  # those of which WHERE has no value
    kept: Ints | None = None  # which of the chosen ones they are; None: all

    def take(self, rows: Ints | None) -> dict[str, pa.Array]:
        """Columns of some of them, None for all."""
        if rows is None:
            return self.columns
        index = pa.array(rows)
        return {name: column.take(index) for name, column in self.columns.items()}


def read_pairs(group: JoinGroup, query: JoinQuery, chosen: Ints, where: Expression | None) -> Pairs:
    """The chosen matches, as far as they pass a condition."""
    all = group.matches.all
    columns: dict[str, pa.Array] = {_LENGTH: pa.array(chosen)}
    for side, state, number in zip(query.sides, group.sides, (all.left, all.right), strict=True):
        for name in side.columns:
            columns[f"{side.name}.{name}"] = state.log.take(name, number[chosen])
    pairs = Pairs(chosen, columns)
    if where is None or not len(chosen):
        return pairs
    passing, lost, reason = evaluate_each(where, columns)
    kept = np.flatnonzero(np.asarray(passing.fill_null(False)))
    if len(kept) == len(chosen):
        return pairs
    left_out = NONE if lost is None else LeftOut(int(lost.sum()), reason)
    return Pairs(chosen[kept], pairs.take(kept), left_out, kept)


def answer(
    registration: JoinRegistration, pairs: Pairs, rows: Ints | None, at: Ints, instants: Ints
) -> Answered:
    """Answers at `instants`: `rows` are the pairs seen at each (None: each once), `at` their instants, in
    order. Without those of which a value does not exist."""
    query = registration.query
    if query.fold is not None and query.is_part:
        given = {name: column for name, column in pairs.take(rows).items() if name != _LENGTH}
        values, at, left_out = part_columns(query.fold, given, at, instants)
        table = pa.Table.from_arrays([*values, *bounds(registration, at)], schema=part_schema(query))
        return Answered(table, pairs.left_out.also(left_out))
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


_NAME = "fold"


class _Told(NamedTuple):
    """Pairs at the instants that they are `at`; `instants` are those at which there are answers."""

    columns: Mapping[str, pa.Array]
    at: Ints
    instants: Ints
    left_out: LeftOut = NONE


def fold_pairs(query: Query, columns: Mapping[str, pa.Array], at: Ints, instants: Ints) -> Answered:
    """Answers at all `instants`, in order, of the pairs that each is `at`; within one, keys stand in the order
    of their first pair."""
    told = _Told(columns, at, instants)
    try:
        shard = _shard_of(query, told)
    except MuntinError:  # an argument or a key has no value for some pair
        told = _without_lost(query, told)
        shard = _shard_of(query, told)
    answers = (
        shard.answers(_NAME, told.instants)
        if len(told.instants)
        else Answered(query.answer_schema().empty_table())
    )
    table = answers.table
    if query.keys and table.num_rows:
        first = np.asarray(table.column(PAIR_NUMBER))  # pairs are numbered on from instant to instant
        table = table.take(pa.array(np.argsort(first, kind="stable")))
    return Answered(table.drop_columns([PAIR_NUMBER]), told.left_out.also(answers.left_out))


def _shard_of(query: Query, told: _Told) -> Shard:
    shard = Shard(query.stream, backlog_bytes=0, adaptive=False)
    shard.register({_NAME: request_of(query)})
    numbered = {PAIR_TIME: pa.array(told.at - 1), PAIR_NUMBER: pa.array(np.arange(len(told.at)))}
    shard.insert(pa.table({**told.columns, **numbered}))
    return shard


def _without_lost(query: Query, told: _Told) -> _Told:
    """The pairs without those whose key has no value, and without all pairs of an answer for which some argument has
    none: its aggregates have none either."""
    lost, reason = _lost(query.key_expressions, told.columns)
    left_out = LeftOut(int(lost.sum()), reason)
    told = _only(told, ~lost)
    inputs = [each for call in query.calls for each in (call.argument, call.filter) if each is not None]
    lost, reason = _lost(inputs, told.columns)
    answer_of = np.searchsorted(told.instants, told.at)
    if query.keys:
        keys = KeyDictionary([each.type for each in query.key_expressions])
        ids = keys.encode([each.evaluate(told.columns) for each in query.key_expressions])
        answer_of = ids * len(told.instants) + answer_of
    else:  # without pairs, they would be answered as empty windows
        told = told._replace(instants=np.setdiff1d(told.instants, told.at[lost]))
    gone = np.unique(answer_of[lost])
    left_out = left_out.also(LeftOut(len(gone), reason))
    return _only(told, ~np.isin(answer_of, gone))._replace(left_out=left_out)


def _lost(expressions: Iterable[Expression], columns: Mapping[str, pa.Array]) -> tuple[Bools, str]:
    """The pairs for which one of some expressions has no value, and why."""
    count = len(next(iter(columns.values())))
    given = {**columns, PAIR_NUMBER: pa.array(np.arange(count))}
    lost, reason = np.zeros(count, np.bool_), ""
    for expression in expressions:
        values = evaluate_each(expression, given)
        if values.lost is not None:
            lost, reason = lost | values.lost, reason or values.reason
    return lost, reason


def _only(told: _Told, kept: Bools) -> _Told:
    mask = pa.array(kept)
    columns = {name: column.filter(mask) for name, column in told.columns.items()}
    return told._replace(columns=columns, at=told.at[kept])
