"""The write buffer: small batches that wait to be taken in as one.

To take in one event costs almost what a thousand cost: every store and every synopsis is called once. So a push of few
events only puts them here, until there are many, or until somebody asks: whatever is read, changed or saved sees them
taken in before (`Shard.state`).

    push 1 event     [ e1 ]
    push 1 event     [ e1 e2 ]
    look-up          [ ]          e1 and e2 are in the stores, as one batch

Nothing tells afterwards that they waited. A batch waits only if its pusher could not have been told anything: its
events are in order, so none is late, and nothing that queries want to know of them can fail to have a value.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from sqlglot import exp

from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.kernels.times import ascends
from muntin.shard.intake import Admitted, WantedColumns
from muntin.shard.record_batch import to_times
from muntin.shard.state import State
from muntin.stream import Stream

_FEW = 128  # events of a batch that waits: beyond that they are worth their calls
_MANY = 4_096  # events that are taken in together


# What has a value for every event, if all columns are of one type: nothing is brought from one type to another.
_SURE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is,
)  # fmt: skip
_SURE_OF_FLOATS = (*_SURE, exp.Add, exp.Sub, exp.Mul)


class WriteBuffer:
    """Events that were pushed to a shard, in order of time, and are not in its state yet."""

    def __init__(self, stream: Stream):
        self._types = {field.name: field.type for field in stream.schema}
        self._none = pa.RecordBatch.from_pylist([], stream.schema)
        self._batches: list[pa.RecordBatch] = []
        self._at: list[Ints] = []
        self._events = 0
        self._judged: WantedColumns | None = None
        self._is_sure = False  # of those that were judged

    def __len__(self) -> int:
        return self._events

    def is_for(self, state: State) -> bool:
        """Whether small batches may wait for a state as it is now."""
        clock = state.clock
        if clock.greatest is None or clock.ahead is not None or state.backfills or self._events >= _MANY:
            return False
        if self._judged is not state.wanted:
            self._judged, self._is_sure = state.wanted, _is_sure(state.wanted, self._types)
        return self._is_sure

    def take(self, state: State, events: pa.RecordBatch) -> bool:
        """Have a batch wait; False if it is too large, or not in order."""
        if not 0 < events.num_rows <= _FEW:
            return False
        at, clock = to_times(state.stream, events), state.clock
        if not ascends(at):
            return False
        assert clock.greatest is not None, "only a running stream has batches wait"
        if at[0] < (self._at[-1][-1] if self._at else max(clock.greatest, clock.promised)):
            return False
        # what was given may lie in memory that its owner writes to again
        self._batches.append(pa.concat_batches([events, self._none]))
        self._at.append(at.copy())
        self._events += len(at)
        return True

    def empty_into(self, state: State) -> None:
        """Have a state take in all that waits, as one batch. If it cannot, all go on waiting."""
        state.take_in(Admitted(pa.concat_batches(self._batches), np.concatenate(self._at), True, 0))
        self._batches, self._at, self._events = [], [], 0


def _is_sure(wanted: WantedColumns, types: Mapping[str, pa.DataType]) -> bool:
    """Whether all that queries want to know of an event has a value, whatever the event is."""
    rest = {each for asked in wanted.lanes for each in asked.rest}
    return all(_has_value(each, types) for each in wanted.expressions | rest)


def _has_value(expression: Expression, types: Mapping[str, pa.DataType]) -> bool:
    kinds = {types[name] for name in expression.columns}
    if not expression.is_written or len(kinds) != 1 or not all(map(_is_plain, kinds)):
        return False
    is_float = all(map(pa.types.is_floating, kinds))
    return all(
        isinstance(node, _SURE_OF_FLOATS if is_float else _SURE)
        and (is_float or not isinstance(node, exp.Literal) or node.is_string or node.is_int)
        for node in expression.tree.walk()
    )


def _is_plain(kind: pa.DataType) -> bool:
    """Whether aggregates and comparisons take every value of a type: integers above 64 bits with a sign they do not."""
    is_number = pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind))
    return is_number or pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)
