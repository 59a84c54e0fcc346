"""KeyedRows: the events of an input by values of theirs, so that those that match are found without the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.kernels.chained import count_chained, list_chained
from muntin.keys.key_dictionary import KeyDictionary
from muntin.keys.sweep import Sweeper
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.event_log import EventLog

# PresentValues: which values the events of an input have, and how that changes.


class PresentValues:
    """Follows a log; a value is present while some event has it. NULL never is, NaN is itself.

    To follow costs O(events that came and went), to ask O(values asked for).
    """

    def __init__(self, kinds: Sequence[pa.DataType]):
        self._keys = KeyDictionary(kinds)
        self._events = Columns({"key": np.dtype(np.int64)})  # numbered as in the log; -1 is NULL
        self._count = np.zeros(0, np.int64)  # events that have a value, by its id; with room for more
        self._sweeper = Sweeper()

    def follow(
        self, log: EventLog, values_of: Callable[[Ints], list[pa.Array]]
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Have the events of a log; the values that have come to be present, and those that are no more."""
        end = self._events.dropped + len(self._events)
        left = min(log.first, end) - self._events.dropped
        gone = self._events["key"][:left].copy()
        self._events.drop_first(left)
        self._events.dropped = log.first  # also where some have come and gone at once
        numbers = np.arange(max(log.first, end), log.end)
        new = np.zeros(0, np.int64)
        if len(numbers):
            values = values_of(numbers)
            new = without_null(self._keys.encode(values), values)
            self._events.extend({"key": new})
        gone, new = gone[gone >= 0], new[new >= 0]
        if len(self._keys) > len(self._count):
            self._count = np.pad(self._count, (0, 2 * len(self._keys) - len(self._count)))
        touched = np.unique(np.concatenate([gone, new]))
        was = self._count[touched] > 0
        np.add.at(self._count, new, 1)
        np.subtract.at(self._count, gone, 1)
        is_now = self._count[touched] > 0
        changed = self._keys.take(touched[~was & is_now]), self._keys.take(touched[was & ~is_now])
        self._sweeper.sweep(self._keys, self._mark, self._renumber)
        return changed

    def have(self, sought: Sequence[pa.Array]) -> Bools:
        """Which rows of what is sought are present."""
        key = without_null(self._keys.find(sought), sought)
        found = np.zeros(len(key), np.bool_)
        found[key >= 0] = self._count[key[key >= 0]] > 0
        return found

    def _mark(self, used: Bools) -> None:
        used |= self._count[: len(used)] > 0

    def _renumber(self, new_id: Ints) -> None:
        key = self._events["key"]
        key[key >= 0] = new_id[key[key >= 0]]
        self._count = self._count[: len(new_id)][new_id >= 0]


def without_null(key: Ints, values: Sequence[pa.Array]) -> Ints:
    """Ids of rows of values, -1 where one of them is NULL, which equals nothing."""
    for column in values:
        if column.null_count:
            key = np.where(np.asarray(column.is_valid()), key, -1)
    return key


class KeyedRows:
    """Follows a log whose events it finds by values of these `kinds`; NULL equals nothing, NaN itself.

    To follow costs O(events that came and went), to find O(events sought and found).
    """

    def __init__(self, kinds: Sequence[pa.DataType]):
        self._keys = KeyDictionary(kinds)
        self._events = Columns(
            {"key": np.dtype(np.int64), "prior": np.dtype(np.int64)}
        )  # numbered as in the log
        self._chains = Chains()
        self._sweeper = Sweeper()

    def follow(self, log: EventLog, values_of: Callable[[Ints], list[pa.Array]]) -> None:
        """Have the events of a log; `values_of` has the values of the events with some numbers."""
        end = self._events.dropped + len(self._events)
        self._events.drop_first(min(log.first, end) - self._events.dropped)
        self._events.dropped = log.first  # also where some have come and gone at once
        new = np.arange(max(log.first, end), log.end)
        if len(new):
            key = self._keys.encode(values_of(new))
            self._events.extend({"key": key, "prior": self._chains.link(key, int(new[0]))})
        self._sweeper.sweep(self._keys, self._mark, self._renumber)

    def find(self, sought: Sequence[pa.Array], below: int) -> tuple[Ints, Ints]:
        """Pairs of a row of what is `sought` and the number, below some, of an event with the same values."""
        key = without_null(self._keys.find(sought), sought)
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
