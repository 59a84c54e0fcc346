"""L-INT: which rows are kept, that two partials are enough, and what an update costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muntin.aggregates.component import COMPONENTS
from muntin.kernels.l_int import KEPT, ORIGIN
from muntin.structure.l_int import LInt, Partition, partitions

INT = np.dtype(np.int64)
A = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
NARROW, WIDE, FAR = 3, 5, 8


def sums_for(windows: list[tuple[int, int]], values: Any, first: int = 0, c: int = 2) -> LInt:
    sums = LInt(COMPONENTS["sum"], INT, first, windows, c)
    extend(sums, values)
    return sums


def extend(sums: LInt, values: Any) -> None:
    sums.extend((np.array(values, np.int64), np.array(values, np.float64)))


def look_up(sums: LInt, lo: int, hi: int) -> tuple[int, int]:
    """The answer and how many partials it took."""
    before = sums.reads
    total, _ = sums.query(np.array([lo]), np.array([hi]))
    return int(total[0]), sums.reads - before


class TestRowsOfThePaper:
    """Wmin = 3, Wmax = 5, Nmax = 8, m = 13, SUM (spec 1.6).

    The paper counts positions from 1, and position 0 is a landmark with an empty element. So here:
    element 0 is empty, and numbers are the paper's positions.

        landmark          6           9          12
        position          6   7   8 | 9  10  11 |12  13
        value             9   2   6 | 5   3   5 | 8   9
    """

    @pytest.fixture
    def sums(self) -> LInt:
        windows = [(WIDE, 0), (FAR, FAR - NARROW), (FAR, FAR - WIDE)]
        sums = sums_for(windows, [0, *A[:13]])
        sums.forget(13 - FAR + 1)
        assert sums.partitions == [Partition(NARROW, WIDE, FAR)]
        return sums

    def test_forward(self, sums: LInt) -> None:
        assert sums.forward(0, 6)[0].tolist() == [9, 11, 17, 22, 25]
        assert sums.forward(0, 9)[0].tolist() == [5, 8, 13, 21, 30]
        assert sums.forward(0, 12)[0].tolist() == [8, 17]

    def test_backward(self, sums: LInt) -> None:
        """As far as the narrowest window can reach back from its first landmark: 2 of the paper's 4."""
        assert sums.backward(0, 9)[0].tolist() == [6, 8]
        assert sums.backward(0, 12)[0].tolist() == [5, 8]

    @pytest.mark.parametrize(
        ("window", "answer", "partials"), [((5, 0), 30, 1), ((7, 4), 13, 2), ((8, 5), 17, 1)]
    )
    def test_look_ups(self, sums: LInt, window: tuple[int, int], answer: int, partials: int) -> None:
        assert look_up(sums, 14 - window[0], 14 - window[1]) == (answer, partials)


class TestRowLengths:
    """Erratum E3: forward rows of Wmax partials, backward rows of Wmin - 1; not one too many."""

    @pytest.mark.parametrize(("narrow", "wide"), [(3, 5), (3, 3), (4, 8), (1, 2), (1, 1), (5, 6)])
    def test_all_are_there(self, narrow: int, wide: int) -> None:
        sums = sums_for([(narrow, 0), (wide, 0)], range(60))
        landmark = 6 * narrow
        assert len(sums.forward(0, landmark)[0]) == wide
        assert len(sums.backward(0, landmark)[0]) == narrow - 1
        for lo in range(60 - wide):
            for width in range(narrow, wide + 1):
                answer, partials = look_up(sums, lo, lo + width)
                assert answer == sum(range(lo, lo + width))
                assert partials <= 2

    def test_the_last_of_each_row_is_read(self) -> None:
        """Spoiling it spoils an answer: the widest from a landmark, the narrowest from just after one."""
        for spoil, lo, hi in (("forward", 9, 14), ("backward", 7, 10)):
            sums = sums_for([(3, 0), (5, 0)], [1] * 20)
            assert look_up(sums, lo, hi)[0] == hi - lo
            last = {"forward": lambda s: s.forward(0, 9), "backward": lambda s: s.backward(0, 9)}[spoil]
            length = len(last(sums)[0])
            (total, _) = sums._rows
            cells = [i for i in range(len(total)) if spoiled(sums, i, last) == length - 1]
            assert len(cells) == 1
            total[cells[0]] += 1000
            assert look_up(sums, lo, hi)[0] == hi - lo + 1000


def spoiled(sums: LInt, cell: int, row: Any) -> int:
    """Place in a row that a change of a cell shows at; -1 if none."""
    total = sums._rows[0]
    before = row(sums)[0].copy()
    total[cell] += 1
    changed = np.flatnonzero(row(sums)[0] != before)
    total[cell] -= 1
    return int(changed[0]) if len(changed) else -1


class TestNotYetFull:
    """Erratum E4: a window that is not full yet contains no landmark but the start of the stream."""

    WINDOWS = ((5, 0), (8, 3), (40, 0), (50, 5), (300, 0))

    @pytest.mark.parametrize("first", [0, 1, 4, 1001])
    def test_two_partials_from_the_first_element_on(self, first: int) -> None:
        sums = sums_for(list(self.WINDOWS), [], first)
        for m in range(1, 350):
            extend(sums, [m])
            for reach, to in self.WINDOWS:
                start, stop = max(m - reach, 0), m - to
                if start < stop:
                    answer, partials = look_up(sums, first + start, first + stop)
                    assert answer == sum(range(start + 1, stop + 1))
                    assert partials <= 2

    def test_without_it_single_elements_are_needed(self) -> None:
        sums = sums_for([(40, 0)], range(20), first=3)
        assert look_up(sums, 3, 23) == (190, 1)
        sums._table[:, ORIGIN] = -1
        assert look_up(sums, 3, 23) == (190, 20)


