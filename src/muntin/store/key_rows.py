"""Key rows: B-INT over slices in which every element is a row, one partial per key.

A window of all keys is a run of slices. Merging the cells of every slice costs as much as there are
cells; with a row for every aligned run of 2, 4, 8, ... slices it costs a few rows, read from one end
to the other:

    slices   0    1    2    3    4    5         keys a b c
    level 1  [a b c]   [a b c]   [a b c]
    level 2  [a  b  c      ]                    slices 0 .. 4 = level 2, and the cells of slice 4

Rows pay if most keys have a cell in most slices. They are made from the cells when they are first
needed and made again when these change, so they are no state of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels.key_rows import merge_cells, merge_rows, read_nested
from muntin.kernels.slices import merge_chains, merge_points
from muntin.store.needs import Need, dtype_of
from muntin.store.slice_store import SliceStore

_NO_ROWS = np.zeros(1, np.int64)
_DENSE = 0.5  # cells per slice and key from which on rows pay
_FEW_SLICES = 8  # not worth any row
_TOO_MANY_LEVELS = 2  # of rows, above those that the slices need: room for eight times as many


class KeyRows:
    """One component of a slice store, for all keys."""

    def __init__(self, store: SliceStore, need: Need):
        self._store = store
        self._need = need
        self._component = COMPONENTS[need.component]
        self._dtype = dtype_of(need)
        self._kind = self._component.kind(self._dtype)
        self.paid = 0  # cells visited for want of rows
        self.drop()

    def cells(self) -> Any:
        """The cells of the component, as kernels take them."""
        return self._kind(*self._store.cells_of(self._need))

    def start(self, slots: int) -> Partial:
        """So many partials, each of nothing."""
        return self._component.start(self._dtype, slots)

    def merge_keys(self, ids: Ints, lo: Ints, hi: Ints, into: Partial) -> None:
        """Merge runs of cells `lo .. hi - 1` (numbers) of some keys into partials, along chains; O(these cells)."""
        store = self._store
        last, cells = store.chains.last, store.cells_of(self._need)
        merge_chains(self._kind)(store.cell_prior, store.dropped_cells, last, ids, lo, hi, *cells, *into)

    def merge_points(self, ids: Ints, lo: Ints, hi: Ints, into: Partial) -> None:
        """The same for one key and one run of cells each."""
        store = self._store
        last, cells = store.chains.last, store.cells_of(self._need)
        merge_points(self._kind)(store.cell_prior, store.dropped_cells, last, ids, lo, hi, *cells, *into)

    def drop(self) -> None:
        """Go back to the cells alone."""
        self.is_on = False
        self.begin_again()

    def begin_again(self) -> None:
        """All rows are to be made anew."""
        self._made = 0  # rows are right for runs of slices below this number
        self._width = 0  # keys that a row has room for
        self._base = self._mask = _NO_ROWS  # of each level: its first row, and its number of rows - 1
        self._rows: Partial = self._component.start(self._dtype, 0)

    def follow(self) -> None:
        """The store has changed; O(1)."""
        self._made = min(self._made, self._store.changed_from)
        if len(self._mask) > _levels(len(self._store)) + _TOO_MANY_LEVELS:  # the longest window has gone
            self.begin_again()

    def read(
        self, lo: Ints, hi: int, out: Partial, slot: Ints, width: int, newer: Partial | None = None
    ) -> int:
        """Partials of runs `[lo, hi)` of slice numbers, `lo` descending, into `out` from `slot` on (nowhere if
        that is -1), for the keys below `width`; returns how many cells had to be visited.

        `newer` is what comes after `hi`, if there is anything; it becomes what comes after the last `lo`.
        """
        if self.is_on:
            self._catch_up(hi, width)
        store = self._store
        merged = newer or self.start(width)
        visited: int = read_nested(self._kind)(
            store.cell_key, store.first_cells(0), store.dropped, self._width, self._base, self._mask, self._made,
            lo, hi, slot, width, *store.cells_of(self._need), *self._rows, *merged, *out,
        )  # fmt: skip
        return visited

    def consider(self, visited: int, width: int) -> None:
        """So many cells were visited to read the keys below `width`. Rows cost about as much as visiting every
        cell twice: have them once that has been paid."""
        store = self._store
        cells = len(store.cell_key)
        is_dense = len(store) >= _FEW_SLICES and cells >= _DENSE * len(store) * width
        if self.is_on:
            if not is_dense:
                self.drop()
        elif is_dense:
            self.paid += visited
            if self.paid >= 2 * cells:
                self.is_on, self.paid = True, 0

    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._rows)

    def check(self) -> None:
        # every row is what the cells below it merge to; sums in another order differ by rounding, as large as what
        # cancels out in them
        sizes = [np.abs(part[np.isfinite(part)]) for part in self._store.cells_of(self._need)]
        rounding = 1e-8 + 1e-15 * max(float(size.max(initial=0)) for size in sizes)
        first, width, store = self._store.dropped, self._width, self._store
        cells = self.cells()
        for level in range(1, len(self._base)):
            numbers = np.arange(-(-first >> level), self._made >> level)
            fresh = self._component.start(self._dtype, len(numbers) * width)
            for place, number in enumerate(numbers.tolist()):
                lo, hi = (store.first_cell((edge << level) - first) for edge in (number, number + 1))
                merge_cells(cells, store.cell_key, lo, hi, self._kind(*fresh), place * width)
            kept = self._base[level] + (numbers & self._mask[level])
            for rows, expected in zip(self._rows, fresh, strict=True):
                part = rows.reshape(-1, width)[kept]
                is_right = np.allclose(part.ravel(), expected, atol=rounding, equal_nan=True)
                assert is_right, f"rows of level {level}"

    def _catch_up(self, until: int, width: int) -> None:
        """Make the rows of slices that are new, or have changed; O(1) rows amortised per slice."""
        store = self._store
        first, slices = store.dropped, len(store)
        levels = _levels(slices)
        if width > self._width or len(self._mask) < levels:
            self._make_room(levels, max(width, 64))
        cells, rows = self.cells(), self._kind(*self._rows)
        key, offset_of = store.cell_key, self._offset
        identity = self._component.identity(self._dtype)
        begin = max(self._made, first) // 2
        for pair in range(begin if 2 * begin >= first else begin + 1, until // 2):
            offset = offset_of(1, pair)
            for row, (_, value) in zip(self._rows, identity, strict=True):
                row[offset : offset + self._width] = value
            lo, hi = store.first_cell(2 * pair - first), store.first_cell(2 * pair + 2 - first)
            merge_cells(cells, key, lo, hi, rows, offset)
            level, number = 1, pair
            while number & 1 and level + 1 < len(self._base):
                if (number - 1) << level < first:
                    break  # its older half is not kept any more
                left, right = offset_of(level, number - 1), offset_of(level, number)
                level, number = level + 1, number >> 1
                merge_rows(rows, left, right, offset_of(level, number), self._width)
        self._made = max(self._made, until)

    def _make_room(self, levels: int, width: int) -> None:
        self._width = width + width // 4
        slots = [0] + [max(4, (1 << levels) >> level) for level in range(1, levels)]
        self._base = np.cumsum([0, *slots[:-1]])
        self._mask = np.array(slots) - 1
        # a row is written before it is read: memory that is never asked for costs nothing
        identity = self._component.identity(self._dtype)
        self._rows = tuple(np.empty(sum(slots) * self._width, dtype) for dtype, _ in identity)
        self._made = 0

    def _offset(self, level: int, number: int) -> int:
        return (int(self._base[level]) + (number & int(self._mask[level]))) * self._width


def _levels(slices: int) -> int:
    """How many levels there are for so many slices, the slices among them."""
    return max(slices.bit_length(), 2)
