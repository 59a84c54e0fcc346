"""Indexed staircases: staircases whose steps can be found by value, through a dyadic index.

Instants are numbered one by one; equal ones have one number, for no window parts them. Stairs hold numbers
(*positions*) in place of instants, and each step is in the index as the segment of positions that it
answers for. A step that was beaten leaves the index at once. A new one waits until the next look-up, for
most are beaten soon.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muntin.arrays import Bools, Ints
from muntin.kernels import indexed_staircase as kernels
from muntin.synopsis.columns import Columns
from muntin.synopsis.dyadic import DyadicIndex
from muntin.synopsis.staircase import Staircases


class IndexedStaircases:
    """The same answers as `Staircases`.

    >>> stairs = IndexedStaircases()
    >>> stairs.insert(np.array([0, 1, 0, 2, 1, 0]), np.array([1, 2, 4, 5, 6, 8]), np.array([5, 9, 3, 7, 2, 4]))
    >>> stairs.keys_in(since=6, first=0, last=5)
    array([0, 1])
    >>> list(stairs.segments())
    [(0, 1, 5, 0), (1, 6, 4, 0), (0, 2, 9, 1), (2, 5, 2, 1), (0, 4, 7, 2)]
    """

    def __init__(self) -> None:
        self.index = DyadicIndex()
        self._stairs = Staircases()
        self._instants = Columns({"at": np.dtype(np.int64)})  # by position
        self._last = 0  # the newest instant so far
        self._waiting = np.empty(0, np.int64)  # keys that have steps to be indexed
        self._waiting_count = np.zeros(1, np.int64)

    def __len__(self) -> int:
        """Steps held, of all keys."""
        return len(self._stairs)

    @property
    def keys(self) -> int:
        """Keys are numbered below this."""
        return self._stairs.keys

    def insert(self, key: Ints, at: Ints, code: Ints) -> None:
        """Push events in order of time, none older than the last one; O(log^2 n) amortised each."""
        self._stairs.know_keys(int(key.max(initial=-1)) + 1)
        if self.keys > len(self._waiting):
            self._waiting = np.concatenate([self._waiting, np.empty(2 * self.keys, np.int64)])
        position, done = self._number(at), 0
        while done < len(key):
            done = kernels.insert_events(
                self._stairs.state, self.index.nodes, self._waiting, self._waiting_count,
                self.index.first, key, position, code, done,
            )  # fmt: skip
            if done < len(key):
                self._stairs.grow()

    def forget(self, since: int) -> None:
        """Events before `since` are not asked for any more; O(1) amortised for each event."""
        position = self.position_of(since)
        if position > self.index.first:
            self._instants.drop_first(position - self._instants.dropped)
            self.index.forget(position)
            self._stairs.forget(position)
            if self.index.is_sparse():
                self._index_anew()

    def renumber(self, new_id: Ints) -> None:
        """Give keys new ids, in the same order; -1 for those that go. O(keys + state)."""
        kernels.delete_keys(self._stairs.state, self.index.nodes, self.index.first, new_id)
        self.index.renumber(new_id)
        waiting = new_id[self._waiting[: self._waiting_count[0]]]
        waiting = waiting[waiting >= 0]
        self._waiting[: len(waiting)] = waiting
        self._waiting_count[0] = len(waiting)
        self._stairs.renumber(new_id)

    def codes_of(self, keys: Ints, since: int) -> tuple[Ints, Bools]:
        """The greatest code of each key since an instant, and whether there is one; O(log n) each."""
        return self._stairs.codes_of(keys, self.position_of(since))

    def keys_in(self, since: int, first: int, last: int) -> Ints:
        """The keys whose greatest code since an instant lies in [first, last], ascending.

        O(log^2 n + keys found) and sorting those, after O(log^2 n) for each step that waited.
        """
        self._settle()
        return self.index.keys_in(self.position_of(since), first, last, self.keys)

    def position_of(self, since: int) -> int:
        """The position of the first instant at or after `since`; O(log n)."""
        return self._instants.dropped + int(np.searchsorted(self._instants["at"], since))

    def segments(self) -> Iterator[tuple[int, int, int, int]]:
        """(start, stop, code, key) of each step that has not been forgotten: it answers for these positions."""
        for key in range(self.keys):
            start = int(self._stairs.state.key["base"][key])
            for at, code in zip(*(each.tolist() for each in self._stairs.steps(key)), strict=True):
                if at >= self.index.first:
                    yield start, at + 1, code, key
                start = at + 1

    def nbytes(self) -> int:
        """Bytes of state."""
        return self._stairs.nbytes() + self.index.nbytes() + self._instants.nbytes() + self._waiting.nbytes

    def check(self) -> None:
        """Assert every invariant."""
        self._settle()
        self._stairs.check()
        self._instants.check()
        # instants ascend strictly, and are numbered from the first that is not forgotten
        assert (np.diff(self._instants["at"]) > 0).all()
        assert self._instants.dropped == self.index.first
        assert self._instants.dropped + len(self._instants) == self.index.end
        # nothing waits after a look-up
        row = self._stairs.state.key
        assert (row["indexed"] == row["size"]).all()
        assert not row["is_waiting"].any()
        # segments begin no later than what can be asked for does
        assert (row["base"][row["size"] > 0] <= self.index.first).all()
        # the index has the segment of each step
        self.index.check(self.segments())

    def _number(self, at: Ints) -> Ints:
        """The positions of events."""
        position, instant = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
        count = kernels.number_instants(at, self._last, self.index.end, position, instant)
        if count:
            self._last = int(instant[count - 1])
            self._instants.extend({"at": instant[:count]})
            self.index.extend(count)
        return position

    def _settle(self) -> None:
        """Index what waits."""
        done = 0
        while done < self._waiting_count[0]:
            done = kernels.index_waiting(
                self._stairs.state, self.index.nodes,
                self._waiting, self._waiting_count, self.index.first, done,
            )  # fmt: skip
            if done < self._waiting_count[0]:
                self.index.grow()
        self._waiting_count[0] = 0

    def _index_anew(self) -> None:
        """Empty the index, which gives room back, and let all steps wait."""
        self.index.clear()
        self._waiting_count[0] = kernels.wait_all(self._stairs.state, self._waiting)
