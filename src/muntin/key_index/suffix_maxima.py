"""SuffixMaxima: the suffix maxima of many keys, in one pool.

An event matters for the MAX of windows that end now only until its key has a greater or equal one. What
is left of a key descends like a staircase, and the first step at or after a window's start is its MAX:

    at         1   2   4   5   6   8            pool    at     1  8 | 2  6 | 5  .
    key, value a5  b9  a3  c7  b2  a4                   value  5  4 | 9  2 | 7  .
                                                                a      b      c

Steps of a key lie side by side in a block of 2**i places, oldest first, so that they can be searched by
halving. Blocks that have become too small or too large are exchanged, those given up are used again; a key
with one step takes one place. Values are order codes (`store/codes.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from muntin.arrays import Bools, Ints
from muntin.kernels import suffix_maxima as kernels
from muntin.kernels.blocks import NONE, TAKEN, check_blocks, no_blocks

_SMALLEST = 1024
_LARGEST_BLOCK = 31


class MaximaArrays(NamedTuple):
    """The arrays of the suffix maxima of all keys."""

    key: npt.NDArray[Any]  # a record for each key: its block and its steps; see kernels/suffix_maxima.py
    at: Ints  # of each step in the pool
    code: Ints  # of each step in the pool
    free: Ints  # free blocks of the pool; see kernels/blocks.py
    work: Ints  # steps held; steps pushed since the last sweep


class SuffixMaxima:
    """
    >>> maxima = SuffixMaxima()
    >>> maxima.insert(np.array([0, 1, 0, 2, 1, 0]), np.array([1, 2, 4, 5, 6, 8]), np.array([5, 9, 3, 7, 2, 4]))
    >>> maxima.steps(0)
    (array([1, 8]), array([5, 4]))
    >>> maxima.codes_of(np.array([0, 1, 2]), since=6)
    (array([4, 2, 0]), array([ True,  True, False]))
    """

    def __init__(self) -> None:
        self._records = _no_keys(_SMALLEST)
        self.state = _no_steps(self._records[:0], _SMALLEST)

    def __len__(self) -> int:
        """Steps held, of all keys."""
        return int(self.state.work[kernels.STEPS])

    @property
    def keys(self) -> int:
        """Keys are numbered below this."""
        return len(self.state.key)

    def insert(self, key: Ints, at: Ints, code: Ints) -> None:
        """Push events in order of time, none older than the last one; O(1) amortised each."""
        self.know_keys(int(key.max(initial=-1)) + 1)
        done = 0
        while (done := kernels.insert_events(self.state, key, at, code, done)) < len(key):
            self.grow()

    def know_keys(self, keys: int) -> None:
        """Make room for keys numbered below `keys`; O(1) amortised each."""
        if keys > len(self._records):
            records = _no_keys(2 * keys)
            records[: self.keys] = self.state.key
            self._records = records
        if keys > self.keys:
            self.state = self.state._replace(key=self._records[:keys])

    def grow(self) -> None:
        """Twice the pool."""
        more = np.empty_like(self.state.at)
        at, code = (np.concatenate([old, more]) for old in (self.state.at, self.state.code))
        self.state = self.state._replace(at=at, code=code)

    def forget(self, since: int) -> None:
        """Steps before `since` are not asked for any more; O(1) amortised for each event.

        They are dropped when their key has a new event, and all at once when as many steps came in as
        there are keys and steps to go through.
        """
        if self.state.work[kernels.PUSHED] > self.keys + len(self):
            kernels.sweep(self.state, since)
            if len(self.state.at) > max(_SMALLEST, 8 * int(self.state.free[TAKEN])):
                self._move(np.arange(self.keys))

    def renumber(self, new_id: Ints) -> None:
        """Give keys new ids, in the same order; -1 for those that go. O(keys + steps)."""
        self._move(new_id[: self.keys])

    def codes_of(self, keys: Ints, since: int) -> tuple[Ints, Bools]:
        """The greatest code of each key since an instant, and whether there is one; O(log steps) each."""
        code, valid = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        kernels.codes_of(self.state, keys, since, code, valid)
        return code, valid

    def keys_in(self, since: int, first: int, last: int) -> Ints:
        """The keys whose greatest code since an instant lies in [first, last], ascending; O(keys)."""
        found = np.empty(self.keys, np.int64)
        return found[: kernels.scan_keys(self.state, since, first, last, found)].copy()

    def steps(self, key: int) -> tuple[Ints, Ints]:
        """Instants and codes of the steps of one key, oldest first."""
        row = self.state.key[key]
        start = row["start"] + row["head"]
        return self.state.at[start : start + row["size"]], self.state.code[start : start + row["size"]]

    def nbytes(self) -> int:
        """Bytes of state."""
        return self._records.nbytes + sum(array.nbytes for array in self.state[1:])

    def check(self) -> None:
        """Assert every invariant."""
        state, key = self.state, self.state.key
        # blocks of keys and free blocks share no place, and every place used is in one of them
        has_block = key["shift"] != NONE
        check_blocks(state.at, state.free, key["start"][has_block], key["shift"][has_block])
        # steps lie in their block
        assert (key["size"][~has_block] == 0).all()
        assert (key["head"] >= 0).all()
        assert (key["head"] + key["size"] <= 1 << np.maximum(key["shift"], 0).astype(np.int64)).all()
        assert state.work[kernels.STEPS] == key["size"].sum()
        # time ascends and values descend, strictly
        for each in np.flatnonzero(key["size"] > 1):
            at, code = self.steps(int(each))
            assert (at[1:] > at[:-1]).all()
            assert (code[1:] < code[:-1]).all()

    def _move(self, new_id: Ints) -> None:
        """Copy what stays into arrays with room for as much again."""
        old, stays = self.state, new_id >= 0
        keys, places = int(new_id.max(initial=-1)) + 1, 2 * int(old.key["size"][stays].sum())
        self._records = _no_keys(max(_SMALLEST, 2 * keys))
        self.state = _no_steps(self._records[:keys], max(_SMALLEST, 2 * places))
        kernels.copy_stairs(old, self.state, new_id)


def _no_keys(capacity: int) -> npt.NDArray[Any]:
    records = np.zeros(capacity, kernels.KEY)
    records["shift"] = NONE
    return records


def _no_steps(records: npt.NDArray[Any], capacity: int) -> MaximaArrays:
    at, code = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    return MaximaArrays(records, at, code, no_blocks(_LARGEST_BLOCK), np.zeros(2, np.int64))
