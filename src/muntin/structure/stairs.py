"""stairs: slices that get coarser with age, merged at look-up from the youngest level to the oldest.

| | |
|---|---|
| Full name | stairwise state: one granule per slide of the windows that reach a given age |
| Answers | aggregates with fixed-size partials over time windows with SLIDE of very different lengths, keyed or not |
| Insert | O(1) per event and component into the youngest level, and O(levels) amortised per cell as it ages |
| Lookup | one key: O(its granules in the window); all keys: O(C) for C cells, or O(keys * levels * log s) by key rows |
| Space | per key, the granules of each level: 964 for 1 minute by seconds, 1 hour by minutes and 30 days by hours |
| Shares | cells, whatever the window, aggregate or filter of an aggregate; windows that end together share a scan |
| Reference | Patroumpas & Sellis, section 3 (stairwise scheme), with steps that align by construction |

The state is `AgingSlices` (`store/aging_slices.py`). A window is a run of slices in each of the levels it reaches;
windows of all keys that end together are answered by one scan backwards through the levels. Thresholds of HAVING visit
all keys.
The paper merges granules by slide alone, and windows such as `[RANGE 6 SLIDE 2]` beside `[RANGE 12 SLIDE 4]`
lose their edges; here the step at each age is that of all windows which reach it (`levels_for`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.key_index.finders import KeyBand
from muntin.key_index.key_finder import Candidates
from muntin.store.aging_slices import AgingSlices
from muntin.store.key_window import KeyWindow
from muntin.store.needs import Need, dtype_of
from muntin.store.sequence import Located
from muntin.store.slice_store import SliceStore
from muntin.structure.synopsis import Asked, Found, Synopsis, TextOrder
from muntin.window import Window

_NOWHERE = -1


class _Step(NamedTuple):
    """A part of a scan, in one level: windows that begin there, and a last one that is nowhere if others go on."""

    level: int
    begins: Ints  # numbers of slices, descending
    last: int  # where all of them end
    window: Ints


class _Scans:
    """How windows [start, end) are read, whatever is read of them: those that end together share a scan backwards
    through the levels."""

    def __init__(self, levels: Sequence[SliceStore], start: Ints, end: Ints):
        self.windows = len(start)
        order = np.lexsort((-start, end))
        scans = np.split(order, np.flatnonzero(np.diff(end[order])) + 1) if len(order) else []
        runs = [level.runs(start, end) for level in levels]
        # the oldest level that a window has slices in
        reaches = np.max([number * (hi > lo) for number, (lo, hi) in enumerate(runs)], axis=0)
        self.steps = [
            [
                self._step(number, level, *runs[number], some, reaches)
                for number, level in enumerate(levels[:many])
            ]
            for some, many in ((each, int(reaches[each[-1]]) + 1) for each in scans)
        ]

    @staticmethod
    def _step(number: int, level: SliceStore, lo: Ints, hi: Ints, some: Ints, reaches: Ints) -> _Step:
        here, last = some[reaches[some] == number], int(hi[some].min())
        begins, which = np.minimum(lo[here], last), here
        if number < reaches[some[-1]]:  # older windows hold all of this level up to their end
            begins, which = np.append(begins, lo[some[-1]]), np.append(which, _NOWHERE)
        return _Step(number, begins + level.dropped, last + level.dropped, which)


class Stairs(Synopsis[AgingSlices]):
    """Time windows with SLIDE, per key, over aging slices."""

    name = "stairs"
    loses_edges = True

    def __init__(
        self,
        store: AgingSlices,
        where: Expression | None,
        keys: tuple[Expression, ...],
        text_order: TextOrder,
    ):
        super().__init__(store, where, keys, text_order)
        self._visited: dict[Need, None] = {}  # needs for which somebody asked for an index

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        if ids is None:
            return self.lookup_all({window: Asked(instants, wanted)}, width)[window]
        located = self._locate(window, instants)
        partials = {
            need: COMPONENTS[need.component].start(dtype_of(need), len(instants) * len(ids))
            for need in wanted
        }
        for level in self.store.levels:
            lo, hi = (
                level.first_cells(0)[side] + level.dropped_cells
                for side in level.runs(located.start, located.end)
            )
            for need, partial in partials.items():
                self.store.rows(level, need).merge_keys(ids, lo, hi, partial)
        return self.found(window, located, partials, width)

    def lookup_points(self, asked: Mapping[Window, Asked], ids: Ints | None) -> dict[Window, Found]:
        """O(cells of the key from the start of its window on) each."""
        if ids is None:
            return super().lookup_points(asked, None)
        return {window: self._at_points(window, *each, ids) for window, each in asked.items()}

    def _at_points(self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints) -> Found:
        start, end = window.start(instants), instants - window.to
        partials = {need: COMPONENTS[need.component].start(dtype_of(need), len(ids)) for need in wanted}
        for level in self.store.levels:
            lo, hi = (level.first_cells(0)[side] + level.dropped_cells for side in level.runs(start, end))
            for need, partial in partials.items():
                self.store.rows(level, need).merge_points(ids, lo, hi, partial)
        is_sharp = (start >= self.store.sharp_from(window)) | (end <= start)
        is_kept = instants >= window.settle(self.kept_from)
        nowhere = np.zeros(0, np.int64)
        is_whole = self.store.is_whole(start, end) & (is_sharp | is_kept)
        return self.found(window, Located(nowhere, nowhere, start, end, is_whole), partials, 1)

    def lookup_all(self, asked: Mapping[Window, Asked], width: int) -> dict[Window, Found]:
        """Windows of all keys, together: those that end together share one scan through the levels."""
        located = {window: self._locate(window, each.instants) for window, each in asked.items()}
        partials: dict[Window, dict[Need, Partial]] = {window: {} for window in asked}
        needs = list(dict.fromkeys(need for each in asked.values() for need in each.needs))
        wanting = [[window for window, each in asked.items() if need in each.needs] for need in needs]

        scans: dict[tuple[Window, ...], _Scans] = {}
        for among in map(tuple, wanting):
            if among not in scans:
                start, end = (
                    np.concatenate([getattr(located[window], side) for window in among])
                    for side in ("start", "end")
                )
                scans[among] = _Scans(self.store.levels, start, end)
        # each component has rows of its own
        reading = [
            functools.partial(self._read, need, scans[tuple(windows)], width)
            for need, windows in zip(needs, wanting, strict=True)
        ]
        slots = width * len(needs) * sum(len(each.instants) for each in asked.values())
        found = self.store.crew.fit_for(slots).share(reading)
        for need, windows, read in zip(needs, wanting, found, strict=True):
            edges = np.cumsum([0, *(len(located[window].start) * width for window in windows)])
            for window, begin, stop in zip(windows, edges[:-1], edges[1:], strict=True):
                partials[window][need] = tuple(array[begin:stop] for array in read)
        return {
            window: self.found(window, located[window], partial, width)
            for window, partial in partials.items()
        }

    def _read(self, need: Need, scans: _Scans, width: int) -> Partial:
        """Partials of windows for all keys; one scan per end."""
        component, dtype = COMPONENTS[need.component], dtype_of(need)
        out = component.room(dtype, scans.windows * width)  # every slot is written
        rows = [self.store.rows(level, need) for level in self.store.levels]
        visited = [0] * len(rows)
        for steps in scans.steps:
            newer = component.start(dtype, width)
            for number, ends, last, which in steps:
                slots = np.where(which == _NOWHERE, _NOWHERE, which * width)
                visited[number] += rows[number].read(ends, last, out, slots, width, newer)
        for each, cells in zip(rows, visited, strict=True):
            each.consider(cells, width)
        return out

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        start, end = window.start(instants), instants - window.to
        found = [hi > lo for lo, hi in (level.runs(start, end) for level in self.store.levels)]
        return np.asarray(np.logical_or.reduce(found))

    def _locate(self, window: Window, instants: Ints) -> Located:
        """Where a window stands; refused if edges that it once had are gone."""
        start, end = window.start(instants), instants - window.to
        sharp_from = self.store.sharp_from(window)
        nowhere = np.zeros(0, np.int64)  # its runs are those of each level
        is_sharp = (start >= sharp_from) | (end <= start)
        # queries stand at `kept_from` or later, their windows perhaps a slide of their own before
        if bool((instants < window.settle(self.kept_from)).any()):
            self.refuse_forgotten(Located(nowhere, nowhere, start, end, is_sharp), instants, sharp_from)
        is_whole = self.store.is_whole(start, end)
        return Located(nowhere, nowhere, start, end, is_whole)

    def key_reader(self, window: Window, needs: Sequence[Need]) -> KeyWindow:
        return KeyWindow(self.store, window, needs)

    def candidates(
        self, need: Need, window: Window, instant: int, settled: int, band: KeyBand
    ) -> Candidates | None:
        self._visited[need] = None
        return None

    def __str__(self) -> str:
        return "; ".join(f"all keys are visited for {need}: stairs have no index" for need in self._visited)
