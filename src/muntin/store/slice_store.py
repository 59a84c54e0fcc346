"""The slice store: events folded into (slice, key) cells as they arrive.

The edges of every window it serves fall on a grid. Cells lie in order of slice; only slices and keys
that saw an event have one, so silence and rare keys cost nothing:

    slices  start  [ 0s        10s   30s         ]
            cell   [ 0         2     3           ]   number of the first cell
    cells   key    [ a    b    a     b    c      ]
            prior  [ -    -    0     1    -      ]   the key's cell before
            sum    [ 7    1    4     4    9      ]

A window of all keys is a run of cells; a window of one key is a part of its chain (`chains.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from typing import Any

import numpy as np

from muntin.aggregates.component import COMPONENTS, cells_of
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.store.any_order import in_slices
from muntin.store.batch import Batch
from muntin.store.cells import (
    Cells,
    append_each,
    arrange,
    fold_cells,
    fold_runs,
    mark_codes,
    renumber_codes,
    saved_cells,
    saved_slices,
)
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.dealt import Into, append_together
from muntin.store.grid import Grid, Runs, runs_in_order
from muntin.store.needs import Need, dtype_of
from muntin.store.saved import COUNTS, INSTANTS, Saved
from muntin.store.sequence import Reader, Sequence, Wanted
from muntin.store.together import Together, together
from muntin.window import Window, span

_INT = np.dtype(np.int64)


class SliceStore(Sequence):
    """Cells of one filtered stream and one set of keys. As a sequence (un-keyed) its elements are slices."""

    def __init__(self, where: Expression | None, keys: tuple[Expression, ...]):
        self.where = where
        self.keys = keys
        self._grid: Grid | None = None
        self._slices = Columns({"start": _INT, "cell": _INT})
        self._cells = Columns({"key": _INT, "prior": _INT} if keys else {"key": _INT})
        self.chains = Chains()
        self._names: dict[Need, tuple[str, ...]] = {}  # columns of each component in the cells
        self._together: Together | None = None  # how all of them are appended at once
        self._known_from: dict[Need, int] = {}
        self.version = 0  # changes whenever cells come, go or move

    def __len__(self) -> int:
        return len(self._slices)

    @property
    def dropped(self) -> int:
        return self._slices.dropped

    @property
    def youngest(self) -> SliceStore:
        return self

    @property
    def levels(self) -> list[SliceStore]:
        return [self]

    @property
    def unit(self) -> int:
        return self.grid.step

    def elements_in(self, span: int) -> float:
        return float(min(span // self.grid.step, len(self)))

    @property
    def grid(self) -> Grid:
        assert self._grid is not None, "the store has not been fitted"
        return self._grid

    @property
    def needs(self) -> tuple[Need, ...]:
        """The components in its cells."""
        return tuple(self._names)

    @property
    def slice_start(self) -> Ints:
        return self._slices["start"]

    @property
    def cell_key(self) -> Ints:
        return self._cells["key"]

    @property
    def cell_prior(self) -> Ints:
        """For each cell the number of the one before it of the same key."""
        return self._cells["prior"]

    @property
    def dropped_cells(self) -> int:
        """Number of the oldest cell kept."""
        return self._cells.dropped

    def cells_of(self, need: Need) -> Partial:
        """The state arrays of a component."""
        return self.cells_named(self._names[need])

    def names_of(self, need: Need) -> tuple[str, ...]:
        """What the state arrays of a component are called for as long as it is kept."""
        return self._names[need]

    def cells_named(self, names: tuple[str, ...]) -> Partial:
        """`cells_of`, for those who remember the names: to hash a need costs more than to follow a chain."""
        return tuple(map(self._cells.__getitem__, names))

    def typed_cells(self, need: Need) -> Any:
        """The same, as kernels take them that serve every component."""
        return cells_of(need.component, dtype_of(need), self.cells_of(need))

    def columns_of_cells(self) -> Arrays:
        """All arrays of the cells, by name: those of the same components are called the same in every store."""
        return {name: self._cells[name] for name in self._cells.names()}

    def cell_number(self, number: int) -> int:
        """Number of the first cell of slice `number`, or of the next cell to come after the last slice."""
        index = number - self._slices.dropped
        cells = self._slices["cell"]
        return int(cells[index]) if index < len(cells) else self._cells.dropped + len(self._cells)

    def cells(self, need: Need, part: slice) -> Partial:
        """The state arrays of a component, for some cells."""
        return tuple(self._cells[name][part] for name in self._names[need])

    def serve(self, wanted: Wanted, changed: Mapping[Need, bool], now: int | None) -> None:
        self.fit(changed, wanted.step, now)

    def fit(self, changed: Mapping[Need, bool], step: int, now: int | None) -> None:
        """Have edges at multiples of `step` from now on; keep the components that are True in `changed`, and no
        longer those that are False. O(cells) for each that is new."""
        self.version += 1
        if self._grid is None:
            self._grid = Grid(step)
            self.began_at = LONG_AGO if now is None else now
        else:
            self._grid.fit(step, now)
        for need in sorted(changed, key=str):
            if changed[need] and need not in self._names:
                self._add(need, LONG_AGO if now is None else now)
            elif not changed[need] and need in self._names:
                for name in self._names.pop(need):
                    self._cells.remove(name)
                del self._known_from[need]
        self._together = together(self._names)

    def _add(self, need: Need, known_from: int) -> None:
        identity = COMPONENTS[need.component].identity(dtype_of(need))
        self._names[need] = tuple(f"{i} {need}" for i in range(len(identity)))
        for name, (dtype, value) in zip(self._names[need], identity, strict=True):
            self._cells.add(name, dtype, value)
        self._known_from[need] = known_from

    def known_since(
        self, window: Window, need: Need, where: Expression | None, keys: tuple[Expression, ...]
    ) -> int:
        return max(self.began_at, self.grid.has_edges_from(window), self._known_from[need])

    def sharp_from(self, window: Window) -> int:
        """The instant from which on nothing that a window needs has been dropped."""
        return self.forgotten_before

    def insert(self, batch: Batch) -> None:
        """Fold a batch into its cells; only slices from the first one it touches on are rewritten."""
        batch = self.placeable(batch.passing(self.where))
        self.changed_from = self.dropped + len(self)
        if not len(batch):
            return
        self.version += 1
        batch = batch.in_order() if self.keys else in_slices(batch, self.grid, self.needs)
        runs = runs_in_order(batch.at, self.grid, int(self.slice_start[-1]) if len(self) else None)
        if runs is None:
            self._rewrite(batch)
        elif self.keys:
            self._append_keyed(batch, runs)
        else:
            self._append(batch, runs)

    def _append(self, batch: Batch, runs: Runs) -> None:
        """One cell per slice, without keys; the last one goes on in its place."""
        old, made = int(runs.continues), len(runs.start) - runs.continues
        self.changed_from = self.dropped + len(self) - old
        fresh: Arrays = {"key": np.zeros(made, np.int64)}
        for need, names in self._names.items():
            if old:
                cell = tuple(self._cells[name][-1:] for name in names)
                fold_runs(batch, runs.lo[:1], runs.hi[:1], need, cell)
            if made:
                partial = COMPONENTS[need.component].start(dtype_of(need), made)
                fold_runs(batch, runs.lo[old:], runs.hi[old:], need, partial)
                fresh |= zip(names, partial, strict=True)
        if made:
            numbers = np.arange(made) + len(self) + self._cells.dropped
            self._cells.extend(fresh)
            self._slices.extend({"start": runs.start[old:], "cell": numbers})

    def _append_keyed(self, batch: Batch, runs: Runs) -> None:
        """Cells of new slices, or new cells of the last one; the rest stays where it is. O(events)."""
        first = len(self) - runs.continues
        begin = self.first_cell(first) + self._cells.dropped
        self.changed_from = self.dropped + first
        where, key, lo, hi = (self._cells, self.chains), batch.key(self.keys), runs.lo, runs.hi
        if self._together is None or isinstance(batch, Cells):
            first_cell = append_each(self.crew, *where, self._names, batch, lo, hi, key, begin)
        else:
            into = Into(*where, self._together)
            first_cell = append_together(self.crew, into, self._together.read(batch), lo, hi, key, begin)
        self._slices.truncate(first)
        self._slices.extend({"start": runs.start, "cell": first_cell})

    def _rewrite(self, batch: Batch) -> None:
        """Lay out anew all slices from the first one that the batch touches on."""
        event_slice = self.grid.starts_of(batch.at)
        first = int(np.searchsorted(self._slices["start"], event_slice[0]))
        self.changed_from = self.dropped + first
        untouched = self.first_cell(first)
        old = {name: self._cells[name][untouched:].copy() for name in self._cells.names()}
        arranged = arrange(
            self._slices["start"][first:],
            self.first_cells(first) - untouched,
            old["key"],
            event_slice,
            batch.key(self.keys),
        )
        fresh: Arrays = {"key": arranged.key}
        if self.keys:
            self.chains.unlink(old["key"], old["prior"])
            fresh["prior"] = self.chains.link(arranged.key, untouched + self._cells.dropped)
        partials: dict[Need, Partial] = {}
        for need, names in self._names.items():
            partials[need] = COMPONENTS[need.component].start(dtype_of(need), len(arranged.key))
            for name, array in zip(names, partials[need], strict=True):
                array[arranged.cell_of_old] = old[name]
                fresh[name] = array
        fold_cells(batch, arranged.cell_of_event, 0, partials)
        self._cells.truncate(untouched)
        self._cells.extend(fresh)
        self._slices.truncate(first)
        first_cell = arranged.first_cell + untouched + self._cells.dropped
        self._slices.extend({"start": arranged.start, "cell": first_cell})

    def by_key(
        self, need: Need, where: Expression | None, keys: tuple[Expression, ...], lo: int, hi: int
    ) -> tuple[Ints, Ints, Partial]:
        first, last = (max(number, self.dropped) - self.dropped for number in (lo, hi))
        edges = self.first_cells(0)[first : last + 1] if last > first else np.zeros(1, np.int64)
        part = slice(int(edges[0]), int(edges[-1]))
        at = np.repeat(self._slices["start"][first:last], np.diff(edges))
        return self.cell_key[part], at, self.cells(need, part)

    def count_by_key(self, lo: int, hi: int) -> int:
        first, last = (min(max(number - self.dropped, 0), len(self)) for number in (lo, hi))
        return max(0, self.first_cell(last) - self.first_cell(first))

    def mark_keys(self, keys: tuple[Expression, ...], used: Bools) -> None:
        if keys == self.keys:
            used[self.cell_key] = True

    def renumber_keys(self, keys: tuple[Expression, ...], new_id: Ints) -> None:
        if keys == self.keys:
            self.version += 1
            self.cell_key[:] = new_id[self.cell_key]
            self.chains.renumber(new_id)

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        mark_codes(self._cells, self._names, argument, used)

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        renumber_codes(self._cells, self._names, argument, new_code)

    def release(self, readers: Many[Reader], settled: int) -> None:
        self.forget(min(each.kept_from - each.needs.reach("time") for each in readers))

    def forget(self, before: int) -> None:
        """Drop slices that begin before an instant; O(1) amortised per cell."""
        gone = int(np.searchsorted(self._slices["start"], before))
        if gone:
            self.forgotten_before = int(self.grid.end_of(self._slices["start"][gone - 1 : gone])[0])
            self.hand_over(gone)
            self.grid.forget(self.forgotten_before)

    def hand_over(self, slices: int) -> None:
        """Give up the oldest slices, which another store has taken over."""
        self.version += 1
        self._cells.drop_first(self.first_cell(slices))
        self._slices.drop_first(slices)

    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Slices that lie wholly within [start, end)."""
        starts = self._slices["start"]
        lo = starts.searchsorted(start)
        return lo, np.maximum(lo, starts.searchsorted(self.grid.last_whole(end)))

    def edges(self, lo: int, hi: int) -> tuple[Ints, Ints]:
        start = self._slices["start"][lo:hi]
        return start, self.grid.end_of(start)

    def run(self, start: int, end: int) -> tuple[int, int]:
        grid = self.grid
        if grid.is_uniform:
            # whole within [start, end): those that begin before the last that would end too late
            return self._slices.find_run("start", start, end - grid.step + 1)
        lo, hi = self._slices.find_run("start", start, int(grid.last_whole(end)))
        return lo, max(lo, hi)

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
        return np.concatenate((self._slices["cell"][index:] - self._cells.dropped, (len(self._cells),)))

    def nbytes(self) -> int:
        return self._slices.nbytes() + self._cells.nbytes() + (self.chains.nbytes() if self.keys else 0)

    def held_bytes(self) -> int:
        return self._slices.held_bytes() + self._cells.held_bytes()

    def __str__(self) -> str:
        return f"{len(self._slices):,} slices of {span(self.grid.step)}, {len(self._cells):,} cells"

    def snapshot(self) -> Arrays:
        meta = [self.began_at, self.forgotten_before, self._slices.dropped, self._cells.dropped]
        arrays: Arrays = {"meta": np.array(meta, np.int64)} | self.grid.snapshot()
        arrays |= {f"slice {name}": self._slices[name].copy() for name in self._slices.names()}
        arrays |= {
            f"cell {name}": self._cells[name].copy() for name in self._cells.names() if name != "prior"
        }
        for need, names in self._names.items():
            arrays[f"known {names[0]}"] = np.array([self._known_from[need]], np.int64)
        return arrays

    def restore(self, saved: Saved) -> None:
        self.version += 1
        meta = saved.numbers("meta", INSTANTS, INSTANTS, COUNTS, COUNTS)
        self.began_at, self.forgotten_before, dropped, dropped_cells = meta
        self.grid.restore(saved)
        cells = saved_cells(saved, self.keys, self._names, self._cells)
        if self.keys:  # chains follow from the keys
            cells["prior"] = self.chains.rebuild(cells["key"], dropped_cells)
        self._slices.replace(self._saved_slices(saved, dropped_cells, len(cells["key"])))
        self._cells.replace(cells)
        self._slices.dropped, self._cells.dropped = dropped, dropped_cells
        for need, names in self._names.items():
            (self._known_from[need],) = saved.numbers(f"known {names[0]}", INSTANTS)

    def _saved_slices(self, saved: Saved, first: int, cells: int) -> Arrays:
        return saved_slices(saved, first, cells, self.grid)

    def check(self) -> None:
        self._slices.check()
        self._cells.check()
        start, first_cells = self._slices["start"], self.first_cells(0)
        assert bool(np.all(np.diff(start) > 0))
        self._check_bounds()
        # every slice has a cell, and together they own all cells
        assert bool(np.all(np.diff(first_cells) > 0))
        assert first_cells[0] == 0
        # no key has two cells in one slice
        owner = np.repeat(np.arange(len(start)), np.diff(first_cells))
        assert len(np.unique(np.stack([owner, self._cells["key"]]), axis=1).T) == len(self._cells)
        # chains lead through the cells of each key
        if self.keys:
            self.chains.check(self.cell_key, self.cell_prior, self._cells.dropped)
        # of every component it is known since when it has been folded
        assert self._known_from.keys() == self._names.keys()

    def _check_bounds(self) -> None:
        # slices lie on the grid that was in force at their start
        assert bool(np.all(self.grid.start_of(self.slice_start) == self.slice_start))
