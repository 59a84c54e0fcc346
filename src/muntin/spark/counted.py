"""Counted slices: how many events a task has read of each slice, whatever queries make of them.

Where events are folded, the cells that travel have no trace of events that no WHERE lets pass. The number of late
events must not depend on that, so tasks count all events by slice, and a shard that knows the watermark adds up
the slices that had ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.arrays import Ints
from muntin.store.packed import pack


class CountedSlices:
    """`step` is the length of a slice in microseconds.

    >>> from muntin.store.packed import unpack
    >>> counted = CountedSlices(10)
    >>> counted.insert(np.array([3, 5, 12, 4]))
    >>> count_late(unpack(counted.take()), 10)
    3
    """

    def __init__(self, step: int):
        self._step = step
        self._runs: list[tuple[Ints, Ints]] = []

    def insert(self, at: Ints) -> None:
        """Count events; O(events). Neighbours are mostly of one slice, so runs of them are few."""
        slices = at // self._step
        edges = np.flatnonzero(np.diff(slices, prepend=slices[0] - 1))
        self._runs.append((slices[edges], np.diff(edges, append=len(at))))
        if sum(len(runs) for runs, _ in self._runs) > _MOST_RUNS:
            self._merge()

    def _merge(self) -> None:
        runs, counts = (np.concatenate(column) for column in zip(*self._runs, strict=True))
        found, place = np.unique(runs, return_inverse=True)
        total = np.zeros(len(found), np.int64)
        np.add.at(total, place, counts)
        self._runs = [(found, total)]

    def take(self) -> bytes:
        """Starts and counts, for a shard."""
        self._merge()
        ((slices, counts),) = self._runs
        packed = pack({"step": self._step}, {"start": slices * self._step, "count": counts})
        return bytes(packed.to_pybytes())


_MOST_RUNS = 1 << 18


def count_late(counted: tuple[dict[str, Any], dict[str, Any]], watermark: int) -> int:
    """Events of slices that had ended by the watermark."""
    description, arrays = counted
    return int(arrays["count"][arrays["start"] <= watermark - description["step"]].sum())
