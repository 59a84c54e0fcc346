"""Peaks of a window: the pairs of which one slice alone reaches a threshold. No others can pass one of MAX, or of MIN.

Nothing has to be kept for it. If all that has passed so far is known, new pairs can only come from slices that came
since the window before. Otherwise all slices of the window are looked at, from one end to the other.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import LONG_AGO, Ints
from muntin.kernels.bounds import cells_reaching
from muntin.shard.read.pair_grid import PairGrid
from muntin.shard.read.window_bounds import ROUNDING, Floats, Steps, Store, slices_within
from muntin.store.needs import Need


class WindowPeaks:
    """Of one component of a store, over one window."""

    def __init__(self, store: Store, need: Need, grid: PairGrid, is_up: bool):
        self.store, self.need, self._grid, self._is_up = store, need, grid, is_up
        self._from = self._end = LONG_AGO  # of the slices that are to be looked at

    @staticmethod
    def can_bound(need: Need, is_up: bool) -> bool:
        return need.component == ("max" if is_up else "min")

    def is_of(self, store: object, grid: PairGrid, is_up: bool) -> bool:
        return self.store is store and self._grid is grid and self._is_up == is_up

    def bring_to(self, start: int, end: int, kept_from: int, is_next: bool) -> None:
        """Look at the window [start, end); at what came since the last time alone, if all that passed then is known."""
        self._from, self._end = max(start, self._end) if is_next else start, end

    def leave(self, start: int) -> None:
        """The next window begins at `start`."""

    def reaching(self, steps: Steps, most: int) -> tuple[Ints, Ints] | None:
        """The keys and lanes of which a new slice reaches the floor of one of the steps; None if there are more than
        `most`. O(cells of these slices)."""
        room = self._grid.room
        floor, lane = self._by_column(steps)
        found = [np.zeros(0, np.int64)]
        for level, first, last in slices_within(self.store, self._from, self._end):
            (value,), some = level.cells_of(self.need), np.empty(most, np.int64)
            many = cells_reaching(
                self._grid.place, level.cell_key, level.first_cell(first), level.first_cell(last), value,
                self._is_up, room, floor, float(floor.min(initial=np.inf)), some,
            )  # fmt: skip
            if many < 0:
                return None
            found.append(some[:many])
        place = np.unique(np.concatenate(found))
        asked = lane[place % room] >= 0
        return place[asked] // room, lane[place % room][asked]

    def _by_column(self, steps: Steps) -> tuple[Floats, Ints]:
        """Of each column the least floor that something in it is compared with, and its lane; -1 if there is none."""
        floor, lane = np.full(self._grid.room, np.inf), np.full(self._grid.room, -1)
        lane[steps.column] = steps.lane
        least = np.inf
        for step in range(
            len(steps.column) - 1, -1, -1
        ):  # a step is compared with all columns before it in its lane
            least = min(least, steps.floor[step])
            floor[steps.column[step]] = least
            least = np.inf if steps.begins[step] else least
        return floor - np.where(np.isfinite(floor), np.abs(floor), 0.0) * ROUNDING, lane
