"""A scan of the elements is right for every run and component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.aggregates.component import COMPONENTS
from muntin.structure.baseline.materialize_none import MaterializeNone
from tests.structure.told import (
    FLOAT,
    INT,
    Told,
    assert_unknown_runs_are_refused,
    assert_vectors,
    columns,
    stories,
)


def feed(elements: MaterializeNone, values: Sequence[Any]) -> None:
    value, valid = columns(values, elements.dtype)
    elements.extend(elements.component.lift(value, valid, elements.end + np.arange(len(value))))


# of one, two and three arrays, of both types
@pytest.mark.parametrize(
    ("name", "dtype"), [("count", INT), ("sum", FLOAT), ("max", INT), ("last", FLOAT), ("m2", FLOAT)], ids=str
)
@given(data=st.data())
def test_agrees_with_folding(name: str, dtype: np.dtype, data: st.DataObject) -> None:
    """Whatever was appended, taken back or forgotten: as if the run's events were folded at once."""
    first, story = data.draw(stories(dtype, most=20))
    component = COMPONENTS[name]
    told = Told(MaterializeNone(component, dtype, first), feed).live(story)
    lo, hi = told.runs()
    found = told.structure.query(lo, hi)
    value, valid = columns(told.values, dtype)
    wanted = component.start(dtype, len(lo))
    key, at = np.zeros(len(value), np.int64), told.first + np.arange(len(value))
    component.fold(lo - told.first, np.maximum(lo, hi) - told.first, 1, key, at, value, valid, wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["sum", "count", "max", "min"])
def test_vectors(name: str) -> None:
    assert_vectors(Told(MaterializeNone(COMPONENTS[name], INT), feed), name)


def test_unknown_runs_are_refused() -> None:
    assert_unknown_runs_are_refused(Told(MaterializeNone(COMPONENTS["max"], INT, 10), feed))


def test_memory_follows_what_is_remembered() -> None:
    """State after ten times the elements is the same size (spec 1.6 v)."""
    elements = MaterializeNone(COMPONENTS["max"], INT)
    sizes = []
    for turn in range(400):
        feed(elements, [1] * (1 + turn * 7 % 200))
        elements.forget(elements.end - 700)
        sizes.append(elements.nbytes())
    elements.check()
    assert max(sizes[100:]) <= 1.1 * max(sizes[:100])  # arrays have some room to grow
