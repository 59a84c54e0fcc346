"""A chunk: the cells that one task folded for one shard, as they travel: a description that JSON can hold, and arrays.

| arrays | |
|---|---|
| `key 0`, `key 1`, … | columns: the different keys of the chunk, if there are keys |
| `0 at`, `0 key`, `0 1 <need>`, … | of the first part: slice, key and partials of each cell, in order of slice |
| `0 pair key`, `0 pair lane` | in a part by lanes `0 key` numbers pairs: the key and the lane of each |
| `0 lane 0`, `0 lane 1`, … | columns: the lanes of such a part, as values of attributes and the ends of a band |

There is a part for each filter, in the order of `where`. Keys, pairs and lanes are numbered by their places. What is
read here may come from a checkpoint: everything is compared with what it must be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import Bools, Ints
from muntin.described import WHOLE, Between, check_shape
from muntin.errors import CheckpointError
from muntin.expression import Expression
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Asked, Lane, columns_of_lanes
from muntin.store.needs import Need, dtype_of
from muntin.store.saved import Saved

_SHAPE = {"where": [str], "steps": [Between(1, 2**62)], "greatest": WHOLE}


class Chunk:
    """Nothing is read of it but what is asked for. Cells of slices that had ended by the `watermark` are late."""

    def __init__(self, description: dict[str, Any], arrays: dict[str, Any], watermark: int):
        check_shape(description, _SHAPE, "the chunk")
        self.greatest: int = description["greatest"]
        latest = (watermark - step for step in description["steps"])  # that a late slice starts
        self._places = {
            where: (place, late)
            for place, (where, late) in enumerate(zip(description["where"], latest, strict=True))
        }
        self._saved = _by_first_word(arrays)
        self._times: dict[int, tuple[Ints, int]] = {}  # by place
        self._parts: dict[str, Part] = {}
        self._columns: list[pa.Array] | None = None

    def key_columns(self, keys: tuple[Expression, ...]) -> list[pa.Array]:
        """The keys of the chunk; `keys` are the expressions that they are the values of."""
        if self._columns is None:
            self._columns = _columns(self._under("key"), "", [each.type for each in keys])
        return self._columns

    def part(self, where: Expression | None, keys: tuple[Expression, ...]) -> Part | None:
        """What was folded by a filter; None if nothing was."""
        text = str(where or "")
        if text not in self._parts:
            if text not in self._places:
                return None
            place, late = self._places[text]
            saved, many = self._under(str(place)), len(self.key_columns(keys)[0]) if keys else 1
            times = self._times_of(place, late)
            self._parts[text] = (
                LanedPart(saved, *times, many, where)
                if isinstance(where, Asked)
                else Part(saved, *times, many)
            )
        return self._parts[text]

    def starts(self) -> list[int]:
        """Where the first slices begin that have not ended, of all that was folded: nobody here may ask for it."""
        times = (self._times_of(*each) for each in self._places.values())
        return [int(at[first]) for at, first in times if first < len(at)]

    def _times_of(self, place: int, late: int) -> tuple[Ints, int]:
        """Where the slices of all cells start, and how many of the first cells are late."""
        if place not in self._times:
            at = self._under(str(place)).times("at")
            self._times[place] = at, int(at.searchsorted(late, "right"))
        return self._times[place]

    def _under(self, word: str) -> Saved:
        return self._saved.get(word, Saved({}, place=f"{word} "))


class Part:
    """Cells by one filter: `at` is where the slice of each starts, `number` that of its key, or of its pair. The first
    cells may be `late`."""

    def __init__(self, saved: Saved, at: Ints, late: int, keys: int):
        self._saved = saved
        self.at = at
        self.number = saved.ints("key", (0, keys - 1), len(at))
        self.in_time = np.arange(late, len(at))

    def has(self, need: Need) -> bool:
        return f"0 {need}" in self._saved

    def partial(self, need: Need) -> Partial:
        """The state arrays of a component."""
        identity = COMPONENTS[need.component].identity(dtype_of(need))
        if not self.has(need):
            raise CheckpointError(f"the cells have no {need}, which a query here asks for")
        return tuple(
            self._saved.array(f"{i} {need}", dtype, len(self.at)) for i, (dtype, _) in enumerate(identity)
        )


class LanedPart(Part):
    """Cells by lanes."""

    def __init__(self, saved: Saved, at: Ints, late: int, keys: int, asked: Asked):
        self.pair_lane = saved.array("pair lane", np.dtype(np.int64))
        self.pair_key = saved.ints("pair key", (0, keys - 1), len(self.pair_lane))
        super().__init__(saved, at, late, len(self.pair_lane))
        self._asked = asked
        self.lanes = _columns(saved, "lane ", [each.type for each in (*asked.attributes, *asked.ends)])
        saved.ints("pair lane", (0, len(self.lanes[0]) - 1))

    def places_of(self, lanes: Sequence[Lane]) -> Ints:
        """The cells in time that lie in some of the lanes that queries ask for, in order of slice."""
        order, edges = self._by_lane
        inside = np.flatnonzero(self._inside(lanes))
        found = [order[edges[lane] : edges[lane + 1]] for lane in inside.tolist()]
        return np.sort(np.concatenate(found)) if found else order[:0]

    @cached_property
    def _by_lane(self) -> tuple[Ints, Ints]:
        """The cells in time of each lane."""
        lane = self.pair_lane[self.number[self.in_time]]
        order = np.argsort(lane, kind="stable")
        return self.in_time[order], np.searchsorted(lane[order], np.arange(len(self.lanes[0]) + 1))

    def _inside(self, lanes: Sequence[Lane]) -> Bools:
        """Which lanes of the part lie in one of those given."""
        inside = np.ones(len(self.lanes[0]), np.bool_)
        if self._points is not None:
            dictionary, points = self._points
            inside = np.isin(points, dictionary.find(columns_of_lanes(self._asked, lanes)))
        if self._asked.banded is not None:  # of one query, all have the same range
            least, greatest = lanes[0][-1]
            low, high = (np.asarray(each) for each in self.lanes[-2:])
            inside &= (least <= low) & (high <= greatest)
        return inside

    @cached_property
    def _points(self) -> tuple[KeyDictionary, Ints] | None:
        """The values of attributes in each lane, by their ids."""
        kinds = [each.type for each in self._asked.attributes]
        if not kinds:
            return None
        dictionary = KeyDictionary(kinds)
        return dictionary, dictionary.encode(self.lanes[: len(kinds)])


def _columns(saved: Saved, name: str, kinds: Iterable[pa.DataType]) -> list[pa.Array]:
    """Columns of one length."""
    columns: list[pa.Array] = []
    for number, kind in enumerate(kinds):
        length = len(columns[0]) if columns else None
        columns.append(saved.column(f"{name}{number}", {kind}, length))
    return columns


def _by_first_word(arrays: Mapping[str, Any]) -> dict[str, Saved]:
    """Arrays by the rest of their names, for each first word of these: there may be thousands of parts."""
    found: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        word, _, rest = name.partition(" ")
        found.setdefault(word, {})[rest] = array
    return {word: Saved(some, place=f"{word} ") for word, some in found.items()}
