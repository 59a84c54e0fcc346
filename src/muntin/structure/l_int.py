"""L-INT: keep partials that begin or end at landmarks, answer a window from at most two.

| | |
|---|---|
| Full name | L-INT (landmark intervals) |
| Answers | every component, over windows whose width was announced; other runs more slowly |
| Insert | O(gamma): at most c + 1 combines per element and partition |
| Lookup | O(1): at most 2 partials |
| Space | at most c + 1 partials per element and partition; about c + 1 per element in all if windows are suffixes |
| Shares | the partials, among all windows of similar width |
| Reference | Arasu & Widom, VLDB 2004, section 3.1.2, Definition 3.2 and Figure 5 |

Windows are counted in elements: `(NL, NR)` reaches from NL elements ago to NR elements ago, so its
width is NL - NR. Those whose widths are within a factor c of each other form a *partition*; gamma
is the number of partitions. Let the narrowest width be 3 and the widest 5. Every multiple of 3 is a
landmark. Any window contains one, and is what lies before it plus what lies after it:

    element     0   1   2 | 3   4   5 | 6   7   8 | 9
    value       3   1   4 | 1   5   9 | 2   6   5 | 3
    backward        5   4 |    14   9 |    11   5 |            from here to the next landmark
    forward     3   4   8 | 1   6  15 | 2   8  13 | 3          from the nearest landmark to here
    forward               | 9  14     | 17 23     | 16         from the one before, as far as 5 elements

    sum of [4, 8)  ->  14 (backward from 4) + 8 (forward to 7)

* A forward row has as many partials as the widest window has elements. A backward row needs one less
  than the *narrowest* has, for a window uses the first landmark in it. (The paper gives backward rows
  the length of forward rows, and is off by one in both.)
* A window that is not full yet begins where the stream began, which counts as a landmark.
* Partition j forgets what lies before its own oldest window (the paper's refinement for suffix
  windows): the horizons grow like the widths, so all partitions together cost little more than the last.
* A run of any other width is answered too, by walking from landmark to landmark, or by combining
  single elements where no partition reaches. So time windows over events get right answers, but B-INT
  suits them better: the widths of theirs vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np

from muntin.aggregates.component import COMPONENTS, Component, cells_of
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels import l_int as kernels
from muntin.kernels.combine import SMALLEST, as_words, move, ring_capacity
from muntin.kernels.l_int import BASE, CAPACITY, DEPTH, HORIZON, KEPT, LONGEST, ORIGIN, WIDTH
from muntin.structure.intervals import Intervals, check_rewind, not_remembered


class Partition(NamedTuple):
    """Windows of similar width."""

    narrowest: int
    widest: int
    horizon: int  # how many elements ago the oldest of them begins


def partitions(windows: Iterable[tuple[int, int]], c: int = 2) -> list[Partition]:
    """Group windows `(NL, NR)` by width, each group within a factor `c`; empty windows are left out.

    >>> partitions([(5, 0), (8, 5), (8, 4), (20, 0), (7, 7)])
    [Partition(narrowest=3, widest=5, horizon=8), Partition(narrowest=20, widest=20, horizon=20)]
    """
    found: list[Partition] = []
    for width, reach in sorted((reach - to, reach) for reach, to in windows if reach > to):
        if found and width <= c * found[-1].narrowest:
            found[-1] = found[-1]._replace(widest=width, horizon=max(found[-1].horizon, reach))
        else:
            found.append(Partition(width, width, reach))
    return found


class LInt(Intervals):
    """
    >>> sums = LInt(COMPONENTS["sum"], np.dtype(np.float64), windows=[(5, 0), (5, 2)])
    >>> sums.extend((np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3]), np.zeros(10)))
    >>> sums.query(np.array([5, 4, 0]), np.array([10, 8, 2]))[0]
    array([25., 22.,  4.])
    >>> sums.reads  # 2 partials for the first two each, 1 for a window that is not full yet
    5
    """

    name = "l_int"
    components = COMPONENTS.keys()
    takes_widths = True

    def __init__(
        self,
        component: Component,
        dtype: np.dtype,
        first: int = 0,
        windows: Iterable[tuple[int, int]] = (),
        c: int = 2,
    ):
        """For `windows` (NL, NR) in elements, in partitions whose widths are within a factor `c`."""
        super().__init__(component, dtype, first)
        self.partitions = partitions(windows, c)
        self.combines = 0  # made by updates so far
        self.reads = 0  # partials that look-ups have combined so far
        self._values = self._new_cells(SMALLEST)  # a ring of the elements themselves
        self._table = np.zeros((len(self.partitions), kernels.COLUMNS), np.int64)
        self._table[:, [WIDTH, LONGEST, HORIZON]] = np.reshape(self.partitions, (-1, 3))
        self._table[:, DEPTH] = -(-self._table[:, LONGEST] // self._table[:, WIDTH])
        self._table[:, [KEPT, ORIGIN]] = first
        self._table[:, CAPACITY] = SMALLEST
        self._rows = self._new_cells(_lay_out(self._table))

    @classmethod
    def of_widths(
        cls, component: Component, dtype: np.dtype, first: int, widths: Sequence[tuple[int, int]]
    ) -> Self:
        return cls(component, dtype, first, widths)

    def extend(self, lifted: Partial) -> None:
        """O(gamma) amortised per element; one that completes a backward row pays for all of it."""
        count = len(lifted[0])
        self._make_room(self.end + count)
        arrays = tuple(np.require(array, requirements=["C", "W"]) for array in lifted)
        self.combines += kernels.extend(self._rows, self._table, self._values, self.end, arrays)
        self.end += count

    def rewind(self, end: int) -> None:
        """O(gamma): backward rows that end later will be built again."""
        check_rewind(self.first, self.end, end)
        self.end = end
        self._begin_again()

    def forget(self, first: int) -> None:
        """O(gamma), and O(1) amortised per element and partition."""
        first = min(first, self.end)
        if first > self.first:
            self.first = first
            # Who needs nothing before `first` asks no earlier than when the oldest window begins there,
            # and windows with a shorter horizon begin later. Not so if the oldest window is not full,
            # because slices are missing: then any of them may begin there.
            horizon = self._table[:, HORIZON]
            oldest = horizon.max(initial=0)
            later = oldest - horizon if self.end - first >= oldest else 0
            self._table[:, KEPT] = np.maximum(self._table[:, KEPT], first + later)
            self._begin_again()
            self._save_room()

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(gamma) to find the partition, then at most 2 partials for a window that was announced."""
        lo, hi = (np.require(array, np.int64, ["C", "W"]) for array in (lo, hi))
        out = self.component.start(self.dtype, len(lo))
        read = kernels.query(self._rows, self._table, self._values, self.first, self.end, lo, hi, out)
        if read < 0:
            raise not_remembered(self.first, self.end, lo, hi, ~read)
        self.reads += read
        return out

    def forward(self, p: int, landmark: int) -> Partial:
        """The forward row of a landmark in partition `p`: `[landmark, landmark + 1 + d)` for d = 0, 1, …"""
        part = self._table[p]
        last = np.arange(landmark, min(landmark + part[LONGEST], self.end))
        ring = 1 + last // part[WIDTH] - landmark // part[WIDTH]
        return self._at(part[BASE] + ring * part[CAPACITY] + (last & (part[CAPACITY] - 1)))

    def backward(self, p: int, landmark: int) -> Partial:
        """The backward row of a landmark in partition `p`: `[landmark - d, landmark)` for d = 1, 2, …"""
        part = self._table[p]
        first = np.arange(landmark - 1, max(landmark - part[WIDTH], part[KEPT] - 1), -1)
        return self._at(part[BASE] + (first & (part[CAPACITY] - 1)))

    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._rows, *self._values, self._table))

    def check(self) -> None:
        # the elements remembered, and those a partition keeps, fit their rings: powers of 2
        sizes = [(self.end - self.first, len(self._values[0]))]
        sizes += [(self.end - part[KEPT], part[CAPACITY]) for part in self._table]
        for needed, capacity in sizes:
            assert 0 <= needed <= capacity
            assert capacity & (capacity - 1) == 0
        for p, part in enumerate(self._table):
            # nothing is kept from before the rows began; a partition may keep less than all
            assert part[ORIGIN] <= part[KEPT]
            assert self.first <= part[KEPT] <= self.end
            # every row is what its elements combine to, in the same order
            elements = np.arange(part[KEPT], self.end) & (len(self._values[0]) - 1)
            width, longest = int(part[WIDTH]), int(part[LONGEST])
            again = LInt(
                self.component, self.dtype, int(part[KEPT]), [(width, 0), (longest, 0)], -(-longest // width)
            )
            again.extend(tuple(array[elements] for array in self._values))
            for landmark in range(-(-int(part[KEPT]) // width) * width, self.end + 1, width):
                rows = (*self.forward(p, landmark), *self.backward(p, landmark))
                rows_again = (*again.forward(0, landmark), *again.backward(0, landmark))
                for one, other in zip(rows, rows_again, strict=True):
                    np.testing.assert_array_equal(one, other)

    def _at(self, cells: Ints) -> Partial:
        return tuple(array[cells] for array in self._rows)

    def _new_cells(self, count: int) -> Partial:
        cells: Partial = cells_of(self.component.name, self.dtype, self.component.start(self.dtype, count))
        return cells

    def _begin_again(self) -> None:
        """A partition that keeps no element has no row to go on with."""
        is_empty = self._table[:, KEPT] >= self.end
        self._table[is_empty, KEPT] = self._table[is_empty, ORIGIN] = self.end

    def _make_room(self, end: int) -> None:
        """Double the rings that are too small for elements up to `end`."""
        capacities = [len(self._values[0]), *self._table[:, CAPACITY].tolist()]
        fitting = [max(each) for each in zip(capacities, self._fitting(end, capacities), strict=True)]
        if fitting != capacities:
            self._resize(fitting)

    def _save_room(self) -> None:
        """Shrink the rings when half the space would do for all of them.

        Together, for they lie in one place: a small ring that grew for a batch is not worth a move.
        """
        capacities = [len(self._values[0]), *self._table[:, CAPACITY].tolist()]
        fitting = self._fitting(self.end, capacities)
        rings = [1, *(1 + self._table[:, DEPTH]).tolist()]
        if 2 * np.dot(rings, fitting) <= np.dot(rings, capacities):
            self._resize(fitting)

    def _fitting(self, end: int, capacities: list[int]) -> list[int]:
        needed = [end - self.first, *(end - self._table[:, KEPT]).tolist()]
        return [ring_capacity(*each) for each in zip(capacities, needed, strict=True)]

    def _resize(self, capacities: list[int]) -> None:
        """Move all cells to rings of other capacities, that of the values first; O(space)."""
        values = self._new_cells(capacities[0])
        old, new = as_words(self._values), as_words(values)
        move(old, 0, len(old[0]), new, 0, capacities[0], self.first, self.end)
        table = self._table.copy()
        table[:, CAPACITY] = capacities[1:]
        rows = self._new_cells(_lay_out(table))
        kernels.resize(as_words(self._rows), self._table, as_words(rows), table, self.end)
        self._values, self._rows, self._table = values, rows, table


def _lay_out(table: Ints) -> int:
    """Place the rings of all partitions one after the other; returns how many cells they take."""
    cells = (1 + table[:, DEPTH]) * table[:, CAPACITY]
    table[:, BASE] = np.cumsum(cells) - cells
    return int(cells.sum())
