"""The window manager: assigns the demands of queries to groups as queries come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import gcd

from muntin.band import Band
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.plan.demand import Demand, Demands, demands_of
from muntin.plan.group import WindowGroup
from muntin.plan.rules import MOST_SLICES, Rule, choose_synopsis, is_on_slices
from muntin.plan.stair_choice import BECAUSE, longest_of, stores_for_stairs
from muntin.plan.store import StoreId, ring_of
from muntin.plan.threshold import INDEXES, threshold_of
from muntin.query import Query
from muntin.synopsis import READ_EVENTS, Slices, Stairs
from muntin.synopsis.grid import window_step
from muntin.synopsis.needs import shape_of
from muntin.synopsis.stair_levels import granules, levels_for

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
        return self.placements[name]

    def drop(self, name: str) -> Placement:
        """Take a query out; groups without queries are gone afterwards."""
        placement = self.placements.pop(name)
        for number, demand in placement.all():
            self.groups[number].remove(name, demand)
            self._count(demand, -1)
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

    def raise_stairs(self, touched: Collection[int], filled: Collection[StoreId]) -> set[int]:
        """Move windows per key from grids to stairs where these are better, now that groups were touched; the
        numbers of groups that are gone or new. `filled` are the stores that have seen events. O(queries) if any
        move, else O(groups)."""
        changed: set[int] = set()
        for number in sorted(touched):
            group = self.groups.get(number)
            if group is None or group.planned != Slices.name:
                continue
            stores = stores_for_stairs(self.groups.values(), group, filled)
            if stores and not (stores[0] in filled and self._would_mix(stores[0], stores[1:])):
                changed |= self._move(stores, stores[0]._replace(kind="stairs"))
        return changed

    def _would_mix(self, old: StoreId, new: list[StoreId]) -> bool:
        """Whether a call on new stores would find some of its components in an old one, but not all of them."""
        there = {need for each in self.groups.values() if each.store == old for need in each.needs.components}
        calls = (
            [demand.need in there for number, demand in call if self.groups[number].store in new]
            for placement in self.placements.values()
            for call in placement.calls
        )
        return any(any(kept) and not all(kept) for kept in calls)

    def _move(self, stores: list[StoreId], to: StoreId) -> set[int]:
        """Place all demands on some stores anew."""
        rule, before = Rule(lambda demand: True, Stairs.name, BECAUSE), set(self.groups)
        gone = {number for number, group in self.groups.items() if group.store in stores}
        for number in gone:
            del self.groups[number]

        def move(name: str, placed: Placed) -> Placed:
            if placed[0] not in gone:
                return placed
            self._count(placed[1], -1)
            return self._place(name, placed[1], rule, to)

        for name, placement in self.placements.items():
            if gone & placement.groups():
                calls = tuple(tuple(move(name, each) for each in call) for call in placement.calls)
                presence = tuple(move(name, each) for each in placement.presence)
                self.placements[name] = Placement(calls, presence)
        return gone | (set(self.groups) - before)

    def _place_call(self, name: str, call: tuple[Demand, ...], is_running: bool) -> tuple[Placed, ...]:
        rules = [self._by_stairs_there(*each) for each in zip(call, self._rules(call), strict=True)]
        stores = [
            self._slices_for(demand, call, is_running, rule)
            if _reads_slices(demand, rule)
            else ring_of(demand)
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

    def _by_stairs_there(self, demand: Demand, rule: Rule) -> Rule:
        """A demand without a hint that slices would serve goes to stairs of its filter and keys if there are some."""
        if rule.synopsis != Slices.name or demand.hint is not None:
            return rule
        place = (demand.where, demand.keys)
        beside = (group.store for group in self.groups.values() if (group.where, group.keys) == place)
        if any(store.kind == "stairs" for store in beside):
            return Rule(rule.applies, Stairs.name, BECAUSE)
        return rule

    def _count(self, demand: Demand, step: int) -> None:
        """One demand more or less for a band."""
        if demand.band is None:
            return
        bands = self._bands.setdefault(demand.band.attribute, Counter())
        bands[demand.band] += step
        if not bands[demand.band]:
            del bands[demand.band]

    def _slices_for(self, demand: Demand, call: tuple[Demand, ...], is_running: bool, rule: Rule) -> StoreId:
        """A store whose grid, or levels, made finer for this demand, stay coarse enough for its longest window."""
        needs, on_stairs = {each.need for each in call}, rule.synopsis == Stairs.name
        grid = 0
        while True:
            store = StoreId("stairs" if on_stairs else "slices", demand.where, demand.keys, grid)
            groups = [group for group in self.groups.values() if group.store == store]
            kept = {need for need in needs if any(need in group.needs.components for group in groups)}
            is_coarse = (_are_coarse_levels if on_stairs else _is_coarse_grid)(demand, groups)
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


def _is_coarse_grid(demand: Demand, groups: list[WindowGroup]) -> bool:
    longest = max([demand.window.size, *(group.needs.reach("time") for group in groups)])
    return longest <= MOST_SLICES * gcd(window_step(demand.window), *(group.needs.step for group in groups))


def _are_coarse_levels(demand: Demand, groups: list[WindowGroup]) -> bool:
    longest, shape = longest_of(groups), shape_of(demand.window)
    assert shape is not None
    if not groups or demand.window.size <= longest.get(shape, 0):
        return True
    return granules(levels_for({**longest, shape: demand.window.size})) <= MOST_SLICES


def _reads_slices(demand: Demand, rule: Rule) -> bool:
    return is_on_slices(demand) and rule.synopsis not in READ_EVENTS


def _keeps(group: WindowGroup, demand: Demand, rule: Rule) -> bool:
    """Whether a group that a rule sends a demand to has what it needs already."""
    is_of_slices = group.store.kind != "ring"
    return (
        group.planned == rule.synopsis
        and is_of_slices == _reads_slices(demand, rule)
        and demand.need in group.needs.components
    )


def _serves(group: WindowGroup, demand: Demand, rule: Rule, store: StoreId) -> bool:
    asked = (rule.synopsis, demand.where, demand.keys, store)
    if (group.planned, group.where, group.keys, group.store) != asked:
        return False
    # what stairs may make coarser depends on where its readers stand: those of one slide stand together
    return store.kind != "stairs" or demand.query_slide in group.slides
