"""Together: the components that most aggregates are made of, appended to a slice store in one pass over what they hold.

How many events there are, and count, sum, min and max of one input: if a store keeps no other, its cells are made and
filled by one loop (`kernels/append.py`). Otherwise each is made first, and each input folded by itself (`cells.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS, read_only
from muntin.aggregates.contract import Array
from muntin.arrays import Arrays, Bools, Ints
from muntin.kernels.append import FOLD, MERGE
from muntin.query import Input
from muntin.store.batch import Batch
from muntin.store.cells import column_of
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.needs import EVERY_EVENT, Need, dtype_of

_OF_ONE_INPUT = ("count", "sum", "min", "max")  # in the order in which the kernels take them
_ALL_VALID = np.zeros(0, np.bool_)
_NOTHING = {"i": np.zeros(0, np.int64), "f": np.zeros(0, np.float64)}
_NO_NAME = ""
_WORD = 8  # bytes of an element
_NEAR = 1 << 19  # bytes that a core has near, whatever else it reads


class Appended(NamedTuple):
    """Where cells are appended. Cells have numbers; the arrays begin with number `begin`."""

    lo: Ints  # runs of what is appended, each a slice …
    hi: Ints
    key: Ints  # … and its keys
    last: Ints  # by key: its newest cell
    begin: int
    following: int  # number of the first new cell
    cells: Arrays
    first_cell: Ints  # will be that of each run

    @staticmethod
    def to(
        cells: Columns, chains: Chains, lo: Ints, hi: Ints, key: Ints, begin: int, room: int | None = None
    ) -> Appended:
        """With room for as many cells as there may be, if nobody says how many."""
        chains.reserve(int(key.max()) + 1)
        following, first_cell = cells.dropped + len(cells), np.empty(len(lo), np.int64)
        most = min(len(key), len(lo) * len(chains.last)) if room is None else room
        arrays = cells.with_room(begin - cells.dropped, most)
        return Appended(lo, hi, key, chains.last, begin, following, arrays, first_cell)


class Events(NamedTuple):
    """The values of one input, and which of them count."""

    value: Array
    valid: Bools
    is_all_valid: bool

    def among(self, some: slice) -> Events:
        return self._replace(value=self.value[some], valid=self.valid[some])

    def at(self, places: Ints) -> Events:
        valid = self.valid if self.is_all_valid else self.valid[places]
        return self._replace(value=self.value[places], valid=valid)


class Together(NamedTuple):
    """Which components a store has, and what their arrays are called."""

    input: Input | None  # None if all that is known is how many events there are
    kind: str  # of its values: i or f
    wanted: tuple[bool, ...]
    names: tuple[str, ...]
    nothing: Any  # the least and the greatest of no event

    def read(self, batch: Batch) -> Events:
        """What of events is folded."""
        if self.input is None:
            return Events(batch.at, _ALL_VALID, True)
        value, valid = column_of(batch, self.input)
        return Events(value, valid, bool(valid.all()))

    def fold(self, events: Events, place: Appended) -> int:
        """Fold events into cells; how many are new. O(events)."""
        value, valid, is_all_valid = events
        lo, hi, key, *where, cells, first_cell = place
        made: int = FOLD[self.kind](
            lo, hi, key, read_only(value), valid, is_all_valid, *where, cells["key"], cells["prior"], first_cell,
            self._wanted(place), self.nothing, *self._arrays(cells),
        )  # fmt: skip
        return made

    def merge(self, younger: Arrays, place: Appended) -> int:
        """Merge cells into cells of coarser slices; how many are new. O(cells)."""
        lo, hi, key, *where, cells, first_cell = place
        made: int = MERGE[self.kind](
            lo, hi, key, *where, cells["key"], cells["prior"], first_cell,
            self._wanted(place), *self._arrays(younger), *self._arrays(cells),
        )  # fmt: skip
        return made

    def _wanted(self, place: Appended) -> tuple[bool, ...]:
        """The components, and whether the newest cells of all keys are too many to be near."""
        arrays = 1 + sum(name != _NO_NAME for name in self.names)  # the first says which cells these are
        return *self.wanted, _WORD * arrays * len(place.last) > _NEAR

    def _arrays(self, cells: Arrays) -> list[Any]:
        """All that the kernels take, empty where nothing is wanted."""
        kinds = ("i", "i", self.kind, "f", self.kind, self.kind)
        return [cells[name] if name else _NOTHING[kind] for name, kind in zip(self.names, kinds, strict=True)]


def together(names: Mapping[Need, tuple[str, ...]]) -> Together | None:
    """How the components of a store, whose arrays have these names, are appended in one pass; None if they are not."""
    every = EVERY_EVENT if EVERY_EVENT in names else None
    others = {need.component: need for need in names if need != every}
    inputs = {need.input for need in names if need != every}
    if len(inputs) > 1 or not others.keys() <= set(_OF_ONE_INPUT):
        return None
    kind = next((dtype_of(need).kind for need in others.values()), "i")
    columns = [names[every] if every else (_NO_NAME,)]
    for component in _OF_ONE_INPUT:
        need = others.get(component)
        columns.append(names[need] if need else (_NO_NAME,) * (2 if component == "sum" else 1))
    nothing = [COMPONENTS[name].identity(_NOTHING[kind].dtype)[0][1] for name in ("min", "max")]
    return Together(
        next(iter(inputs), None),
        kind,
        tuple(each[0] != _NO_NAME for each in columns),
        tuple(name for each in columns for name in each),
        np.array(nothing, _NOTHING[kind].dtype),
    )
