"""Events without a value: those for which something that queries want to know of them cannot be computed.

A batch is taken in whole or not at all, so one such event would take all others with it. Who wants to leave it out asks
here which it is, when a batch has failed; as long as none fails, this costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.shard.intake import WantedColumns, exceeds_storage
from muntin.shard.read.left_out import evaluate_each


class WithoutValue(NamedTuple):
    """For each event 0, or which of the `reasons` it has, from 1 on."""

    reason: Ints
    reasons: list[str]

    @property
    def sound(self) -> Bools:
        """The events that can be taken in."""
        sound: Bools = self.reason == 0
        return sound

    def why(self) -> list[str]:
        """The reasons of those that cannot, in order."""
        return [self.reasons[each - 1] for each in self.reason[self.reason > 0].tolist()]


def find_without_value(events: pa.RecordBatch, wanted: WantedColumns) -> WithoutValue:
    """Which events have no value for something that is wanted; O(log events) evaluations for each of them."""
    columns = dict(zip(events.schema.names, events.columns, strict=True))
    found = WithoutValue(np.zeros(events.num_rows, np.int64), [])
    values = {each: _values(found, each, columns) for each in sorted(wanted.expressions, key=str)}
    for argument in wanted.arguments:
        _note(found, argument, exceeds_storage(values[argument]), "it is above 64 bits with a sign")
    for asked, lanes in wanted.lanes.items():
        passing = (lanes.find([values[each] for each in asked.indexed]) >= 0) & found.sound
        for each in asked.rest:  # of events in a lane alone: others need not have a value (`intake.py`)
            place = np.flatnonzero(passing)
            at = pa.array(place)
            some = _values(found, each, {name: columns[name].take(at) for name in each.columns}, place)
            passing[place] = np.asarray(some.fill_null(False))
    return found


def _values(
    found: WithoutValue, expression: Expression, columns: Mapping[str, pa.Array], place: Ints | None = None
) -> pa.Array:
    """Its values, NULL for events that have none, which are noted; `columns` are those of the events at `place`."""
    column, lost, reason = evaluate_each(expression, columns)
    if lost is not None:
        everywhere = lost
        if place is not None:
            everywhere = np.zeros(len(found.reason), np.bool_)
            everywhere[place] = lost
        _note(found, expression, everywhere, reason)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _note(found: WithoutValue, expression: Expression, lost: Bools, reason: str) -> None:
    new = lost & (found.reason == 0)
    if new.any():
        line = (reason.splitlines() or ["it cannot be computed"])[0]
        told = line if str(expression) in line else f"{expression}: {line}"
        found.reasons.append(told)
        found.reason[new] = len(found.reasons)
