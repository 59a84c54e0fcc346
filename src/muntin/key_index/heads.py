"""Heads: the greatest cells of each slice, in order. They name the keys that may come first in a window of slices.

| | |
|---|---|
| Full name | sorted heads of slices, read by the threshold algorithm |
| Answers | keys among which are all those with a COUNT, SUM or MAX above some value (MIN below it), over whole slices |
| Insert | O(cells of a slice), once for each slice that is looked at, when it is |
| Lookup | O(slices * depth) |
| Space | O(slices * DEPTH) |
| Reference | Fagin, Lotem & Naor, PODS 2001, section 4 (threshold algorithm) |

The first `depth` cells are taken of each slice. A key that is in none of them has in each slice at most what the next
cell has. If these add up to less than some value, no such key reaches that value; of MAX, if the greatest is less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.band import sort_keys
from muntin.expression import Expression
from muntin.store.needs import Need
from muntin.store.sequence import Sequence

DEPTH = 512  # cells of a slice
_MOST = 2**40  # of one integer in a sum: no sum of such cells overflows
_ROUNDING = 2.0**-40  # generously: of what is added up in plain floats


class _Head(NamedTuple):
    """Of one slice: what `DEPTH` + 1 cells have, the greatest first, and the keys of all but the last."""

    value: npt.NDArray[np.float64]
    key: Ints
    is_sound: bool  # whether no sum of such cells overflows


class WindowHeads:
    """The heads of the slices of one window."""

    def __init__(self, heads: list[_Head], is_summed: bool, is_up: bool):
        self._keys = [head.key for head in heads]
        self._is_up = is_up
        values = np.stack([head.value for head in heads])
        with np.errstate(invalid="ignore", over="ignore"):
            # a key without a cell in a slice has 0 there, not less
            rest = np.maximum(values, 0.0).sum(axis=0) if is_summed else values.max(axis=0)
        # what a key that is not among so many cells of each slice has at most; roundings are a part of it
        self._rest = rest + np.where(np.isfinite(rest), np.abs(rest), 0.0) * _ROUNDING

    def keys(self, depth: int) -> Ints:
        """Ids of the keys of the first cells of each slice, ascending."""
        return np.unique(np.concatenate([key[:depth] for key in self._keys]))

    def depth_beyond(self, value: float) -> int | None:
        """So many cells of each slice have to be taken that all other keys have less than a value (of MIN, more); None
        if there are not so many."""
        value = value if self._is_up else -value
        deep = np.flatnonzero(self._rest < value)
        return int(deep[0]) if len(deep) else None


class Heads:
    """Of one component of a store by key."""

    def __init__(self, store: Sequence, where: Expression | None, keys: tuple[Expression, ...], need: Need):
        self._store, self._where, self._keys, self._need = store, where, keys, need
        self._is_summed = need.component in ("count", "sum")
        self._is_up = need.component != "min"
        self._made: dict[int, _Head] = {}  # by the number of the slice

    def of(self, lo: int, hi: int) -> WindowHeads | None:
        """Of the slices with numbers from `lo` to `hi`; None if one of them has numbers that are too large."""
        for number in [number for number in self._made if number < self._store.dropped]:
            del self._made[number]
        heads = [self._head(number) for number in range(max(lo, self._store.dropped), hi)]
        if not heads or not all(head.is_sound for head in heads):
            return None
        return WindowHeads(heads, self._is_summed, self._is_up)

    def _head(self, number: int) -> _Head:
        if number not in self._made:
            key, _, partial = self._store.by_key(self._need, self._where, self._keys, number, number + 1)
            self._made[number] = self._make(key, partial)
        return self._made[number]

    def _make(self, key: Ints, partial: Partial) -> _Head:
        cell = partial[0]
        order = sort_keys(cell)
        first = ~order if self._is_up else order
        most = DEPTH + 1
        some = np.argpartition(first, most - 1)[:most] if len(first) > most else np.arange(len(first))
        some = some[np.argsort(first[some])]
        value = np.full(most, 0.0 if self._is_summed else -np.inf)
        value[: len(some)] = cell[some] if self._is_up else -cell[some].astype(np.float64)
        is_large = cell.dtype == np.int64 and self._is_summed and len(cell) and np.abs(cell).max() > _MOST
        return _Head(value, key[some[:DEPTH]].copy(), not is_large)

    def follow(self) -> None:
        """The store has changed."""
        for number in [number for number in self._made if number >= self._store.changed_from]:
            del self._made[number]

    def renumber(self, new_id: Ints) -> None:
        self._made = {number: head._replace(key=new_id[head.key]) for number, head in self._made.items()}

    def nbytes(self) -> int:
        return sum(head.value.nbytes + head.key.nbytes for head in self._made.values())
