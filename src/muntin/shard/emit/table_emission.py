"""Push for queries that join tables: instant by instant, each with the tables as they were then."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Protocol

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import MuntinError
from muntin.shard.read.answers import Outcome
from muntin.shard.read.changes import Changes
from muntin.shard.read.question import Question
from muntin.shard.state import State
from muntin.shard.table_join.table_join import TableJoin, join_of
from muntin.tables.rows import TableRows


class Due(Protocol):
    """What a query owes: instants, and what becomes of each."""

    name: str
    instants: Ints

    @property
    def rows(self) -> int: ...

    def question(self, instants: Ints) -> Question: ...

    def take(self, state: State, question: Question, outcome: Outcome) -> None: ...

    def stop_after(self, instant: int) -> None: ...


def answer_joined(state: State, dues: Sequence[Due], rows: int) -> None:
    """Answer what is due; once there are more than `rows`, the rest is left for the next portion. Who is in, each query
    remembers; if any of it fails, as before."""
    if not dues:
        return
    joins = [_join(state, due.name) for due in dues]
    for join in joins:
        join.sweep(state)
    inside = [join.inside for join in joins]
    try:
        _answer(state, list(zip(dues, joins, strict=True)), rows)
    except BaseException:
        for join, before in zip(joins, inside, strict=True):
            join.inside = before
            state.prepared.forget_joined(join.name)
        raise


def _answer(state: State, dues: list[tuple[Due, TableJoin]], rows: int) -> None:
    everything = np.unique(np.concatenate([due.instants for due, _ in dues]))
    tables = list(dict.fromkeys(state.tables[each.name] for _, join in dues for each in join.query.tables))
    versions = [_versions(state, tables, int(instant)) for instant in everything]
    for version, places in groupby(range(len(everything)), versions.__getitem__):
        with ExitStack() as past:
            for table, wanted in zip(tables, version, strict=True):
                past.enter_context(table.as_of(wanted))
            for place in places:
                instant = int(everything[place])
                for due, join in dues:
                    at = due.instants.searchsorted(instant)
                    if at < len(due.instants) and due.instants[at] == instant:
                        due.take(
                            state, due.question(due.instants[at : at + 1]), _outcome(state, join, instant)
                        )
                if sum(due.rows for due, _ in dues) > rows and instant < everything[-1]:
                    for due, _ in dues:
                        due.stop_after(instant)
                    return


def _versions(state: State, tables: list[TableRows], instant: int) -> tuple[int, ...]:
    return tuple(table.version_at(state.stream.name, instant) for table in tables)


def _outcome(state: State, join: TableJoin, instant: int) -> Outcome:
    try:
        if not join.query.emits_changes:
            return join.answer(state, instant)
        changed = join.changes(state, instant)
    except (MuntinError, pa.ArrowException) as error:
        return error
    join.inside = changed.inside
    return Changes([] if changed.table is None else [changed.table], changed.inside, changed.left_out)


def _join(state: State, name: str) -> TableJoin:
    join = join_of(state, name)
    assert join is not None
    return join
