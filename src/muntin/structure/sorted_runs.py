"""sorted runs: what quantile_tree and distinct are made of, a ring with all base intervals sorted.

A base interval is `[q * 2**i, (q + 1) * 2**i)`. With its elements kept in order, any run of elements is
the union of at most two sorted pieces per level, and a few loose elements at its ends:

    number        16 ......... 31 32 ......... 47 48 ......... 63 64 ...
    row 0         as they came
    row 1         [ sorted      ] [ sorted      ] [ sorted      ]
    row 2                         [ sorted                      ]

    [20, 66)   =  20 .. 31 loose, [32, 64) of row 2, 64 and 65 loose
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregates.contract import Array
from muntin.arrays import Bools, Ints
from muntin.kernels.combine import SMALLEST, ring_capacity
from muntin.kernels.sorted_runs import LEAF, LEAF_BITS, append_elements, build_runs, move_elements
from muntin.store.columns import Columns


class SortedRuns:
    """Elements numbered from `first` on, each base interval also sorted. NaN is not allowed.

    Which intervals are kept is a function of `first`, `end` and the width of the ring alone, however the
    elements came. The width follows the number of elements, so memory is O(n log n).
    """

    def __init__(self, dtype: np.dtype[Any], first: int = 0):
        self.first = first
        self.end = first
        self.rows = _empty_rows(SMALLEST, dtype)

    def __len__(self) -> int:
        return self.end - self.first

    def extend(self, value: Array) -> None:
        """Append elements; O(log n) amortised per element."""
        if len(self) + len(value) > self.rows.shape[1]:
            self._fit(len(self) + len(value))
        append_elements(self.rows, self.end, self.first, value)
        self.end += len(value)

    def rewind(self, end: int) -> None:
        """Take back the elements from `end` on; O(1). Intervals over `end` will be merged anew."""
        self.end = end

    def forget(self, first: int) -> None:
        """Drop the elements below `first`; O(1), or O(log n) for each one left when the ring narrows."""
        self.first = first
        self._fit(len(self))

    def nbytes(self) -> int:
        return int(self.rows.nbytes)

    def check(self) -> None:
        # the ring is as wide as a power of two, holds all elements, and has a row per level below its width
        height, width = self.rows.shape
        assert width == 1 << (width.bit_length() - 1)
        assert len(self) <= width
        assert height == width.bit_length() - LEAF_BITS
        # each interval whose elements are all here holds them in order
        for row in range(1, height):
            length = LEAF << (row - 1)
            for lo in range(-(-self.first // length) * length, self.end - length + 1, length):
                place = slice(lo % width, lo % width + length)
                np.testing.assert_array_equal(self.rows[row, place], np.sort(self.rows[0, place]))

    def _fit(self, needed: int) -> None:
        width = ring_capacity(self.rows.shape[1], needed)
        if width != self.rows.shape[1]:
            rows = _empty_rows(width, self.rows.dtype)
            move_elements(self.rows, self.first, self.end, rows)
            build_runs(rows, len(self.rows), self.first, self.end, self.first)
            self.rows = rows


def _empty_rows(width: int, dtype: np.dtype[Any]) -> Array:
    return np.zeros((width.bit_length() - LEAF_BITS, width), dtype)


class Ordinals:
    """Numbers of valid elements among themselves: NULL elements have a number, but are not kept.

    >>> ordinals = Ordinals()
    >>> ordinals.extend(np.array([True, False, True]))
    >>> ordinals.of(np.array([0, 1, 2, 3]))  # how many valid elements came before
    array([0, 1, 1, 2])
    """

    def __init__(self, first: int = 0):
        self.valid_end = first  # counts on from `first`, as if all before had been valid
        self._columns = Columns({"before": np.dtype(np.int64)})
        self._columns.dropped = first

    def extend(self, valid: Bools) -> None:
        """Append elements; O(1) each."""
        upto = self.valid_end + np.cumsum(valid)
        self._columns.extend({"before": upto - valid})
        self.valid_end = int(upto[-1]) if len(upto) else self.valid_end

    def rewind(self, end: int) -> int:
        """Take back the elements from `end` on; returns the new ordinal to come."""
        self.valid_end = int(self.of(np.array([end]))[0])
        self._columns.truncate(end - self._columns.dropped)
        return self.valid_end

    def forget(self, first: int) -> int:
        """Drop the elements below `first`; returns the ordinal of the first valid one left."""
        ordinal = int(self.of(np.array([first]))[0])
        self._columns.drop_first(first - self._columns.dropped)
        return ordinal

    def of(self, number: Ints) -> Ints:
        """Ordinal of the first valid element at or after each number; O(1) each."""
        before = self._columns["before"]
        at = number - self._columns.dropped
        if not len(before):
            return np.full(len(number), self.valid_end)
        return np.where(at < len(before), before[np.minimum(at, len(before) - 1)], self.valid_end)

    def before(self, number: int) -> int:
        """`of` one number."""
        at = number - self._columns.dropped
        return int(self._columns["before"][at]) if at < len(self._columns) else self.valid_end

    def nbytes(self) -> int:
        return self._columns.nbytes()

    def check(self) -> None:
        self._columns.check()
        # ordinals rise by one with each valid element
        steps = np.diff(np.append(self._columns["before"], self.valid_end))
        assert bool(np.all((steps == 0) | (steps == 1)))
