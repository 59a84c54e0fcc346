"""staircase_index: which keys have their MAX or MIN in a range, exactly, from the suffix maxima of all keys.

| | |
|---|---|
| Full name | substream filter for MAX and MIN: staircases in a dyadic index |
| Answers | keys by `MAX(x)` or `MIN(x)` in a range, over suffix time windows; MAX and MIN of given keys |
| Insert | tree: O(log^2 n) amortised; dense: O(1) amortised |
| Lookup | tree: O(log^2 n + keys found), and sorting those; dense: O(keys); one key's MAX: O(log n) |
| Space | tree: O(n log n) at worst; dense: O(n) at worst, about ln n steps a key if values come in random order |
| Shares | staircases and index, among all windows and all ranges |
| Reference | the problem: Arasu & Widom, VLDB 2004, section 4 and Figure 1; the method is ours |

The *staircase* of a key (`suffix_maxima.py`) has, for every start of a window, the step that is its MAX. So each
step answers for a *segment* of starts, from just after the step before it up to itself. The keys whose
MAX is above 5 over the last minute are those that have a segment with a value above 5 around the instant one
minute ago:

    at       1    2    4    5    6    8              starts     1    2    4    5    6    8
    event    a5   b9   a3   c7   b2   a4             a          5 |  4    4    4    4    4
                                                     b          9    9 |  2    2    2 |
                                                     c          7    7    7    7 |

Since 2 the keys above 3 are a, b and c; since 5, a and c. A key that has no event in the window has no
segment there and is not found.

In the form `tree`, segments are in a dyadic index (`dyadic.py`), over instants numbered one by one. Arasu &
Widom state these costs and leave the structure to a longer version of their paper. In the form `dense` all
staircases are searched: nothing but them is kept, and up to thousands of keys, or where there are few
look-ups for many events, that is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from muntin.aggregates.contract import Array
from muntin.arrays import Bools, Ints
from muntin.kernels import staircase_index as kernels
from muntin.key_index.dyadic import DyadicIndex
from muntin.key_index.suffix_maxima import SuffixMaxima
from muntin.store.codes import Kind, OrderCode
from muntin.store.columns import Columns

# Indexed maxima: staircases whose steps can be found by value, through a dyadic index.
#
# Instants are numbered one by one; equal ones have one number, for no window parts them. Stairs hold
# numbers (*positions*) in place of instants, and each step is in the index as the segment of positions that
# it answers for. A step that was beaten leaves the index at once. A new one waits until the next look-up,
# for most are beaten soon.


class IndexedMaxima:
    """The same answers as `SuffixMaxima`.

    >>> maxima = IndexedMaxima()
    >>> maxima.insert(np.array([0, 1, 0, 2, 1, 0]), np.array([1, 2, 4, 5, 6, 8]), np.array([5, 9, 3, 7, 2, 4]))
    >>> maxima.keys_in(since=6, first=0, last=5)
    array([0, 1])
    >>> list(maxima.segments())
    [(0, 1, 5, 0), (1, 6, 4, 0), (0, 2, 9, 1), (2, 5, 2, 1), (0, 4, 7, 2)]
    """

    def __init__(self) -> None:
        self.index = DyadicIndex()
        self._stairs = SuffixMaxima()
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


Form = Literal["tree", "dense"]
FORMS: dict[Form, type[IndexedMaxima] | type[SuffixMaxima]] = {
    "tree": IndexedMaxima,
    "dense": SuffixMaxima,
}
_FIRST, _LAST = -(2**63), 2**63 - 1  # instants


class StaircaseIndex:
    """Keys by MAX or MIN. NaN is the greatest number.

    >>> index = StaircaseIndex("max", np.dtype(np.int64))
    >>> index.add(np.array([0, 1, 0, 2, 1, 0]), np.array([1, 2, 4, 5, 6, 8]), np.array([5, 9, 3, 7, 2, 4]))
    >>> index.keys_in(2, 3, None, low_open=True)
    array([0, 1, 2])
    >>> index.value_of(np.array([1, 2]), 6)
    (array([2, 0]), array([ True, False]))
    """

    name = "staircase_index"

    def __init__(self, kind: Kind, dtype: np.dtype[Any], form: Form = "tree"):
        """Of values of `dtype`, float64 or int64."""
        if form not in FORMS:
            raise ValueError(f"the form is 'tree' or 'dense', not '{form}'")
        self.form = form
        self.maxima = FORMS[form]()
        self._order = OrderCode(kind, np.dtype(dtype))
        self._since = _FIRST  # events before it are forgotten
        self._until = _FIRST  # the newest event so far

    def add(self, key: Ints, at: Ints, value: Array) -> None:
        """Insert events in order of time, without NULL; dense: O(1), tree: O(log^2 n), both amortised.

        Keys are ids, the lower the better: room is made for all up to the greatest.
        """
        key, at = np.ascontiguousarray(key, np.int64), np.ascontiguousarray(at, np.int64)
        if len(key):
            self._check_batch(key, at)
            self._until = int(at[-1])
            known = int(np.searchsorted(at, self._since))  # `forget` may have been ahead of the stream
            self.maxima.insert(key[known:], at[known:], self._order.codes(value)[known:])

    def keys_in(
        self, since: int, low: Any, high: Any, low_open: bool = False, high_open: bool = False
    ) -> Ints:
        """The keys whose MAX, of events at or after `since`, lies between `low` and `high`; ascending.

        `None` is no bound. Keys without such events are not among them. tree: O(log^2 n + keys found), after
        what was inserted since the last look-up has been indexed; dense: O(keys).
        """
        since = self._known(since)
        first, last = self._order.span(low, high, low_open, high_open)
        if first > last:
            return np.zeros(0, np.int64)
        return self.maxima.keys_in(since, first, last)

    def value_of(self, keys: Ints, since: int) -> tuple[Array, Bools]:
        """MAX of given keys, of events at or after `since`, and whether there are any; O(log n) each.

        Where there are none, also for keys never seen, the value is 0.
        """
        code, valid = self.maxima.codes_of(np.ascontiguousarray(keys, np.int64), self._known(since))
        value = self._order.values(code)
        value[~valid] = 0
        return value, valid

    def forget(self, before: int) -> None:
        """Events before this instant are not asked for any more; O(1) amortised for each event."""
        if before > self._since:
            self._since = min(before, _LAST)
            self.maxima.forget(self._since)

    def renumber(self, new_id: Ints) -> None:
        """Give keys new ids, `new_id[old]`, in the same order; -1 for those that go. O(keys + state).

        Keys that go are no longer found, and their ids are free for others.
        """
        new_id = np.ascontiguousarray(new_id, np.int64)
        if len(new_id) < self.maxima.keys:
            raise ValueError(f"there are {len(new_id)} new ids, for {self.maxima.keys} keys")
        if (np.diff(new_id[new_id >= 0]) <= 0).any():
            raise ValueError("new ids must be in the order of the old ones")
        self.maxima.renumber(new_id[: self.maxima.keys])

    def nbytes(self) -> int:
        """Bytes of state."""
        return self.maxima.nbytes()

    def check(self) -> None:
        """Assert every invariant."""
        self.maxima.check()

    def _known(self, since: int) -> int:
        """`since` as an instant, if the state reaches back that far."""
        if since < self._since and self._since > _FIRST:
            raise ValueError(f"asked for events since {since}; those before {self._since} are forgotten")
        return min(max(since, _FIRST), _LAST)

    def _check_batch(self, key: Ints, at: Ints) -> None:
        if at[0] < self._until or (at[1:] < at[:-1]).any():
            raise ValueError("events must come in order of time")
        if key.min() < 0:
            raise ValueError(f"{key.min()} is no id of a key")