class TestCosts:
    @pytest.mark.parametrize(
        ("widths", "c"), [([3, 5], 2), ([100, 200], 2), ([7], 1), ([10, 35], 4), ([4, 7, 9, 30, 200], 2)]
    )
    @pytest.mark.parametrize("batch", [1, 50, 2000])
    def test_combines_per_element(self, widths: list[int], c: int, batch: int) -> None:
        """At most c + 1 per element and partition; the bound of the spec is 2c + 1 (invariant iii)."""
        sums = sums_for([(width, 0) for width in widths], [], c=c)
        for _ in range(2000 // batch):
            extend(sums, [1] * batch)
            sums.forget(sums.end - max(widths))
        assert sums.combines <= (c + 1) * len(sums.partitions) * 2000
        sums.check()

    def test_batches_cost_the_same(self) -> None:
        one, many = sums_for([(5, 0), (70, 3)], range(500)), sums_for([(5, 0), (70, 3)], [])
        for value in range(500):
            extend(many, [value])
        assert one.combines == many.combines
        for p, width in enumerate((5, 67)):
            for landmark in range(0, 500, width):
                for row in ("forward", "backward"):
                    for a, b in zip(*(getattr(each, row)(p, landmark) for each in (one, many)), strict=True):
                        np.testing.assert_array_equal(a, b)

    def test_suffix_windows_share_the_space_of_the_longest(self) -> None:
        """Each partition keeps what its own windows reach: the sum of horizons is geometric."""
        widths = [4**power for power in range(2, 8)]
        sums = sums_for([(width, 0) for width in widths], [])
        for _ in range(400):
            extend(sums, [1] * 100)
            sums.forget(sums.end - max(widths))
            now = sums.end
            for width in widths:
                assert look_up(sums, max(now - width, 0), now)[1] <= 2
        kept = sums.end - sums._table[:, KEPT]
        assert kept.tolist() == widths
        # 1 + 1 cells per element of each partition, 1 for the elements; rings are powers of 2
        assert sums.nbytes() <= 16 * (3 * 2 * max(widths) + 2 * 2 * 2 * sum(widths[:-1]) + 600)
        sums.check()

    def test_windows_with_gaps_keep_their_rows(self) -> None:
        """Over slices some of which are missing, the longest window holds fewer elements than announced;
        shorter ones may then begin anywhere, and are still cheap if a landmark lies in them."""
        sums = sums_for([(4, 0), (8, 0), (100, 0)], [])
        for _ in range(300):
            extend(sums, [1])
            sums.forget(sums.end - 30)  # what 100 slices hold
        assert sums._table[:, KEPT].tolist() == [270, 270]
        assert look_up(sums, 270, 278) == (8, 2)
        assert look_up(sums, 290, 300) == (10, 1)  # just before the landmark 300 of the widest
        assert look_up(sums, 275, 300)[0] == 25


class TestPartitions:
    def test_widths_within_a_factor(self) -> None:
        assert partitions([(10, 0), (20, 0), (21, 0), (45, 3)]) == [
            Partition(10, 20, 20),
            Partition(21, 42, 45),
        ]
        assert partitions([(10, 0), (11, 0)], c=1) == [Partition(10, 10, 10), Partition(11, 11, 11)]

    def test_count_grows_with_the_logarithm(self) -> None:
        """gamma <= 1 + log_c(Wmax / Wmin) (spec 1.2)."""
        for c in (2, 3, 10):
            found = partitions([(width, 0) for width in range(1, 1001)], c)
            assert len(found) <= 1 + np.log(1000) / np.log(c)

    def test_empty_windows_are_left_out(self) -> None:
        assert partitions([(5, 5), (0, 0)]) == []

    def test_no_windows_at_all(self) -> None:
        """Runs are still answered, element by element."""
        sums = sums_for([], range(10))
        assert look_up(sums, 2, 7) == (20, 5)
        sums.forget(4)
        sums.check()


def test_widths_that_were_not_announced() -> None:
    """Right, by walking from landmark to landmark: more than two partials, fewer than elements."""
    sums = sums_for([(10, 0), (20, 0)], range(1000))
    assert look_up(sums, 13, 987) == (sum(range(13, 987)), 1 + 49)
    assert look_up(sums, 11, 15) == (sum(range(11, 15)), 4)
    assert look_up(sums, 8, 15) == (sum(range(8, 15)), 2)


def test_rewinding_rebuilds_backward_rows() -> None:
    """A landmark that is taken back with its elements gets its rows again, from what comes then."""
    sums = sums_for([(3, 0), (5, 0)], range(11))
    sums.rewind(7)
    extend(sums, [100, 200, 300, 400])
    values = [*range(7), 100, 200, 300, 400]
    sums.check()
    for lo in range(11):
        for hi in range(lo + 1, 12):
            assert look_up(sums, lo, hi)[0] == sum(values[lo:hi])
