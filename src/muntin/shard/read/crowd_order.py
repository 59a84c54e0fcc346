"""The first keys of each member of a crowd whose queries have ORDER BY … LIMIT: one order of keys for each window.

Members that look at one window differ in whom HAVING lets pass and in LIMIT. So the keys of a window are put in order
once; of a member's keys that pass, in that order, a running count says which are among the first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.errors import NoValue
from muntin.shard.crowd import Crowd
from muntin.shard.read.in_order import places_in_order, words_of
from muntin.shard.read.left_out import no_sum
from muntin.shard.read.lower import lower
from muntin.shard.state import State
from muntin.structure.synopsis import Found


class CrowdOrder:
    """Of the windows of a crowd's one place, as they were found at an instant."""

    def __init__(self, state: State, crowd: Crowd, found: list[Found]):
        """O(windows x keys), and a sort of them. NoValue if a value that is ranked by does not exist."""
        reading, width = crowd.reading, crowd.reading.width
        top, keys, windows = reading.query.top, reading.keys, len(crowd.windows)
        assert top is not None
        assert keys is not None
        every = keys.take(np.arange(width))
        there = np.tile(np.arange(width), windows)
        columns: dict[str, pa.Array] = {}
        names = {name for expression, _ in top.by for name in expression.columns}
        for key, column in zip(reading.query.keys, every, strict=True):
            if key.name in names:
                columns[key.name] = column.take(pa.array(there))
        for number, call in enumerate(reading.calls):
            if f"${number}" in names:
                columns[f"${number}"], lost = lower(call, found, None, state.texts)
                if lost is not None:
                    raise NoValue(no_sum(reading.query.calls[number]))
        by = [words_of(expression.evaluate(columns), descends) for expression, descends in top.by]
        ties = np.empty(width, np.int64)  # where each key stands among all
        ties[places_in_order([words_of(column) for column in every])] = np.arange(width)
        window = np.repeat(np.arange(windows), width)
        placed = places_in_order(by, before=window, after=ties[there])
        self._key: Ints = (placed % width).reshape(windows, width)  # of each window, in order

    def first(self, crowd: Crowd, member: Ints, rows: Ints | slice, passes: Bools) -> Bools:
        """Which places of the order are those of the first keys that pass, by member; `rows` are their windows."""
        in_order = np.take_along_axis(passes, np.broadcast_to(self._key[rows], passes.shape), axis=1)
        firsts: Bools = in_order & (np.cumsum(in_order, axis=1) <= crowd.limit[member, None])
        return firsts

    def keys_at(self, crowd: Crowd, member: Ints, place: Ints) -> Ints:
        """The keys in some places of the orders of members' windows."""
        keys: Ints = self._key[crowd.window[member], place]
        return keys
