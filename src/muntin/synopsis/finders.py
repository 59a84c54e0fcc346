"""Finders: the indexes by which a synopsis finds the keys whose answer lies in a range, while they pay.

To visit all keys costs as much as the window has cells; to look up an index costs as much as there are
candidates, but it has to be fed every cell first, and that costs far more than to scan one. So an
index is made once scans have cost what feeding it will, and given up once it has cost that much more
than scanning would have (as one decides whether to rent skis or to buy them): whatever comes, the
total is never much worse than with the better of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from muntin.arrays import Ints
from muntin.band import GREATEST
from muntin.expression import Expression
from muntin.synopsis.key_finder import PARTS, Candidates, KeyFinder, unit_for, why_not_indexed
from muntin.synopsis.levels import parts_for
from muntin.synopsis.need import Need
from muntin.synopsis.sequence import Sequence

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


class Wanted(NamedTuple):
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

    def candidates(self, wanted: Wanted) -> Candidates | None:
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

    def _look_up(self, account: _Account, wanted: Wanted) -> Candidates | None:
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

    def _cells(self, wanted: Wanted) -> int:
        return self._store.count_by_key(self._store.run(wanted.start, 2**62)[0], wanted.end)

    def _scan(self, wanted: Wanted) -> float:
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
