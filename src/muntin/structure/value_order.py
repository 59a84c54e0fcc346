"""value_order: the elements of a sequence in the order of their values, so that the most frequent is the longest run.

| | |
|---|---|
| Full name | order of values, with equal ones side by side |
| Answers | MODE, exactly, over suffix and historical windows |
| Insert | O(1) amortised; when it is first looked up, O(log m) for each of m new elements and one pass over all |
| Lookup | O(n), for all n elements that are kept |
| Space | 21 bytes an element |
| Shares | one order for all windows |
| Reference | none: a list that stays sorted; range modes in less time take far more room (Chan et al., 2014) |

It is the order that `key_runs` has for each key (`store/value_order.py`), of one key that has all elements:

    number      0   1   2   3   4   5         in order   2   1   4   0   3   5     of [0, 5) the longest run
    value       7   5   1   7   5   9         value      1   5   5   7   7   9     is 5 5, before 7 7, which is
                                                                                   as long: the least wins

An element that has left is taken out when the order is next read. Texts are kept as codes, equal ones side by side all
the same; which of several is the least is decided by their ranks, which come with the question.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregates.contract import Array, Partial
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.store.columns import Columns
from muntin.store.value_order import Order, Pool, ValueOrder
from muntin.structure.intervals import check_rewind, known_runs

_ALL = np.zeros(1, np.int64)  # the one key
_NONE = np.zeros(0, np.int64)


class OrderedElements:
    """The most frequent values in runs of a sequence, numbered as in `Intervals`. NULL and NaN do not count.

    >>> elements = OrderedElements(np.dtype(np.int64))
    >>> elements.extend(np.array([7, 5, 1, 7, 5, 9]), np.ones(6, np.bool_))
    >>> elements.query(np.array([0, 2]), np.array([5, 4]))
    (array([5, 1]), array([5, 2]))
    """

    name = "value_order"

    def __init__(self, dtype: np.dtype[Any], first: int = 0):
        """Of values of `dtype` (float64 or int64); the first element to come has number `first`."""
        self.dtype = dtype
        self._columns = Columns({"value": dtype, "valid": np.dtype(np.bool_)})
        self._columns.dropped = first
        self._capacity = 0
        self._order = ValueOrder(0, dtype)

    @property
    def first(self) -> int:
        return self._columns.dropped

    @property
    def end(self) -> int:
        return self._columns.dropped + len(self._columns)

    def extend(self, value: Array, valid: Bools) -> None:
        """Append elements; O(1) amortised each."""
        self._columns.extend({"value": np.asarray(value, self.dtype), "valid": valid})

    def rewind(self, end: int) -> None:
        """Take back the elements numbered `end` and later; O(elements)."""
        check_rewind(self.first, self.end, end)
        self._columns.truncate(end - self.first)
        pool = self._pool()
        self._order.take_back(_ALL, pool.left, pool.entries)

    def forget(self, first: int) -> None:
        """Elements numbered below `first` will not be asked for any more; O(1) amortised each."""
        self._columns.drop_first(min(max(first, self.first), self.end) - self.first)

    def query(self, lo: Ints, hi: Ints, rank: Ints = _NONE) -> Partial:
        """The most frequent values of many runs `[lo, hi)`, and of how many they were picked. Of several it is the
        least, or the one of the least `rank`, if values are codes that have one. O(elements) each."""
        lo, hi = known_runs(self.first, self.end, lo, hi)
        pool = self._pool()
        many = len(pool.value)
        if many > self._capacity:
            self._capacity = 2 * many
            self._order.arrange(self._capacity, pool.start, pool.left)
        order = Order(np.lexsort((lo, hi)), np.full(len(lo), LONG_AGO), many)
        return self._order.pick_modes(pool, _ALL, lo - self.first, hi - self.first, order, rank)

    def _pool(self) -> Pool:
        """The elements as the run of one key; nobody asks when they came."""
        value, valid = self._columns["value"], self._columns["valid"]
        return Pool(_ALL, np.array([len(value)]), np.array([self.first]), _NONE, value, valid)

    def nbytes(self) -> int:
        """Bytes of state."""
        return self._columns.nbytes() + self._order.nbytes()

    def check(self) -> None:
        """Assert every invariant."""
        self._columns.check()
        self._order.check(self._pool())
