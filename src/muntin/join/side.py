"""One side of a join group: the keys of its stream's events, chained, newest first."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.expression import Expression
from muntin.kernels.match import first_kept
from muntin.shard.clock import Clock
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.event_log import EventLog


class Keyed(NamedTuple):
    """The join values of a batch, in order of time: columns, and which events have no NULL among them."""

    columns: list[pa.Array]
    valid: Bools


class ChainedSide:
    """One side: the keys of its events, chained; times are in the log of its stream."""

    def __init__(self, stream: str, on: tuple[Expression, ...], log: EventLog, clock: Clock):
        self.stream = stream
        self.on = on
        self.log = log
        self.clock = clock
        self.events = Columns({"key": np.dtype(np.int64), "prior": np.dtype(np.int64)})
        self.events.dropped = log.end  # numbers are those of the log
        self.chains = Chains()
        self.sizes: Counter[int] = Counter()  # of windows, by how many queries have them
        self.reach = 0  # the longest of them
        self.forgotten_to = LONG_AGO  # events before this time may be gone

    def keyed(self, evaluated: dict[Expression, pa.Array]) -> Keyed:
        """What a batch's events must agree on with the other side's."""
        columns = [evaluated[value] for value in self.on]
        valid = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            if column.null_count:
                valid &= np.asarray(pc.is_valid(column))
        return Keyed(columns, valid)

    def link(self, key: Ints) -> None:
        """Append events with these keys."""
        prior = self.chains.link(key, self.events.dropped + len(self.events))
        self.events.extend({"key": key, "prior": prior})

    def forget(self, before: int) -> None:
        """Drop the oldest events as far as they lie before an instant; O(events dropped)."""
        self.forgotten_to = max(self.forgotten_to, before)
        skipped = self.events.dropped - self.log.first
        self.events.drop_first(int(first_kept(self.log.at[skipped:], self.forgotten_to)))

    def renumber(self, new_id: Ints) -> None:
        key = self.events["key"]
        key[:] = new_id[key]
        self.chains.renumber(new_id)
