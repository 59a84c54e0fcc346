"""A multiset of numbers that knows its greatest: how far back the longest of many windows reaches."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType

from muntin.counting import count


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
