"""A single answer is lowered by plain numbers, many by arrays: both say the same of the same partials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import COMPONENTS
from muntin.component.pairs import pair_dtype
from muntin.errors import NoValue

SLOTS, NAN, INFINITE = 80, float("nan"), float("inf")
POOLS: dict[str, list[Any]] = {
    "small": [-3, 0, 1, 2],
    "large": [2**62, -(2**62), 2**63 - 1, -(2**63), 1],
    "floats": [0.1, -0.2, 1e16, 1.0, -1e16, 3.5],
    "infinite": [1e308, INFINITE, -INFINITE, 2.0, -1.0],
    "none": [NAN, 1.5, 2.5],
}
MERGED = [name for name, each in AGGREGATES.items() if set(each.components) <= COMPONENTS.keys()]


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", MERGED)
def test_one_as_many(name: str, pool: str) -> None:
    """Of windows with no event, one or some: numbers of any size, with their overflows, infinities and NaN."""
    rng, aggregate = np.random.default_rng(len(name)), AGGREGATES[name]
    value = rng.choice(np.array(POOLS[pool]), 4 * SLOTS)
    if "arg_max" in aggregate.components:
        pairs = np.empty(len(value), pair_dtype(value.dtype))
        pairs["value"], pairs["rank"] = value, rng.integers(0, 3, len(value))
        value = pairs
    valid, at = rng.random(len(value)) < 0.8, np.arange(len(value))
    lo = np.sort(rng.integers(0, len(value), SLOTS))
    hi = np.minimum(lo + rng.integers(0, 5, SLOTS), len(value))
    partials = {}
    for each in aggregate.components:
        partials[each] = COMPONENTS[each].start(value.dtype, SLOTS)
        COMPONENTS[each].fold_runs(lo, hi, at, value, valid, partials[each])
    lowered = aggregate.lower(partials)
    kinds = set()
    for slot in range(SLOTS):
        one = [tuple(array[slot].item() for array in partials[each]) for each in aggregate.components]
        if lowered.lost is not None and lowered.lost[slot]:
            with pytest.raises(NoValue):
                aggregate.lower_one(*one)
            kinds.add("lost")
        elif not lowered.valid[slot]:
            assert aggregate.lower_one(*one) is None
            kinds.add("NULL")
        else:
            found, expected = aggregate.lower_one(*one), lowered.value[slot].item()
            assert found == expected or (math.isnan(found) and math.isnan(expected))
            kinds.add("number")
    assert "number" in kinds
