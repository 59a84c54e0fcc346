"""The slice store: events folded into (slice, key) cells as they arrive.

The edges of every window it serves fall on a grid. Cells lie in order of slice; only slices and keys
that saw an event have one, so silence and rare keys cost nothing:

    slices  start  [ 0s        10s   30s         ]
            cell   [ 0         2     3           ]   number of the first cell
    cells   key    [ a    b    a     b    c      ]
            sum    [ 7    1    4     4    9      ]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Array, Partial
from muntin.expression import Expression
from muntin.kernels.slices import assign_cells
from muntin.query import Input
from muntin.synopsis.columns import Columns
from muntin.synopsis.contract import LONG_AGO, Arrays, Batch, Bools, Ints, Need, dtype_of
from muntin.synopsis.grid import Grid
from muntin.synopsis.sequence import Sequence
from muntin.window import Window, span

_INT = np.dtype(np.int64)


class SliceStore(Sequence):
    """Cells of one filtered stream and one set of keys. As a sequence (un-keyed) its elements are slices."""

    def __init__(self, where: Expression | None, keys: tuple[Expression, ...]):
        self.where = where
        self.keys = keys
        self._grid: Grid | None = None
        self._slices = Columns({"start": _INT, "cell": _INT})
        self._cells = Columns({"key": _INT})
        self._names: dict[Need, tuple[str, ...]] = {}  # columns of each component in the cells
        self._known_from: dict[Need, int] = {}

    def __len__(self) -> int:
        return len(self._slices)

    @property
    def dropped(self) -> int:
        return self._slices.dropped

    @property
    def grid(self) -> Grid:
        assert self._grid is not None, "the store has not been fitted"
        return self._grid

    @property
    def cell_key(self) -> Ints:
        return self._cells["key"]

    def cells(self, need: Need, part: slice) -> Partial:
        """The state arrays of a component, for some cells."""
        return tuple(self._cells[name][part] for name in self._names[need])

    def fit(self, wanted: set[Need], step: int, now: int | None) -> None:
        """Keep these components, on a grid with edges at multiples of `step`; O(cells) if any is new."""
        if self._grid is None:
            self._grid = Grid(step)
            self.began_at = LONG_AGO if now is None else now
        else:
            self._grid.refine(step, now)
        for need in self._names.keys() - wanted:
            for name in self._names.pop(need):
                self._cells.remove(name)
            del self._known_from[need]
        for need in sorted(wanted - self._names.keys(), key=str):
            identity = COMPONENTS[need.component].identity(dtype_of(need))
            self._names[need] = tuple(f"{i} {need}" for i in range(len(identity)))
            for name, (dtype, value) in zip(self._names[need], identity, strict=True):
                self._cells.add(name, dtype, value)
            self._known_from[need] = LONG_AGO if now is None else now

    def known_since(
        self, window: Window, need: Need, where: Expression | None, keys: tuple[Expression, ...]
    ) -> int:
        return max(self.began_at, self.grid.has_edges_from(window), self._known_from[need])

    def insert(self, batch: Batch) -> None:
        """Fold a batch into its cells; only slices from the first one it touches on are rewritten."""
        batch = batch.passing(self.where)
        self.changed_from = self.dropped + len(self)
        if not len(batch):
            return
        if not self._append_in_order(batch):
            self._rewrite(batch)

    def _append_in_order(self, batch: Batch) -> bool:
        """The common case without keys: time goes on, so slices are runs of the batch, the first of which
        may continue the last slice so far. False if the batch is another case."""
        start = int(self.grid.start_of(batch.at[:1])[0])
        last = int(self._slices["start"][-1]) if len(self) else start
        step, slices = self.grid.step, (int(batch.at[-1]) - start) // self.grid.step + 1
        if self.keys or start < last or not self.grid.is_uniform_from(start) or slices > 2 * len(batch) + 16:
            return False
        edges = np.searchsorted(batch.at, np.arange(start, start + (slices + 1) * step, step))
        held = np.flatnonzero(edges[1:] > edges[:-1])
        lo, hi = edges[held], edges[held + 1]
        continues = len(self) > 0 and start == last
        first = len(self) - continues
        self.changed_from = self.dropped + first
        fresh: Arrays = {"key": np.zeros(len(held), np.int64)}
        for need, names in self._names.items():
            component = COMPONENTS[need.component]
            partial = component.start(dtype_of(need), len(held))
            for name, array in zip(names, partial, strict=True):
                if continues:
                    array[0] = self._cells[name][-1]
                fresh[name] = array
            value, valid = _column(batch, need.input)
            component.fold_runs(lo, hi, batch.at, value, valid, partial)
        self._cells.truncate(first)
        self._cells.extend(fresh)
        self._slices.truncate(first)
        numbers = np.arange(len(held)) + first + self._cells.dropped
        self._slices.extend({"start": start + held * step, "cell": numbers})
        return True

    def _rewrite(self, batch: Batch) -> None:
        event_slice = self.grid.start_of(batch.at)
        first = int(np.searchsorted(self._slices["start"], event_slice[0]))
        self.changed_from = self.dropped + first
        untouched = self.first_cell(first)
        old = {name: self._cells[name][untouched:].copy() for name in self._cells.names()}
        layout = _lay_out(
            self._slices["start"][first:],
            self.first_cells(first) - untouched,
            old["key"],
            event_slice,
            batch.key(self.keys),
        )
        fresh: Arrays = {"key": layout.key}
        lo, hi = np.zeros(1, np.int64), np.full(1, len(batch))
        for need, names in self._names.items():
            component = COMPONENTS[need.component]
            partial = component.start(dtype_of(need), len(layout.key))
            for name, array in zip(names, partial, strict=True):
                array[layout.cell_of_old] = old[name]
                fresh[name] = array
            value, valid = _column(batch, need.input)
            component.fold(lo, hi, 0, layout.cell_of_event, batch.at, value, valid, partial)
        self._cells.truncate(untouched)
        self._cells.extend(fresh)
        self._slices.truncate(first)
        first_cell = layout.first_cell + untouched + self._cells.dropped
        self._slices.extend({"start": layout.start, "cell": first_cell})

    def forget(self, before: int) -> None:
        """Drop slices that begin before an instant; O(1) amortised per cell."""
        gone = int(np.searchsorted(self._slices["start"], before))
        if gone:
            self.forgotten_before = int(self.grid.end_of(self._slices["start"][gone - 1 : gone])[0])
            cells = self.first_cell(gone)
            self._slices.drop_first(gone)
            self._cells.drop_first(cells)
            self.grid.forget(self.forgotten_before)

    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Slices that lie wholly within [start, end)."""
        lo = np.searchsorted(self._slices["start"], start)
        hi = np.searchsorted(self.grid.end_of(self._slices["start"]), end, side="right")
        return lo, np.maximum(lo, hi)

    def run(self, start: int, end: int) -> tuple[int, int]:
        if self.grid.is_uniform:
            # whole within [start, end): those that begin before the last that would end too late
            return self._slices.find_run("start", start, end - self.grid.step + 1)
        lo, hi = self.runs(np.array([start]), np.array([end]))
        return int(lo[0]) + self.dropped, int(hi[0]) + self.dropped

    def lifted(self, need: Need, where: Expression | None, lo: int, hi: int) -> Partial:
        assert not self.keys, "slices hold one cell each only if nothing is keyed"
        assert where is None
        return self.cells(need, slice(lo, hi))

    def first_cell(self, index: int) -> int:
        """Where in the cells slice `index` begins; one past the last cell after the last slice."""
        if index == len(self._slices):
            return len(self._cells)
        return int(self._slices["cell"][index]) - self._cells.dropped

    def first_cells(self, index: int) -> Ints:
        """`first_cell` of all slices from `index` on, with the end of the last."""
        return np.append(self._slices["cell"][index:] - self._cells.dropped, len(self._cells))

    def nbytes(self) -> int:
        return self._slices.nbytes() + self._cells.nbytes()

    def __str__(self) -> str:
        return f"{len(self._slices):,} slices of {span(self.grid.step)}, {len(self._cells):,} cells"

    def snapshot(self) -> Arrays:
        meta = [self.began_at, self.forgotten_before, self._slices.dropped, self._cells.dropped]
        arrays: Arrays = {"meta": np.array(meta, np.int64)} | self.grid.snapshot()
        arrays |= {f"slice {name}": self._slices[name].copy() for name in self._slices.names()}
        arrays |= {f"cell {name}": self._cells[name].copy() for name in self._cells.names()}
        for need, names in self._names.items():
            arrays[f"known {names[0]}"] = np.array([self._known_from[need]], np.int64)
        return arrays

    def restore(self, arrays: Arrays) -> None:
        meta = [int(number) for number in arrays["meta"]]
        self.began_at, self.forgotten_before, self._slices.dropped, self._cells.dropped = meta
        self.grid.restore(arrays)
        self._slices.replace({name: arrays[f"slice {name}"] for name in self._slices.names()})
        self._cells.replace({name: arrays[f"cell {name}"] for name in self._cells.names()})
        self._known_from = {need: int(arrays[f"known {names[0]}"][0]) for need, names in self._names.items()}

    def check(self) -> None:
        self._slices.check()
        self._cells.check()
        start, first_cells = self._slices["start"], self.first_cells(0)
        # slices ascend and lie on the grid that was in force at their start
        assert bool(np.all(np.diff(start) > 0))
        assert bool(np.all(self.grid.start_of(start) == start))
        # every slice has a cell, and together they own all cells
        assert bool(np.all(np.diff(first_cells) > 0))
        assert first_cells[0] == 0
        # no key has two cells in one slice
        owner = np.repeat(np.arange(len(start)), np.diff(first_cells))
        assert len(np.unique(np.stack([owner, self._cells["key"]]), axis=1).T) == len(self._cells)
        # of every component it is known since when it has been folded
        assert self._known_from.keys() == self._names.keys()


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
    slices, cells = assign_cells(
        event_slice, event_key, old_start, old_offset, old_key, cell_of_key, slice_of_key,
        start, offset, key, cell_of_event, cell_of_old,
    )  # fmt: skip
    return _Layout(start[:slices], offset[:slices], key[:cells], cell_of_event, cell_of_old)


def _column(batch: Batch, input: Input) -> tuple[Array, Bools]:
    if input.argument is None:
        value, valid = batch.at, np.ones(len(batch), np.bool_)
    else:
        value, valid = batch.column(input.argument)
    if input.filter is not None:
        valid = valid & batch.mask(input.filter)
    return value, valid
