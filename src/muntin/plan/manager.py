"""The window manager: assigns the demands of queries to groups as queries come and go."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from muntin.plan.demand import Demand, demands_of
from muntin.plan.group import WindowGroup
from muntin.plan.rules import MOST_SLICES, Rule, choose_synopsis
from muntin.query import Query
from muntin.synopsis.slices import window_granule


@dataclass(frozen=True)
class Placement:
    """Which group serves each call of a query, and each window that decides its keys."""

    calls: tuple[tuple[int, Demand], ...]
    presence: tuple[tuple[int, Demand], ...]

    def groups(self) -> set[int]:
        return {number for number, _ in self.calls + self.presence}


class WindowManager:
    """Groups of one stream, by number; numbers are never used again."""

    def __init__(self) -> None:
        self.groups: dict[int, WindowGroup] = {}
        self.placements: dict[str, Placement] = {}
        self._next = 1

    def register(self, name: str, query: Query) -> Placement:
        """Place a query; O(its calls * groups). Nothing changes if a demand cannot be served."""
        calls, presence = demands_of(query)
        rules = [choose_synopsis(demand) for demand in calls]
        placed = [
            (self._place(name, demand, rule), demand) for demand, rule in zip(calls, rules, strict=True)
        ]
        # A key's presence is read where one of its calls looks at the same window anyway.
        beside = {demand.window: number for number, demand in reversed(placed)}
        seen = []
        for demand in presence:
            number = beside.get(demand.window)
            if number is None:
                number = self._place(name, demand, choose_synopsis(demand))
            else:
                self.groups[number].add(name, demand)
            seen.append((number, demand))
        self.placements[name] = Placement(tuple(placed), tuple(seen))
        return self.placements[name]

    def drop(self, name: str) -> Placement:
        """Take a query out; groups without queries are gone afterwards."""
        placement = self.placements.pop(name)
        for number, demand in placement.calls + placement.presence:
            self.groups[number].remove(name, demand)
        for number in placement.groups():
            if not self.groups[number].queries:
                del self.groups[number]
        return placement

    def adopt(
        self, groups: list[WindowGroup], placements: dict[str, tuple[Query, list[int], list[int]]]
    ) -> None:
        """Take over a plan made earlier, group by group, instead of planning anew."""
        self.groups = {group.number: group for group in groups}
        self._next = max(self.groups, default=0) + 1
        for name, (query, call_groups, presence_groups) in placements.items():
            calls, presence = demands_of(query)
            placement = Placement(
                tuple(zip(call_groups, calls, strict=True)),
                tuple(zip(presence_groups, presence, strict=True)),
            )
            for number, demand in placement.calls + placement.presence:
                self.groups[number].add(name, demand)
            self.placements[name] = placement

    def _place(self, name: str, demand: Demand, rule: Rule) -> int:
        group = next((group for group in self.groups.values() if _fits(group, demand, rule)), None)
        if group is None:
            group = WindowGroup(self._next, rule.synopsis, rule.because, demand.where, demand.keys)
            self.groups[group.number] = group
            self._next += 1
        group.add(name, demand)
        return group.number


def _fits(group: WindowGroup, demand: Demand, rule: Rule) -> bool:
    same = (group.synopsis, group.where, group.keys) == (rule.synopsis, demand.where, demand.keys)
    return same and (rule.synopsis != "slices" or _shares_grid(group, demand))


def _shares_grid(group: WindowGroup, demand: Demand) -> bool:
    """Whether one grid for all windows stays coarse enough for the longest."""
    windows = [demand.window, *group.windows()]
    step = gcd(*(window_granule(window) for window in windows))
    return max(window.size for window in windows) <= MOST_SLICES * step
