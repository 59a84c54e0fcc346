"""A fresh plan: how all queries would be served if they were planned together now, before any event.

State that is kept cannot be made coarser, or be put together with other state. So the plan of a running stream may
depend on the order in which queries came and went. Where it does, `explain` shows the plan that it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from muntin.lane import Laned
from muntin.plan.demand import Demand
from muntin.plan.group import PlanChanges
from muntin.plan.manager import WindowManager
from muntin.plan.placement import Placement
from muntin.query import Query

_Same = tuple[tuple[Demand, ...], tuple[Laned, ...]]
# of each plan: its placements when it was last compared, and what was found
_LAST: WeakKeyDictionary[WindowManager, tuple[dict[str, Placement], dict[int, str]]] = WeakKeyDictionary()


def without_history(manager: WindowManager) -> list[str]:
    """The queries whose state was not filled from a history."""
    return [
        name
        for name, placement in manager.placements.items()
        if not any(manager.groups[number].store.generation for number in placement.groups())
    ]


def differences_to_fresh_plan(manager: WindowManager, queries: Mapping[str, Query]) -> dict[int, str]:
    """For each group that a fresh plan would not have: the groups that would serve its demands, in words. O(queries),
    but only queries that differ in their demands are planned, and nothing is as long as placements stay as they are.

    Queries that were filled from a history are left out: their state is apart from all else.
    """
    last = _LAST.get(manager)
    if last is None or last[0] != manager.placements:  # mostly the same objects, which compare at once
        last = _LAST[manager] = dict(manager.placements), _differences(manager, queries)
    return last[1]


def _differences(manager: WindowManager, queries: Mapping[str, Query]) -> dict[int, str]:
    placements = {name: manager.placements[name] for name in without_history(manager)}
    first: dict[_Same, str] = {}  # of those that ask for the same: the first in the order of texts
    alike: dict[str, _Same] = {}
    for name in sorted(placements, key=lambda name: queries[name].text):
        placement = placements[name]
        alike[name] = (
            tuple([demand for _, demand in placement.all()]),
            tuple(each.laned for each in placement.lanes()),
        )
        first.setdefault(alike[name], name)
    fresh, changes = WindowManager(manager.is_by_demand, manager.has_lanes), PlanChanges()
    fresh.register({name: fresh.request_of(queries[name]) for name in first.values()}, changes)
    fresh.raise_stairs(changes, ())
    planned = {name: [number for number, _ in each.all()] for name, each in fresh.placements.items()}
    wanted: dict[int, dict[int, None]] = {}  # groups of the new plan for each that there is …
    found: dict[int, set[int]] = {}  # … and the reverse
    for name, placement in placements.items():
        for (number, _), new in zip(placement.all(), planned[first[alike[name]]], strict=True):
            wanted.setdefault(number, {})[new] = None
            found.setdefault(new, set()).add(number)
    told = {}
    for number, numbers in wanted.items():
        groups = [fresh.groups[each] for each in numbers]
        is_same = len(groups) == 1 and groups[0].planned == manager.groups[number].planned
        if not is_same or any(found[each] != {number} for each in numbers):
            kinds = dict.fromkeys(f"{group.planned} ({group.because})" for group in groups)
            is_shared = any(len(found[each]) > 1 for each in numbers)
            told[number] = ", ".join(kinds) + (", shared with another group" if is_shared else "")
    return told
