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
from muntin.key_index.collective_index import parts_for
from muntin.key_index.heads import DEPTH, Heads, WindowHeads
from muntin.key_index.key_finder import DENSE, Candidates, KeyFinder, unit_for, why_not_indexed
from muntin.store.needs import Need
from muntin.store.sequence import Sequence

FEW = 5_000  # keys that are always visited, if their cells lie side by side: no index could be faster
FEW_RUNS = 1_000  # the same where each key is searched for
PARTS = 4  # levels of each size: the paper's p
PARTS_OF_EVENTS = 2  # of sums: an amount changes many levels, and a candidate is read in no time
# What things cost, in cells, or events, that could be scanned meanwhile:
_FEED = 120  # to feed an index with a cell
_FEED_EVENT = {"count": (14, 50), "sum": (50, 80), "max": (18, 140), "min": (18, 140)}  # dense, and tree
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
    visit: float = 0  # what it costs to read one key; 0: to visit its cells


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
        self._heads: dict[Need, Heads] = {}  # of slices, for the keys that come first

    def heads(self, need: Need, lo: int, hi: int, width: int) -> WindowHeads | None:
        """The greatest cells of the slices from number `lo` to `hi`; None if it is better to visit all keys."""
        if width < FEW or (hi - lo) * DEPTH > width:
            return None
        if need not in self._heads:
            self._heads[need] = Heads(self._store, self._where, self._keys, need)
        return self._heads[need].of(lo, hi)

    def candidates(self, wanted: KeySearch) -> Candidates | None:
        """Ids, ascending, of all keys that qualify and some that do not; None if it is better to visit all."""
        band = wanted.band
        few = FEW_RUNS if self._store.holds_events else FEW
        if why_not_indexed(wanted.need, band.low) or (band.width < few and not band.is_forced):
            return None
        # candidates are read and compared in any case, so that a tolerance may have fewer parts, and needs no more
        parts = PARTS_OF_EVENTS if self._store.holds_events and wanted.need.component == "sum" else PARTS
        if band.tolerance is not None:
            parts = min(parts, parts_for(band.tolerance, both=band.high < GREATEST))
        place = (wanted.need, unit_for(wanted.need, band.low), parts)
        account = self._accounts.get(place)
        if account is None:
            finder = KeyFinder(self._store, self._where, self._keys, *place)
            account = self._accounts[place] = _Account(finder)
        if not account.finder.is_usable(wanted.settled):
            return None
        if not account.is_on and not band.is_forced:
            account.spent += self._scan(wanted)
            # what others have fed already costs nothing any more
            account.is_on = account.spent >= account.price * self._feed(wanted) * self._pending(
                account, wanted
            )
            account.spent = 0 if account.is_on else account.spent
            return None
        return self._look_up(account, wanted)

    def _look_up(self, account: _Account, wanted: KeySearch) -> Candidates | None:
        finder, band = account.finder, wanted.band
        fed = self._pending(account, wanted)
        found = finder.candidates(wanted.start, wanted.settled, wanted.end, band.low, band.high, band.width)
        if found is None or band.is_forced:
            return found
        visit = wanted.visit or _VISIT * max(self._cells(wanted) / max(band.width, 1), 1)
        cost = self._feed(wanted) * fed + visit * len(found.ids)
        account.spent = max(0.0, account.spent + cost - self._scan(wanted))
        if account.spent > self._whole(wanted):
            account.is_on, account.spent = False, 0
            account.price *= _DEARER
            finder.begin_again()
        return found

    def _pending(self, account: _Account, wanted: KeySearch) -> int:
        """How much has to be fed before an index can be looked up."""
        pending = account.finder.pending(wanted.settled)
        return self._store.count_by_key(wanted.settled - pending, wanted.settled)

    def _cells(self, wanted: KeySearch) -> int:
        return self._store.count_by_key(self._store.run(wanted.start, 2**62)[0], wanted.end)

    def _scan(self, wanted: KeySearch) -> float:
        """What visiting all keys would cost this look-up."""
        cells = min(self._cells(wanted), wanted.at_most)
        return cells / wanted.band.sharers + _COMPARE * wanted.band.width

    def _whole(self, wanted: KeySearch) -> float:
        """What feeding an index with everything costs."""
        store = self._store
        return self._feed(wanted) * store.count_by_key(store.dropped, store.dropped + len(store))

    def _feed(self, wanted: KeySearch) -> float:
        """What feeding an index with one element costs."""
        if not self._store.holds_events:
            return _FEED
        dense, tree = _FEED_EVENT[wanted.need.component]
        return dense if wanted.band.width < DENSE else tree

    def follow(self) -> None:
        """The store has changed."""
        for account in self._accounts.values():
            account.finder.follow()
        for heads in self._heads.values():
            heads.follow()

    def needs(self) -> set[Need]:
        """What has been looked for."""
        return {need for need, *_ in self._accounts} | self._heads.keys()

    def drop(self, need: Need) -> None:
        """It is not asked for any more."""
        self._accounts = {place: each for place, each in self._accounts.items() if place[0] != need}
        self._heads.pop(need, None)

    def renumber(self, new_id: Ints) -> None:
        for account in self._accounts.values():
            account.finder.renumber(new_id)
        for heads in self._heads.values():
            heads.renumber(new_id)

    def begin_again(self) -> None:
        for account in self._accounts.values():
            account.finder.begin_again()
        self._heads.clear()

    def nbytes(self) -> int:
        indexes = sum(account.finder.nbytes() for account in self._accounts.values())
        return indexes + sum(heads.nbytes() for heads in self._heads.values())

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
        shown += [f"heads of slices of {need}" for need in self._heads]
        return "; ".join(shown)
