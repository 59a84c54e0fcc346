"""Columns: parallel arrays that grow at one end and are forgotten at the other.

What rings and slices are stored in. Elements keep their *number* for life, counted from the first
ever appended, while the arrays move beneath them: `dropped` is the number of the first one still
here. Appending and dropping cost O(1) amortised per element.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.arrays import Arrays, Bools
from muntin.kernels.columns import find_run

_SMALLEST = 128


class Columns:
    """
    >>> columns = Columns({"x": np.dtype(np.int64)})
    >>> columns.extend({"x": np.array([5, 6, 7])})
    >>> columns.drop_first(1)
    >>> columns["x"], columns.dropped, len(columns)
    (array([6, 7]), 1, 2)
    """

    def __init__(self, dtypes: Mapping[str, np.dtype], most: int = 0):
        """`most`: elements that there will ever be at a time, if that is known, so that room is for no more."""
        self.dropped = 0
        self._most = most
        self._capacity = min(_SMALLEST, most) if most else _SMALLEST
        self._arrays: Arrays = {name: np.empty(self._capacity, dtype) for name, dtype in dtypes.items()}
        self._head = 0
        self._tail = 0

    def __len__(self) -> int:
        return self._tail - self._head

    def __getitem__(self, name: str) -> np.ndarray:
        """What is stored of a column, as a view; element 0 has the number `dropped`."""
        return self._arrays[name][self._head : self._tail]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def find_run(self, name: str, start: int, end: int) -> tuple[int, int]:
        """Numbers of the first element with at least `start`, and at least `end`, in an ascending column of
        integers; O(log n)."""
        lo, hi = find_run(self._arrays[name], self._head, self._tail, start, end)
        shift = self.dropped - self._head
        return lo + shift, hi + shift

    def names(self) -> list[str]:
        return list(self._arrays)

    def add(self, name: str, dtype: np.dtype, fill: object) -> None:
        """One more column, `fill` in all elements so far."""
        self._arrays[name] = np.full(self._capacity, fill, dtype)

    def remove(self, name: str) -> None:
        del self._arrays[name]

    def extend(self, more: Mapping[str, np.ndarray]) -> None:
        """Append elements; `more` has an array for every column."""
        self.extend_with(more, {})

    def extend_with(self, more: Mapping[str, np.ndarray], fill: Mapping[str, object]) -> None:
        """Append elements; `fill` has a value for every column of which `more` has no array."""
        count = len(next(iter(more.values())))
        self._make_room(count)
        for name, array in self._arrays.items():
            array[self._tail : self._tail + count] = more[name] if name in more else fill[name]
        self._tail += count

    def with_room(self, first: int, count: int) -> Arrays:
        """All columns from an element on, with room for so many more behind the last, which whoever asks for it has to
        fill; `count_in` says how many there are."""
        self._make_room(count)
        part = slice(self._head + first, self._tail + count)
        return {name: array[part] for name, array in self._arrays.items()}

    def count_in(self, count: int) -> None:
        """So many elements were written behind the last."""
        self._tail += count

    def _make_room(self, count: int) -> None:
        if self._tail + count > self._capacity:
            needed = len(self) + count
            if 4 * needed <= 3 * self._capacity or needed <= self._most <= self._capacity:
                self._shift()
            elif needed <= self._most:
                self._move(min(max(_SMALLEST, 2 * needed), self._most))
            else:
                self._move(max(_SMALLEST, 2 * needed))

    @property
    def room(self) -> int:
        """How many elements fit behind the last before any is moved."""
        return self._capacity - self._tail

    def truncate(self, count: int) -> None:
        """Keep only the first `count` elements."""
        self._tail = self._head + count

    def drop_first(self, count: int) -> None:
        """Forget the `count` oldest elements."""
        self._head += count
        self.dropped += count
        self._shrink()

    def retain(self, kept: Bools) -> None:
        """Forget what is not `kept`, wherever it is; the numbers of the rest change. O(n)."""
        places = np.flatnonzero(kept) + self._head
        for array in (
            self._arrays.values()
        ):  # in place: new arrays would cost more, in pages touched for the first time
            array[: len(places)] = array[places]
        self.dropped += len(self) - len(places)
        self._head, self._tail = 0, len(places)
        self._shrink()

    def replace(self, arrays: Mapping[str, np.ndarray]) -> None:
        """These elements in place of all that are here."""
        self._arrays = {name: arrays[name].copy() for name in self._arrays}
        self._head, self._tail = 0, len(next(iter(arrays.values())))
        self._capacity = self._tail

    def copy(self) -> Columns:
        """Another with the same elements, without room for more."""
        other = Columns({}, self._most)
        other._arrays = {name: self[name].copy() for name in self._arrays}
        other._tail = other._capacity = len(self)
        other.dropped = self.dropped
        return other

    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def held_bytes(self) -> int:
        """Of what is stored, without the room that is kept for more."""
        return len(self) * sum(array.itemsize for array in self._arrays.values())

    def check(self) -> None:
        # the stored part lies inside the arrays, which all have the same capacity
        assert 0 <= self._head <= self._tail <= self._capacity
        assert all(len(array) == self._capacity for array in self._arrays.values())

    def _shrink(self) -> None:
        if self._capacity > max(_SMALLEST, 8 * len(self)):
            self._move(max(_SMALLEST, 2 * len(self)))

    def _shift(self) -> None:
        """Move what is stored to the front: a quarter of the capacity has been appended since the last
        time. New arrays would cost more than the copying, in pages touched for the first time."""
        for array in self._arrays.values():
            array[: len(self)] = array[self._head : self._tail]
        self._head, self._tail = 0, len(self)

    def _move(self, capacity: int) -> None:
        for name, array in self._arrays.items():
            moved = np.empty(capacity, array.dtype)
            moved[: len(self)] = array[self._head : self._tail]
            self._arrays[name] = moved
        self._head, self._tail, self._capacity = 0, len(self), capacity
