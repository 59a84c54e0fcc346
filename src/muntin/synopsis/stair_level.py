"""A level of stairs: slices that were folded from those of a younger level.

Events never reach it. What the younger level needs no longer at its resolution is *absorbed*: all slices that
lie in one granule become one slice, cell by cell of each key.

    younger  [ 57s  58s  59s | 60s  61s ... 119s | 120s        absorbed until 120s, in granules of 60s
    level    [ ......... 57-60s | 60-120s                      slices keep the bounds of what they are made of

A slice that does not lie in one granule, because the windows were others when it was made, stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregate.component import COMPONENTS
from muntin.arrays import Arrays, Ints
from muntin.expression import Expression
from muntin.kernels.slices import append_cells
from muntin.synopsis.need import Need
from muntin.synopsis.saved import Saved
from muntin.synopsis.saved_slices import saved_ends, saved_slices
from muntin.synopsis.slice_store import SliceStore


class StairLevel(SliceStore):
    """Slices of one step, each with its own end."""

    def __init__(self, where: Expression | None, keys: tuple[Expression, ...], wanted: set[Need], step: int):
        super().__init__(where, keys)
        self._slices.add("end", np.dtype(np.int64), 0)
        self.fit(dict.fromkeys(wanted, True), step, None)

    @property
    def step(self) -> int:
        """Width of a granule."""
        return self.grid.step

    def slice_bounds(self) -> tuple[Ints, Ints]:
        return self._slices["start"], self._slices["end"]

    def absorb(self, younger: SliceStore, until: int) -> bool:
        """Take over the slices of a younger level that end by `until`, a multiple of the step; O(their cells).
        Whether there were any."""
        start, end = younger.slice_bounds()
        count = int(end.searchsorted(until, side="right"))
        if not count:
            return False
        first = _first_of_granules(start[:count], end[:count], self.step)
        edges = younger.first_cells(0)
        lo, hi = edges[first], edges[[*first[1:], count]]
        bounds = {"start": start[first], "end": end[[*(first[1:] - 1), count - 1]]}
        first_cell = self._merge(younger, int(edges[count]), lo, hi)
        self._slices.extend({**bounds, "cell": first_cell})
        younger.hand_over(count)
        return True

    def _merge(self, younger: SliceStore, count: int, lo: Ints, hi: Ints) -> Ints:
        """Merge runs of the first `count` cells by key, into new cells; where the run of each begins."""
        key, following = younger.cell_key[:count], self.dropped_cells + len(self._cells)
        last = np.full(1, -1)
        if self.keys:
            self.chains.reserve(int(key.max()) + 1)
            last = self.chains.last
        cell, new_key, prior = (np.empty(count, np.int64) for _ in range(3))
        first_cell = np.empty(len(lo), np.int64)
        made = append_cells(lo, hi, key, last, following, following, cell, new_key, prior, first_cell)
        fresh = {"key": new_key[:made], "prior": prior[:made]} if self.keys else {"key": new_key[:made]}
        self._cells.extend_with(fresh, self._identities())
        part = slice(following - self.dropped_cells, None)
        for need in self._names:
            COMPONENTS[need.component].merge(
                np.zeros(1, np.int64), np.full(1, count), 0, cell - following,
                younger.cells(need, slice(0, count)), self.cells(need, part),
            )  # fmt: skip
        return first_cell

    def forget(self, before: int) -> None:
        """Drop slices that begin before an instant."""
        start, end = self.slice_bounds()
        gone = int(start.searchsorted(before))
        if gone:
            self.forgotten_before = int(end[gone - 1])
            self.hand_over(gone)

    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        starts, ends = self.slice_bounds()
        lo = starts.searchsorted(start)
        return lo, np.maximum(lo, ends.searchsorted(end, side="right"))

    def edges(self, lo: int, hi: int) -> tuple[Ints, Ints]:
        start, end = self.slice_bounds()
        return start[lo:hi], end[lo:hi]

    def run(self, start: int, end: int) -> tuple[int, int]:
        lo = self._slices.find_run("start", start, start)[0]
        return lo, self._slices.find_run("end", end + 1, end + 1)[0]

    def _check_bounds(self) -> None:
        start, end = self.slice_bounds()
        # slices do not overlap
        assert bool(np.all(start < end))
        assert bool(np.all(end[:-1] <= start[1:]))

    def _saved_slices(self, saved: Saved, first: int, cells: int) -> Arrays:
        slices = saved_slices(saved, first, cells)
        return {**slices, "end": saved_ends(saved, slices["start"])}

    def insert(self, batch: Any) -> None:
        raise NotImplementedError("events go to the youngest level")


def _first_of_granules(start: Ints, end: Ints, step: int) -> Ints:
    """Index of the first slice in each granule; slices that lie in none have one of their own.

    >>> _first_of_granules(np.array([0, 4, 8, 16, 20]), np.array([4, 8, 14, 18, 24]), 12).tolist()
    [0, 2, 3]
    """
    granule = start // step
    is_alone = end > (granule + 1) * step
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = (granule[1:] != granule[:-1]) | is_alone[1:] | is_alone[:-1]
    return np.flatnonzero(is_first)
