"""slicing: what panes and paired_windows are made of, partials between edges that windows share.

The edges of all windows are known beforehand: each is a term of some progression `phase + i * step`. The
next edge of every progression waits in a heap, so the common period of all of them, which can be
astronomic (2 329 089 562 800 for slides of 1 to 30), never matters. Only slices that hold an event are
kept; one is found by the time of its first event, since no window begins or ends inside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, ClassVar, NamedTuple

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
        """Drop the slices before an edge; O(1) amortised each."""
        self._slices.drop_first(int(np.searchsorted(self._slices["start"], before)))

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


class Closed(NamedTuple):
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
        self.windows = tuple(windows)
        if any(size < 1 or slide < 1 for size, slide in self.windows):
            raise ValueError("size and slide of a window must be at least 1")
        self.dtype = dtype
        self.closed_until = LONG_AGO  # windows that end up to here have been emitted
        self._newest = LONG_AGO  # time of the last event
        self._size, self._slide = (np.array(column, np.int64) for column in zip(*self.windows, strict=True))
        self._slicing_of = self._slice()

    @abstractmethod
    def _slice(self) -> tuple[Slicing, ...]:
        """The slicing that answers each window; windows may share one."""

    def slicings(self) -> Collection[Slicing]:
        """The different slicings."""
        return list(dict.fromkeys(self._slicing_of))

    def insert(self, at: Ints, value: Array, valid: Bools | None = None) -> None:
        """Events in order of time, none before an end that was emitted; O(1) for each slicing."""
        if not len(at):
            return
        if at[0] < max(self._newest, self.closed_until) or bool(np.any(at[1:] < at[:-1])):
            raise ValueError("events must come in order of time, and before the windows they belong to close")
        if self._newest == LONG_AGO and self.closed_until == LONG_AGO:
            self.closed_until = int(at[0])  # no window before the first event is reported
        valid = np.ones(len(at), np.bool_) if valid is None else valid
        for slicing in self.slicings():
            slicing.insert(at, value, valid)
        self._newest = int(at[-1])

    def emit(self, until: int) -> Closed:
        """Answers of all windows with `closed_until < end <= until`, also of those without events.

        O(log n + slices in the window) for each answer. Nothing has closed before the first event.
        """
        parts = []
        if self.closed_until != LONG_AGO:
            parts = [self._close(window, until) for window in range(len(self.windows))]
            self.closed_until = max(self.closed_until, until)
            self._forget()
        if not parts:
            empty, none = np.zeros(0, np.int64), np.zeros(0, self.dtype)
            return Closed(empty, empty, empty, none, none, none)
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[0], columns[1]))
        return Closed(*(column[order] for column in columns))

    def nbytes(self) -> int:
        """Bytes of state."""
        return sum(slicing.nbytes() for slicing in self.slicings())

    def check(self) -> None:
        """Assert every invariant."""
        for slicing in self.slicings():
            slicing.check()
        for (size, slide), slicing in zip(self.windows, self._slicing_of, strict=True):
            # a window begins and ends at edges: its ends are those of one progression, or of several
            for phase in (0, -size):
                steps = zip(slicing.phase.tolist(), slicing.step.tolist(), strict=True)
                assert any((phase - edge) % step == 0 and slide % step == 0 for edge, step in steps)

    def _close(self, window: int, until: int) -> Closed:
        size, slide = self.windows[window]
        end = np.arange(self.closed_until // slide + 1, until // slide + 1) * slide
        found = self._slicing_of[window].query(end - size, end)
        (count,), (least,), (greatest,) = found["count"], found["min"], found["max"]
        total = Sum().lower(found).value
        return Closed(np.full(len(end), window), end, count, total, least, greatest)

    def _forget(self) -> None:
        # each slicing may drop what lies before the start of the next window of all it answers
        start = (self.closed_until // self._slide + 1) * self._slide - self._size
        for slicing in self.slicings():
            mine = [each is slicing for each in self._slicing_of]
            slicing.forget(int(start[mine].min()))
