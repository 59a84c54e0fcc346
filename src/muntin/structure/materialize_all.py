"""materialize_all: keep the answer of every window up to date with each arrival.

| | |
|---|---|
| Full name | materialize-all |
| Answers | COUNT, SUM and AVG of integers, MIN, MAX, over suffix windows that are known beforehand |
| Insert | O(1) for each window |
| Lookup | O(1) |
| Space | O(n) and O(1) for each window |
| Shares | the elements; for MIN and MAX the deque, whose tails are the deques of the single windows |
| Reference | Arasu & Widom, VLDB 2004, section 6.1 |

The other end from materialize_none, good when look-ups are frequent and windows few: the adaptation may
choose it. SUM adds the newest element and subtracts the one that leaves, MIN and MAX keep a monotone deque: the
elements of the window that no later one beats. The first of them is the answer.

    MAX of  3 1 4 1 5 9 2 6 5     deque of the last 8: 9 6 5    of the last 2: 6 5

Sums of floats are not served: a value that has been subtracted leaves the rounding of its addition
behind, and an answer may only depend on what is in the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from muntin.aggregates.component import Component
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import Ints
from muntin.kernels.materialize_all import advance_extremes, advance_totals
from muntin.store.columns import Columns
from muntin.structure.intervals import Intervals, check_rewind, known_runs

_NONE = np.zeros(0, np.int64)


class MaterializeAll(Intervals):
    """The answers of the windows of the last `sizes` elements, for one component.

    A window that reaches behind the oldest element remembered is answered from that on.

    >>> from muntin.aggregates.component import COMPONENTS
    >>> windows = MaterializeAll(COMPONENTS["max"], np.dtype(np.int64), sizes=[2, 3])
    >>> windows.extend((np.array([3, 1, 4, 1, 5, 1, 1]),))
    >>> windows.query(np.array([5, 4]), np.array([7, 7]))
    (array([1, 5]),)
    """

    name = "materialize_all"
    components = frozenset({"count", "sum", "min", "max"})
    takes_widths = True

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0, sizes: Iterable[int] = ()):
        super().__init__(component, dtype, first)
        if not self.serves(component.name, dtype):
            raise ValueError(f"materialize_all does not serve {component.name} of {dtype}")
        self._is_extreme = component.name in ("min", "max")
        kinds = [kind for kind, _ in component.identity(dtype)]
        self._elements = Columns({str(number): kind for number, kind in enumerate(kinds)})
        self._elements.dropped = first
        self.fit(sizes)

    @classmethod
    def of_widths(
        cls, component: Component, dtype: np.dtype, first: int, widths: Sequence[tuple[int, int]]
    ) -> Self:
        return cls(component, dtype, first, {size for size, _ in widths})

    @classmethod
    def serves(cls, component: str, dtype: np.dtype) -> bool:
        """Whether it can keep a component up to date without a trace of what has left."""
        return component in cls.components and (component != "sum" or dtype == np.int64)

    def fit(self, sizes: Iterable[int]) -> None:
        """Have exactly the windows of these sizes; O(widest + windows)."""
        self.sizes: Ints = np.unique(np.fromiter(sizes, np.int64))
        self._widest = int(self.sizes[-1]) if len(self.sizes) else 0
        self._queue = np.zeros(2 * self._widest + 1 if self._is_extreme else 0, np.int64)
        self._rebuild()

    def extend(self, lifted: Partial) -> None:
        """O(1) for each element and window, amortised."""
        start = len(self._elements)
        self._elements.extend(dict(zip(self._elements.names(), lifted, strict=True)))
        self.end += len(lifted[0])
        if not len(self.sizes):
            return
        if self._is_extreme:
            self._advance(start, self.sizes, self._head, self._answer[0])
            return
        elements = (self._elements[name] for name in self._elements.names())
        advance_totals(self.component.kind(self.dtype))(start, self.sizes, *elements, *self._answer)

    def rewind(self, end: int) -> None:
        """O(widest + windows): answers are made anew."""
        check_rewind(self.first, self.end, end)
        self._elements.truncate(end - self.first)
        self.end = end
        self._rebuild()

    def forget(self, first: int) -> None:
        """O(1) amortised for each element; O(widest + windows) if a window still held it."""
        first = min(max(first, self.first), self.end)
        is_held = first > max(self.first, self.end - self._widest)
        self._elements.drop_first(first - self.first)
        self.first = first
        if is_held:
            self._rebuild()

    def can_answer(self, lo: Ints, hi: Ints) -> bool:
        return not bool(np.any(self._window_of(lo, hi) < 0))

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(log windows), to find which one is asked for; only runs that are a window's are known."""
        lo, hi = known_runs(self.first, self.end, lo, hi)
        window, asked = self._window_of(lo, hi), lo < hi
        if bool(np.any(window < 0)):
            run = f"[{lo[window < 0][0]}, {hi[window < 0][0]})"
            raise ValueError(f"{run} is asked for, which is no window that materialize_all was fitted to")
        out = self.component.start(self.dtype, len(lo))
        for array, answer in zip(out, self._answer, strict=True):
            array[asked] = answer[window[asked]]
        return out

    def nbytes(self) -> int:
        arrays = (self.sizes, self._queue, self._head, *self._answer)
        return self._elements.nbytes() + sum(array.nbytes for array in arrays)

    def check(self) -> None:
        self._elements.check()
        # what is stored is what is remembered
        assert self._elements.dropped == self.first
        assert len(self._elements) == self.end - self.first
        # each answer is that of its elements
        stored = tuple(self._elements[name] for name in self._elements.names())
        held = len(self._elements)
        expected = self.component.start(self.dtype, len(self.sizes))
        start = np.maximum(held - self.sizes, 0)
        key = np.zeros(held, np.int64)
        self.component.merge(start, np.full(len(start), held), 1, key, stored, expected)
        np.testing.assert_array_equal(self._answer[0], expected[0])
        if self._is_extreme and len(self.sizes):
            # a deque holds numbers of its window, in order
            assert bool(np.all(np.diff(self._queue[self._head.min() : self._queued]) > 0))
            for window, head in enumerate(self._head):
                in_window = self._queue[head : self._queued] >= self.first + start[window]
                assert bool(np.all(in_window))

    def _window_of(self, lo: Ints, hi: Ints) -> Ints:
        """Which window each run is, -1 if it is none; that of an empty run does not matter."""
        window = np.searchsorted(self.sizes, hi - lo)
        size = np.append(self.sizes, 0)[window]
        is_known = (hi == self.end) & (lo == np.maximum(self.end - size, self.first))
        return np.where((lo >= hi) | is_known, window, -1)

    def _rebuild(self) -> None:
        self._answer = self.component.start(self.dtype, len(self.sizes))
        self._head = np.zeros(len(self.sizes), np.int64)
        self._queued = 0
        held = len(self._elements)
        start = np.maximum(held - self.sizes, 0)
        oldest = max(held - self._widest, 0)
        if not self._is_extreme:
            for name, total in zip(self._elements.names(), self._answer, strict=True):
                running = np.concatenate([[0], np.cumsum(self._elements[name][oldest:])])
                total[:] = running[-1] - running[start - oldest]
        elif len(self.sizes):
            self._advance(oldest, _NONE, _NONE, self._answer[0])
            queue = self._queue[: self._queued]
            self._head = np.searchsorted(queue, self.first + start)
            (value,) = (self._elements[name] for name in self._elements.names())
            holds = self._head < self._queued
            self._answer[0][holds] = value[queue[self._head[holds]] - self.first]

    def _advance(self, start: int, sizes: Ints, head: Ints, answer: Array) -> None:
        (value,) = (self._elements[name] for name in self._elements.names())
        is_max = self.component.name == "max"
        nothing = self.component.start(self.dtype, 1)[0][0]
        self._queued = advance_extremes(
            value, self.first, start, sizes, self._queue, self._queued, head, is_max, answer, nothing
        )
