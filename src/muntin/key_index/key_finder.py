"""Key finder: which keys have COUNT, SUM, MAX or MIN in a range, over windows that end now, by an index.

A `collective_index` or a `staircase_index` of one component, fed from a store. Both answer for what was fed: *settled*
elements, which no event out of order can change any more. What came after them is looked at itself:

    elements   [ settled: in the index           | fresh ]
    window            [ start ...                     end ]

A key with fresh elements is a candidate if the index says so, or if what it has there at most and the fresh ones make
up enough together. So candidates are all the keys that qualify and some that do not: whoever asks verifies them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from muntin.aggregates.contract import Array, Partial
from muntin.arrays import FOREVER, Ints
from muntin.band import GREATEST, LEAST, sort_keys, sort_value
from muntin.expression import Expression
from muntin.key_index.collective_index import CollectiveIndex
from muntin.key_index.staircase_index import StaircaseIndex
from muntin.store.needs import Need, dtype_of
from muntin.store.sequence import Sequence

DENSE = 50_000  # keys up to which scanning a row beats walking a tree
_MOST = 2**40  # of one amount
_FINE = 20  # of a sum of floats, the threshold is about 2 ** _FINE units
_LEAST_EXPONENT = (
    -1022
)  # of a unit: `SUM(x) > 0` begins with the least float there is, of which none is a part
_FEW_FRESH = 64  # elements whose keys are candidates without a question


class Candidates(NamedTuple):
    """Ids, ascending, of all keys that qualify and some that do not."""

    ids: Ints


class KeyFinder:
    """An index of one need, over the elements of a store by key."""

    def __init__(
        self,
        store: Sequence,
        where: Expression | None,
        keys: tuple[Expression, ...],
        need: Need,
        unit: float,
        parts: int,
    ):
        self._store = store
        self._where = where
        self._keys = keys
        self._need = need
        self._unit = unit
        self._parts = parts
        self.refused: str | None = None  # why the index cannot answer
        self._refused_until = 0  # the element after which it can be tried again
        self._fed = store.dropped  # number of the first element that is not in the index
        self._index: CollectiveIndex | StaircaseIndex | None = None

    @property
    def form(self) -> str:
        return "none" if self._index is None else self._index.form

    def pending(self, settled: int) -> int:
        """How many elements would have to be fed to look up a window that ends with element `settled`."""
        return max(0, settled - max(self._fed, self._store.dropped))

    def is_usable(self, settled: int) -> bool:
        """Whether it has not been fed beyond the end of the window."""
        if self.refused and self._store.dropped >= self._refused_until:
            self.begin_again()
        return self.refused is None and self._fed <= max(settled, self._store.dropped)

    def begin_again(self) -> None:
        """Forget everything; the next look-up feeds it from the store."""
        self.refused, self._index, self._fed = None, None, self._store.dropped

    def renumber(self, new_id: Ints) -> None:
        if self._index is not None:
            self._index.renumber(new_id)

    def follow(self) -> None:
        """The store has changed. What was settled never does, unless time was promised and not kept."""
        if self._store.changed_from < self._fed:
            self.begin_again()

    def candidates(
        self, start: int, settled: int, end: int, low: int, high: int, keys: int
    ) -> Candidates | None:
        """Keys among which are all those whose need, from instant `start` to element `end`, has a sort key
        from `low` to `high`. None if the index cannot be used, `refused` says why."""
        self._feed(settled, keys)
        if self._index is None:
            return None
        start = max(start, self._store.forgotten_before)
        found = self._find(start, low, high)
        if settled >= end:
            return Candidates(found)
        begin = max(
            settled, self._store.run(start, FOREVER)[0]
        )  # a short window may begin among the fresh ones
        if self._store.holds_events and end - begin <= _FEW_FRESH:
            return Candidates(_united(found, self._store.keys_between(self._keys, begin, end)))
        key, _, partial = self._store.by_key(self._need, self._where, self._keys, begin, end)
        fresh = key if len(key) <= _FEW_FRESH else self._passing(key, partial, start, low, high)
        return Candidates(_united(found, fresh))

    def _passing(self, key: Ints, partial: Partial, start: int, low: int, high: int) -> Ints:
        """Of the keys with fresh elements those that may qualify and are not found by the index; O(fresh)."""
        index = self._index
        if not isinstance(index, CollectiveIndex):  # the greatest of all decides: an old one, or a fresh one
            order = sort_keys(partial[0])
            return np.unique(key[(order >= low) & (order <= high)])
        if _why_no_amounts(*partial):
            return np.unique(key)
        low, most = self._bounds(low, high)
        keys, slot = np.unique(key, return_inverse=True)
        fresh = np.zeros(len(keys), np.int64)
        np.add.at(fresh, slot, self._amounts(partial[0]))
        least, greatest = index.bounds(keys, start)
        may = greatest + fresh >= low
        return keys[may if most is None else may & (least + fresh <= most)]

    def nbytes(self) -> int:
        return 0 if self._index is None else self._index.nbytes()

    def check(self) -> None:
        if self._index is not None:
            self._index.check()

    def _find(self, start: int, low: int, high: int) -> Ints:
        index, is_float = self._index, dtype_of(self._need) == np.float64
        if isinstance(index, StaircaseIndex):
            least, most = (
                None if key in (LEAST, GREATEST) else sort_value(key) if is_float else key
                for key in (low, high)
            )
            return index.keys_in(start, least, most)
        assert isinstance(index, CollectiveIndex)
        return index.candidates(start, *self._bounds(low, high))

    def _bounds(self, low: int, high: int) -> tuple[int, int | None]:
        """The least and the greatest amount that is looked for, in units of the index."""
        if self._need.component == "sum" and dtype_of(self._need) == np.float64:
            return max(1, math.floor(sort_value(low) / self._unit)), None
        return max(low, 0), None if high == GREATEST else high

    def _amounts(self, value: Array) -> Ints:
        """Values in units of the index; more than any threshold in these units is enough."""
        if value.dtype == np.float64:
            with np.errstate(over="ignore"):
                value = np.minimum(np.ceil(value / self._unit), _MOST)
        return value.astype(np.int64)

    def _feed(self, settled: int, keys: int) -> None:
        """Bring the index up to element `settled`; O(p log K) per element and key, amortised."""
        begin = max(self._fed, self._store.dropped)
        if self._index is None:
            begin = self._store.dropped
            self._index = self._make("dense" if keys < DENSE else "tree")
        self._index.forget(self._store.forgotten_before)
        if begin >= settled:
            return
        key, at, partial = self._store.by_key(self._need, self._where, self._keys, begin, settled)
        value = partial[0]
        if isinstance(self._index, StaircaseIndex):
            self._index.add(key, at, value)
        elif reason := _why_no_amounts(*partial):
            self.refused, self._refused_until, self._index = reason, settled, None
            return
        else:
            self._index.add(key, at, self._amounts(value))
        self._fed = settled

    def _make(self, form: str) -> CollectiveIndex | StaircaseIndex:
        if self._need.component in ("max", "min"):
            return StaircaseIndex(self._need.component, dtype_of(self._need), form)  # type: ignore[arg-type]
        return CollectiveIndex("sum", self._parts, form)  # type: ignore[arg-type]


def _why_no_amounts(value: Array, shadow: Array | None = None) -> str | None:
    """`shadow` is what sums of integers would be if they could not overflow."""
    if not len(value):
        return None
    if not (bool(np.isfinite(value).all()) and value.min() >= 0):
        return "a sum of numbers below 0, or that are none, cannot be indexed"
    if value.dtype != np.int64:
        return None
    is_large = value.max() > _MOST or (shadow is not None and np.abs(shadow).max() > _MOST)
    return "numbers this large cannot be indexed" if is_large else None


def _united(found: Ints, others: Ints) -> Ints:
    """Ids that ascend, with some others among them."""
    if not len(others):
        return found
    if len(found) + len(others) > 1_000:
        return np.union1d(found, others)
    return np.array(sorted({*found.tolist(), *others.tolist()}), np.int64)  # no call of NumPy's costs less


def unit_for(need: Need, low: int) -> float:
    """The unit in which sums of floats are counted, for a threshold: the same for all of its magnitude.

    >>> from muntin.query import Input
    >>> unit_for(Need(Input(None), "count"), 1000)
    1.0
    """
    if need.component != "sum" or dtype_of(need) != np.float64:
        return 1.0
    exponent = math.frexp(sort_value(low))[1]
    return float(2.0 ** max(exponent - exponent % 8 - _FINE, _LEAST_EXPONENT))


def why_not_indexed(need: Need, low: int) -> str | None:
    """What keeps a need with a lower bound from being indexed; None if nothing does."""
    if need.component in ("max", "min"):
        return None
    is_float = dtype_of(need) == np.float64
    if need.component == "sum" and not (sort_value(low) if is_float else low) > 0:
        return "keys of sum 0 or less have no mark in the index"
    if need.component == "count" and low < 1 and need.input.argument is not None:
        return "keys that count 0 have no mark in the index"
    return None
