"""Store needs: what all groups of one store ask of it, kept up to date as demands come and go."""

from __future__ import annotations

from collections.abc import Hashable
from math import gcd
from typing import Any

from muntin.expression import Expression
from muntin.lane import Asked
from muntin.plan.group import WindowGroup
from muntin.store.needs import Greatest, Need, Shape, count, shape_of
from muntin.window import Window

# Columns read: what some groups read of each event, counted, so that it is known when nobody does any more.


class ColumnsRead:
    """Arguments and predicates by how many components of groups read them, keys by groups."""

    def __init__(self) -> None:
        self.arguments: dict[Expression, int] = {}
        self.predicates: dict[Expression, int] = {}
        self.keys: dict[tuple[Expression, ...], int] = {}
        self.laned_keys: dict[tuple[tuple[Expression, ...], Asked], int] = {}  # of these, for lanes alone
        self.version = 0  # changes whenever a column is new or gone

    def count_group(self, where: Expression | None, keys: tuple[Expression, ...], step: int) -> None:
        """A group more or less, its filter and keys."""
        if where is not None:
            self._count(self.predicates, where, step)
        if keys:
            self._count(self.keys, keys, step)
        if self.laned_keys or isinstance(where, Asked):
            self.version += 1  # whether all events need the ids of some keys may be another
        if isinstance(where, Asked):
            self._count(self.laned_keys, (keys, where), step)
            if where.keys:  # answers have these, in the order in which they first appeared in the stream
                self._count(self.keys, where.keys, step)

    def keys_for_lanes(self) -> dict[tuple[Expression, ...], frozenset[Asked]]:
        """Keys whose ids only events of some lanes need, with these lanes; of all others, every event needs its id."""
        found: dict[tuple[Expression, ...], dict[Asked, int]] = {}
        for (keys, where), many in self.laned_keys.items():
            found.setdefault(keys, {})[where] = many
        return {keys: frozenset(of) for keys, of in found.items() if sum(of.values()) == self.keys[keys]}

    def count_component(self, group: WindowGroup, need: Need, step: int) -> None:
        """A component of a group more or less."""
        arguments, predicates = group.columns_of(need)
        for argument in arguments:
            self._count(self.arguments, argument, step)
        for predicate in predicates:
            self._count(self.predicates, predicate, step)

    def _count(self, counts: dict[Any, int], what: Hashable, step: int) -> None:
        is_new = what not in counts
        self.version += not count(counts, what, step) or is_new

    def __eq__(self, other: object) -> bool:
        """Whether the same is read; versions do not matter."""
        return isinstance(other, ColumnsRead) and (
            (self.arguments, self.predicates, self.keys, self.laned_keys)
            == (other.arguments, other.predicates, other.keys, other.laned_keys)
        )

    __hash__ = None  # type: ignore[assignment]


class StoreNeeds:
    """A component more or less costs O(1), however many groups and components there are."""

    def __init__(self) -> None:
        self.groups: dict[int, WindowGroup] = {}
        self.components: dict[Need, int] = {}  # by how many groups need them
        self.columns = ColumnsRead()
        self._sizes: dict[Shape, Greatest] = {}  # of the windows of each shape, for stairs

    @property
    def step(self) -> int:
        """Of the coarsest grid with the edges of all windows; O(groups)."""
        return gcd(*(group.needs.step for group in self.groups.values()))

    @property
    def reach(self) -> int:
        """How far back the longest time window and its slide go; O(groups)."""
        return max((group.needs.reach("time") for group in self.groups.values()), default=0)

    @property
    def gaps(self) -> set[int]:
        """Of sessions, all gaps; O(windows)."""
        return {window.size for group in self.groups.values() for window in group.needs.windows}

    @property
    def longest(self) -> dict[Shape, int]:
        """On stairs, the size of the longest window of each shape; O(shapes)."""
        return {shape: size for shape, sizes in self._sizes.items() if (size := sizes.value)}

    def add_window(self, window: Window) -> None:
        """A group on stairs has one window more; O(log windows)."""
        if shape := shape_of(window):
            if shape not in self._sizes:
                self._sizes[shape] = Greatest()
            self._sizes[shape].add(window.size)

    def remove_window(self, window: Window) -> None:
        """A group on stairs has one window less."""
        if shape := shape_of(window):
            self._sizes[shape].remove(window.size)
            if self._sizes[shape].value is None:
                del self._sizes[shape]

    def add_group(self, group: WindowGroup) -> None:
        self.groups[group.number] = group
        self.columns.count_group(None if group.store.where else group.where, group.keys, 1)

    def remove_group(self, group: WindowGroup) -> None:
        del self.groups[group.number]
        self.columns.count_group(None if group.store.where else group.where, group.keys, -1)

    def count_component(self, group: WindowGroup, need: Need, step: int) -> None:
        """A component of a group more or less."""
        count(self.components, need, step)
        self.columns.count_component(group, need, step)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreNeeds) and all(
            mine == theirs
            for mine, theirs in (
                (self.groups, other.groups), (self.components, other.components), (self.columns, other.columns),
                (self.longest, other.longest),
            )
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]
