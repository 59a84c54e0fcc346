"""The number of different values of every run is that of a set made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.structure.distinct import DistinctCounter
from tests.structure.told import (
    FLOAT,
    INT,
    A,
    Told,
    assert_memory_follows,
    assert_unknown_runs_are_refused,
    columns,
    numbers,
    stories,
)


def feed(counter: DistinctCounter, values: Sequence[Any]) -> None:
    counter.extend(*columns(values, counter.dtype))


def reference(values: Sequence[Any]) -> int:
    """All NaN are one value; 0.0 == -0.0 in Python too."""
    return len({"NaN" if value != value else value for value in values})


def assert_right(told: Told, lo: np.ndarray, hi: np.ndarray) -> None:
    wanted = [reference(told.held(start, stop)) for start, stop in zip(lo.tolist(), hi.tolist(), strict=True)]
    assert told.structure.query(lo, hi).tolist() == wanted


def suffixes(told: Told) -> tuple[np.ndarray, np.ndarray]:
    lo = np.arange(told.first, told.end + 1)
    return lo, np.full(len(lo), told.end)


@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(data=st.data())
def test_agrees_with_sets(dtype: np.dtype, data: st.DataObject) -> None:
    """Whatever was appended, taken back or forgotten, every run that is remembered is right."""
    first, story = data.draw(stories(dtype))
    told = Told(DistinctCounter(dtype, first), feed).live(story)
    assert_right(told, *told.runs())


@given(data=st.data())
def test_suffixes_only(data: st.DataObject) -> None:
    """Without historical windows suffixes are as good; other runs are refused, unless they are empty."""
    first, story = data.draw(stories(INT))
    told = Told(DistinctCounter(INT, first, historical=False), feed).live(story)
    assert_right(told, *suffixes(told))
    told.extend([1, 2])
    with pytest.raises(ValueError, match="historical=True"):
        told.structure.query(np.array([told.end - 2]), np.array([told.end - 1]))


@pytest.mark.parametrize("spread", [1, 7, 500, 10**9])
@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
def test_long_sequences(dtype: np.dtype, spread: int) -> None:
    """Table and rings grow, wrap and shrink; runs of all lengths stay right."""
    random = np.random.default_rng(spread)
    told = Told(DistinctCounter(dtype, 77), feed)
    for _ in told.live_long(random, dtype, spread):
        assert_right(told, *told.some_runs(random, 60))
        assert_right(told, *suffixes(told))


@pytest.mark.parametrize("shift", [0, 20, 40, 57])
def test_codes_that_look_alike(shift: int) -> None:
    """Values that differ only in high bits fill a table as well as others."""
    told = Told(DistinctCounter(INT), feed)
    random = np.random.default_rng(shift)
    told.extend((random.integers(-60, 60, 2000) << shift).tolist())
    told.structure.check()
    assert_right(told, *told.some_runs(random, 50))
    told.forget(1900)
    told.structure.check()
    assert_right(told, *suffixes(told))


@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(data=st.data())
def test_batches_do_not_matter(dtype: np.dtype, data: st.DataObject) -> None:
    """One batch, one by one, or cut anywhere: the same state, to the bit (spec 1.6 vi)."""
    values = data.draw(st.lists(st.one_of(numbers[dtype], st.none()), min_size=1, max_size=200))
    cut = data.draw(st.integers(0, len(values)))
    states = []
    for cuts in ([0, len(values)], [0, cut, len(values)], list(range(len(values) + 1))):
        counter = DistinctCounter(dtype, 9)
        for start, stop in pairwise(cuts):
            feed(counter, values[start:stop])
        arrays = (counter._code, counter._last, counter._count, counter._elements["previous"])
        states.append([array.tobytes() for array in arrays])
    assert states[0] == states[1] == states[2]


def test_vector() -> None:
    """The last 8, and 8 to 3, of the sequence of spec 1.6 at m = 13."""
    told = Told(DistinctCounter(INT), feed)
    told.extend(A[:13])
    assert told.structure.query(np.array([5, 5, 13]), np.array([13, 10, 13])).tolist() == [6, 5, 0]


def test_one_nan_and_one_zero() -> None:
    """NaN of any bits are one value, and so are 0.0 and -0.0; NULL is none."""
    other_nan = np.array([0x7FF8000000000123, -1], np.int64).view(np.float64)
    counter = DistinctCounter(FLOAT)
    counter.extend(np.array([math.nan, 0.0, *other_nan, -0.0, 5.0]), np.array([True] * 5 + [False]))
    assert counter.query(np.array([0, 1, 2]), np.array([6, 2, 4])).tolist() == [2, 1, 1]
    counter.check()


def test_rewound_occurrences_come_back() -> None:
    """Taking an element back makes its previous occurrence the latest again, unless forgotten."""
    told = Told(DistinctCounter(INT), feed)
    told.extend([1, 2, 1, 2, 3])
    told.forget(2)
    told.rewind(2)
    told.structure.check()
    assert_right(told, *told.runs())
    told.rewind(1)
    told.structure.check()
    assert told.structure.query(np.array([2]), np.array([2])).tolist() == [0]


@pytest.mark.parametrize("historical", [True, False])
def test_memory_follows_what_is_remembered(historical: bool) -> None:
    random = np.random.default_rng(1)
    counter = DistinctCounter(FLOAT, historical=historical)
    assert_memory_follows(counter, lambda count: feed(counter, random.normal(size=count).tolist()), 32 * 1024)


def test_unknown_runs_are_refused() -> None:
    assert_unknown_runs_are_refused(Told(DistinctCounter(INT, 10), feed))
