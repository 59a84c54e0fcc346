"""slices: fold events into (slice, key) cells as they arrive, merge cells at look-up.

| | |
|---|---|
| Full name | slices, with look-up by merging (panes of one granule, shared by all windows) |
| Answers | aggregates with fixed-size partials over time windows with SLIDE, keyed or not |
| Insert | O(1) per event and component; out of order, O(cells of the slices touched and later) per batch |
| Lookup | one key: O(its cells in the window); all keys: O(C) for C cells, or O(keys * log s) by key rows |
| Space | O(cells within the longest window): at most one per event, at most slices * keys |
| Shares | cells, whatever the window, aggregate or filter of an aggregate; windows that end together share a scan |
| Reference | Li et al., SIGMOD Record 2005 (panes); Patroumpas & Sellis, section 2.2 |

The state is a `slice_store`. Windows of all keys that end together are nested: each is the next
smaller one and a bit more, so one scan backwards in time answers all of them. Where most keys are
in most slices the scan goes by `key_rows` instead of cells, once the cells visited so far have cost
as much as the rows will.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import inf

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Ints
from muntin.expression import Expression
from muntin.key_index.finders import Finders, KeyBand, KeySearch
from muntin.key_index.foremost import Foremost, foremost
from muntin.key_index.heads import WindowHeads
from muntin.key_index.key_finder import Candidates
from muntin.store.key_rows import KeyRows
from muntin.store.key_window import KeyWindow
from muntin.store.needs import Need, Needs, dtype_of
from muntin.store.sequence import Located
from muntin.store.slice_store import SliceStore
from muntin.structure.synopsis import Asked, Found, Synopsis, TextOrder
from muntin.window import Window

_ROWS_READ = 10  # rows that a window is made of, more or less


class Slices(Synopsis[SliceStore]):
    """Time windows with SLIDE, per key, over a slice store."""

    name = "slices"

    def __init__(
        self, store: SliceStore, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        super().__init__(store, where, keys, text_order)
        self._rows: dict[Need, KeyRows] = {}
        self._finders = Finders(store, where, keys)

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """O(components that changed)."""
        for need in {*self._rows, *needs.components} if changed is None else changed:
            if need not in needs.components:
                self._rows.pop(need, None)
                self._finders.drop(need)
            elif need not in self._rows:
                self._rows[need] = KeyRows(self.store, need)
        return super().fit(needs, changed)

    def insert(self) -> None:
        """The store has folded the events already; O(components)."""
        for rows in self._rows.values():
            rows.follow()
        self._finders.follow()

    def key_reader(self, window: Window, needs: Sequence[Need]) -> KeyWindow:
        return KeyWindow(self.store, window, needs)

    def candidates(
        self, need: Need, window: Window, instant: int, settled: int, band: KeyBand
    ) -> Candidates | None:
        start = window.start(instant)
        end = self.store.run(start, instant)[1]
        final = min(end, self.store.run(LONG_AGO, settled)[1])
        at_most = _ROWS_READ * band.width if self._rows[need].is_on else inf
        return self._finders.candidates(KeySearch(need, start, final, end, band, at_most))

    def heads(self, need: Need, window: Window, instant: int, width: int) -> WindowHeads | None:
        lo, hi = self.store.run(instant - window.size, instant - window.to)
        return self._finders.heads(need, lo, hi, width)

    def foremost(
        self, need: Need, windows: Mapping[Window, int], width: int, many: int
    ) -> dict[Window, Foremost]:
        """O(cells of the longest window + keys * windows). No window is written down: the keys that come first are
        chosen before what is older is merged."""
        rows, found = self._rows[need], dict[Window, Foremost]()
        nowhere, nothing = np.array([-1]), rows.start(0)
        runs = {
            window: self.store.run(window.start(instant), instant - window.to)
            for window, instant in windows.items()
        }
        right, merged = -1, nothing
        for window, (lo, hi) in sorted(runs.items(), key=lambda each: (each[1][1], -each[1][0])):
            if hi != right:
                right = begin = hi
                merged = rows.start(width)
            if lo < begin:
                rows.read(np.array([lo]), begin, nothing, nowhere, width, merged)
                begin = lo
            first = foremost(need, merged, many)
            if first is not None:
                found[window] = first
        return found

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        if ids is None:
            return self.lookup_all({window: Asked(instants, wanted)}, width)[window]
        located = self.locate(window.start(instants), instants - window.to, instants)
        lo, hi = self._cells_of(located)
        partials: dict[Need, Partial] = {}
        for need in wanted:
            rows = self._rows[need]
            partials[need] = rows.start(len(instants) * len(ids))
            rows.merge_keys(ids, lo, hi, partials[need])
        return self.found(window, located, partials, width)

    def lookup_points(self, asked: Mapping[Window, Asked], ids: Ints | None) -> dict[Window, Found]:
        """O(cells of the key from the start of its window on) each."""
        if ids is None:
            return super().lookup_points(asked, None)
        found = {}
        for window, (instants, needs) in asked.items():
            located = self.store.locate(window.start(instants), instants - window.to)
            lo, hi = self._cells_of(located)
            partials = {need: self._rows[need].start(len(ids)) for need in needs}
            for need, into in partials.items():
                self._rows[need].merge_points(ids, lo, hi, into)
            found[window] = self.found(window, located, partials, 1)
        return found

    def _cells_of(self, located: Located) -> tuple[Ints, Ints]:
        """The first cell of windows, and one past their last, by number."""
        store = self.store
        first_cells = store.first_cells(0) + store.dropped_cells
        return first_cells[located.lo - store.dropped], first_cells[located.hi - store.dropped]

    def lookup_all(self, asked: Mapping[Window, Asked], width: int) -> dict[Window, Found]:
        """Windows of all keys, together: those that end at the same slice share one scan."""
        windows = list(asked)
        counts = [len(asked[window].instants) for window in windows]
        which = np.repeat(np.arange(len(windows)), counts)
        instants = np.concatenate([asked[window].instants for window in windows])
        start = np.concatenate([window.start(asked[window].instants) for window in windows])
        located = self.locate(start, instants - np.array([window.to for window in windows])[which], instants)
        lo, hi = located.lo - self.store.dropped, located.hi - self.store.dropped
        partials: list[dict[Need, Partial]] = [{} for _ in windows]
        needs = list(dict.fromkeys(need for each in asked.values() for need in each.needs))
        needs.sort(key=lambda need: -len(self._rows[need].start(0)))  # sums, which take longest, first
        # most windows want the same, and needs take long to compare
        sets = {id(each.needs): frozenset(each.needs) for each in asked.values()}
        which_set = [id(each.needs) for each in asked.values()]
        wanted = [
            np.array([in_set[each] for each in which_set])
            for in_set in ({each: need in some for each, some in sets.items()} for need in needs)
        ]
        places = [np.flatnonzero(wants[which]) for wants in wanted]
        # each component has rows of its own
        reading = [
            partial(self._read, need, lo[some], hi[some], width)
            for need, some in zip(needs, places, strict=True)
        ]
        slots = width * sum(map(len, places))
        for need, wants, read in zip(
            needs, wanted, self.store.crew.fit_for(slots).share(reading), strict=True
        ):
            some = np.flatnonzero(wants).tolist()
            spans = _spans([counts[place] * width for place in some])
            parts = zip(*([array[span] for span in spans] for array in read), strict=True)
            for place, part in zip(some, parts, strict=True):
                partials[place][need] = part
        spans = _spans(counts)
        runs = map(Located, *([side[span] for span in spans] for side in located))
        return {
            window: self.found(window, run, part, width)
            for window, run, part in zip(windows, runs, partials, strict=True)
        }

    def renumber_keys(self, new_id: Ints) -> None:
        for rows in self._rows.values():
            rows.begin_again()
        self._finders.renumber(new_id)

    def rebuild(self) -> None:
        for rows in self._rows.values():
            rows.begin_again()
        self._finders.begin_again()

    def nbytes(self) -> int:
        return sum(rows.nbytes() for rows in self._rows.values()) + self._finders.nbytes()

    def __str__(self) -> str:
        rows = sum(rows.is_on for rows in self._rows.values())
        shown = [f"key rows of {rows} components"] if rows else []
        return "; ".join([*shown, *filter(None, [str(self._finders)])])

    def check(self) -> None:
        for rows in self._rows.values():
            rows.check()
        self._finders.check()

    def _read(self, need: Need, lo: Ints, hi: Ints, width: int) -> Partial:
        """Partials of runs of slices, by index, for all keys; one scan per end."""
        out = COMPONENTS[need.component].room(dtype_of(need), len(lo) * width)  # all of it will be written
        order = np.lexsort((-lo, hi))
        ends = np.flatnonzero(np.diff(hi[order], prepend=-1))
        rows, visited = self._rows[need], 0
        for begin, end in zip(ends, [*ends[1:], len(order)], strict=True):
            some = order[begin:end]
            last = int(hi[some[0]]) + self.store.dropped
            cells = rows.read(lo[some] + self.store.dropped, last, out, some * width, width)
            visited += int(cells * _part_in_runs(int(hi[some[0]]), lo[some]))
        rows.consider(visited, width)
        return out


def _part_in_runs(hi: int, lo: Ints) -> float:
    """Which part of the slices of nested windows could be read by rows: a window that has one slice more than the next
    smaller one needs the cells of that slice.

    >>> _part_in_runs(10, np.array([9, 8, 4, 3, 0]))  # the windows have 1, 1, 4, 1 and 3 slices more
    0.7
    """
    more = -np.diff(lo, prepend=hi)
    return float(more[more > 1].sum() / max(more.sum(), 1))


def _spans(sizes: Sequence[int]) -> list[slice]:
    """Where things of some sizes lie that stand one after the other."""
    ends = list(accumulate(sizes, initial=0))
    return [slice(lo, hi) for lo, hi in pairwise(ends)]
