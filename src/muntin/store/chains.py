"""Chains: the elements of each key in a sequence of all keys', newest first.

    element   0  1  2  3  4         last   a: 4   b: 3   c: 2
    key       a  b  c  b  a
    prior     -  -  -  1  0         so a's elements are 4, 0; b's are 3, 1

What concerns one key is found in time that depends on that key alone, whatever the others do.
Elements have numbers for life; a chain ends at a number that has been dropped, or at -1.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.slices import link_cells, unlink_cells

NONE = -1


class Chains:
    """The newest element of each key; `prior` is a column beside the elements.

    >>> chains = Chains()
    >>> chains.link(np.array([0, 1, 0]), first=5)
    array([-1, -1,  5])
    >>> chains.last
    array([7, 6])
    """

    def __init__(self) -> None:
        self._last = np.full(64, NONE)
        self._keys = 0

    @property
    def last(self) -> Ints:
        """Number of the newest element of each key id, NONE if it has none."""
        return self._last[: self._keys]

    def reserve(self, keys: int) -> None:
        """Have room for the ids below `keys`; O(1) amortised."""
        if keys > len(self._last):
            grown = np.full(max(keys, 2 * len(self._last)), NONE)
            grown[: self._keys] = self.last
            self._last = grown
        self._keys = max(self._keys, keys)

    def link(self, key: Ints, first: int) -> Ints:
        """Append elements numbered from `first` on; returns their priors."""
        self.reserve(int(key.max(initial=-1)) + 1)
        prior = np.empty(len(key), np.int64)
        link_cells(key, first, self._last, prior)
        return prior

    def unlink(self, key: Ints, prior: Ints) -> None:
        """Take back the newest elements."""
        unlink_cells(key, prior, self._last)

    def rebuild(self, key: Ints, first: int) -> Ints:
        """Chains of these elements alone; returns their priors."""
        self._last = np.full(64, NONE)
        self._keys = 0
        return self.link(key, first)

    def renumber(self, new_id: Ints) -> None:
        """Key ids are different from now on, -1 for keys without elements."""
        last = self.last
        kept = np.flatnonzero(new_id[: len(last)] >= 0)
        self._last = np.full(max(64, int(new_id.max(initial=-1)) + 1), NONE)
        self._last[new_id[kept]] = last[kept]
        self._keys = int(new_id.max(initial=-1)) + 1

    def nbytes(self) -> int:
        return self._last.nbytes

    def check(self, key: Ints, prior: Ints, first: int) -> None:
        """Assert that the chains are those of the elements numbered from `first` on."""
        fresh = Chains()
        expected = fresh.link(key, first)
        # whatever lies before the first element is as good as nothing
        assert bool(np.all(np.where(prior < first, NONE, prior) == expected))
        last = np.where(self.last < first, NONE, self.last)
        assert bool(np.all(last[: len(fresh.last)] == fresh.last))
        assert bool(np.all(last[len(fresh.last) :] == NONE))
