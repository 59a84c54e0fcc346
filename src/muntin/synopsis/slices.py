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

The state is a `slice_store`; this is the simplest way to read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Partial
from muntin.synopsis.contract import Found, Ints, Need, dtype_of
from muntin.synopsis.slice_store import SliceStore
from muntin.synopsis.synopsis import Synopsis
from muntin.window import Window


class Slices(Synopsis[SliceStore]):
    """Time windows with SLIDE, per key, over a slice store."""

    name = "slices"

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], keys: Ints | None, width: int
    ) -> Found:
        located = self.locate(instants - window.size, instants - window.to, instants)
        first_cells = self.store.first_cells(0)
        lo, hi = (first_cells[side - self.store.dropped] for side in (located.lo, located.hi))
        first, last = (int(lo.min()), int(hi.max())) if len(lo) else (0, 0)
        part = slice(first, max(first, last))
        key = self.store.cell_key[part] if keys is None else keys[self.store.cell_key[part]]
        partials: dict[Need, Partial] = {}
        for need in wanted:
            component = COMPONENTS[need.component]
            partials[need] = component.start(dtype_of(need), len(instants) * width)
            component.merge(lo - first, hi - first, width, key, self.store.cells(need, part), partials[need])
        return self.found(window, located, partials, width)
