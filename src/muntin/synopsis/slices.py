"""slices: fold events into (slice, key) cells as they arrive, merge cells at look-up.

| | |
|---|---|
| Full name | slices, with look-up by merging (panes of one granule, shared by all windows) |
| Answers | aggregates with fixed-size partials over time windows with SLIDE, keyed or not |
| Insert | O(1) per event and component, plus O(cells of the slices still open) per batch |
| Lookup | O(log s + C) for C cells in the window, all keys at once |
| Space | O(cells within the longest window): at most one per event, at most slices * keys |
| Shares | cells, whatever the window, aggregate or filter of an aggregate |
| Reference | Li et al., SIGMOD Record 2005 (panes); Patroumpas & Sellis, section 2.2 |

The edges of every window of the group fall on multiples of the granule, the greatest common divisor
of all sizes, offsets and slides. Cells lie in order of slice; only slices and keys that saw an event
have one, so silence and rare keys cost nothing:

    slice_start   [ 0s        10s   30s         ]
    slice_offset  [ 0         2     3         5 ]
    cell_key      [ a    b    a     b    c      ]
    sum of x      [ 7    1    4     4    9      ]

When a new window makes the granule finer, older slices stay as they are and newer ones get the finer
grid: windows on the old grid notice nothing, the new window is complete once its range lies in the
new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Array, Partial
from muntin.expression import Expression
from muntin.kernels.slices import assign_cells
from muntin.query import Input
from muntin.synopsis.columns import Columns
from muntin.synopsis.contract import (
    LONG_AGO,
    Arrays,
    Batch,
    Bools,
    Found,
    Ints,
    Need,
    Needs,
    Synopsis,
    storage,
)
from muntin.window import Window, span

_INT = np.dtype(np.int64)


class Slices(Synopsis):
    """Cells of one filtered stream and one set of keys."""

    name = "slices"

    def __init__(self, where: Expression | None, keys: tuple[Expression, ...]):
        self.where = where
        self.keys = keys
        self.needs: Needs = {}
        self.began_at = LONG_AGO
        self.forgotten_before = LONG_AGO
        # the grid in force from each instant on, newest last; every step divides the one before
        self._grid_from = np.zeros(0, np.int64)
        self._grid_step = np.zeros(0, np.int64)
        self._slices = Columns({"start": _INT, "cell": _INT})  # "cell": number of its first cell
        self._cells = Columns({"key": _INT})
        self._names: dict[Need, tuple[str, ...]] = {}  # columns of each component in the cells
        self._known_from: dict[Need, int] = {}

    def fit(self, needs: Needs, now: int | None) -> None:
        """Add or drop components, and refine the grid if a new window needs it; O(cells)."""
        self._fit_grid(granule(needs), now)
        self.needs = needs
        wanted = {need for some in needs.values() for need in some}
        for need in self._names.keys() - wanted:
            for name in self._names.pop(need):
                self._cells.remove(name)
            del self._known_from[need]
        step = int(self._grid_step[-1])
        for need in sorted(wanted - self._names.keys(), key=str):
            identity = COMPONENTS[need.component].identity(_dtype(need))
            self._names[need] = tuple(f"{need.component} {i} of {need.input}" for i in range(len(identity)))
            for name, (dtype, value) in zip(self._names[need], identity, strict=True):
                self._cells.add(name, dtype, value)
            self._known_from[need] = LONG_AGO if now is None else _round_up(now, step)

    def insert(self, batch: Batch) -> None:
        """Fold a batch into its cells; only slices from the first one it touches on are rewritten."""
        batch = batch.passing(self.where)
        if not len(batch):
            return
        event_slice = self._slice_of(batch.at)
        first = int(np.searchsorted(self._slices["start"], event_slice[0]))
        untouched = self._first_cell(first)
        old = {name: self._cells[name][untouched:].copy() for name in self._cells.names()}
        layout = _lay_out(
            self._slices["start"][first:], self._first_cells(first) - untouched, old["key"],
            event_slice, batch.key(self.keys),
        )  # fmt: skip
        fresh: Arrays = {"key": layout.key}
        lo, hi = np.zeros(1, np.int64), np.full(1, len(batch))
        for need, names in self._names.items():
            component = COMPONENTS[need.component]
            partial = component.start(_dtype(need), len(layout.key))
            for name, array in zip(names, partial, strict=True):
                array[layout.cell_of_old] = old[name]
                fresh[name] = array
            value, valid = _column(batch, need.input)
            component.fold(lo, hi, 0, layout.cell_of_event, batch.at, value, valid, partial)
        self._cells.truncate(untouched)
        self._cells.extend(fresh)
        self._slices.truncate(first)
        self._slices.extend(
            {"start": layout.start, "cell": layout.first_cell + untouched + self._cells.dropped}
        )

    def advance(self, kept_from: int) -> None:
        """Drop slices that no window reaches; O(1) amortised per cell."""
        self.kept_from = kept_from
        reach = max((window.size + window.slide for window in self.needs), default=0)
        gone = int(np.searchsorted(self._slices["start"], kept_from - reach))
        if gone:
            self.forgotten_before = int(self._end_of(self._slices["start"][gone - 1 : gone])[0])
            cells = self._first_cell(gone)
            self._slices.drop_first(gone)
            self._cells.drop_first(cells)
            current = int(np.searchsorted(self._grid_from, self.forgotten_before, side="right")) - 1
            self._grid_from, self._grid_step = self._grid_from[current:], self._grid_step[current:]

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], keys: Ints | None, width: int
    ) -> Found:
        start, end = instants - window.size, instants - window.to
        first_cells = self._first_cells(0)
        inside = self._inside(start, end)
        lo, hi = first_cells[inside[0]], first_cells[inside[1]]
        first, last = (int(lo.min()), int(hi.max())) if len(lo) else (0, 0)
        part = slice(first, max(first, last))
        key = self._cells["key"][part] if keys is None else keys[self._cells["key"][part]]
        partials: dict[Need, Partial] = {}
        for need in wanted:
            component = COMPONENTS[need.component]
            partials[need] = component.start(_dtype(need), len(instants) * width)
            cells = tuple(self._cells[name][part] for name in self._names[need])
            component.merge(lo - first, hi - first, width, key, cells, partials[need])
        known_from = max(
            self.began_at, self._grid_since(window), *(self._known_from[need] for need in wanted)
        )
        complete = self.covers(window, instants, start, self.forgotten_before, known_from)
        return Found(partials, start, end, complete, width)

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        lo, hi = self._inside(instants - window.size, instants - window.to)
        return np.asarray(hi > lo)

    def nbytes(self) -> int:
        return self._slices.nbytes() + self._cells.nbytes()

    def describe(self) -> str:
        return f"{len(self._slices):,} slices of {span(int(self._grid_step[-1]))}, {len(self._cells):,} cells"

    def snapshot(self) -> Arrays:
        meta = [self.began_at, self.kept_from, self.forgotten_before, self._cells.dropped]
        arrays: Arrays = {"meta": np.array(meta, np.int64)}
        arrays |= {"grid_from": self._grid_from, "grid_step": self._grid_step}
        arrays |= {f"slice {name}": self._slices[name].copy() for name in self._slices.names()}
        arrays |= {f"cell {name}": self._cells[name].copy() for name in self._cells.names()}
        for need, names in self._names.items():
            arrays[f"known {names[0]}"] = np.array([self._known_from[need]], np.int64)
        return arrays

    def restore(self, arrays: Arrays) -> None:
        self.began_at, self.kept_from, self.forgotten_before, dropped = (
            int(number) for number in arrays["meta"]
        )
        self._grid_from, self._grid_step = arrays["grid_from"].copy(), arrays["grid_step"].copy()
        self._slices.replace({name: arrays[f"slice {name}"] for name in self._slices.names()})
        self._cells.replace({name: arrays[f"cell {name}"] for name in self._cells.names()})
        self._cells.dropped = dropped
        self._known_from = {need: int(arrays[f"known {names[0]}"][0]) for need, names in self._names.items()}

    def check(self) -> None:
        self._slices.check()
        self._cells.check()
        start, first_cells = self._slices["start"], self._first_cells(0)
        # slices ascend and lie on the grid that was in force at their start
        assert bool(np.all(np.diff(start) > 0))
        assert bool(np.all(self._slice_of(start) == start))
        # every slice has a cell, and together they own all cells
        assert bool(np.all(np.diff(first_cells) > 0))
        assert first_cells[0] == 0
        # no key has two cells in one slice
        owner = np.repeat(np.arange(len(start)), np.diff(first_cells))
        assert len(np.unique(np.stack([owner, self._cells["key"]]), axis=1).T) == len(self._cells)
        # of every component it is known since when it has been folded
        assert self._known_from.keys() == self._names.keys()

    def _fit_grid(self, step: int, now: int | None) -> None:
        if not len(self._grid_step):
            self._grid_from, self._grid_step = np.array([LONG_AGO]), np.array([step])
            self.began_at = LONG_AGO if now is None else _round_up(now, step)
            return
        current = int(self._grid_step[-1])
        if now is None:
            self._grid_step[-1] = step  # nothing folded yet
        elif step % current:
            self._grid_from = np.append(self._grid_from, _round_up(now, current))
            self._grid_step = np.append(self._grid_step, gcd(step, current))

    def _first_cell(self, index: int) -> int:
        """Where in the cells slice `index` begins; one past the last cell after the last slice."""
        if index == len(self._slices):
            return len(self._cells)
        return int(self._slices["cell"][index]) - self._cells.dropped

    def _first_cells(self, index: int) -> Ints:
        """`_first_cell` of all slices from `index` on, with the end of the last."""
        return np.append(self._slices["cell"][index:] - self._cells.dropped, len(self._cells))

    def _inside(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """First slice and one past the last that lie within [start, end), for each window."""
        lo = np.searchsorted(self._slices["start"], start)
        hi = np.searchsorted(self._end_of(self._slices["start"]), end, side="right")
        return lo, np.maximum(lo, hi)

    def _grid(self, at: Ints) -> Ints:
        """Width of the slice that an instant falls in."""
        if len(self._grid_step) == 1:
            return np.broadcast_to(self._grid_step, at.shape)
        return self._grid_step[np.searchsorted(self._grid_from, at, side="right") - 1]

    def _slice_of(self, at: Ints) -> Ints:
        return at - at % self._grid(at)

    def _end_of(self, start: Ints) -> Ints:
        return start + self._grid(start)

    def _grid_since(self, window: Window) -> int:
        """The instant from which on the grid has all edges of `window`."""
        fits = window_granule(window) % self._grid_step == 0
        return int(self._grid_from[np.argmax(fits)])


class _Layout(NamedTuple):
    """Slices and cells after a batch, counted from the first slice that it touches."""

    start: Ints
    first_cell: Ints
    key: Ints  # of each cell
    cell_of_event: Ints
    cell_of_old: Ints


def _lay_out(old_start: Ints, old_offset: Ints, old_key: Ints, event_slice: Ints, event_key: Ints) -> _Layout:
    most_slices, most_cells = len(old_start) + len(event_slice), len(old_key) + len(event_slice)
    start, offset = np.empty(most_slices, np.int64), np.empty(most_slices + 1, np.int64)
    key, cell_of_event = np.empty(most_cells, np.int64), np.empty(len(event_slice), np.int64)
    cell_of_old = np.empty(len(old_key), np.int64)
    known = int(max(event_key.max(), old_key.max(initial=0))) + 1
    cell_of_key, slice_of_key = np.empty(known, np.int64), np.full(known, -1)
    slices, cells = assign_cells(  # type: ignore[no-untyped-call]
        event_slice, event_key, old_start, old_offset, old_key, cell_of_key, slice_of_key,
        start, offset, key, cell_of_event, cell_of_old,
    )  # fmt: skip
    return _Layout(start[:slices], offset[:slices], key[:cells], cell_of_event, cell_of_old)


def window_granule(window: Window) -> int:
    """The coarsest grid that has all edges of a window."""
    return gcd(window.size, window.to, window.slide)


def granule(windows: Needs) -> int:
    """The coarsest grid that has all edges of all windows."""
    return gcd(*(window_granule(window) for window in windows))


def _round_up(instant: int, step: int) -> int:
    return -(-instant // step) * step


def _dtype(need: Need) -> np.dtype:
    argument = need.input.argument
    return storage(argument.type) if argument is not None else np.dtype(np.int64)


def _column(batch: Batch, input: Input) -> tuple[Array, Bools]:
    if input.argument is None:
        value, valid = batch.at, np.ones(len(batch), np.bool_)
    else:
        value, valid = batch.columns[input.argument]
    if input.filter is not None:
        valid = valid & batch.masks[input.filter]
    return value, valid
