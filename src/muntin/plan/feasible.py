"""Which structures could take the place of the one that serves a window group."""

from __future__ import annotations

from muntin.plan.demand import Demand
from muntin.plan.group import WindowGroup
from muntin.plan.rules import why_not
from muntin.plan.synopses import SYNOPSES
from muntin.plan.unit_cost import UNIT_COSTS
from muntin.store.need import Need
from muntin.window import Window

# Variances are merged in plain floats, so their last digits depend on how a window is split. All else agrees.
_INEXACT = frozenset({"m2"})


def candidates(group: WindowGroup) -> tuple[str, ...]:
    """Structures that answer all a group asks for, alike; only the current one if it must stay. O(windows)."""
    if group.planned not in UNIT_COSTS or group.keys:
        return (group.synopsis,)
    names = tuple(UNIT_COSTS)
    for window, needs in group.needs.windows.items():
        for need in needs:
            names = still_possible(group, _demand(group, window, need), names)
    return names if not group.hinted and len(names) > 1 else (group.synopsis,)


def still_possible(group: WindowGroup, demand: Demand, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those among the candidates of a group that serve one more demand as well."""
    if len(names) < 2:
        return names
    if demand.need.component in _INEXACT or demand.hint == group.planned:
        return (group.planned,)
    return tuple(name for name in names if _serves(name, demand))


def still_serves(group: WindowGroup, demand: Demand) -> bool:
    """Whether the structure that a group has now serves a demand that its rule sends there."""
    return group.synopsis == group.planned or group.synopsis in still_possible(
        group, demand, (group.synopsis, group.planned)
    )


def _demand(group: WindowGroup, window: Window, need: Need) -> Demand:
    return Demand(group.where, group.keys, window, need)


def _serves(name: str, demand: Demand) -> bool:
    is_known = demand.need.component in SYNOPSES[name] and (
        UNIT_COSTS[name].knows_past or not demand.window.to
    )
    return is_known and why_not(name, demand) is None
