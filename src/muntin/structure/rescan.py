"""rescan: keep the events, recompute every answer from them.

| | |
|---|---|
| Full name | rescan (materialize-none in Arasu & Widom 2004) |
| Answers | every aggregate, time windows, suffix or historical, keyed or not, at any instant |
| Insert | O(1) per event, the ring's own cost |
| Lookup | O(log n + W) for a window of W events, all keys at once |
| Space | the ring: O(events within the longest window), shared by all groups |
| Shares | events, whatever the window, aggregate, filter or key |
| Reference | Arasu & Widom, VLDB 2004, section 1.2 (the single historical snapshot) |

A look-up finds the ends of the window by binary search on time and folds the events between them
into one slot per key. It is the baseline that the other synopses are measured against, and the
fallback that is always right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

import numpy as np

from muntin.aggregates.component import COMPONENTS, HOLISTIC
from muntin.aggregates.contract import Array, Partial, is_text
from muntin.aggregates.holistic import count_distinct, pick_mode, pick_quantile
from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.key_index.finders import Finders, KeyBand, KeySearch
from muntin.key_index.key_finder import Candidates
from muntin.store.needs import Need, Needs
from muntin.store.ring import EventRing, columns_of, key_column
from muntin.structure.synopsis import Found, Synopsis, TextOrder, rank_of
from muntin.window import Window


class RingSynopsis(Synopsis[EventRing]):
    """A synopsis that reads single events."""

    def first_needed(self) -> int:
        """Index of the first event of the ring that a window looked up from `kept_from` on reaches."""
        return self.store.find(self.kept_from - self.needs.reach("time"))

    def columns(self) -> tuple[set[Expression], set[Expression]]:
        """Arguments and predicates that the ring must keep for this synopsis."""
        return columns_of(self.needs.components, self.where)

    def check(self) -> None:
        # the ring has every column that the needs ask for
        arguments, predicates = self.columns()
        assert all(f"value {argument.sql}" in self.store.known_from for argument in arguments)
        assert all(f"mask {predicate.sql}" in self.store.known_from for predicate in predicates)

    def _of_keys(self, part: slice, lo: Ints, hi: Ints, ids: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Of the events in a part of the ring those of some keys, with the slot of each; and ranges of the part as
        ranges of these. One pass over the part, whatever is then done with its few events."""
        key: Ints = self.store[key_column(self.keys)][part]
        if len(ids) == 1:
            kept = np.flatnonzero(key == ids[0])
            slot = np.zeros(len(kept), np.int64)
        else:
            slots = np.full(
                int(max(key.max(initial=-1), ids.max(initial=-1))) + 2, -1
            )  # the last is that of key -1
            slots[ids] = np.arange(len(ids))
            slot = slots[key]
            kept = np.flatnonzero(slot >= 0)
            slot = slot[kept]
        return kept + part.start, slot, np.searchsorted(kept, lo), np.searchsorted(kept, hi)

    def _fold(self, need: Need, lo: Ints, hi: Ints, width: int, key: Ints | None, at: Ints, value: Array,
              valid: Bools) -> Partial:  # fmt: skip
        """Partial of one component over ranges of events; without `key`, each range is one slot."""
        slots = len(lo) * width
        if need.component in HOLISTIC:
            slot = np.zeros(len(value), np.int64) if key is None else key
            values, offset = collect_values(lo, hi, width, slot, value, valid)
            if need.component == "distinct":
                return count_distinct(values, offset)
            if need.component == "mode":
                return pick_mode(values, offset, rank_of(need.input, self._text_order))
            return pick_quantile(values, offset, need.parameters[0])
        component = COMPONENTS[need.component]
        argument = need.input.argument
        if argument is not None and component.compares_values and is_text(argument.type):
            rank, by_rank = self._text_order(argument)
            state = component.start(np.dtype(np.int64), slots)
            ranked = rank[value] if len(rank) else value
            if key is None:
                component.fold_runs(lo, hi, at, ranked, valid, state)
            else:
                component.fold(lo, hi, width, key, at, ranked, valid, state)
            found = (state[0] >= 0) & (state[0] < len(by_rank))  # identities stay as they are
            state[0][found] = by_rank[state[0][found]]
            return state
        state = component.start(value.dtype, slots)
        if key is None:
            component.fold_runs(lo, hi, at, value, valid, state)
        else:
            component.fold(lo, hi, width, key, at, value, valid, state)
        return state


