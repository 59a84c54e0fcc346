"""PSoup is a balanced tree at all times, and every run it combines is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import every_second, some_of
from muntin.aggregate.component import COMPONENTS
from muntin.structure.baseline.psoup import PSoup
from tests.structure.told import (
    FLOAT,
    INT,
    Told,
    assert_memory_follows,
    assert_unknown_runs_are_refused,
    assert_vectors,
    columns,
    cuttings,
    stories,
)

# components of one, two and three arrays, of both types: others differ in their rules, which have their own tests
KINDS = [("count", INT), ("m2", FLOAT), ("sum", FLOAT), ("max", INT), ("last", FLOAT)]
every_kind = pytest.mark.parametrize(
    ("name", "dtype"), every_second(KINDS), ids=str
)  # each compiles for seconds


def feed(tree: PSoup, values: Sequence[Any]) -> None:
    value, valid = columns(values, tree.dtype)
    tree.extend(tree.component.lift(value, valid, tree.end + np.arange(len(value))))


def reference(name: str, values: Sequence[Any]) -> Any:
    """What a component's first array should be over some values; None if that is nothing, or anything."""
    if name == "count" or name == "m2":
        return len(values)
    if not values:
        return None
    if name == "sum":
        if all(isinstance(value, int) for value in values):
            return (sum(values) + 2**63) % 2**64 - 2**63
        if not all(math.isfinite(value) for value in values):
            return sum(value for value in values if not math.isfinite(value))
        exact = sum(map(Fraction, values))
        return float(exact) if abs(exact) < 10**300 else None
    if name in ("first", "last"):
        return values[0 if name == "first" else -1]
    numbers_only = [value for value in values if value == value]
    if name == "min":
        return min(numbers_only, default=math.nan)
    return max(numbers_only) if len(numbers_only) == len(values) else math.nan


def assert_right(told: Told, lo: np.ndarray, hi: np.ndarray) -> None:
    name = told.structure.component.name
    found = told.structure.query(lo, hi)
    value = found[0] + found[1] if name == "sum" and told.structure.dtype == FLOAT else found[0]
    value = np.where(np.isfinite(found[0]), value, found[0])
    for run, (start, stop) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        wanted = reference(name, told.held(start, stop))
        if wanted is not None:
            np.testing.assert_allclose(value[run], wanted, rtol=1e-15 if told.structure.dtype == FLOAT else 0)


@every_kind
@settings(max_examples=some_of(settings().max_examples, 20))
@given(data=st.data())
def test_agrees_with_recompute(name: str, dtype: np.dtype, data: st.DataObject) -> None:
    """Whatever was appended, taken back or forgotten, every run is right and the tree in balance."""
    first, story = data.draw(stories(dtype, most=30))
    told = Told(PSoup(COMPONENTS[name], dtype, first), feed).live(story)
    assert_right(told, *told.runs())


@pytest.mark.parametrize("name", every_second(["max", "sum", "count", "first"]))
def test_long_sequences(name: str) -> None:
    """Nodes are reused, and copied when there are too few or too many."""
    random = np.random.default_rng(5)
    told = Told(PSoup(COMPONENTS[name], INT, 12), feed)
    for _ in range(12):
        told.extend(random.integers(-1000, 1000, int(random.integers(0, 400))).tolist())
        told.rewind(int(random.integers(0, 100)))
        told.forget(int(random.integers(0, 350)))
        told.structure.check()
        assert_right(told, *told.some_runs(random, 50))


@every_kind
@settings(max_examples=some_of(settings().max_examples, 20))
@given(data=st.data())
def test_batches_do_not_matter(name: str, dtype: np.dtype, data: st.DataObject) -> None:
    """One batch, one by one, or cut anywhere: the same tree and answers, to the bit (spec 1.6 vi)."""
    answers = []
    for batches in cuttings(data, dtype):
        told = Told(PSoup(COMPONENTS[name], dtype, 9), feed)
        for batch in batches:
            told.extend(batch)
        answers.append([part.tobytes() for part in told.structure.query(*told.runs())])
        answers[-1].append(str(shape(told.structure)).encode())
    assert answers[0] == answers[1] == answers[2]


def shape(tree: PSoup) -> Any:
    """The tree as nested pairs."""

    def below(node: int) -> Any:
        left, right = tree._nodes[node, :2].tolist()
        return (below(left), below(right)) if left >= 0 else "."

    return below(int(tree._state[0]))


def bound(leaves: int) -> float:
    return 1.4405 * log2(leaves + 2)


@pytest.mark.parametrize("batch", [1, 37, 1000])
def test_stays_low_when_it_slides_for_long(batch: int) -> None:
    """The height is logarithmic after sixty times the window has passed through."""
    random = np.random.default_rng(batch)
    tree = PSoup(COMPONENTS["sum"], INT)
    highest = 0
    for _ in range(60_000 // batch):
        feed(tree, random.integers(0, 9, batch).tolist())
        tree.forget(tree.end - 1000)
        highest = max(highest, tree.height())
    tree.check()
    assert highest <= bound(1000 + batch)


@pytest.mark.parametrize("leaves", [0, 1, 2, 3, 4, 7, 8, 9, 400])
def test_height_of_a_growing_and_a_shrinking_tree(leaves: int) -> None:
    """Also when elements leave at one end only."""
    for at_front in (True, False):
        told = Told(PSoup(COMPONENTS["count"], INT), feed)
        told.extend([1] * leaves)
        while told.values:
            assert told.structure.height() <= bound(len(told.values))
            told.forget(1) if at_front else told.rewind(1)
            if len(told.values) % 200 < 2:
                told.structure.check()
        told.structure.check()
        assert told.structure.height() == 0


def test_a_value_that_has_left_leaves_no_trace() -> None:
    """Sums of floats are combined, never subtracted (decision 4)."""
    told = Told(PSoup(COMPONENTS["sum"], FLOAT), feed)
    told.extend([1e300, math.inf, math.nan, 1e16, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert_right(told, np.array([4, 3]), np.array([9, 9]))
    told.forget(4)
    assert told.structure.query(np.array([4]), np.array([9]))[0].tolist() == [5.0]


@pytest.mark.parametrize("name", every_second(["max", "sum", "count", "min"]))
def test_vectors(name: str) -> None:
    assert_vectors(Told(PSoup(COMPONENTS[name], INT), feed), name)


def test_memory_follows_what_is_remembered() -> None:
    tree = PSoup(COMPONENTS["max"], INT)
    assert_memory_follows(tree, lambda count: feed(tree, [1] * count), 16 * 1024)


def test_unknown_runs_are_refused() -> None:
    assert_unknown_runs_are_refused(Told(PSoup(COMPONENTS["max"], INT, 10), feed))
