"""Cells as a batch: what was folded elsewhere, slice by slice and key by key, taken in like events.

A runtime with many readers folds events where they are read. A slice store puts a cell where it would put
an event at the start of the cell's slice, and merges what it would have folded.
"""

from __future__ import annotations

from collections.abc import Mapping

from muntin.aggregate.contract import Partial
from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.synopsis.batch import Batch
from muntin.synopsis.need import Need


class Cells(Batch):
    """Cells of one slice store, in order of slice: `at` is where each one's slice starts.

    They hold what passed the store's filter, so all of them pass it.
    """

    def __init__(self, at: Ints, key: Ints, partials: Mapping[Need, Partial]):
        super().__init__(at, {}, {}, {})
        self.partials = partials
        self._key = key

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        return self._key

    def passing(self, where: Expression | None) -> Batch:
        return self
