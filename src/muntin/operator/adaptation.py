"""Adaptation: tells the choice of each window group what is about to happen, and changes structures.

Before stores are followed, and before windows are looked up, the cost of that step in every structure that
could serve the group is counted (`plan/adapt.py`). If it is time to change, the new structure is built
from the store, where all elements are, and the step is made with it. Answers do not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.operator.profile import Profile
from muntin.plan.adapt import Choice
from muntin.plan.demand import PRESENCE, Demand
from muntin.plan.feasible import candidates, still_possible, still_serves
from muntin.plan.group import WindowGroup
from muntin.plan.unit_cost import PREPARE, SWITCH, lookup_cost, rebuild_cost, update_cost
from muntin.plan.width import elements_in

if TYPE_CHECKING:
    from muntin.operator.shard import Shard


class _Adapting:
    """The choice of one group, what it was counted over, and what does not change from step to step."""

    def __init__(self, group: WindowGroup):
        self.group = group
        self.choice = Choice(group.synopsis, candidates(group))
        # a scan folds as every slice is folded
        self.compiled = {group.synopsis, group.planned, "materialize_none"}
        self.updates = self.lookups = 0  # since there was last nothing to regret
        self.fit()

    def keep(self, names: tuple[str, ...]) -> None:
        """Only these structures can serve the group from now on."""
        self.choice.keep(names)
        self.fit()

    def fit(self) -> None:
        """The group's needs have changed."""
        self.names = (self.choice.current, *self.choice.regrets)
        if len(self.names) == 1:
            return  # there is nothing to choose
        needs = self.group.needs
        # events of a ring are counted by their positions: no structure for that
        by_position = self.group.store.kind == "ring" and self.group.where is None
        self.structures = len(needs.components) - (by_position and PRESENCE in needs.components)
        fixed, more = (
            {name: update_cost(name, many, self.structures, len(needs.windows)) for name in self.names}
            for many in (0, 1)
        )
        self._update = {name: (fixed[name], more[name] - fixed[name]) for name in self.names}

    def update_costs(self, elements: int) -> dict[str, float]:
        return {name: fixed + elements * each for name, (fixed, each) in self._update.items()}

    def count(self, updates: int, lookups: int) -> None:
        if not any(self.choice.regrets.values()):
            self.updates = self.lookups = 0
        self.updates += updates
        self.lookups += lookups

    def reason(self) -> str:
        """What the load was like when the group changed."""
        if not self.lookups:
            return f"nobody looked up in the last {self.updates:,} updates"
        if self.updates >= self.lookups:
            return f"look-ups are rare: {self.updates / self.lookups:,.0f} updates each"
        if not self.updates:
            return f"look-ups are frequent: {self.lookups:,} without an update"
        return f"look-ups are frequent: {self.lookups / self.updates:,.0f} for each update"


class Adaptation:
    """Of all groups of a shard; O(groups) per insertion, O(1) per look-up."""

    def __init__(self, shard: Shard):
        self._shard = shard
        self._groups: dict[int, _Adapting] = {}

    def welcome(self, demands: list[tuple[int, Demand]]) -> None:
        """Demands are new in their groups. A structure that has taken another's place, and cannot serve them,
        gives way to the one of the rule. O(demands)."""
        groups, names = self._shard.manager.groups, dict[int, tuple[str, ...]]()
        for number, demand in demands:
            if number not in groups:
                continue  # it went on to stairs
            if not still_serves(groups[number], demand):
                groups[number].switch(groups[number].planned, "")
                self._groups.pop(number, None)
            if number in self._groups:
                so_far = names.get(number, self._groups[number].names)
                names[number] = still_possible(groups[number], demand, so_far)
        for number in names.keys() & self._groups.keys():
            self._groups[number].keep(names[number])

    def part(self, numbers: set[int], was_hinted: bool) -> None:
        """A query of these groups is gone; if it had asked for their structures, they are free to change now."""
        for number in numbers & self._groups.keys():
            if was_hinted or number not in self._shard.manager.groups:
                del self._groups[number]
            else:
                self._groups[number].fit()

    def switched(self, number: int, synopsis: str) -> None:
        """Another structure serves a group."""
        if number in self._groups:
            self._groups[number].choice.change(synopsis)
            self._groups[number].compiled.add(synopsis)

    def before_insert(self) -> None:
        """Every store has taken in a batch; structures are about to follow."""
        shard = self._shard
        touched = {
            name: store.dropped + len(store) - store.changed_from for name, store in shard.stores.items()
        }
        for number, group in shard.manager.groups.items():
            adapting = self._groups.get(number) or self._begin(number)
            elements = touched[group.store]
            if len(adapting.names) > 1 and elements:
                adapting.count(elements, 0)
                self._foresee(number, adapting, adapting.update_costs(elements))

    def before_lookup(
        self, profile: Profile, times: int = 1, is_single: bool = False, is_now: bool = True
    ) -> None:
        """Windows are about to be looked up: those of the profile, so many times."""
        shard = self._shard
        for number, width, is_time, lookups in profile:
            adapting = self._groups.get(number) or self._begin(number)
            if len(adapting.names) > 1:
                elements, many = elements_in(width, is_time, shard.synopses[number].store), lookups * times
                calls = many if is_single else 0
                costs = {name: lookup_cost(name, elements, many, calls, is_now) for name in adapting.names}
                adapting.count(0, many)
                self._foresee(number, adapting, costs)

    def _begin(self, number: int) -> _Adapting:
        self._groups[number] = _Adapting(self._shard.manager.groups[number])
        return self._groups[number]

    def _foresee(self, number: int, adapting: _Adapting, costs: dict[str, float]) -> None:
        shard = self._shard

        def price(name: str) -> float:
            kept = len(shard.synopses[number].store)
            there = rebuild_cost(name, kept, adapting.structures, name in adapting.compiled)
            back = rebuild_cost(adapting.choice.current, kept, adapting.structures)
            return there + back + PREPARE * len(shard.prepared.readers)

        chosen = adapting.choice.foresee(costs, price, 2 * SWITCH)
        if chosen is not None:
            shard.switch(number, chosen, adapting.reason())
