"""Components at work: the rules of `muntin.component` with the loops that go by them.

Aggregates over the same input share components: SUM, COUNT and AVG need `count` and `sum` once. Holistic components
have no partial of fixed size that could be merged: only synopses that keep the events can offer them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any

import numpy as np

from muntin.aggregates.contract import Array, Partial
from muntin.component import RULES, Rules
from muntin.kernels.fold import fold_events, fold_runs, lift_events, merge_partials, merge_runs


class Component(Rules):
    """The rules of a component, applied to arrays of events and partials."""

    @classmethod
    def of(cls, rules: Rules) -> Component:
        return cls(**vars(rules))

    def lift(self, value: Array, valid: Array, at: Array) -> Partial:
        """The partial of each event on its own: the identity where it is not valid; O(events)."""
        kind, identity = self.kind(value.dtype), self.identity(value.dtype)
        if self.lifts_columns and _is_all(valid):  # nothing to hide: no copy
            columns = zip(kind.lift(value, at), identity, strict=True)
            return tuple(_column(part, len(value), dtype) for part, (dtype, _) in columns)
        lifted = tuple(np.empty(len(value), dtype) for dtype, _ in identity)
        lift_events(kind)(read_only(at), read_only(value), valid, *lifted, *self.start(value.dtype, 1))
        return lifted

    def fold_runs(self, lo: Array, hi: Array, at: Array, value: Array, valid: Array, into: Partial) -> None:
        """Fold runs of events without keys, one slot each; O(events)."""
        kernel = fold_runs(self.kind(value.dtype))
        at = read_only(at)
        kernel(lo, hi, at, at if self.ignores_values else read_only(value), valid, *into)

    def fold(self, lo: Array, hi: Array, width: int, key: Array, at: Array, value: Array, valid: Array,
             into: Partial) -> None:  # fmt: skip
        """Fold ranges of events into `into`; O(events)."""
        kernel = fold_events(self.kind(value.dtype))
        at = read_only(at)
        kernel(lo, hi, width, key, at, at if self.ignores_values else read_only(value), valid, *into)

    def merge(self, lo: Array, hi: Array, width: int, key: Array, cells: Partial, into: Partial) -> None:
        """Merge ranges of cells into `into`; O(cells)."""
        kind = self.kind(cells[0].dtype)
        if width == 1:
            merge_runs(kind)(lo, hi, key, *cells, *into)
        else:
            merge_partials(kind)(lo, hi, width, key, *cells, *into)


def _is_all(valid: Array) -> bool:
    return bool(np.count_nonzero(valid) == len(valid))  # `all` takes ten times as long for a few


def _column(part: Any, length: int, dtype: np.dtype) -> Array:
    """What a rule has made of a column, which may be one number for all of it."""
    if isinstance(part, np.ndarray):
        return part
    return np.full(length, part, dtype) if part else np.zeros(length, dtype)


def read_only(events: Array) -> Array:
    """A view that cannot be written to, as columns from Arrow are: one compiled kernel serves those and our own."""
    if events.flags.writeable:
        events = events.view()
        events.setflags(write=False)
    return events


# By name. More may be added while nobody is at work.
COMPONENTS: dict[str, Component] = {rules.name: Component.of(rules) for rules in RULES}


class Those(Set[str]):
    """The names of the components that fulfil a condition, those among them that are added later.

    >>> sorted(Those(lambda component: component.compares_values))
    ['max', 'min']
    """

    def __init__(self, condition: Callable[[Component], bool] = lambda component: True):
        self._condition = condition

    def __contains__(self, name: object) -> bool:
        component = COMPONENTS.get(name) if isinstance(name, str) else None
        return component is not None and self._condition(component)

    def __iter__(self) -> Iterator[str]:
        return (name for name, component in COMPONENTS.items() if self._condition(component))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def cells_of(component: str, dtype: np.dtype, arrays: Partial) -> Any:
    """The state arrays of a component, by its name, as cells.

    >>> cells_of("max", np.dtype(np.int64), (np.array([3, 1]),))
    Greatests(value=array([3, 1]))
    """
    return COMPONENTS[component].kind(dtype)(*arrays)


COMPARING = Those(lambda component: component.compares_values)  # whose texts must be in order
BY_ARRIVAL = Those(lambda component: component.is_by_arrival)
INEXACT = Those(lambda component: not component.is_exact)  # whose answers depend on how a window is split
# computed from the values themselves, never merged (holistic.py)
HOLISTIC = frozenset({"quantile", "mode", "distinct"})
# read from sketches, with an error (approximate.py)
SUMMARIES = frozenset({"quantile_summary", "item_summary"})  # all that is known, to be merged elsewhere
APPROXIMATE = frozenset({"approx_quantile", "item_counts", "approx_distinct"}) | SUMMARIES
