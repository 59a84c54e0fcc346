"""What the windows of joined rows hold at an instant: partials by key, and for each joined row where they are.

A window of the query is read for all keys at once. If rows say how long their windows are, each length that occurs is a
window more; they nest, and are read together. One slot beyond the keys is that of a key without events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates.component import COMPONENTS
from muntin.arrays import Bools, Ints
from muntin.arrays import joined as below
from muntin.shard.adapt.timed import timed_together
from muntin.shard.read.reading import GroupWindow, Reading
from muntin.shard.state import State
from muntin.shard.table_join.joined_rows import JoinedRows, Sources
from muntin.store.needs import Need, dtype_of
from muntin.structure.synopsis import Asked, Found, Synopsis
from muntin.window import Window


class Slots(NamedTuple):
    """Of one window of the query: the windows that were read for it, one below the other, and for each joined row the
    slot in them."""

    read: list[Found]
    slot: Ints  # by joined row

    def found(self, needs: tuple[Need, ...], rows: Ints) -> Found:
        """Of some joined rows, a window each."""
        slot = self.slot[rows]
        which = slot // self.read[0].width  # windows that count events are known by key
        partials = {
            need: tuple(
                below(parts)[slot] for parts in zip(*(each.partials[need] for each in self.read), strict=True)
            )
            for need in needs
        }
        start, end, is_whole = (
            np.concatenate(side)[which]
            for side in zip(*((each.start, each.end, each.is_whole) for each in self.read), strict=True)
        )
        # the latest of all windows would be too late for some: what is known is told by `is_complete` below
        known_since = {need: max(each.known_since[need] for each in self.read) for need in needs}
        return Found(partials, start, end, is_whole, known_since, 1)

    def complete(self, needs: tuple[Need, ...], rows: Ints) -> Bools:
        """Whether the window of each of some joined rows is covered."""
        covered: Bools = np.concatenate([each.complete(needs) for each in self.read])
        covered = covered[self.slot[rows] // self.read[0].width]
        return covered


class Measured:
    """The windows of joined rows at one instant."""

    def __init__(self, reading: Reading, windows: Sequence[Slots], lengths: Ints | None):
        self.reading = reading
        self.windows = windows  # of the query, as joined rows have them
        self.lengths = lengths  # of their own, 0 if a row has none; None if rows do not say

    def present(self) -> Bools:
        """Which joined rows have an event in a window that decides about that."""
        found = np.zeros(len(self.windows[0].slot), np.bool_)
        for part in self.reading.presence:
            slots = self.windows[part.window]
            counts = [each.partials[part.need][0] for each in slots.read]
            found |= below(counts)[slots.slot] > 0
        return found if self.lengths is None else found & (self.lengths > 0)

    def found(self, rows: Ints) -> list[Found]:
        """The windows of some joined rows."""
        return [
            slots.found(window.needs, rows)
            for slots, window in zip(self.windows, self.reading.windows, strict=True)
        ]

    def complete(self, rows: Ints) -> Bools:
        """Whether all windows of each of some joined rows are covered."""
        covered = [
            slots.complete(window.needs, rows)
            for slots, window in zip(self.windows, self.reading.windows, strict=True)
        ]
        whole: Bools = np.logical_and.reduce(covered)
        return whole


def measure(
    state: State,
    reading: Reading,
    sources: Sources,
    joined: JoinedRows,
    instant: int,
    ids: Ints | None = None,
) -> Measured:
    """Read the windows of joined rows; of some keys only, if their `ids` are given, ascending."""
    many = len(sources.keys)
    if ids is None:
        place, width = np.where(joined.key < 0, many, joined.key), many + 1
    else:
        place, width = np.where(joined.key < 0, len(ids), ids.searchsorted(joined.key)), len(ids) + 1
        ids = np.append(ids, many)  # a key that nobody has
    lengths = row_lengths(sources, joined)
    windows = []
    for asked in reading.windows:
        if asked.window.step and lengths is not None:
            sizes, which = np.unique(lengths, return_inverse=True)
            if len(sizes) and not sizes[0]:
                sizes, which = sizes[1:], np.maximum(which - 1, 0)
            read = read_windows(state, asked, own_windows(asked, sizes.tolist()), instant, ids, width)
            windows.append(Slots(read, which * width + np.where(lengths > 0, place, width - 1)))
        else:
            windows.append(Slots(read_windows(state, asked, [asked.window], instant, ids, width), place))
    return Measured(reading, windows, lengths)


def own_windows(asked: GroupWindow, sizes: Iterable[int]) -> list[Window]:
    """The windows of rows that say how long they are; at least one, so that there is a slot of nothing."""
    return [replace(asked.window, size=size, step=0) for size in sizes] or [asked.window]


def read_windows(
    state: State, asked: GroupWindow, windows: list[Window], instant: int, ids: Ints | None, width: int
) -> list[Found]:
    """Some windows that the group of another has, at an instant: of all keys, or of those with some ids."""
    settled = np.array([asked.window.settle(instant)])

    def ask(synopsis: Synopsis[Any]) -> dict[Window, Found]:
        if ids is None:
            return synopsis.lookup_all({each: Asked(settled, asked.needs) for each in windows}, width)
        return {each: synopsis.lookup(each, settled, asked.needs, ids, width) for each in windows}

    found = timed_together(state, asked.number, dict.fromkeys(windows, 1), ask)
    return [found[each] for each in windows]


def merged(found: Found, group: Ints, groups: int) -> Found:
    """The windows of joined rows, merged to groups that are given by number; where a group has none, what nothing has.
    Bounds and what is known stay those of the rows: all of them end together."""

    def merge(need: Need) -> tuple[np.ndarray, ...]:
        component = COMPONENTS[need.component]
        into = component.start(dtype_of(need), groups)
        component.merge(np.array([0]), np.array([len(group)]), groups, group, found.partials[need], into)
        return into

    return found._replace(partials={need: merge(need) for need in found.partials})


def row_lengths(sources: Sources, joined: JoinedRows) -> Ints | None:
    """How long the window of each joined row is; 0 if its row has none. None if rows do not say."""
    span = sources.query.span
    if span is None:
        return None
    side = sources.query.sides[span.side]
    (column,) = sources.columns([f"{side.name}.{span.column}"], joined).values()
    return lengths_of(column, span.most, span.step)


def lengths_of(column: pa.Array, most: int, step: int) -> Ints:
    """Spans in microseconds; 0 for one that is no length of a window.

    >>> lengths_of(pa.array([5, None, 7, -5, 50], pa.duration("us")), 20, 5).tolist()
    [5, 0, 0, 0, 0]
    """
    lengths = np.asarray(column.view(pa.int64()).fill_null(0))
    fits = (lengths > 0) & (lengths <= most) & (lengths % step == 0)
    found: Ints = np.where(fits, lengths, 0)
    return found
