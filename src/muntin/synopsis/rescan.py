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

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from muntin.aggregate.component import COMPONENTS, HOLISTIC
from muntin.aggregate.contract import Array, Partial
from muntin.expression import Expression
from muntin.query import Input
from muntin.synopsis.contract import LONG_AGO, Arrays, Batch, Bools, Found, Ints, Need, Needs, Synopsis
from muntin.synopsis.ring import EventRing, key_column
from muntin.window import Window

# text is kept as codes; this gives the sort rank of every code, and the code of every rank
TextOrder = Callable[[Expression], tuple[Ints, Ints]]


class RingSynopsis(Synopsis):
    """A synopsis that reads its events from a shared ring instead of keeping its own."""

    def __init__(
        self, ring: EventRing, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        self.ring = ring
        self.where = where if ring.where is None else None  # what the ring has not filtered already
        self.keys = keys
        self.needs: Needs = {}
        self._text_order = text_order

    def fit(self, needs: Needs, now: int | None) -> None:
        self.needs = needs

    @abstractmethod
    def first_needed(self) -> int:
        """Index of the first event of the ring that a window looked up from `kept_from` on reaches."""

    def columns(self) -> tuple[set[Expression], set[Expression]]:
        """Arguments and predicates that the ring must keep for this synopsis."""
        inputs = {need.input for wanted in self.needs.values() for need in wanted}
        arguments = {input.argument for input in inputs if input.argument is not None}
        predicates = {input.filter for input in inputs if input.filter is not None}
        return arguments, predicates | ({self.where} if self.where else set())

    def insert(self, batch: Batch) -> None:
        """Nothing: the ring, inserted once per stream, is the state."""

    def reach(self) -> int:
        """How far back from an instant (or count) the longest window and its slide go."""
        return max((window.size + window.slide for window in self.needs), default=0)

    def nbytes(self) -> int:
        return 0  # the ring counts its own

    def snapshot(self) -> Arrays:
        return {"kept_from": np.array([self.kept_from], np.int64)}

    def restore(self, arrays: Arrays) -> None:
        self.kept_from = int(arrays["kept_from"][0])

    def check(self) -> None:
        # the ring has every column that the needs ask for
        arguments, predicates = self.columns()
        assert all(f"value {argument.sql}" in self.ring.known_from for argument in arguments)
        assert all(f"mask {predicate.sql}" in self.ring.known_from for predicate in predicates)

    def known_from(self, wanted: Sequence[Need]) -> int:
        """The instant from which every column of `wanted` has been kept."""
        names = [f"mask {self.where.sql}"] if self.where else []
        names += [key_column(self.keys)] if self.keys else []
        for need in wanted:
            names += [f"value {need.input.argument.sql}"] if need.input.argument else []
            names += [f"mask {need.input.filter.sql}"] if need.input.filter else []
        return max([self.ring.began_at] + [self.ring.known_from.get(name, LONG_AGO) for name in names])

    def _slots(self, part: slice, keys: Ints | None) -> Ints:
        """Slot of each event of a part of the ring."""
        if not self.keys:
            return np.zeros(part.stop - part.start, np.int64)
        ids: Ints = self.ring[key_column(self.keys)][part]
        return ids if keys is None else np.where(ids >= 0, keys[ids], -1)

    def _column(self, input: Input, part: slice) -> tuple[Array, Bools]:
        """Values of an input and which of them count, for a part of the ring."""
        if input.argument is None:
            value: Array = self.ring.at[part]
            valid = np.ones(len(value), np.bool_)
        else:
            value = self.ring[f"value {input.argument.sql}"][part]
            valid = self.ring[f"valid {input.argument.sql}"][part]
        for predicate in (self.where, input.filter):
            if predicate is not None:
                valid = valid & self.ring[f"mask {predicate.sql}"][part]
        return value, valid

    def _fold(self, need: Need, lo: Ints, hi: Ints, width: int, key: Ints, at: Ints, value: Array,
              valid: Bools) -> Partial:  # fmt: skip
        """Partial of one component over ranges of events."""
        slots = len(lo) * width
        if need.component == HOLISTIC:
            return collect_values(lo, hi, width, key, value, valid)
        component = COMPONENTS[need.component]
        argument = need.input.argument
        if argument is not None and need.component in ("min", "max") and is_text(argument):
            rank, by_rank = self._text_order(argument)
            state = component.start(np.dtype(np.int64), slots)
            component.fold(lo, hi, width, key, at, rank[value] if len(rank) else value, valid, state)
            found = (state[0] >= 0) & (state[0] < len(by_rank))  # identities stay as they are
            state[0][found] = by_rank[state[0][found]]
            return state
        state = component.start(value.dtype, slots)
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

    def advance(self, kept_from: int) -> None:
        """The ring drops what `first_needed` of all its synopses allows; O(1) here."""
        self.kept_from = kept_from

    def first_needed(self) -> int:
        return self.ring.find(self.kept_from - self.reach())

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], keys: Ints | None, width: int
    ) -> Found:
        start, end = instants - window.size, instants - window.to
        lo, hi = np.searchsorted(self.ring.at, start), np.searchsorted(self.ring.at, end)
        first = int(lo.min()) if len(lo) else 0
        part = slice(first, max(int(hi.max()) if len(hi) else 0, first))
        lo, hi = lo - first, hi - first
        slot, at = self._slots(part, keys), self.ring.at[part]
        partials = {}
        for need in wanted:
            value, valid = self._column(need.input, part)
            partials[need] = self._fold(need, lo, hi, width, slot, at, value, valid)
        complete = self.covers(window, instants, start, self.ring.forgotten_before, self.known_from(wanted))
        return Found(partials, start, end, complete, width)

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        at = self.ring.at
        return np.searchsorted(at, instants - window.size) < np.searchsorted(at, instants - window.to)


def is_text(argument: Expression) -> bool:
    """Whether values of an argument are kept as codes of a dictionary."""
    return bool(pa.types.is_string(argument.type) or pa.types.is_large_string(argument.type))


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
