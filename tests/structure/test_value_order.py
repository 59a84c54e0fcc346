"""The most frequent value of every run, of several the least, whatever came, was taken back or forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.aggregates.holistic import pick_mode
from muntin.structure.value_order import OrderedElements
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

SHUFFLED = np.array([3, 0, 6, 2, 5, 1, 4])  # ranks of codes


def feed(elements: OrderedElements, values: Sequence[Any]) -> None:
    elements.extend(*columns(values, elements.dtype))


def assert_right(told: Told, lo: np.ndarray, hi: np.ndarray) -> None:
    found, count = told.structure.query(lo, hi)
    for run, (start, stop) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        often = Counter(value for value in told.held(start, stop) if value == value)
        assert count[run] == sum(often.values())
        if often:
            assert found[run] == min(often, key=lambda value: (-often[value], value))


@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(data=st.data())
def test_every_run(dtype: np.dtype, data: st.DataObject) -> None:
    first, story = data.draw(stories(dtype, 12))
    told, random = Told(OrderedElements(dtype, first), feed), np.random.default_rng(first)
    for step in story:
        told.live([step])
        if data.draw(st.booleans()):  # what was put in order moves on
            assert_right(told, *told.some_runs(random, 10))
    assert_right(told, *told.runs())


@pytest.mark.parametrize("spread", [1, 7, 500])
@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
def test_long_sequences(dtype: np.dtype, spread: int) -> None:
    """The order grows, loses its oldest and youngest, and shrinks; runs of all lengths stay right."""
    random = np.random.default_rng(spread)
    told = Told(OrderedElements(dtype, 77), feed)
    for _ in told.live_long(random, dtype, spread):
        assert_right(told, *told.some_runs(random, 20))


@given(values=st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_ranks_decide_between_codes(values: list[int]) -> None:
    """Of codes of texts that are as frequent, the one of the least text."""
    elements = OrderedElements(INT)
    feed(elements, values)
    (found,), (count,) = elements.query(np.array([0]), np.array([len(values)]), SHUFFLED)
    often = Counter(values)
    assert count == len(values)
    assert found == min(often, key=lambda code: (-often[code], SHUFFLED[code]))
    # a scan, which sorts the codes of each slot, decides alike
    slots = np.array([0, len(values), len(values), 2 * len(values)])
    scanned, counts = pick_mode(np.sort(np.array([values, values])).ravel(), slots, SHUFFLED)
    assert scanned.tolist() == [found, 0, found]
    assert counts.tolist() == [count, 0, count]


@given(slots=st.lists(st.lists(numbers[FLOAT], max_size=12), min_size=1, max_size=4))
def test_a_scan_finds_the_same(slots: list[list[float]]) -> None:
    """NaN does not count, wherever it is, and slots do not mix."""
    offset = np.concatenate([[0], np.cumsum([len(each) for each in slots])])
    value = np.concatenate([np.sort(np.array(each, FLOAT)) for each in slots])
    found, count = pick_mode(value, offset, np.zeros(0, np.int64))
    for slot, values in enumerate(slots):
        often = Counter(each for each in values if each == each)
        assert count[slot] == sum(often.values())
        assert not often or found[slot] == min(often, key=lambda each: (-often[each], each))


@given(values=st.lists(st.one_of(numbers[INT], st.none()), min_size=1, max_size=60), data=st.data())
def test_batches_do_not_matter(values: list[Any], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    one, two = Told(OrderedElements(INT), feed), Told(OrderedElements(INT), feed)
    one.extend(values)
    two.extend(values[:cut])
    assert_right(two, *two.runs())
    two.extend(values[cut:])
    found = [each.structure.query(*one.runs()) for each in (one, two)]
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_vector() -> None:
    """The last 8, and 8 to 3, of the sequence of spec 1.6 at m = 13: 9 2 6 5 3 5 8 9, and 9 2 6 5 3."""
    told = Told(OrderedElements(INT), feed)
    told.extend(A[:13])
    found, count = told.structure.query(np.array([5, 5, 13]), np.array([13, 10, 13]))
    assert (found[:2].tolist(), count.tolist()) == ([5, 2], [8, 5, 0])


def test_memory() -> None:
    elements, random = OrderedElements(INT), np.random.default_rng(3)

    def add(many: int) -> None:
        elements.extend(random.integers(0, 50, many), np.ones(many, np.bool_))
        elements.query(np.array([elements.first]), np.array([elements.end]))

    assert_memory_follows(elements, add, 80_000)


def test_unknown_runs_are_refused() -> None:
    assert_unknown_runs_are_refused(Told(OrderedElements(INT, 10), feed))
