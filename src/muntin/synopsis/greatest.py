"""A multiset of numbers that knows its greatest: how far back the longest of many windows reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType


class Greatest:
    """To add a number and to remove one cost O(log n) amortised.

    >>> sizes = Greatest()
    >>> sizes.add(60), sizes.add(300), sizes.add(300), sizes.remove(300), sizes.value
    (None, None, None, None, 300)
    >>> sizes.remove(300)
    >>> sizes.value
    60
    """

    def __init__(self, count: Mapping[int, int] = MappingProxyType({})) -> None:
        self._count = Counter(count)
        self._heap = [
            -number for number in count
        ]  # every number there is once, negated; and some that are gone
        heapify(self._heap)

    @property
    def value(self) -> int | None:
        """The greatest number, None if there is none."""
        while self._heap and -self._heap[0] not in self._count:
            heappop(self._heap)
        return -self._heap[0] if self._heap else None

    def add(self, number: int) -> None:
        if number not in self._count:
            heappush(self._heap, -number)
        self._count[number] += 1

    def remove(self, number: int) -> None:
        self._count[number] -= 1
        if not self._count[number]:
            del self._count[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Greatest) and self._count == other._count

    __hash__ = None  # type: ignore[assignment]
