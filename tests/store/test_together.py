"""Cells that are made and filled in one pass are those that are made first and then filled component by component."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from muntin.expression import Expression
from muntin.query import Input
from muntin.store.aging_slices import AgedSlices
from muntin.store.batch import Batch, Column
from muntin.store.needs import Need
from muntin.store.slice_store import SliceStore
from muntin.store.together import together

KEY, INT = (
    Expression(name, pa.int64(), (name,), lambda columns: columns[""], exp.column(name)) for name in "kn"
)
FLOAT = Expression("x", pa.float64(), ("x",), lambda columns: columns[""], exp.column("x"))
EVERY = Need(Input(None), "count")
VALUES: dict[Expression, Any] = {
    INT: np.array([0, 1, -7, 2**62, -(2**63), 2**63 - 1]),
    FLOAT: np.array([0.0, -0.0, 0.1, 1e16, -1e16, np.inf, -np.inf, np.nan, 1e308]),
}
COMPONENTS = [
    (),
    ("count",),
    ("sum",),
    ("max",),
    ("min", "max"),
    ("count", "sum", "max"),
    ("count", "sum", "min", "max"),
]


@pytest.fixture(autouse=True, params=[0, 1 << 40], ids=["far", "near"])
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are asked for ahead where they are far, and only there."""
    monkeypatch.setattr("muntin.store.together._NEAR", request.param)


def needs_of(argument: Expression, components: tuple[str, ...], counts_every: bool) -> dict[Need, bool]:
    some = [Need(Input(argument), component) for component in components]
    return dict.fromkeys([EVERY, *some] if counts_every or not some else some, True)


def batch(random: np.random.Generator, argument: Expression, begin: int, events: int, nulls: float) -> Batch:
    at = begin + np.sort(random.integers(0, 45, events))
    value, valid = random.choice(VALUES[argument], events), random.random(events) >= nulls
    value[~valid] = 0
    return Batch(at, {(KEY,): random.integers(0, 40, events)}, {argument: Column(value, valid)}, {})


def assert_same(one: SliceStore, other: SliceStore) -> None:
    """To the last bit: 0.0 is not -0.0 here."""
    one.check()
    other.check()
    assert np.array_equal(one.first_cells(0), other.first_cells(0))
    expected = other.columns_of_cells()
    for name, array in one.columns_of_cells().items():
        assert array.tobytes() == expected[name].tobytes(), name


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("nulls", [0.0, 0.4])
@pytest.mark.parametrize("counts_every", [True, False])
@pytest.mark.parametrize("components", COMPONENTS)
@pytest.mark.parametrize("argument", [INT, FLOAT], ids=str)
def test_one_pass_is_as_good_as_many(
    argument: Expression, components: tuple[str, ...], counts_every: bool, nulls: float
) -> None:
    random, needs = np.random.default_rng(7), needs_of(argument, components, counts_every)
    stores = [SliceStore(None, (KEY,)) for _ in range(2)]
    aged = [AgedSlices(None, (KEY,), set(needs), 30) for _ in range(2)]
    for each in stores:
        each.fit(needs, 10, None)
    for each in (stores[1], aged[1]):
        each._together = None
    for step, events in enumerate((1, 30, 200, 0, 7, 900)):
        some = batch(random, argument, 40 * step, events, nulls)
        for each in stores:
            each.insert(some)
        assert_same(*stores)
        for younger, older in zip(stores, aged, strict=True):
            older.absorb(younger, (40 * step - 50) // 30 * 30)
        assert_same(*aged)
        assert_same(*stores)
    assert len(aged[0]) > 3


def test_what_goes_together() -> None:
    def names(*needs: Need) -> dict[Need, tuple[str, ...]]:
        return {need: (f"{need}", f"rest {need}")[: 2 if need.component == "sum" else 1] for need in needs}

    of_int, of_float = (
        {name: Need(Input(each), name) for name in ("count", "sum", "min", "first")} for each in (INT, FLOAT)
    )
    found = together(names(of_float["sum"], EVERY))
    assert found is not None
    assert found.wanted == (True, False, True, False, False)
    assert found.kind == "f"
    assert together(names(of_int["count"], of_int["min"])) is not None
    assert together(names(of_int["sum"], of_float["sum"])) is None  # of two inputs
    assert together(names(of_int["sum"], of_int["first"])) is None  # first is not among them
