"""KeyedRows: the events of an input by values of theirs, so that those that match are found without the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from muntin.expression import Expression
from muntin.kernels.chained import count_chained, list_chained
from muntin.keys.key_dictionary import KeyDictionary
from muntin.operator.sweep import Sweeper
from muntin.synopsis.chains import Chains
from muntin.synopsis.columns import Columns
from muntin.synopsis.contract import Bools, Ints
from muntin.synopsis.event_log import EventLog


class KeyedRows:
    """Follows a log whose events it finds by `values`; NULL equals nothing, NaN itself.

    To follow costs O(events that came and went), to find O(events sought and found).
    """

    def __init__(self, values: Sequence[Expression]):
        self.values = values
        self._keys = KeyDictionary([value.type for value in values])
        self._events = Columns(
            {"key": np.dtype(np.int64), "prior": np.dtype(np.int64)}
        )  # numbered as in the log
        self._chains = Chains()
        self._sweeper = Sweeper()

    def follow(self, log: EventLog, value_of: Callable[[Expression, Ints], pa.Array]) -> None:
        """Have the events of a log; `value_of` has a value of the events with some numbers."""
        end = self._events.dropped + len(self._events)
        self._events.drop_first(min(log.first, end) - self._events.dropped)
        self._events.dropped = log.first  # also where some have come and gone at once
        new = np.arange(max(log.first, end), log.end)
        if len(new):
            key = self._keys.encode([value_of(value, new) for value in self.values])
            self._events.extend({"key": key, "prior": self._chains.link(key, int(new[0]))})
        self._sweeper.sweep(self._keys, self._mark, self._renumber)

    def find(self, sought: Sequence[pa.Array], below: int) -> tuple[Ints, Ints]:
        """Pairs of a row of what is `sought` and the number, below some, of an event with the same values."""
        key = self._keys.find(sought)
        for column in sought:
            if column.null_count:
                key = np.where(np.asarray(column.is_valid()), key, -1)
        chain = (key, self._chains.last, self._events["prior"], self._events.dropped, below)
        many = np.empty(len(key), np.int64)
        found = np.empty(count_chained(*chain, many), np.int64)
        list_chained(*chain, found)
        return np.repeat(np.arange(len(key)), many), found

    def _mark(self, used: Bools) -> None:
        used[self._events["key"]] = True

    def _renumber(self, new_id: Ints) -> None:
        key = self._events["key"]
        key[:] = new_id[key]
        self._chains.renumber(new_id)
