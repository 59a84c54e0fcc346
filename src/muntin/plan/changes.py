"""Changes: what queries that came or went have changed in the plan, for state to follow."""

from __future__ import annotations

from muntin.plan.group import WindowGroup
from muntin.plan.store import StoreId
from muntin.synopsis.contract import Need


class Changes:
    """The groups and stores that demands came to or left, each with the components that it has to keep since,
    or need not keep any more: which of the two, the plan knows."""

    def __init__(self) -> None:
        self.groups: dict[int, set[Need]] = {}
        self.stores: dict[StoreId, set[Need]] = {}

    def note(self, group: WindowGroup, need: Need, is_turned: bool) -> None:
        """A demand came to a group or left it; `is_turned`: it was the first for its component, or the last."""
        of_group, of_store = (
            self.groups.setdefault(group.number, set()),
            self.stores.setdefault(group.store, set()),
        )
        if is_turned:
            of_group.add(need)
            of_store.add(need)
