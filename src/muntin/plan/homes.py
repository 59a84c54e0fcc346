"""Homes: where demands like a new one went, so that most of those that come need not be placed by rules again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muntin.expression import Expression
from muntin.plan.demand import Demand
from muntin.plan.group import WindowGroup
from muntin.plan.rules import Rule, is_on_slices
from muntin.store.grid import window_step
from muntin.store.needs import Need, shape_of

_MOST = 1 << 14
Call = tuple[tuple[Demand, Rule], ...]
# filter, keys, component, slide of the query, synopsis by the rules, whether on slices
Alike = tuple[Expression | None, tuple[Expression, ...], Need, int, str, bool]


class Home(NamedTuple):
    """A group for a demand; `is_served` there for another query that looks at the same window at the same instants."""

    group: WindowGroup
    demand: Demand
    is_served: bool


class Homes:
    """What it knows may be out of date: it is tried before it is believed."""

    def __init__(self) -> None:
        self._last: dict[Alike, int] = {}  # numbers of groups

    def find(self, call: Call, groups: Mapping[int, WindowGroup]) -> list[Home] | None:
        """Where the components of a call are at home: the groups that the rules would send them to, if one window
        more makes no grid there finer and no level longer; None if rules must tell. O(components)."""
        found: list[Home] = []
        for demand, rule in call:
            if demand.hint is not None or demand.beside is not None or demand.band is not None:
                return None
            group = groups.get(self._last.get(_alike(demand, rule), 0))  # numbers begin with 1
            if group is None or demand.query_slide not in group.slides:
                return None
            is_served = demand.need in group.needs.windows.get(demand.window, ())
            if not is_served and not _has_room(group, demand):
                return None
            if found and group.store != found[0].group.store:
                return None
            found.append(Home(group, demand, is_served))
        return found

    def remember(self, demand: Demand, rule: Rule, group: WindowGroup) -> None:
        """A demand that a rule applies to went to a group."""
        if group.store.grid or group.store.generation:
            return  # others may have to go elsewhere
        if len(self._last) >= _MOST:
            self._last.clear()
        self._last[_alike(demand, rule)] = group.number


def _alike(demand: Demand, rule: Rule) -> Alike:
    sliced = is_on_slices(demand)
    return demand.where, demand.keys, demand.need, demand.query_slide, rule.synopsis, sliced


def _has_room(group: WindowGroup, demand: Demand) -> bool:
    needs, window = group.needs, demand.window
    if demand.need not in needs.components:
        return False
    if group.store.kind == "ring" or window in needs.windows:
        return True
    if group.store.kind == "stairs":
        shape = shape_of(window)
        return shape is not None and window.size <= needs.longest_of(shape)
    return window_step(window) % needs.step == 0 and window.size + window.slide <= needs.reach("time")