class Rescan(RingSynopsis):
    """Time windows over the stream's ring.

    The events at seconds 1, 4, 5 hold 6, 1, 2; `[RANGE 3 SECONDS]` at second 6 folds those with
    3 <= ts < 6:

    >>> from muntin import Engine
    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts")
    >>> engine.register("SELECT /*+ SYNOPSIS(rescan) */ SUM(x) AS total FROM s [RANGE 3 SECONDS]", "last")
    >>> engine.push("s", {"ts": [1_000_000, 4_000_000, 5_000_000], "x": [6, 1, 2]})
    >>> engine.lookup("last", at=6_000_000)["total"].to_pylist()
    [3]
    """

    name = "rescan"

    def __init__(
        self, store: EventRing, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        super().__init__(store, where, keys, text_order)
        self._finders = Finders(store, where, keys)

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """O(components that changed)."""
        for need in self._finders.needs() if changed is None else changed:
            if need not in needs.components:
                self._finders.drop(need)
        return super().fit(needs, changed)

    def insert(self) -> None:
        self._finders.follow()

    def candidates(
        self, need: Need, window: Window, instant: int, settled: int, band: KeyBand
    ) -> Candidates | None:
        return self._candidates(need, window, instant, settled, band)

    def _candidates(self, need: Need, window: Window, instant: int, settled: int, band: KeyBand,
                    visit: float = 0) -> Candidates | None:  # fmt: skip
        """`visit` is what it costs to read one key, if that need not be to pass over all events."""
        start = window.start(instant)
        end, final = (self.store.find(edge) + self.store.dropped for edge in (instant, min(settled, instant)))
        at_most = visit * band.width or inf
        return self._finders.candidates(KeySearch(need, start, final, end, band, at_most, visit))

    def renumber_keys(self, new_id: Ints) -> None:
        self._finders.renumber(new_id)

    def rebuild(self) -> None:
        self._finders.begin_again()

    def nbytes(self) -> int:
        return self._finders.nbytes()

    def __str__(self) -> str:
        return str(self._finders)

    def check(self) -> None:
        super().check()
        self._finders.check()

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        located = self.locate(window.start(instants), instants - window.to, instants)
        lo, hi = located.lo - self.store.dropped, located.hi - self.store.dropped
        first = int(lo.min()) if len(lo) else 0
        part = slice(first, max(int(hi.max()) if len(hi) else 0, first))
        lo, hi = lo - first, hi - first
        events: slice | Ints = part
        slot: Ints | None = None
        if self.keys and ids is None:
            slot = self.store[key_column(self.keys)][part]
        elif self.keys and ids is not None:
            events, slot, lo, hi = self._of_keys(part, lo, hi, ids)
        at = self.store.at[events]
        partials = {}
        for need in wanted:
            value, valid = self.store.column(need.input, self.where, events)
            partials[need] = self._fold(need, lo, hi, width, slot, at, value, valid)
        return self.found(window, located, partials, width)


def collect_values(lo: Ints, hi: Ints, width: int, key: Ints, value: Array, valid: Bools) -> Partial:
    """The values of each slot in ascending order (NaN last), end to end, and their offsets."""
    length = hi - lo
    index = np.arange(length.sum()) + np.repeat(lo - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    slot = np.repeat(np.arange(len(lo)) * width, length) + key[index]
    kept = valid[index] & (key[index] >= 0)
    index, slot = index[kept], slot[kept]
    order = np.lexsort((value[index], slot))
    offset = np.searchsorted(slot[order], np.arange(len(lo) * width + 1))
    return value[index][order], offset
