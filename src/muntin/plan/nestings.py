"""The nestings of a stream: one for each operation signature that queries have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from muntin.expression import Expression
from muntin.plan.demand import Demand
from muntin.plan.nesting import Nesting, nests
from muntin.plan.window_chain import Spec


class Signature(NamedTuple):
    """What windows must have in common for one structure to serve them: the filter before them, and the keys.

    Not the aggregate: all of them are lowered from the same partials. Without keys a filter belongs to the
    input of an aggregate (see `demand`), so all queries without keys have one signature.
    """

    where: Expression | None
    keys: tuple[Expression, ...]

    def __str__(self) -> str:
        by = f"by {', '.join(map(str, self.keys))}" if self.keys else "without keys"
        return by + (f" where {self.where}" if self.where else "")


class Nestings:
    """Which windows nest, counted once for each query that looks at one.

    Windows that cannot be in a chain are left out, and served all the same: with `TO`, without SLIDE, with a
    SLIDE longer than their RANGE, or by ROWS.
    """

    def __init__(self) -> None:
        self._by_signature: dict[Signature, Nesting] = {}

    def register(self, demands: Iterable[Demand]) -> None:
        """A query has come; O(its demands), and its windows as `Nesting.register` has it."""
        for signature, spec in _windows(demands):
            self._by_signature.setdefault(signature, Nesting()).register(*spec)

    def revoke(self, demands: Iterable[Demand]) -> None:
        """A query has gone."""
        for signature, spec in _windows(demands):
            nesting = self._by_signature[signature]
            nesting.revoke(*spec)
            if not nesting.windows:
                del self._by_signature[signature]

    @property
    def by_signature(self) -> Mapping[Signature, Nesting]:
        """Those that have windows, in the order their first query came."""
        return MappingProxyType(self._by_signature)

    def check(self, queries: Iterable[Iterable[Demand]]) -> None:
        """Assert every invariant, given the demands of all queries."""
        for nesting in self._by_signature.values():
            nesting.check()
        # G5: each window is counted as often as there are queries that look at it
        counts = Counter(window for demands in queries for window in _windows(demands))
        counted = {
            (signature, spec): count
            for signature, nesting in self._by_signature.items()
            for spec, count in nesting.registered.items()
        }
        assert counted == counts
        assert all(nesting.windows for nesting in self._by_signature.values())


def _windows(demands: Iterable[Demand]) -> dict[tuple[Signature, Spec], None]:
    """Each once, however many components of it are asked for."""
    found: dict[tuple[Signature, Spec], None] = {}
    last: Demand | None = None
    for each in demands:
        # components of a call differ in what they need only: most demands are like the one before
        if last is None or each.window is not last.window or each.where is not last.where:
            last = each
            if nests(each.window):
                found[Signature(each.where, each.keys), (each.window.size, each.window.slide)] = None
    return found
