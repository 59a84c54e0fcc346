"""Bounds of COUNT and SUM of a window, for every pair: they name those that may pass a threshold, and are no answers.

A window that moves by a slide gains a few slices and loses a few. So a bound is brought along, in plain floats, where
an answer would merge all slices of the window again: what comes is added, what goes is subtracted. Rounding errors are
at most `_slack`. What cannot be subtracted, as infinities, is NaN until all is added up anew. A bound that is NaN
excludes nothing. MAX and MIN need none (`window_peaks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.arrays import Ints
from muntin.kernels.bounds import (
    add_counts,
    add_floats,
    add_ints,
    cells_reaching,
    pairs_in_grid,
    sums_reaching,
)
from muntin.shard.read.pair_grid import PairGrid
from muntin.store.aging_slices import AgingSlices
from muntin.store.needs import Need, dtype_of
from muntin.store.slice_store import SliceStore

Store = AgingSlices | SliceStore
Floats = npt.NDArray[Any]
_LONGEST = 4  # lengths of the window, after which sums are added up anew
ROUNDING = 2.0**-50  # of a double, and of a threshold that was an integer; generously
_SINGLE = 2.0**-22  # of a float32
_TINY = 2.0**-125  # what a float32 does not tell from 0
_NO_BOTTOM, _INT_BOTTOM = -np.inf, -(2.0**61)


class Steps:
    """What is added up of a key, and compared: the columns of one lane after the other; see `sums_reaching`."""

    def __init__(self, column: Ints, begins: npt.NDArray[np.bool_], floor: Floats):
        self.column, self.begins, self.floor = column, begins, floor

    @property
    def lane(self) -> Ints:
        """The lane of each step."""
        lane: Ints = np.cumsum(self.begins) - 1
        return lane


class WindowBounds:
    """Of one component of a store, over one window."""

    def __init__(self, store: Store, need: Need, grid: PairGrid, is_up: bool):
        self.store, self.need, self._grid = store, need, grid
        self._sign = 1.0 if is_up else -1.0
        self._is_count = need.component == "count"
        self._is_float = dtype_of(need).kind == "f"
        self._version = -1  # of the grid
        self._start = self._end = 0  # of what has been added up
        # since all was added up: how far the window has moved, the slices that came or went, and the largest number
        self._moved = self._changes = 0
        self._most = 0.0
        self._sums: Floats = np.zeros(0)

    @staticmethod
    def can_bound(need: Need, is_up: bool) -> bool:
        return need.component in ("count", "sum")

    def is_of(self, store: object, grid: PairGrid, is_up: bool) -> bool:
        return self.store is store and self._grid is grid and (self._sign > 0) == is_up

    def bring_to(self, start: int, end: int, kept_from: int, is_next: bool) -> None:
        """Bound the window [start, end), given the instant from which on all its edges are kept. O(cells that came and
        went), or O(cells of the window) if the window has not just moved on."""
        is_behind = self._version == self._grid.version and self._start <= start < self._end <= end
        is_lost = self._start < start and self._start < kept_from
        if not is_behind or is_lost or self._moved > _LONGEST * (end - start):
            self._begin(start)
        self._make_room()
        self._add(self._start, start, -1.0)
        self._add(self._end, end, 1.0)
        self._moved += end - self._end
        self._start, self._end = start, end

    def leave(self, start: int) -> None:
        """The next window begins at `start`: what is before may soon be forgotten."""
        if self._start < start <= self._end:
            self._add(self._start, start, -1.0)
            self._start = start

    def _begin(self, start: int) -> None:
        self._version = self._grid.version
        self._start = self._end = start
        self._moved, self._changes, self._most = 0, 0, 0.0
        self._sums = np.zeros(0)

    def _make_room(self) -> None:
        if len(self._sums) != self._grid.places:
            enlarged = np.zeros(self._grid.places, np.float32 if self._is_count else np.float64)
            enlarged[: len(self._sums)] = self._sums
            self._sums = enlarged

    def _add(self, start: int, end: int, sign: float) -> None:
        for level, first, last in slices_within(self.store, start, end):
            self._changes += last - first
            cells = (level.first_cell(first), level.first_cell(last))
            given = (self._grid.place, level.cell_key, *cells, sign, *level.cells_of(self.need), self._sums)
            if self._is_count:
                add_counts(*given)
            else:
                self._most = max(self._most, (add_floats if self._is_float else add_ints)(*given))

    def reaching(self, steps: Steps, most: int) -> tuple[Ints, Ints] | None:
        """The keys and lanes that may reach the floor of one of the steps; None if there are more than `most`."""
        key, lane = np.empty(most, np.int64), np.empty(most, np.int64)
        keys, room = min(self._grid.keys, self._grid.rows), self._grid.room
        floor = steps.floor - self._slack(steps)
        bottom = _NO_BOTTOM if self._is_float or self._is_count else _INT_BOTTOM
        many = sums_reaching(
            self._sums, self._sign, room, keys, steps.column, steps.begins, floor, bottom, key, lane
        )
        return None if many < 0 else (key[:many], lane[:many])

    def _slack(self, steps: Steps) -> Floats:
        """By how much a bound may be wrong."""
        floor = np.where(np.isfinite(steps.floor), np.abs(steps.floor), 0.0)
        if self._is_count:
            return floor * _SINGLE + _TINY
        many = len(steps.column)
        return floor * ROUNDING + (self._changes + many + 8) * many * self._most * ROUNDING


def slices_within(store: Store, start: int, end: int) -> Iterator[tuple[SliceStore, int, int]]:
    """The slices of [start, end), as a run of indices in each level that has some."""
    if end <= start:
        return
    for level in store.levels:
        first, last = (int(side[0]) for side in level.runs(np.array([start]), np.array([end])))
        if last > first:
            yield level, first, last


def compile_bounds() -> None:
    """Compile what serves bounds of any component: a few pairs do not need them."""
    place, key, some = np.zeros(1, np.int32), np.zeros(1, np.int64), np.empty(1, np.int64)
    ints, floats, single = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.float32)
    where, walk = (place, key, 0, 1), (1, 1, key, np.ones(1, np.bool_), floats)
    add_counts(*where, 1.0, ints, single)
    add_ints(*where, 1.0, ints, floats, floats)
    add_floats(*where, 1.0, floats, floats, floats)
    for values in (ints, floats):
        cells_reaching(*where, values, True, 1, floats, 0.0, some)
    for sums in (single, floats):
        sums_reaching(sums, 1.0, *walk, _NO_BOTTOM, some, some)
    pairs_in_grid(place, 1, key, key, np.array([0, 1]), key, key, some, some, np.empty(2, np.int64))
