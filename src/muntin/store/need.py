"""A need: one component of one input, the smallest thing that queries ask of shared state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.band import Band
from muntin.counting import count
from muntin.expression import Expression
from muntin.query import Input


class Need(NamedTuple):
    """One component of one input that some call of the group reads."""

    input: Input
    component: str
    parameters: tuple[Any, ...] = ()  # of holistic components: the phi of a quantile

    def __str__(self) -> str:
        name = " ".join([self.component, *map(str, self.parameters)])
        return f"{name} of {self.input}"


def storage(kind: pa.DataType) -> np.dtype:
    """How values of a type are kept: floats as float64, all else as int64 (text as codes)."""
    return np.dtype(np.float64 if pa.types.is_floating(kind) else np.int64)


def dtype_of(need: Need) -> np.dtype:
    """How the values of a need's input are kept."""
    argument = need.input.argument
    return np.dtype(np.int64) if argument is None else storage(argument.type)


# Needs whose filter is a band: what they have in common, and where their bands end.

BandPlace = tuple[Expression, Expression | None]


def band_of(need: Need) -> Band | None:
    """The band that a need is filtered by, if its filter is one."""
    kept = need.input.filter
    return None if kept is None else kept.band


def place_of(need: Need) -> BandPlace:
    """What needs have in common that one range track serves: attribute and argument."""
    band = band_of(need)
    assert band is not None, "a range tree serves bands only"
    return band.attribute, need.input.argument


def ends_of(needs: Sequence[Need]) -> tuple[Ints, Ints]:
    """The low and high ends of the bands of needs."""
    bands = [band for need in needs if (band := band_of(need)) is not None]
    ends = np.array([(band.low, band.high) for band in bands], np.int64)
    return ends[:, 0].copy(), ends[:, 1].copy()


# A multiset of numbers that knows its greatest: how far back the longest of many windows reaches.


class Greatest:
    """To add a number and to remove one cost O(log n) amortised.

    >>> sizes = Greatest()
    >>> sizes.add(60), sizes.add(300), sizes.add(300), sizes.remove(300), sizes.value
    (None, None, None, None, 300)
    >>> sizes.remove(300)
    >>> sizes.value
    60
    """

    def __init__(self, numbers: Mapping[int, int] = MappingProxyType({})) -> None:
        self._count = dict(numbers)
        self._heap = [
            -number for number in numbers
        ]  # every number there is once, negated; and some that are gone
        heapify(self._heap)

    @property
    def value(self) -> int | None:
        """The greatest number, None if there is none."""
        while self._heap and -self._heap[0] not in self._count:
            heappop(self._heap)
        return -self._heap[0] if self._heap else None

    def add(self, number: int) -> None:
        if count(self._count, number) == 1:
            heappush(self._heap, -number)

    def remove(self, number: int) -> None:
        count(self._count, number, -1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Greatest) and self._count == other._count

    __hash__ = None  # type: ignore[assignment]
