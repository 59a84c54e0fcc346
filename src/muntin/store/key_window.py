"""A key window: the partials of one key over one window, read along the chain of its cells.

Where the window lies in the cells is found when it is first read, and again when the store changes or the window
moves. What is left for each key is to follow its chain through the window; of slices that age, through every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels.combine import combine_plain
from muntin.kernels.slices import follow_chain
from muntin.store.aging_slices import AgingSlices
from muntin.store.needs import Need, dtype_of
from muntin.store.slice_store import SliceStore
from muntin.window import Window


class _Run(NamedTuple):
    """Cells `lo .. hi - 1` (numbers) of a window, in a level of its store."""

    lo: int
    hi: int
    last: Ints
    prior: Ints
    dropped: int
    cells: list[Partial]


class KeyWindow:
    """Reads some needs of one key after the other. Its owner makes it anew when the components of the store change."""

    def __init__(self, store: SliceStore | AgingSlices, window: Window, needs: Sequence[Need]):
        self._store = store
        self._window = window
        youngest = store.youngest
        self._needs = [
            (
                youngest.names_of(need),
                follow_chain(type(youngest.typed_cells(need))),
                tuple(value for _, value in COMPONENTS[need.component].identity(dtype_of(need))),
                type(youngest.typed_cells(need)),
            )
            for need in needs
        ]
        self._version = -1  # of the store, for which the runs have been found
        self._settled = 0
        self._runs: list[_Run] = []  # the youngest level first

    def locate(self, settled: int) -> bool:
        """Have the window end at an instant, on its slide; False if the store may have lost some of it."""
        store, window = self._store, self._window
        if store.version == self._version and settled == self._settled:
            return True
        start, end = window.start(settled), settled - window.to
        if start < store.sharp_from(window):
            return False
        self._runs = []
        for level in store.levels:
            lo, hi = map(level.cell_number, level.run(start, end))
            cells = [level.cells_named(names) for names, *_ in self._needs]
            self._runs.append(_Run(lo, hi, level.chains.last, level.cell_prior, level.dropped_cells, cells))
        self._version, self._settled = store.version, settled
        return True

    def partials(self, id: int) -> list[Any]:
        """The partial of each need as plain numbers; nothing if the key has no event in the window. O(its cells)."""
        partials: list[Any] = []
        for lo, hi, last, prior, dropped, run_cells in self._runs:
            newest = int(last[id]) if id < len(last) else -1
            if newest < lo:
                continue
            older = []
            for (_, follow, identity, _), cells in zip(self._needs, run_cells, strict=True):
                partial, count = follow(prior, dropped, newest, lo, hi, *cells)
                older.append(partial if count else identity)
            partials = self._combine(older, partials) if partials else older
        return partials

    def _combine(self, older: list[Any], newer: list[Any]) -> list[Any]:
        kinds = (kind for *_, kind in self._needs)
        return [combine_plain(*each) for each in zip(kinds, older, newer, strict=True)]
