"""R-INT: which prefixes there are, and that sums stay exact however far the prefixes go."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.aggregates.algebraic import Sum
from muntin.aggregates.component import COMPONENTS
from muntin.errors import NoValue
from muntin.structure.r_int import RInt

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
A = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
MOST = 2**63 - 1


def sums_of(values: list[int]) -> RInt:
    sums = RInt(COMPONENTS["sum"], INT)
    extend(sums, values)
    return sums


def extend(sums: RInt, values: list[int]) -> None:
    sums.extend((np.array(values, np.int64), np.array(values, np.float64)))


def answer(sums: RInt, lo: int, hi: int) -> int:
    """SUM of a run as a query would get it: an error if it does not fit."""
    partials = {"count": (np.array([hi - lo]),), "sum": sums.query(np.array([lo]), np.array([hi]))}
    return Sum().lower_one(*(tuple(part[0].item() for part in partials[name]) for name in Sum.components))


def test_prefixes_of_the_paper() -> None:
    """m = 13, Nmax = 8: the prefixes of positions 5 to 13 (spec 1.6)."""
    sums = sums_of(A[:13])
    sums.forget(13 - 8)
    assert sums.prefixes()[:, 0].tolist() == [14, 23, 25, 31, 36, 39, 44, 52, 61]
    assert answer(sums, 5, 10) == 39 - 14


def test_n_elements_have_n_plus_one_prefixes() -> None:
    """Erratum E1, invariant iv: with one slot less the prefix before the oldest element is overwritten."""
    for most in (1, 2, 3, 5, 8, 13):
        sums = RInt(COMPONENTS["sum"], INT)
        slots = np.zeros(most, np.int64)  # what section 5 of the paper says
        wrong = 0
        for m, value in enumerate(A, 1):
            slots[m % most] = slots[(m - 1) % most] + value
            extend(sums, [value])
            sums.forget(m - most)
            remembered = min(m, most)
            assert len(sums.prefixes()) == remembered + 1
            assert answer(sums, m - remembered, m) == sum(A[m - remembered : m])
            wrong += slots[m % most] - slots[(m - remembered) % most] != sum(A[m - remembered : m])
        assert wrong


def test_starts_with_the_prefix_of_nothing() -> None:
    assert RInt(COMPONENTS["count"], INT, 7).prefixes().tolist() == [0]
    assert RInt(COMPONENTS["sum"], INT, 7).prefixes().tolist() == [[0, 0]]


class TestWrapping:
    """Prefixes leave 64 bits behind; answers that fit do not notice, others are told apart."""

    @pytest.mark.parametrize("value", [MOST, -(2**63), 2**62, -(2**62) - 1])
    def test_prefixes_far_beyond_64_bits(self, value: int) -> None:
        sums = sums_of([value] * 1000 + [7, -7, 5])
        assert answer(sums, 1000, 1003) == 5
        assert answer(sums, 999, 1000) == value
        with pytest.raises(NoValue, match="does not fit"):
            answer(sums, 0, 1000)
        total, shadow = sums.query(np.array([0]), np.array([1000]))
        assert shadow[0] == float(1000 * value)
        assert (int(total[0]) - 1000 * value) % 2**64 == 0

    def test_neighbours_of_the_limit(self) -> None:
        """One more than fits is an error, the limit itself is not."""
        sums = sums_of([MOST, 1, -1, -MOST, -1, -1])
        assert answer(sums, 0, 1) == MOST
        assert answer(sums, 0, 3) == MOST
        assert answer(sums, 3, 5) == -(2**63)
        for lo, hi in ((0, 2), (3, 6)):
            with pytest.raises(NoValue, match="does not fit"):
                answer(sums, lo, hi)

    def test_elements_that_have_wrapped_themselves(self) -> None:
        """A slice whose own sum overflowed brings a wrapped total and a shadow that tells."""
        exact = [5 * 2**64 + 3, -(5 * 2**64), 4, -(2**66), 2**66 - 1]
        total = np.array([(value + 2**63) % 2**64 - 2**63 for value in exact])
        sums = RInt(COMPONENTS["sum"], INT)
        sums.extend((total, np.array(exact, np.float64)))
        for lo in range(5):
            for hi in range(lo + 1, 6):
                found, shadow = sums.query(np.array([lo]), np.array([hi]))
                wanted = sum(exact[lo:hi])
                assert (int(found[0]) - wanted) % 2**64 == 0
                assert abs(shadow[0] - wanted) <= 2**-40 * abs(wanted)

    def test_the_shadow_does_not_drift(self) -> None:
        """After millions of large values that cancel, the shadow of a small run is its exact sum."""
        sums = RInt(COMPONENTS["sum"], INT)
        wave = np.where(np.arange(100_000) % 2 == 0, 2**61 + 1, -(2**61) + 1)
        for _ in range(30):
            sums.extend((wave, wave.astype(np.float64)))
            sums.forget(sums.end - 1000)
        lo = np.array([sums.end - 2, sums.end - 1000])
        total, shadow = sums.query(lo, np.full(2, sums.end))
        assert total.tolist() == shadow.tolist() == [2, 1000]


def test_what_cannot_be_subtracted_is_refused() -> None:
    """Floats: [1e16, 1, 1, 1, 1, 1], last 5 would be 0 (spec 0.3)."""
    assert RInt.serves("sum", INT)
    assert RInt.serves("count", FLOAT)
    assert not RInt.serves("sum", FLOAT)
    assert not RInt.serves("max", INT)
    for component, dtype in (("sum", FLOAT), ("m2", FLOAT), ("m2", INT), ("min", INT)):
        with pytest.raises(ValueError, match=f"cannot serve {component}"):
            RInt(COMPONENTS[component], dtype)


def test_first_and_last_skip_nulls() -> None:
    """
    element   0     1     2     3     4     5
    value     NULL  7     NULL  NULL  9     NULL
    """
    never, long_ago = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for component, nothing in (("first", never), ("last", long_ago)):
        ends = RInt(COMPONENTS[component], INT)
        at = np.array([nothing, 10, nothing, nothing, 10, nothing])
        ends.extend((np.array([0, 7, 0, 0, 9, 0]), at))
        value, found_at = ends.query(np.array([0, 2, 2, 0, 5]), np.array([6, 6, 4, 4, 6]))
        assert value.tolist() == [7 if component == "first" else 9, 9, 0, 7, 0]
        assert found_at.tolist() == [10, 10, nothing, 10, nothing]
        ends.rewind(4)
        ends.extend((np.array([8]), np.array([11])))
        value, _ = ends.query(np.array([2]), np.array([5]))
        assert value.tolist() == [8]
