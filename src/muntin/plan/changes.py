"""Changes: what queries that came or went have changed in the plan, for state to follow."""

from __future__ import annotations

from muntin.plan.demand import Demand
from muntin.plan.group import WindowGroup
from muntin.plan.store import StoreId
from muntin.store.needs import Need


class Changes:
    """The groups and stores that demands came to or left, each with the components that it has to keep since,
    or need not keep any more: which of the two, the plan knows."""

    def __init__(self) -> None:
        self.groups: dict[int, set[Need]] = {}
        self.stores: dict[StoreId, set[Need]] = {}
        self.came: list[
            tuple[int, Demand]
        ] = []  # those that are new where they came to, and the group's number

    def come(self, group: WindowGroup, demand: Demand, is_first: bool) -> None:
        """A demand came to a group, perhaps as the first for its component."""
        self.came.append((group.number, demand))
        self._note(group, demand.need, is_first)

    def leave(self, group: WindowGroup, demand: Demand, is_last: bool) -> None:
        """A demand left a group, perhaps as the last for its component."""
        self._note(group, demand.need, is_last)

    def _note(self, group: WindowGroup, need: Need, is_turned: bool) -> None:
        if group.number not in self.groups:
            self.groups[group.number] = set()
            self.stores.setdefault(group.store, set())
        if is_turned:
            self.groups[group.number].add(need)
            self.stores[group.store].add(need)
