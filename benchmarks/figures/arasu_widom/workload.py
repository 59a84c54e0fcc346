"""What the structures are given: seeded values, mixed inputs and windows; and what NumPy makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial

Ints = npt.NDArray[np.int64]
BATCH = 1_000  # inputs a call, where they come in batches
CHECKED = 200  # answers of each run that are computed again


def values(count: int, seed: int) -> Ints:
    """Values that a sum of any window holds."""
    return np.random.default_rng(seed).integers(-1_000_000, 1_000_000, count)


def lifted(component: str, value: Ints) -> Partial:
    """The values as partials of a component, as structures take them; quantiles take them as they are."""
    if component == "quantile":
        return (value,)
    valid, at = np.ones(len(value), np.bool_), np.arange(len(value))
    return COMPONENTS[component].lift(value, valid, at)


@dataclass(frozen=True)
class Inputs:
    """Updates and look-ups of suffix windows, mixed.

    >>> inputs = mixed_inputs(share=0.5, count=6, windows=10, seed=1)
    >>> int(inputs.is_update.sum()), len(inputs.value), len(inputs.width)
    (3, 3, 3)
    """

    is_update: npt.NDArray[np.bool_]
    width: Ints  # of the windows looked up, in elements, in their order
    value: Ints  # of the updates, in their order

    @cached_property
    def lifted(self) -> Partial:
        """The updates as partials of SUM."""
        return lifted("sum", self.value)

    @cached_property
    def batches(self) -> list[tuple[Partial, Ints]]:
        """The updates and the widths looked up of each batch."""
        parts, at = [], 0
        for start in range(0, len(self.is_update), BATCH):
            size = len(self.is_update[start : start + BATCH])
            more = at + int(self.is_update[start : start + BATCH].sum())
            widths = self.width[start - at : start + size - more]
            parts.append((tuple(array[at:more] for array in self.lifted), widths))
            at = more
        return parts

    def updates_before(self, in_batches: bool) -> Ints:
        """How many updates each look-up has seen; in batches: all of its batch."""
        upto = np.cumsum(self.is_update)
        if in_batches:
            last = np.minimum((np.arange(len(upto)) // BATCH + 1) * BATCH, len(upto)) - 1
            upto = upto[last]
        return upto[~self.is_update]


def mixed_inputs(share: float, count: int, windows: int, seed: int) -> Inputs:
    """`count` inputs, a `share` of them updates; look-ups ask for one of 0, 1, … `windows` - 1 elements."""
    random = np.random.default_rng(seed)
    is_update = random.permutation(count) < round(share * count)
    updates = int(is_update.sum())
    return Inputs(is_update, random.integers(0, windows, count - updates), values(updates, seed))


@dataclass(frozen=True)
class Runs:
    """Windows to look up, suffix and historical: `[lo, hi)`, and the percentile asked for."""

    lo: Ints
    hi: Ints
    percent: Ints

    def shifted(self, by: int) -> Runs:
        """The same windows further on in the stream."""
        return Runs(self.lo + by, self.hi + by, self.percent)

    def ranks(self) -> Ints:
        """Rank, from 1, of the percentile in its window."""
        return -(-self.percent * (self.hi - self.lo) // 100)

    def sample(self, count: int = CHECKED) -> Runs:
        """The first few."""
        return Runs(self.lo[:count], self.hi[:count], self.percent[:count])


def uniform_runs(width: int | Ints, kept: int, count: int, seed: int, in_batches: bool) -> Runs:
    """Windows of given widths anywhere in the first `kept` elements; percentiles by look-up or by batch."""
    random = np.random.default_rng(seed)
    lo = random.integers(0, kept - width + 1, count)
    percent = random.integers(1, 100, count)
    return Runs(lo, lo + width, percent[np.arange(count) // BATCH] if in_batches else percent)


def recomputed(component: str, history: Ints, runs: Runs) -> list[Any]:
    """The answers from the values alone."""
    found: list[Any] = []
    for lo, hi, rank in zip(runs.lo, runs.hi, runs.ranks(), strict=True):
        window = history[lo:hi]
        if component == "quantile":
            found.append(np.sort(window)[rank - 1])
        else:
            found.append(window.sum() if component == "sum" else window.max())
    return found
