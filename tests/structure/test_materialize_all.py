"""The answer of every window is kept right with each arrival."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.aggregates.component import COMPONENTS
from muntin.structure.materialize_all import MaterializeAll
from tests.structure.told import FLOAT, INT, A, Told, columns, cuttings, stories

KINDS = [("count", INT), ("sum", INT), ("min", INT), ("max", INT), ("min", FLOAT), ("max", FLOAT)]
SIZES = [0, 1, 2, 3, 7, 20, 64, 1000]
every_kind = pytest.mark.parametrize(("name", "dtype"), KINDS, ids=str)


def feed(windows: MaterializeAll, values: Sequence[Any]) -> None:
    value, valid = columns(values, windows.dtype)
    windows.extend(windows.component.lift(value, valid, np.arange(len(value))))


def reference(name: str, values: Sequence[Any]) -> Any:
    """None if there is nothing to say."""
    if name == "count":
        return len(values)
    if name == "sum":
        return (sum(values) + 2**63) % 2**64 - 2**63
    there = [value for value in values if value == value]
    if name == "min":
        return min(there, default=math.nan if values else None)
    return max(values, default=None) if len(there) == len(values) else math.nan


def assert_right(told: Told, sizes: Sequence[int]) -> None:
    lo = np.maximum(told.end - np.array(sizes), told.first)
    (found, *_) = told.structure.query(lo, np.full(len(lo), told.end))
    for start, answer in zip(lo.tolist(), found.tolist(), strict=True):
        wanted = reference(told.structure.component.name, told.held(start, told.end))
        if wanted is not None:
            np.testing.assert_equal(answer, wanted)


@every_kind
@given(data=st.data())
def test_agrees_with_recompute(name: str, dtype: np.dtype, data: st.DataObject) -> None:
    """After every step of appending, taking back and forgetting, for every window."""
    first, story = data.draw(stories(dtype))
    told = Told(MaterializeAll(COMPONENTS[name], dtype, first, SIZES), feed)
    for step in story:
        told.live([step])
        assert_right(told, SIZES)


@every_kind
def test_long_sequences(name: str, dtype: np.dtype) -> None:
    """Windows slide many times their size; the queue of extremes is moved to the front again and again."""
    random = np.random.default_rng(1)
    told = Told(MaterializeAll(COMPONENTS[name], dtype, 3, SIZES), feed)
    for turn in range(60):
        values = random.integers(0, 1000, int(random.integers(0, 200))).astype(dtype)
        told.extend(np.sort(values)[:: -1 if turn % 2 else 1].tolist())  # long queues, short queues
        if turn % 7 == 0:
            told.rewind(int(random.integers(0, 50)))
        told.forget(max(0, len(told.values) - int(random.integers(900, 1300))))
        told.structure.check()
        assert_right(told, SIZES)


@every_kind
@given(data=st.data())
def test_batches_do_not_matter(name: str, dtype: np.dtype, data: st.DataObject) -> None:
    """One batch, one by one, or cut anywhere: the same answers, to the bit (spec 1.6 vi)."""
    answers = []
    for batches in cuttings(data, dtype):
        windows = MaterializeAll(COMPONENTS[name], dtype, 9, SIZES)
        for batch in batches:
            feed(windows, batch)
        answers.append([array.tobytes() for array in windows._answer])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("name", ["sum", "count", "max", "min"])
def test_vectors(name: str) -> None:
    """Spec 1.6: S[8,0] at m = 13 and, not yet full, at m = 3."""
    wanted = {"sum": [8, 47], "count": [3, 8], "max": [4, 9], "min": [1, 2]}[name]
    told = Told(MaterializeAll(COMPONENTS[name], INT, sizes=[8]), feed)
    for m, answer in zip((3, 13), wanted, strict=True):
        told.extend(A[len(told.values) : m])
        assert told.structure.query(np.array([max(m - 8, 0)]), np.array([m]))[0].tolist() == [answer]


def test_fit_changes_the_windows() -> None:
    """New windows are answered at once, from the elements that are remembered."""
    told = Told(MaterializeAll(COMPONENTS["max"], INT, sizes=[2]), feed)
    told.extend(A)
    with pytest.raises(ValueError, match="fitted"):
        assert_right(told, [5])
    told.structure.fit([5, 9])
    told.structure.check()
    assert_right(told, [5, 9])
    told.extend([1, 2, 3])
    assert_right(told, [5, 9])
    told.structure.fit([])
    told.extend([1])
    told.structure.check()
    with pytest.raises(ValueError, match="fitted"):
        assert_right(told, [5])


def test_only_its_windows_are_answered() -> None:
    """No historical window, and none of another size; an empty run is nobody's."""
    told = Told(MaterializeAll(COMPONENTS["count"], INT, sizes=[2, 4]), feed)
    told.extend([1] * 10)
    for lo, hi in ((7, 10), (5, 9)):
        runs = np.array([8, lo]), np.array([10, hi])
        assert not told.structure.can_answer(*runs)
        with pytest.raises(ValueError, match=rf"\[{lo}, {hi}\)"):
            told.structure.query(*runs)
    runs = np.array([8, 6, 5, 10]), np.array([10, 10, 5, 0])
    assert told.structure.can_answer(*runs)
    assert told.structure.query(*runs)[0].tolist() == [2, 4, 0, 0]
    with pytest.raises(ValueError, match=r"\[-2, 2\).*\[0, 10\)"):
        told.structure.query(np.array([-2]), np.array([2]))


@pytest.mark.parametrize(("name", "dtype"), [("sum", FLOAT), ("first", INT), ("m2", FLOAT)])
def test_what_would_leave_a_trace_is_refused(name: str, dtype: np.dtype) -> None:
    """1e16 + 1 - 1e16 is 0: a float sum kept by subtraction would remember what has left (decision 4)."""
    assert not MaterializeAll.serves(name, dtype)
    with pytest.raises(ValueError, match=f"does not serve {name} of {dtype}"):
        MaterializeAll(COMPONENTS[name], dtype, sizes=[3])


def test_memory_follows_what_is_remembered() -> None:
    """State after ten times the elements is the same size (spec 1.6 v)."""
    random = np.random.default_rng(0)
    windows = MaterializeAll(COMPONENTS["max"], INT, sizes=range(700))
    sizes = []
    for _ in range(400):
        feed(windows, [1] * int(random.integers(1, 200)))
        windows.forget(windows.end - 700)
        sizes.append(windows.nbytes())
    windows.check()
    assert max(sizes[100:]) <= 1.1 * max(sizes[:100])  # arrays have some room to grow
