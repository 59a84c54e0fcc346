"""materialize_none: keep the elements, combine those of the window at each look-up.

| | |
|---|---|
| Full name | materialize-none |
| Answers | aggregates with fixed-size partials, over suffix and historical windows |
| Insert | O(1); nothing in an engine, whose stores have the elements |
| Lookup | O(W) |
| Space | O(n); none in an engine |
| Shares | the elements, and nothing else |
| Reference | Arasu & Widom, VLDB 2004, section 6.1 |

A baseline: one of the two ends between which the others lie, good when look-ups are rare. The other is
materialize_all. Here it keeps lifted elements of one component, like B-INT and its kin, so that they can be
compared. An engine has the elements in a store already, and folds them from there (`structure/track.py`): it
differs from `rescan` in that it has no keys, and in that it can take the place of B-INT and its kin, and
they its place, while the stream runs.
"""

from __future__ import annotations

import numpy as np

from muntin.aggregates.component import COMPONENTS, Component, cells_of
from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.kernels.combine import scan_runs
from muntin.store.columns import Columns
from muntin.structure.intervals import Intervals, check_rewind, known_runs


class MaterializeNone(Intervals):
    """The elements of one component.

    >>> elements = MaterializeNone(COMPONENTS["max"], np.dtype(np.int64))
    >>> elements.extend((np.array([3, 1, 4, 1, 5]),))
    >>> elements.query(np.array([0, 1]), np.array([2, 4]))
    (array([3, 4]),)
    """

    name = "materialize_none"
    components = COMPONENTS.keys()

    def __init__(self, component: Component, dtype: np.dtype, first: int = 0):
        super().__init__(component, dtype, first)
        kinds = [kind for kind, _ in component.identity(dtype)]
        self._elements = Columns({str(number): kind for number, kind in enumerate(kinds)})
        self._elements.dropped = first

    def extend(self, lifted: Partial) -> None:
        """O(1) amortised for each element."""
        self._elements.extend(dict(zip(self._elements.names(), lifted, strict=True)))
        self.end += len(lifted[0])

    def rewind(self, end: int) -> None:
        """O(1)."""
        check_rewind(self.first, self.end, end)
        self._elements.truncate(end - self._elements.dropped)
        self.end = end

    def forget(self, first: int) -> None:
        """O(1) amortised for each element."""
        first = min(max(first, self.first), self.end)
        self._elements.drop_first(first - self.first)
        self.first = first

    def query(self, lo: Ints, hi: Ints) -> Partial:
        """O(W) for each run."""
        lo, hi = known_runs(self.first, self.end, lo, hi)
        stored = tuple(self._elements[name] for name in self._elements.names())
        out = self.component.start(self.dtype, len(lo))
        cells, into = (cells_of(self.component.name, self.dtype, arrays) for arrays in (stored, out))
        scan_runs(cells, lo - self.first, hi - self.first, into)
        return out

    def nbytes(self) -> int:
        return self._elements.nbytes()

    def check(self) -> None:
        self._elements.check()
        # what is stored is what is remembered
        assert self._elements.dropped == self.first
        assert len(self._elements) == self.end - self.first
