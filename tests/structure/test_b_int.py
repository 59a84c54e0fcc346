"""B-INT: which intervals are kept, how many a look-up reads, and what an update costs."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.aggregates.component import COMPONENTS
from muntin.structure.b_int import BInt

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
A = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


def greatest_of(values: list[int]) -> BInt:
    greatest = BInt(COMPONENTS["max"], INT)
    greatest.extend((np.array(values),))
    return greatest


def reads(structure: BInt, lo: int, hi: int) -> int:
    """How many intervals one look-up combines."""
    before = structure.reads
    structure.query(np.array([lo]), np.array([hi]))
    return structure.reads - before


class TestActiveIntervals:
    """m = 13, Nmax = 8, MAX (spec 1.6); positions there count from 1, so (7, 8) is [6, 8) here.

    level 0   [ 9 | 2 | 6 | 5 | 3 | 5 | 8 | 9 ]   positions 6 to 13
    level 1       [   6   |   5   |   8   ]
    level 2               [       8       ]
    """

    def test_which_there_are(self) -> None:
        greatest = greatest_of(A[:13])
        greatest.forget(5)
        start, end, (value,) = greatest.active()
        positions = list(zip((start + 1).tolist(), end.tolist(), value.tolist(), strict=True))
        singles = [(p, p, A[p - 1]) for p in range(6, 14)]
        assert positions == [*singles, (7, 8, 6), (9, 10, 5), (11, 12, 8), (9, 12, 8)]

    def test_look_ups(self) -> None:
        greatest = greatest_of(A[:13])
        greatest.forget(5)
        assert greatest.query(np.array([5, 5, 6]), np.array([13, 10, 12]))[0].tolist() == [9, 9, 8]
        assert [reads(greatest, 5, 13), reads(greatest, 5, 10), reads(greatest, 6, 12)] == [4, 3, 2]

    def test_same_after_every_arrival(self) -> None:
        """Exactly the base intervals within the last Nmax are active, whatever m (spec 1.1)."""
        for most in (1, 2, 3, 8, 13):
            greatest = greatest_of([])
            for m, value in enumerate(A, 1):
                greatest.extend((np.array([value]),))
                greatest.forget(m - most)
                start, end, (found,) = greatest.active()
                wanted = [
                    (q << level, (q + 1) << level, max(A[q << level : (q + 1) << level]))
                    for level in range(5)
                    for q in range(20)
                    if q << level >= m - most and (q + 1) << level <= m
                ]
                assert list(zip(start.tolist(), end.tolist(), found.tolist(), strict=True)) == wanted


class TestCosts:
    def test_example_of_the_paper_needs_four(self) -> None:
        """Erratum E2: (1, 43) is split in 8 in Example 3.1; 4 will do, and only the value matters."""
        random = np.random.default_rng(0)
        values = random.integers(0, 1000, 50).tolist()
        greatest = greatest_of(values)
        assert reads(greatest, 0, 43) == 4
        assert greatest.query(np.array([0]), np.array([43]))[0][0] == max(values[:43])

    def test_look_up_bound(self) -> None:
        """At most max(1, 2 floor(log2 W)) intervals, and as many for W = 2^k - 2 (spec 1.1)."""
        greatest = greatest_of([0] * 600)
        for width in range(1, 131):
            most = max(reads(greatest, lo, lo + width) for lo in range(256))
            assert most <= max(1, 2 * (width.bit_length() - 1))
            if width in (2, 6, 14, 30, 62, 126):
                assert most == 2 * (width + 2).bit_length() - 4

    @pytest.mark.parametrize("cuts", [[5000], [1] * 300, [7, 64, 1, 1000, 333, 128]])
    def test_less_than_one_combine_per_element(self, cuts: list[int]) -> None:
        """sum over i >= 1 of floor(m / 2^i), which is less than m (invariant ii)."""
        greatest = greatest_of([])
        for count in cuts:
            greatest.extend((np.zeros(count, np.int64),))
            m = greatest.end
            assert greatest.combines == sum(m >> level for level in range(1, 40))
            assert greatest.combines < m

    def test_space(self) -> None:
        """Less than 2 partials per element of the ring, which doubles and shrinks at a quarter."""
        greatest = greatest_of([])
        for count in (100, 1000, 10_000):
            greatest.extend((np.zeros(count, np.int64),))
            capacity = 1 << (greatest.end - 1).bit_length()
            assert greatest.nbytes() == 2 * capacity * 8
        greatest.forget(greatest.end - capacity // 4 - 1)
        assert greatest.nbytes() == 2 * capacity * 8
        greatest.forget(greatest.end - capacity // 4)
        assert greatest.nbytes() == capacity * 8
        greatest.check()


def test_what_has_left_leaves_no_trace() -> None:
    """A NaN, an infinity, 1e300 and 1e16 in the past change nothing (the trap of R-INT, spec 0.3)."""
    sums = BInt(COMPONENTS["sum"], FLOAT)
    values = np.array([np.nan, np.inf, 1e300, 1e16, 1.0, 1.0, 1.0, 1.0, 1.0])
    sums.extend((values, np.zeros(9)))
    high, low = sums.query(np.array([4, 3]), np.array([9, 9]))
    assert (high + low).tolist() == [5.0, 1e16 + 5]


def test_order_is_kept() -> None:
    """FIRST goes by time even where elements do not: ties go to the left."""
    first = BInt(COMPONENTS["first"], INT)
    first.extend((np.array([1, 2, 3, 4, 5]), np.array([9, 7, 7, 8, 7])))
    value, at = first.query(np.array([0, 2, 3]), np.array([5, 5, 4]))
    assert (value.tolist(), at.tolist()) == ([2, 3, 4], [7, 7, 8])
    last = BInt(COMPONENTS["last"], INT)
    last.extend((np.array([1, 2, 3, 4, 5]), np.array([9, 7, 9, 8, 7])))
    value, at = last.query(np.array([0, 0, 3]), np.array([5, 2, 5]))
    assert (value.tolist(), at.tolist()) == ([3, 1, 4], [9, 9, 8])
