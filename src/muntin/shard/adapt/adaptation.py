"""Adaptation: tells the choice of each window group what is about to happen, and changes structures.

Before stores are followed, and before windows are looked up, `AdaptiveChoice` counts the cost of that step in every
structure that could serve the group (`candidates` in `plan/choices.py`). If it is time to change, the new structure is
built from the store, where all elements are, and the step is made with it. Answers do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from muntin.plan.choices import candidates, still_possible, still_serves
from muntin.plan.cost import PREPARE, SWITCH, elements_in, lookup_cost, rebuild_cost, update_cost
from muntin.plan.demand import PRESENCE, Demand
from muntin.plan.group import WindowGroup
from muntin.shard.adapt.meter import Profile

if TYPE_CHECKING:
    from muntin.shard.state import State


class _Adapting:
    """The choice of one group, what it was counted over, and what does not change from step to step."""

    def __init__(self, group: WindowGroup):
        self.group = group
        self.choice = AdaptiveChoice(group.synopsis, candidates(group))
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

    def __init__(self, state: State):
        self._state = state
        self._groups: dict[int, _Adapting] = {}

    def welcome(self, demands: list[tuple[int, Demand]]) -> None:
        """Demands are new in their groups. A structure that has taken another's place, and cannot serve them,
        gives way to the one that was planned. O(demands)."""
        groups, names = self._state.manager.groups, dict[int, tuple[str, ...]]()
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
            if was_hinted or number not in self._state.manager.groups:
                del self._groups[number]
            else:
                self._groups[number].fit()

    def switched(self, number: int, synopsis: str) -> None:
        """Another structure serves a group."""
        if (adapting := self._groups.get(number)) is not None:
            adapting.choice.change(synopsis)
            adapting.compiled.add(synopsis)
            if synopsis not in adapting.names:  # a query that it could not serve has gone since
                adapting.fit()

    def before_insert(self) -> None:
        """Every store has taken in a batch; structures are about to follow."""
        state = self._state
        touched = {
            name: store.dropped + len(store) - store.changed_from for name, store in state.stores.items()
        }
        for number, group in state.manager.groups.items():
            adapting = self._groups.get(number) or self._begin(number)
            elements = touched[group.store]
            if len(adapting.names) > 1 and elements:
                adapting.count(elements, 0)
                self._foresee(number, adapting, adapting.update_costs(elements))

    def before_lookup(
        self, profile: Profile, times: int = 1, is_single: bool = False, is_now: bool = True
    ) -> None:
        """Windows are about to be looked up: those of the profile, so many times."""
        state = self._state
        for number, width, is_time, lookups in profile:
            adapting = self._groups.get(number) or self._begin(number)
            if len(adapting.names) > 1:
                elements, many = elements_in(width, is_time, state.synopses[number].store), lookups * times
                calls = many if is_single else 0
                costs = {name: lookup_cost(name, elements, many, calls, is_now) for name in adapting.names}
                adapting.count(0, many)
                self._foresee(number, adapting, costs)

    def _begin(self, number: int) -> _Adapting:
        self._groups[number] = _Adapting(self._state.manager.groups[number])
        return self._groups[number]

    def _foresee(self, number: int, adapting: _Adapting, costs: dict[str, float]) -> None:
        state = self._state

        def price(name: str) -> float:
            kept = len(state.synopses[number].store)
            there = rebuild_cost(name, kept, adapting.structures, name in adapting.compiled)
            back = rebuild_cost(adapting.choice.current, kept, adapting.structures)
            return there + back + PREPARE * len(state.prepared.readers)

        chosen = adapting.choice.foresee(costs, price, 2 * SWITCH)
        if chosen is not None:
            state.switch(number, chosen, adapting.reason())


# Adaptive choice: change to another structure once staying has cost as much as the change.
#
# The rent-or-buy argument ("ski rental"). For every structure that could serve a group, its *regret* is
# what the current one has cost more since that other was last as good: it grows while the other would have
# been cheaper, shrinks while it would have been dearer, and never falls below nothing. When it reaches what
# going there and coming back costs, the group changes. So every change has been paid for in advance by what
# it would have saved, and a load that wavers is waited out.
#
# cost of   b_int    none      regret of `none`, with a change that costs 10
# push         4       0       4
# push         4       0       8
# look-up      1       5       4      a look-up in between: wait
# push         4       0       8
# push         4       0       12     change, before this push is paid for
#
# **Guarantee.** Of two structures, let D be the price of going from one to the other and back. In a stretch
# of the stream where one is the better all along, the other costs at most D more before the change, and the
# change less than D: a stretch costs at most 2 D more than its best structure alone. Every further
# candidate can add as much, by being passed through. Changes cost no more than what was lost by not making
# them earlier.
#
# No clock, no state but its own: costs come from outside, so the same steps lead to the same decisions.


class AdaptiveChoice:
    """The structure of one group, and what it has cost not to have another.

    >>> choice = AdaptiveChoice("b_int", ["b_int", "materialize_none"])
    >>> for push in range(3):
    ...     print(choice.foresee({"b_int": 4.0, "materialize_none": 0.0}, price=lambda name: 10.0))
    None
    None
    materialize_none
    """

    def __init__(self, current: str, candidates: Iterable[str]):
        self.current = current
        self.regrets: dict[str, float] = {name: 0.0 for name in candidates if name != current}

    def foresee(
        self, costs: Mapping[str, float], price: Callable[[str], float], least: float = 0.0
    ) -> str | None:
        """Count what the next step would cost in each structure; the one to change to before it is paid, or None.

        `price(name)` is what it costs to go there and to come back; no change costs less than `least`, below which
        nobody asks for it. O(candidates).
        """
        here, regrets = costs[self.current], self.regrets
        best, surplus = None, 0.0
        for name, regret in regrets.items():
            regret += here - costs[name]
            regrets[name] = regret if regret > 0.0 else 0.0
            if regret > least and (more := regret - price(name)) >= surplus:
                best, surplus = name, more
        return best

    def change(self, name: str) -> None:
        """`name` is in place now: begin anew."""
        self.regrets = {each: 0.0 for each in (*self.regrets, self.current) if each != name}
        self.current = name

    def keep(self, names: Iterable[str]) -> None:
        """Only these are candidates from now on."""
        self.regrets = {name: self.regrets[name] for name in names if name in self.regrets}
