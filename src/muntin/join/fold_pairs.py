"""Aggregates of a join: pairs as events of a stream that lasts for one look-up.

The pairs in the windows of an instant become events at that instant, in their order, and the query's
aggregates an ordinary query over them. So every aggregate, GROUP BY and HAVING means for pairs what it means
for events. Costs a look-up over as many events as there are pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.join_query import PAIR_NUMBER, PAIR_TIME
from muntin.keys.key_dictionary import KeyDictionary
from muntin.plan import request_of
from muntin.query import Query
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.left_out import NONE, LeftOut, evaluate_each
from muntin.shard.shard import Shard

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
