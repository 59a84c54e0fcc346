"""A range tree gives, for every run and band, what a loop over the elements gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.aggregates.component import COMPONENTS as ALL
from muntin.band import GREATEST, LEAST, sort_keys
from muntin.kernels.range_tree import LEAF
from muntin.structure.range_tree import RangeTree
from tests.structure.told import FLOAT, INT, Told, columns, stories

ENDS = [LEAST, GREATEST, -4, -2, -1, 0, 1, 2, 3, 4, 10**12]
COMPONENTS = {name: each for name, each in ALL.items() if name != "arg_max"}  # which takes pairs of values


def arguments(numbers: np.ndarray) -> np.ndarray:
    """The argument of each element: another order than the attribute's, with many ties, none NULL."""
    return numbers * 7919 % 23 - 11


def feed(tree: RangeTree, attributes: Sequence[Any]) -> None:
    """Elements whose attribute may be NULL, with the arguments of their numbers."""
    attribute, valid = columns(attributes, INT)
    value = arguments(np.arange(tree.end, tree.end + len(attribute)))
    tree.extend(attribute, value.astype(tree.dtype), valid)


def inside(told: Told, lo: int, hi: int, low: int, high: int) -> list[int]:
    """Arguments of a run whose attribute lies in a band, in order."""
    return [
        int(arguments(np.array([number]))[0])
        for number in range(lo, hi)
        if (key := told.values[number - told.first]) is not None and low <= key <= high
    ]


def lowered(component: str, partial: Sequence[Any]) -> Any:
    """A partial as one number; sums of both parts."""
    if component == "sum":
        return partial[0] + partial[1] if isinstance(partial[0], np.floating) else partial[0]
    return partial[2] if component == "m2" else partial[0]


def expected(component: str, values: list[int]) -> Any:
    mean = sum(values) / len(values)
    return {
        "count": len(values), "sum": sum(values), "min": min(values), "max": max(values), "first": values[0],
        "last": values[-1], "m2": pytest.approx(sum((value - mean) ** 2 for value in values), abs=1e-9),
    }[component]  # fmt: skip


def assert_right(told: Told, runs: tuple[np.ndarray, np.ndarray], low: np.ndarray, high: np.ndarray) -> None:
    lo, hi = runs
    for name, component in COMPONENTS.items():
        found = told.structure.query(name, lo, hi, low, high)
        identity = tuple(value for _, value in component.identity(told.structure.dtype))
        for r, (start, stop) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
            partial = tuple(array[r] for array in found)
            one = told.structure.point(name, start, stop, int(low[r]), int(high[r]))
            np.testing.assert_equal(one, partial)
            values = inside(told, start, stop, int(low[r]), int(high[r]))
            if values:
                assert lowered(name, partial) == expected(name, values), (name, start, stop, low[r], high[r])
            else:
                np.testing.assert_equal(partial, identity)


@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(data=st.data())
def test_every_story(dtype: np.dtype[Any], data: st.DataObject) -> None:
    """Whatever is extended, rewound and forgotten, bands over random runs are what the loop says."""
    first, actions = data.draw(stories(INT, most=150))
    told = Told(RangeTree(COMPONENTS, dtype, first), feed).live(actions)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    low, high = np.sort(random.choice(ENDS, (2, 12)), axis=0)
    assert_right(told, told.some_runs(random, 12), low, high)


@pytest.mark.parametrize("seed", range(3))
def test_long_lives(seed: int) -> None:
    """Thousands of elements in random batches, so that all levels are used and the ring grows and shrinks."""
    random = np.random.default_rng(seed)
    told = Told(RangeTree(COMPONENTS, FLOAT, 5), feed)
    for _ in range(30):
        told.extend(
            [None if random.random() < 0.05 else int(v) for v in random.integers(-4, 5, random.integers(400))]
        )
        told.rewind(int(random.choice([0, 0, 1, LEAF, 150])))
        told.forget(int(random.choice([0, 0, 100, 300, 1_000])))
    told.structure.check()
    low, high = np.sort(random.integers(-5, 6, (2, 40)), axis=0)
    assert_right(told, told.some_runs(random, 40), low, high)


@given(cuts=st.lists(st.integers(0, 500), max_size=6), seed=st.integers(0, 99))
def test_batches_do_not_matter(cuts: list[int], seed: int) -> None:
    """The same elements in one batch or several give the same partials, to the bit, over all bands."""
    random = np.random.default_rng(seed)
    key, value = random.integers(0, 9, 500), random.normal(size=500)
    whole, cut = (RangeTree(COMPONENTS, FLOAT) for _ in range(2))
    whole.extend(key, value, np.ones(500, np.bool_))
    edges = [0, *sorted(cuts), 500]
    for lo, hi in pairwise(edges):
        cut.extend(key[lo:hi], value[lo:hi], np.ones(hi - lo, np.bool_))
    lo, hi = np.sort(random.integers(0, 501, (2, 20)), axis=0)
    low, high = np.sort(random.integers(-1, 10, (2, 20)), axis=0)
    for name in COMPONENTS:
        for one, other in zip(
            whole.query(name, lo, hi, low, high), cut.query(name, lo, hi, low, high), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("outlier", [1e300, math.inf, -math.inf, math.nan])
def test_what_lies_outside_leaves_no_trace(outlier: float) -> None:
    """Sums of a band are exact though its neighbours, by attribute and by time, hold an outlier."""
    count = 5 * LEAF
    key = np.arange(count) * 7 % count
    value = np.where((key < 50) | (key >= 250), outlier, 0.1)
    tree = RangeTree(["sum", "m2"], FLOAT)
    tree.extend(key, value, np.ones(count, np.bool_))
    lo, hi = np.array([0, 30]), np.array([count, count - 30])
    high, low = tree.query("sum", lo, hi, np.array([50, 60]), np.array([249, 100]))
    held = [np.sum((key >= 50) & (key <= 249)), np.sum((key[30:-30] >= 60) & (key[30:-30] <= 100))]
    assert (high + low).tolist() == [math.fsum([0.1] * int(many)) for many in held]
    _, mean, m2 = tree.query("m2", lo, hi, np.array([50, 60]), np.array([249, 100]))
    np.testing.assert_allclose(mean, 0.1)
    np.testing.assert_allclose(m2, 0, atol=1e-20)


def test_sort_keys_are_in_the_order_of_comparisons() -> None:
    """-inf < … < -0.0 = 0.0 < … < inf < NaN = any NaN."""
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    values = np.array([-math.inf, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan, other_nan])
    keys = sort_keys(values)
    assert np.all(np.diff(keys)[[0, 1, 2, 4, 5, 6, 7]] > 0)
    assert (keys[3], keys[8]) == (keys[4], keys[9])


def test_unknown_runs_are_refused() -> None:
    """Elements that were forgotten, or have not come, are not answered for."""
    tree = RangeTree(["count"], INT, 10)
    feed(tree, list(range(100)))
    tree.forget(20)
    zero, most = np.array([0]), np.array([50])
    for lo, hi in ((19, 30), (30, 111)):
        with pytest.raises(ValueError, match="is asked for"):
            tree.query("count", np.array([lo]), np.array([hi]), zero, most)
        with pytest.raises(ValueError, match="is asked for"):
            tree.point("count", lo, hi, 0, 50)
