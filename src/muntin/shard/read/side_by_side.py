"""The FILTERs of one query side by side: what each of them reads of a window, for all keys, found in one go.

    SELECT account, SUM(amount) FILTER (WHERE kind = 'fuel'), SUM(amount) FILTER (WHERE kind = 'food'), …

Every FILTER that reads one lane, or what lies above or below a cut in one, has one place at most for each key: that of
a pair of the store, or of an entry in its order of bands. The places of all FILTERs are a matrix, and what they read is
that matrix of partials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import Ints
from muntin.kernels.bands import entries_above
from muntin.lane import Laned
from muntin.shard.read.band_order import BandOrder
from muntin.shard.read.lane_order import LaneOrder
from muntin.store.needs import Need, dtype_of
from muntin.structure.synopsis import Found

NOWHERE = -1  # of a key that has no such place


def is_in_one_place(laned: Laned) -> bool:
    """Whether a FILTER has one place at most for each key."""
    return len(laned.lanes) == 1 and (laned.asked.banded is None or laned.way is not None)


def places_in_lanes(order: LaneOrder, some: Sequence[Laned], width: int) -> Ints:
    """For each FILTER and key the pair that it reads. O(pairs of these lanes)."""
    places = np.full((len(some), width), NOWHERE)
    begins, ends = order.spans([each.lanes[0] for each in some])
    for row, begin, end in zip(places, begins.tolist(), ends.tolist(), strict=True):
        row[order.key[begin:end]] = order.pair[begin:end]
    return places


def places_in_bands(order: BandOrder, some: Sequence[Laned], width: int) -> Ints:
    """For each FILTER and key the entry that it reads. O(entries, and FILTERs times keys)."""
    places = np.full((len(some), width), NOWHERE)
    lanes = [each.lanes[0] for each in some]
    number, cut = order.numbers(lanes), order.cuts_of(lanes)
    by_cut = np.lexsort((cut, number))
    which, begin = np.unique(number[by_cut], return_index=True)
    groups = order.spans(which)
    entries_above(
        order.first, order.rank, order.key, *groups, begin, np.append(begin[1:], len(some)), by_cut, cut, places
    )  # fmt: skip
    return places


class SideBySide:
    """What the FILTERs of one query find of a window at some instants."""

    def __init__(self, some: Sequence[Laned], places: Ints, found: Found):
        self._row = {laned: row for row, laned in enumerate(some)}
        self._places = places
        self._found = found
        self._partials: dict[Need, Partial] = {}

    def read(self, laned: Laned, needs: Sequence[Need], known_since: int) -> Found:
        """What one of them finds."""
        found, row = self._found, self._row[laned]
        return Found(
            {need: tuple(array[row] for array in self._partial(need)) for need in needs},
            found.start, found.end, found.is_whole,
            {need: max(found.known_since[need], known_since) for need in needs},
            self._places.shape[1],
        )  # fmt: skip

    def _partial(self, need: Need) -> Partial:
        """Of all FILTERs; each has a row."""
        if need not in self._partials:
            identity = COMPONENTS[need.component].identity(dtype_of(need))
            self._partials[need] = tuple(
                self._taken(array, nothing)
                for array, (_, nothing) in zip(self._found.partials[need], identity, strict=True)
            )
        return self._partials[need]

    def _taken(self, array: Array, nothing: object) -> Array:
        instants, many = len(self._found.start), self._found.width
        last = np.full((instants, 1), nothing, array.dtype)  # what is nowhere is found at the end
        cells = np.concatenate([array.reshape(instants, many), last], axis=1)
        taken: Array = cells[0][self._places]
        if instants > 1:
            taken = cells[:, self._places].swapaxes(0, 1).reshape(len(self._places), -1)
        return taken
