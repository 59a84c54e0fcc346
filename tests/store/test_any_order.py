"""Events out of order are folded as they stand, or sorted where that tells: the cells are those of events in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from muntin.expression import Expression
from muntin.query import Input
from muntin.store.any_order import in_slices
from muntin.store.batch import Batch, Column
from muntin.store.cells import Cells
from muntin.store.grid import Grid
from muntin.store.needs import Need
from muntin.store.slice_store import SliceStore

INT, FLOAT, PASSES = (
    Expression(name, kind, (name,), lambda columns: columns[""], exp.column(name))
    for name, kind in (("n", pa.int64()), ("x", pa.float64()), ("p", pa.bool_()))
)
EVERY = Need(Input(None), "count")
COMMUTING = [EVERY, *(Need(Input(INT), each) for each in ("count", "sum", "min", "max"))]
CASES: dict[str, tuple[list[Need], bool]] = {
    "integers": (COMMUTING, True),
    "how many": ([EVERY], True),
    "filtered": ([Need(Input(INT, PASSES), "sum")], True),
    "floats": ([Need(Input(FLOAT), "sum")], False),
    "zeros": ([Need(Input(FLOAT), "min")], False),  # -0.0 and 0.0 are equal: the first one stays
    "first": ([*COMMUTING, Need(Input(INT), "first")], False),
}


def batches(random: np.random.Generator, begin: int, events: int) -> tuple[Batch, Batch]:
    """The same events, as they came and in order."""
    at = begin + random.integers(0, 120, events)
    columns: Any = {
        INT: (random.integers(-(2**40), 2**40, events), random.random(events) > 0.2),
        FLOAT: (random.choice([0.0, -0.0, 0.1, 1e16, -1e16], events), np.ones(events, np.bool_)),
    }
    masks = {PASSES: random.random(events) > 0.5}
    order = np.argsort(at, kind="stable")
    made = []
    for places in (np.arange(events), order):
        some = {name: Column(value[places], valid[places]) for name, (value, valid) in columns.items()}
        kept = {name: mask[places] for name, mask in masks.items()}
        made.append(Batch(at[places], {}, some, kept, is_in_order=places is order))
    return made[0], made[1]


@pytest.mark.parametrize("where", [None, PASSES], ids=["all", "some"])
@pytest.mark.parametrize("case", CASES)
def test_cells_are_those_of_events_in_order(case: str, where: Expression | None) -> None:
    needs, is_folded = CASES[case]
    random, stores = np.random.default_rng(3), [SliceStore(where, ()) for _ in range(2)]
    for store in stores:
        store.fit(dict.fromkeys(needs, True), 10, None)
    for begin in (0, 60, 500, 480, 20):
        pair = batches(random, begin, 200)
        assert isinstance(in_slices(pair[0], Grid(10), tuple(needs)), Cells) == is_folded
        for store, batch in zip(stores, pair, strict=True):
            store.insert(batch)
            store.check()
        one, other = (store.columns_of_cells() for store in stores)
        assert np.array_equal(stores[0].slice_start, stores[1].slice_start)
        assert {name: array.tobytes() for name, array in one.items()} == {
            name: array.tobytes() for name, array in other.items()
        }


def test_few_events_far_apart_are_sorted() -> None:
    """A cell for each slice between them would take all memory."""
    at = np.array([2**50, 0, 2**40])
    found = in_slices(Batch(at, {}, {}, {}, is_in_order=False), Grid(10), (EVERY,))
    assert found.at.tolist() == [0, 2**40, 2**50]
