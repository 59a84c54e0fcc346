"""Quantiles and distinct counts of values as they are: slot by slot what their definitions say."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from muntin.aggregates.holistic import count_distinct, pick_quantile

SLOTS = 60
NAN = float("nan")


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_each_slot_on_its_own(seed: int, kind: type) -> None:
    """Slots of any length, none at all too; NaN equals itself and has no rank, 0.0 is -0.0."""
    rng = np.random.default_rng(seed)
    pool = [0, 1, 2, 3, 2**53] if kind is np.int64 else [0.0, -0.0, 1.5, NAN, NAN, float("inf")]
    slots = [np.sort(rng.choice(np.array(pool, kind), rng.integers(0, 9))) for _ in range(SLOTS)]
    value, offset = np.concatenate(slots), np.cumsum([0, *map(len, slots)])
    (distinct,) = count_distinct(value, offset)
    assert distinct.tolist() == [len({"NaN" if each != each else each for each in some}) for some in slots]
    for phi in ("0.01", "0.29", "0.5", "1"):
        picked, count = pick_quantile(value, offset, float(phi))
        for some, one, many in zip(slots, picked, count, strict=True):
            numbers = [each for each in some if each == each]
            assert many == len(numbers)
            if numbers:
                assert one == numbers[max(1, ceil(Fraction(phi) * len(numbers))) - 1]


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_slots_without_values(kind: type) -> None:
    """Nothing is counted where there is nothing."""
    offset = np.zeros(4, np.int64)
    assert count_distinct(np.zeros(0, kind), offset)[0].tolist() == [0, 0, 0]
    assert pick_quantile(np.zeros(0, kind), offset, 0.5)[1].tolist() == [0, 0, 0]
