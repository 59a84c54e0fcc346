"""slicing: what panes and paired_windows are made of, partials between edges that windows share.

The edges of all windows are known beforehand: each is a term of some progression `phase + i * step`. The
next edge of every progression waits in a heap, so the common period of all of them, which can be
astronomic (2 329 089 562 800 for slides of 1 to 30), never matters. Only slices that hold an event are
kept; one is found by the time of its first event, since no window begins or ends inside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import Array, Partial
from muntin.aggregate.sum import Sum
from muntin.kernels.slicing import cut_events
from muntin.synopsis.columns import Columns
from muntin.synopsis.contract import LONG_AGO, Bools, Ints

_COMPONENTS = ("count", "sum", "min", "max")


class Slicing:
    """Partials of COUNT, SUM, MIN and MAX of the events between two edges."""

    def __init__(self, progressions: Iterable[tuple[int, int]], dtype: np.dtype[Any]):
        """Edges at `phase + i * step` for each (phase, step)."""
        edges = np.array(sorted({(phase % step, step) for phase, step in progressions}), np.int64)
        self.phase, self.step = edges[:, 0].copy(), edges[:, 1].copy()
        self.dtype = dtype
        self._edge = np.full(len(edges), LONG_AGO)  # next edge of each progression
        self._heap = np.arange(len(edges))
        names = {"start": np.dtype(np.int64)}
        for name in _COMPONENTS:
            for number, (kind, _) in enumerate(COMPONENTS[name].identity(dtype)):
                names[f"{name} {number}"] = kind
        self._slices = Columns(names)

    def __len__(self) -> int:
        return len(self._slices)

    def insert(self, at: Ints, value: Array, valid: Bools) -> None:
        """Fold events in; O(1) each, and O(log progressions) for each edge between them."""
        at, value = np.require(at, np.int64, ["C", "W"]), np.require(value, self.dtype, ["C", "W"])
        valid = np.require(valid, np.bool_, ["C", "W"])
        slice_of, start_of = np.empty_like(at), np.empty_like(at)
        before = len(self)
        slices = cut_events(at, self.phase, self.step, self._edge, self._heap, before, slice_of, start_of)
        new = {"start": start_of[: slices - before]}
        for name in _COMPONENTS:
            for number, array in enumerate(COMPONENTS[name].start(self.dtype, slices - before)):
                new[f"{name} {number}"] = array
        self._slices.extend(new)
        whole = np.zeros(1, np.int64), np.full(1, len(at))
        for name in _COMPONENTS:
            COMPONENTS[name].fold(*whole, 0, slice_of, at, value, valid, self._cells(name))

    def query(self, start: Ints, end: Ints) -> dict[str, Partial]:
        """Partials of the events in each [start, end) between edges; O(log n + slices) each."""
        first_at = self._slices["start"]
        lo, hi = np.searchsorted(first_at, start), np.searchsorted(first_at, end)
        key = np.zeros(len(first_at), np.int64)
        found = {name: COMPONENTS[name].start(self.dtype, len(start)) for name in _COMPONENTS}
        for name, into in found.items():
            COMPONENTS[name].merge(lo, hi, 1, key, self._cells(name), into)
        return found

    def forget(self, before: int) -> None:
        """Drop the slices before an edge, but not the newest: more may come for it. O(1) amortised each."""
        gone = int(np.searchsorted(self._slices["start"], before))
        self._slices.drop_first(max(0, min(gone, len(self) - 1)))

    def nbytes(self) -> int:
        arrays = (self.phase, self.step, self._edge, self._heap)
        return self._slices.nbytes() + sum(array.nbytes for array in arrays)

    def check(self) -> None:
        self._slices.check()
        # each slice begins with an event after the last of the slice before
        assert bool(np.all(np.diff(self._slices["start"]) > 0))
        # a parent in the heap has no later edge than its children
        order = self._edge[self._heap]
        assert sorted(self._heap.tolist()) == list(range(len(self._edge)))
        assert all(order[(child - 1) // 2] <= order[child] for child in range(1, len(order)))
        # no two neighbouring slices could have been one
        for one, next_one in zip(self._slices["start"], self._slices["start"][1:], strict=False):
            assert np.any((one - self.phase) // self.step < (next_one - self.phase) // self.step)

    def _cells(self, name: str) -> Partial:
        count = len(COMPONENTS[name].identity(self.dtype))
        return tuple(self._slices[f"{name} {number}"] for number in range(count))


@dataclass(frozen=True)
class Closed:
    """Windows that closed, by end, then window: sum, min and max are meaningless where count is 0."""

    window: Ints  # index into `windows`
    end: Ints
    count: Ints
    sum: Array
    min: Array
    max: Array


class SlicedWindows(ABC):
    """Many time windows (size, slide) answered as they close, from slices.

    Window i covers `[end - size, end)` for every multiple `end` of its slide. COUNT, SUM, MIN and MAX.
    """

    name: ClassVar[str]

    def __init__(self, windows: Iterable[tuple[int, int]], dtype: np.dtype[Any]):
        """Of values of `dtype` (float64 or int64)."""
        self.windows = tuple(windows)
        if not self.windows or any(size < 1 or slide < 1 for size, slide in self.windows):
            raise ValueError("there must be windows, with a size and slide of at least 1 each")
        self.dtype = dtype
        self.closed_until = LONG_AGO  # windows that end up to here have been emitted
        self._newest = LONG_AGO  # time of the last event
        self._size, self._slide = (np.array(column, np.int64) for column in zip(*self.windows, strict=True))
        self.slicings, which = self._slice()
        self._slicing_of = np.array(which, np.int64)

    @abstractmethod
    def _slice(self) -> tuple[list[Slicing], list[int]]:
        """The slicings there are, and which of them answers each window."""

    def insert(self, at: Ints, value: Array, valid: Bools | None = None) -> None:
        """Events in order of time, none before an end that was emitted; O(1) for each slicing."""
        if not len(at):
            return
        if at[0] < max(self._newest, self.closed_until) or bool(np.any(at[1:] < at[:-1])):
            raise ValueError("events must come in order of time, and before the windows they belong to close")
        if self.closed_until == LONG_AGO:
            self.closed_until = int(at[0])  # no window before the first event is reported
        valid = np.ones(len(at), np.bool_) if valid is None else valid
        for slicing in self.slicings:
            slicing.insert(at, value, valid)
        self._newest = int(at[-1])

    def emit(self, until: int) -> Closed:
        """Answers of all windows with `closed_until < end <= until`, also of those without events.

        O(log n + slices in the window) for each answer. Nothing has closed before the first event.
        """
        window, end = self._closing(until)
        count, total, least, greatest = (np.zeros(len(end), kind) for kind in (np.int64, *[self.dtype] * 3))
        for number, slicing in enumerate(self.slicings):
            mine = self._slicing_of[window] == number
            found = slicing.query(end[mine] - self._size[window[mine]], end[mine])
            (count[mine],), (least[mine],), (greatest[mine],) = found["count"], found["min"], found["max"]
            total[mine] = Sum().lower(found).value
        if self.closed_until != LONG_AGO:
            self.closed_until = max(self.closed_until, until)
            self._forget()
        return Closed(window, end, count, total, least, greatest)

    def nbytes(self) -> int:
        """Bytes of state."""
        return sum(slicing.nbytes() for slicing in self.slicings)

    def check(self) -> None:
        """Assert every invariant."""
        for slicing in self.slicings:
            slicing.check()
        for (size, slide), number in zip(self.windows, self._slicing_of, strict=True):
            # windows begin and end at edges
            slicing = self.slicings[number]
            edges = list(zip(slicing.phase.tolist(), slicing.step.tolist(), strict=True))
            for phase in (0, -size):
                assert any((phase - edge) % step == 0 and slide % step == 0 for edge, step in edges)

    def _closing(self, until: int) -> tuple[Ints, Ints]:
        """Windows that close up to `until`, and when, in the order in which they do."""
        first = self.closed_until // self._slide + 1
        many = np.maximum(until // self._slide + 1 - first, 0)
        if self.closed_until == LONG_AGO:
            many[:] = 0
        window = np.repeat(np.arange(len(many)), many)
        nth = np.arange(len(window)) - np.repeat(np.cumsum(many) - many, many)
        end = (first[window] + nth) * self._slide[window]
        order = np.lexsort((window, end))
        return window[order], end[order]

    def _forget(self) -> None:
        # each slicing may drop what lies before the next window of all it answers
        start = (self.closed_until // self._slide + 1) * self._slide - self._size
        for number, slicing in enumerate(self.slicings):
            slicing.forget(int(start[self._slicing_of == number].min()))
