"""Store needs: what all groups of one store ask of it, kept up to date as demands come and go."""

from __future__ import annotations

from math import gcd

from muntin.counting import count
from muntin.plan.columns_read import ColumnsRead
from muntin.plan.group import WindowGroup, longest_of
from muntin.store.needs import Need, Shape


class StoreNeeds:
    """A component more or less costs O(1), however many groups and components there are."""

    def __init__(self) -> None:
        self.groups: dict[int, WindowGroup] = {}
        self.components: dict[Need, int] = {}  # by how many groups need them
        self.columns = ColumnsRead()

    @property
    def step(self) -> int:
        """Of the coarsest grid with the edges of all windows; O(groups)."""
        return gcd(*(group.needs.step for group in self.groups.values()))

    @property
    def reach(self) -> int:
        """How far back the longest time window and its slide go; O(groups)."""
        return max((group.needs.reach("time") for group in self.groups.values()), default=0)

    @property
    def longest(self) -> dict[Shape, int]:
        """The size of the longest window of each shape; O(groups)."""
        return longest_of(group.needs.longest() for group in self.groups.values())

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
        return isinstance(other, StoreNeeds) and (self.groups, self.components, self.columns) == (
            other.groups, other.components, other.columns
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]
