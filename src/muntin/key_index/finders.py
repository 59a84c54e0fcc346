"""Finders: the indexes by which a synopsis finds the keys whose answer lies in a range, while they pay.

To visit all keys costs as much as the window has cells; to look up an index costs as much as there are
candidates, but it has to be fed every cell first, and that costs far more than to scan one. So an
index is made once scans have cost what feeding it will, and given up once it has cost that much more
than scanning would have (as one decides whether to rent skis or to buy them): whatever comes, the
total is never much worse than with the better of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from muntin.aggregate.contract import Array
from muntin.arrays import Ints
from muntin.band import GREATEST, LEAST, sort_value
from muntin.expression import Expression
from muntin.key_index.collective_index import CollectiveIndex, parts_for
from muntin.key_index.staircase_index import StaircaseIndex
from muntin.store.needs import Need, dtype_of
from muntin.store.sequence import Sequence

# Key finder: which keys have COUNT, SUM, MAX or MIN in a range, over windows that end now, by an index.
#
# A `collective_index` or a `staircase_index` of one component, fed from a store. Both answer for what was
# fed: *settled* elements, which no event out of order can change any more. What came after them is looked
# at itself: every key that occurs there is a candidate.
#
# elements   [ settled: in the index           | fresh ]
# window            [ start ...                     end ]      candidates = index since start, and fresh keys
#
# So candidates are all the keys that qualify and some that do not: whoever asks verifies them, key by key.

PARTS = 4  # levels of each size: the paper's p
_DENSE = 50_000  # keys up to which scanning a row beats walking a tree
_MOST = 2**40  # of one amount
_FINE = 20  # of a sum of floats, the threshold is about 2 ** _FINE units
_LEAST_EXPONENT = (
    -1022
)  # of a unit: `SUM(x) > 0` begins with the least float there is, of which none is a part


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
        fresh = np.unique(self._store.by_key(self._need, self._where, self._keys, settled, end)[0])
        found = self._find(max(start, self._store.forgotten_before), low, high)
        return Candidates(found if not len(fresh) else np.union1d(found, fresh))

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
        if self._need.component == "sum" and is_float:
            return index.candidates(start, max(1, math.floor(sort_value(low) / self._unit)), None)
        return index.candidates(start, max(low, 0), None if high == GREATEST else high)

    def _feed(self, settled: int, keys: int) -> None:
        """Bring the index up to element `settled`; O(p log K) per element and key, amortised."""
        begin = max(self._fed, self._store.dropped)
        if self._index is None:
            begin = self._store.dropped
            self._index = self._make("dense" if keys < _DENSE else "tree")
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
            if value.dtype == np.float64:  # more than any threshold in these units is enough
                with np.errstate(over="ignore"):
                    value = np.minimum(np.ceil(value / self._unit), _MOST)
            self._index.add(key, at, value.astype(np.int64))
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


FEW = 5_000  # keys that are always visited: no index could be faster
# What things cost, in cells that could be scanned meanwhile:
_FEED = 120  # to feed an index with a cell
_VISIT = 8  # to visit a cell of a candidate, wherever it lies
_COMPARE = 0.15  # to compare a key's answer that others have needed too
_DEARER = 4  # how much more an index must have earned after it was given up, each time


class KeyBand(NamedTuple):
    """Keys whose answer has a sort key from `low` to `high`."""

    low: int
    high: int
    width: int  # ids of keys are below it
    sharers: int = 1  # look-ups that would share one scan of all keys
    is_forced: bool = False  # whether the query asks for the index
    tolerance: float | None = None  # by what factor keys may miss the band; None: they are verified


class KeySearch(NamedTuple):
    """The keys whose `need`, from instant `start` to element number `end`, lies in a band.

    Elements below number `settled` cannot change any more.
    """

    need: Need
    start: int
    settled: int
    end: int
    band: KeyBand
    at_most: float = inf  # what a scan costs, if it need not visit every cell


@dataclass
class _Account:
    """A finder, and what was spent in vain so far."""

    finder: KeyFinder
    is_on: bool = False
    spent: float = 0
    price: float = 1.0  # of the index, in what feeding it costs


class Finders:
    """Finders of one store, as many as there are needs (and magnitudes of thresholds) looked for."""

    def __init__(self, store: Sequence, where: Expression | None, keys: tuple[Expression, ...]):
        self._store, self._where, self._keys = store, where, keys
        self._accounts: dict[tuple[Need, float, int], _Account] = {}

    def candidates(self, wanted: KeySearch) -> Candidates | None:
        """Ids, ascending, of all keys that qualify and some that do not; None if it is better to visit all."""
        band = wanted.band
        if why_not_indexed(wanted.need, band.low) or (band.width < FEW and not band.is_forced):
            return None
        parts = PARTS if band.tolerance is None else parts_for(band.tolerance, both=band.high < GREATEST)
        place = (wanted.need, unit_for(wanted.need, band.low), parts)
        account = self._accounts.get(place)
        if account is None:
            finder = KeyFinder(self._store, self._where, self._keys, *place)
            account = self._accounts[place] = _Account(finder)
        if not account.finder.is_usable(wanted.settled):
            return None
        if not account.is_on and not band.is_forced:
            account.spent += self._scan(wanted)
            account.is_on = account.spent >= account.price * self._whole()
            account.spent = 0 if account.is_on else account.spent
            return None
        return self._look_up(account, wanted)

    def _look_up(self, account: _Account, wanted: KeySearch) -> Candidates | None:
        store, finder, band = self._store, account.finder, wanted.band
        fed = store.count_by_key(wanted.settled - finder.pending(wanted.settled), wanted.settled)
        found = finder.candidates(wanted.start, wanted.settled, wanted.end, band.low, band.high, band.width)
        if found is None or band.is_forced:
            return found
        per_key = self._cells(wanted) / max(band.width, 1)
        cost = _FEED * fed + _VISIT * len(found.ids) * max(per_key, 1)
        account.spent = max(0.0, account.spent + cost - self._scan(wanted))
        if account.spent > self._whole():
            account.is_on, account.spent = False, 0
            account.price *= _DEARER
            finder.begin_again()
        return found

    def _cells(self, wanted: KeySearch) -> int:
        return self._store.count_by_key(self._store.run(wanted.start, 2**62)[0], wanted.end)

    def _scan(self, wanted: KeySearch) -> float:
        """What visiting all keys would cost this look-up."""
        cells = min(self._cells(wanted), wanted.at_most)
        return cells / wanted.band.sharers + _COMPARE * wanted.band.width

    def _whole(self) -> float:
        """What feeding an index with everything costs."""
        store = self._store
        return _FEED * store.count_by_key(store.dropped, store.dropped + len(store))

    def follow(self) -> None:
        """The store has changed."""
        for account in self._accounts.values():
            account.finder.follow()

    def needs(self) -> set[Need]:
        """What has been looked for."""
        return {need for need, *_ in self._accounts}

    def drop(self, need: Need) -> None:
        """It is not asked for any more."""
        self._accounts = {place: each for place, each in self._accounts.items() if place[0] != need}

    def renumber(self, new_id: Ints) -> None:
        for account in self._accounts.values():
            account.finder.renumber(new_id)

    def begin_again(self) -> None:
        for account in self._accounts.values():
            account.finder.begin_again()

    def nbytes(self) -> int:
        return sum(account.finder.nbytes() for account in self._accounts.values())

    def check(self) -> None:
        for account in self._accounts.values():
            account.finder.check()

    def __str__(self) -> str:
        shown = []
        for (need, *_), account in self._accounts.items():
            finder = account.finder
            if finder.form != "none":
                kind = "staircase_index" if need.component in ("max", "min") else "collective_index"
                shown.append(f"{kind} ({finder.form}) of {need}")
            else:
                shown.append(f"all keys are visited for {need}: {finder.refused or 'an index would not pay'}")
        return "; ".join(shown)
