"""Components: the mergeable values that aggregates are made of.

Each knows its identity, how to fold events into partials and how to merge partials. Aggregates over
the same input share them: SUM, COUNT and AVG need `count` and `sum` once. Holistic components have
no partial of fixed size that could be merged: only synopses that keep the events can offer them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from muntin.aggregate.contract import Array, Partial
from muntin.kernels import fold, fold_runs, merge

_INT = np.iinfo(np.int64)
Kernel = Callable[..., object]


@dataclass(frozen=True)
class Component:
    """`identity` gives (dtype, value) of each state array, for values of a dtype."""

    name: str
    identity: Callable[[np.dtype], tuple[tuple[np.dtype, object], ...]]
    fold_of: Callable[[np.dtype], Kernel]
    merge_of: Callable[[np.dtype], Kernel]

    def start(self, dtype: np.dtype, slots: int) -> Partial:
        """State for `slots` answers, each over nothing."""
        return tuple(np.full(slots, value, kind) for kind, value in self.identity(dtype))

    def lift(self, value: Array, valid: Array, at: Array) -> Partial:
        """The partial of each event on its own: the identity where it is not valid; O(events)."""
        if self.name == "count":
            return (valid.astype(np.int64),)
        if self.name in ("min", "max", "sum") and bool(valid.all()):  # nothing to hide: no copy
            if self.name != "sum":
                return (value,)
            return value, np.zeros(len(value)) if value.dtype == np.float64 else value.astype(np.float64)
        count = len(value)
        lifted = self.start(value.dtype, count)
        each = np.arange(count)
        self.fold(np.zeros(1, np.int64), np.full(1, count), 0, each, at, value, valid, lifted)
        return lifted

    def fold_runs(self, lo: Array, hi: Array, at: Array, value: Array, valid: Array, into: Partial) -> None:
        """Fold runs of events without keys, one slot each; O(events)."""
        kernel = _RUNS.get((self.name, value.dtype.kind)) or _RUNS.get((self.name, ""))
        if kernel is None:
            self.fold(lo, hi, 1, np.zeros(len(value), np.int64), at, value, valid, into)
        else:
            kernel(lo, hi, read_only(value), valid, *into)

    def fold(self, lo: Array, hi: Array, width: int, key: Array, at: Array, value: Array, valid: Array,
             into: Partial) -> None:  # fmt: skip
        """Fold ranges of events into `into`; O(events)."""
        self.fold_of(value.dtype)(lo, hi, width, key, read_only(at), read_only(value), valid, *into)

    def merge(self, lo: Array, hi: Array, width: int, key: Array, cells: Partial, into: Partial) -> None:
        """Merge ranges of cells into `into`; O(cells)."""
        self.merge_of(cells[0].dtype)(lo, hi, width, key, *cells, *into)


def read_only(events: Array) -> Array:
    """A view that cannot be written to, as columns from Arrow are: one compiled kernel serves those and our own."""
    if events.flags.writeable:
        events = events.view()
        events.flags.writeable = False
    return events


def _same(kernel: Kernel) -> Callable[[np.dtype], Kernel]:
    return lambda dtype: kernel


def _by_type(ints: Kernel, floats: Kernel) -> Callable[[np.dtype], Kernel]:
    return lambda dtype: ints if dtype == np.int64 else floats


# of these the loop without keys is worth a kernel of its own: by component and kind of value
_RUNS: dict[tuple[str, str], Kernel] = {
    ("count", ""): fold_runs.count_runs,
    ("sum", "i"): fold_runs.sum_runs_int,
    ("sum", "f"): fold_runs.sum_runs_float,
    ("min", ""): fold_runs.min_runs,
    ("max", ""): fold_runs.max_runs,
}
_int64, _float64 = np.dtype(np.int64), np.dtype(np.float64)

COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (
        Component("count", lambda _: ((_int64, 0),), _same(fold.fold_count), _same(merge.merge_count)),
        # integers: the total and a float shadow that tells an overflow; floats: high and low part
        Component(
            "sum",
            lambda kind: ((kind, 0), (_float64, 0.0)),
            _by_type(fold.fold_sum_int, fold.fold_sum_float),
            _by_type(merge.merge_sum_int, merge.merge_sum_float),
        ),
        Component(
            "min",
            lambda kind: ((kind, _INT.max if kind == np.int64 else np.nan),),  # NaN is greatest
            _same(fold.fold_min),
            _same(merge.merge_min),
        ),
        Component(
            "max",
            lambda kind: ((kind, _INT.min if kind == np.int64 else -np.inf),),
            _same(fold.fold_max),
            _same(merge.merge_max),
        ),
        Component(
            "first",
            lambda kind: ((kind, 0), (_int64, _INT.max)),
            _same(fold.fold_first),
            _same(merge.merge_first),
        ),
        Component(
            "last",
            lambda kind: ((kind, 0), (_int64, _INT.min)),
            _same(fold.fold_last),
            _same(merge.merge_last),
        ),
        Component(
            "m2",
            lambda kind: ((_int64, 0), (_float64, 0.0), (_float64, 0.0)),
            _same(fold.fold_m2),
            _same(merge.merge_m2),
        ),
    )
}
# computed from the values themselves, never merged (holistic.py)
HOLISTIC = frozenset({"quantile", "distinct"})
# read from sketches, with an error (approximate.py)
SUMMARIES = frozenset({"quantile_summary", "item_summary"})  # all that is known, to be merged elsewhere
APPROXIMATE = frozenset({"approx_quantile", "item_counts"}) | SUMMARIES
