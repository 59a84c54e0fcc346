"""The monotone deque: what stays in it, what it answers, and how it is rewound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from muntin.aggregates.component import COMPONENTS
from muntin.structure.monotone_deque import MonotoneDeque

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
A = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


def deque_of(component: str, values: Any) -> MonotoneDeque:
    array = np.array(values)
    deque = MonotoneDeque(COMPONENTS[component], array.dtype)
    deque.extend((array,))
    return deque


def answers(deque: MonotoneDeque) -> list[Any]:
    """The extremes of all suffixes, the longest first."""
    lo = np.arange(deque.first, deque.end)
    return deque.query(lo, np.full(len(lo), deque.end))[0].tolist()


def test_only_records_from_the_end_stay() -> None:
    """
    value     3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3
    max                                   9 3     of equal ones the latest
    min             1   . 2 . . 3 . . . . . 3     1 at 3, 2 at 6, 3 at 15
    """
    assert deque_of("max", A).extremes().tolist() == [14, 15]
    assert deque_of("min", A).extremes().tolist() == [3, 6, 15]


def test_every_suffix_after_every_arrival() -> None:
    for component, extreme in (("max", max), ("min", min)):
        deque = deque_of(component, np.zeros(0, np.int64))
        for m in range(1, len(A) + 1):
            deque.extend((np.array(A[m - 1 : m]),))
            assert answers(deque) == [extreme(A[lo:m]) for lo in range(m)]


def test_nan_is_the_greatest() -> None:
    values = [1.0, math.nan, 3.0, math.nan, 2.0, -math.inf, math.inf, 0.0]
    np.testing.assert_array_equal(answers(deque_of("max", values)), [math.nan] * 4 + [math.inf] * 3 + [0.0])
    np.testing.assert_array_equal(answers(deque_of("min", values)), [-math.inf] * 6 + [0.0, 0.0])
    np.testing.assert_array_equal(answers(deque_of("min", [math.nan, 1.0, math.nan])), [1.0, 1.0, math.nan])


def test_descending_values_all_stay_and_one_sweeps_them_away() -> None:
    deque = deque_of("max", np.arange(5000)[::-1].copy())
    assert len(deque.extremes()) == 5000
    deque.extend((np.array([2500]),))
    assert len(deque.extremes()) == 2500
    deque.extend((np.array([9999]),))
    assert deque.extremes().tolist() == [5001]
    deque.check()


def test_rewinding_brings_back_what_was_beaten() -> None:
    """9999 had swept all away; without it they are there again."""
    values = np.random.default_rng(0).integers(0, 1000, 300)
    deque = deque_of("max", values)
    before = deque.extremes().copy()
    deque.extend((np.array([9999, 5]),))
    deque.rewind(300)
    deque.check()
    np.testing.assert_array_equal(deque.extremes(), before)
    for end in (299, 200, 100, 3, 0):
        deque.rewind(end)
        deque.check()
        assert answers(deque) == [max(values[lo:end]) for lo in range(end)]


def test_other_runs_are_refused() -> None:
    deque = deque_of("max", A)
    for lo, hi in (([0], [16]), ([5, 9], [16, 3])):
        assert deque.can_answer(np.array(lo), np.array(hi))
    assert not deque.can_answer(np.array([0, 2]), np.array([16, 15]))
    with pytest.raises(ValueError, match=r"\[2, 15\) is asked for; .* only suffixes of \[0, 16\)"):
        deque.query(np.array([0, 2]), np.array([16, 15]))


def test_only_extremes_are_served() -> None:
    for component in ("sum", "count", "first", "m2"):
        with pytest.raises(ValueError, match="min and max"):
            MonotoneDeque(COMPONENTS[component], FLOAT)
