"""The window manager: assigns the demands of queries to groups as queries come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import gcd

from muntin.band import Band
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.plan.demand import Demand, Demands, demands_of
from muntin.plan.group import WindowGroup
from muntin.plan.nestings import Nestings
from muntin.plan.rules import MOST_SLICES, Rule, choose_synopsis, is_on_slices
from muntin.plan.store import StoreId, ring_of
from muntin.plan.threshold import INDEXES, threshold_of
from muntin.query import Query
from muntin.synopsis import READ_EVENTS
from muntin.synopsis.grid import window_step

Placed = tuple[int, Demand]  # a demand and the number of the group that serves it


@dataclass(frozen=True)
class Placement:
    """Which groups serve each call of a query, and each window that decides its keys."""

    calls: tuple[tuple[Placed, ...], ...]
    presence: tuple[Placed, ...]

    def all(self) -> tuple[Placed, ...]:
        return tuple(placed for call in self.calls for placed in call) + self.presence

    def groups(self) -> set[int]:
        return {number for number, _ in self.all()}


class WindowManager:
    """Groups of one stream, by number; numbers are never used again."""

    def __init__(self) -> None:
        self.groups: dict[int, WindowGroup] = {}
        self.placements: dict[str, Placement] = {}
        self.nestings = Nestings()
        self._next = 1
        self._bands: dict[Expression, Counter[Band]] = {}  # by attribute: how many demands ask for each

    def register(self, name: str, query: Query, is_running: bool = False) -> Placement:
        """Place a query; O(its calls * groups). Nothing changes if a demand cannot be served.

        In a running stream the components of a call go where all of them are kept already, or none:
        a sum that began later than the count beside it would make an average of neither.
        """
        demands = check_demands(query)
        calls = tuple(self._place_call(name, call, is_running) for call in demands.calls)
        presence = tuple(self._place_call(name, (each,), is_running)[0] for each in demands.presence)
        self.placements[name] = Placement(calls, presence)
        self.nestings.register(demands.all())
        return self.placements[name]

    def drop(self, name: str) -> Placement:
        """Take a query out; groups without queries are gone afterwards."""
        placement = self.placements.pop(name)
        for number, demand in placement.all():
            self.groups[number].remove(name, demand)
            self._count(demand, -1)
        self.nestings.revoke(demand for _, demand in placement.all())
        for number in placement.groups():
            if not self.groups[number].queries:
                del self.groups[number]
        return placement

    def adopt(self, groups: list[WindowGroup], placed: dict[str, tuple[Query, list[int]]]) -> None:
        """Take over a plan made earlier instead of planning anew: `placed` has, for each query, the
        groups of its demands in the order of `Placement.all`."""
        self.groups = {group.number: group for group in groups}
        self._next = max(self.groups, default=0) + 1
        for name, (query, numbers) in placed.items():
            demands, rest = demands_of(query), iter(numbers)
            calls = tuple(tuple((next(rest), demand) for demand in call) for call in demands.calls)
            self.placements[name] = Placement(calls, tuple((next(rest), each) for each in demands.presence))
            for number, demand in self.placements[name].all():
                self.groups[number].add(name, demand)
                self._count(demand, 1)
            self.nestings.register(demands.all())

    def check(self) -> None:
        """Assert every invariant of what is counted."""
        self.nestings.check([demand for _, demand in each.all()] for each in self.placements.values())

    def _place_call(self, name: str, call: tuple[Demand, ...], is_running: bool) -> tuple[Placed, ...]:
        rules = self._rules(call)
        stores = [
            self._slices_for(demand, call, is_running) if _reads_slices(demand, rule) else ring_of(demand)
            for demand, rule in zip(call, rules, strict=True)
        ]
        return tuple(map(self._place, [name] * len(call), call, rules, stores))

    def _place(self, name: str, demand: Demand, rule: Rule, store: StoreId) -> Placed:
        group = next((each for each in self.groups.values() if _serves(each, demand, rule, store)), None)
        if group is None:
            group = WindowGroup(self._next, rule.synopsis, rule.because, demand.where, demand.keys, store)
            self.groups[group.number] = group
            self._next += 1
        group.add(name, demand)
        self._count(demand, 1)
        return group.number, demand

    def _rules(self, call: tuple[Demand, ...]) -> list[Rule]:
        """A synopsis for each component of a call; a filter that is kept already stays where it is."""
        alone = [choose_synopsis(demand) for demand in call]
        if call[0].band is None:
            return alone
        kept = [
            any(_keeps(group, demand, rule) for group in self.groups.values())
            for demand, rule in zip(call, alone, strict=True)
        ]
        if all(kept):
            return alone
        bands = self._bands.get(call[0].band.attribute, Counter())
        many = len(bands) + (call[0].band not in bands)
        rules = [choose_synopsis(replace(demand, bands=many)) for demand in call]
        # a tree may know more of the past than a filter: no call may read one component of each
        return rules if len({rule.synopsis for rule in rules}) == 1 else alone

    def _count(self, demand: Demand, step: int) -> None:
        """One demand more or less for a band."""
        if demand.band is None:
            return
        bands = self._bands.setdefault(demand.band.attribute, Counter())
        bands[demand.band] += step
        if not bands[demand.band]:
            del bands[demand.band]

    def _slices_for(self, demand: Demand, call: tuple[Demand, ...], is_running: bool) -> StoreId:
        """A store whose grid, made finer for this demand, stays coarse enough for its longest window."""
        step, needs = window_step(demand.window), {each.need for each in call}
        grid = 0
        while True:
            store = StoreId("slices", demand.where, demand.keys, grid)
            groups = [group for group in self.groups.values() if group.store == store]
            longest = max([demand.window.size, *(group.needs.reach("time") for group in groups)])
            kept = {need for need in needs if any(need in group.needs.components for group in groups)}
            is_coarse = longest <= MOST_SLICES * gcd(step, *(group.needs.step for group in groups))
            if is_coarse and not (is_running and kept and kept != needs):
                return store
            grid += 1


def check_demands(query: Query) -> Demands:
    """What a query asks for; an error if any of it cannot be served."""
    demands = demands_of(query)
    for demand in (*(demand for call in demands.calls for demand in call), *demands.presence):
        choose_synopsis(demand)
    is_asked_for = query.hint in INDEXES or query.tolerance is not None
    if is_asked_for and isinstance(reason := threshold_of(query), str):
        index = query.hint if query.hint in INDEXES else "index that APPROX reads"
        raise MuntinError(f"the {index} cannot find the keys of this query: {reason}")
    return demands


def _reads_slices(demand: Demand, rule: Rule) -> bool:
    return is_on_slices(demand) and rule.synopsis not in READ_EVENTS


def _keeps(group: WindowGroup, demand: Demand, rule: Rule) -> bool:
    """Whether a group that a rule sends a demand to has what it needs already."""
    is_of_slices = group.store.kind == "slices"
    return (
        group.planned == rule.synopsis
        and is_of_slices == _reads_slices(demand, rule)
        and demand.need in group.needs.components
    )


def _serves(group: WindowGroup, demand: Demand, rule: Rule, store: StoreId) -> bool:
    asked = (rule.synopsis, demand.where, demand.keys, store)
    return (group.planned, group.where, group.keys, group.store) == asked
