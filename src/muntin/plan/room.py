"""Room: whether a store or a group that is there can take one demand more."""

from __future__ import annotations

from math import gcd

from muntin.plan.demand import Demand
from muntin.plan.group import Kind, WindowGroup
from muntin.plan.store_needs import StoreNeeds
from muntin.plan.synopses import MOST_SLICES
from muntin.store.granularity import granules, levels_for
from muntin.store.grid import window_step
from muntin.store.needs import Need, shape_of


def is_partly_kept(needs: set[Need], asked: StoreNeeds, young: set[Need] | None) -> bool:
    """Whether a store has kept some components for longer than it will have kept the others."""
    kept = sum(need in asked.components and need not in (young or ()) for need in needs)
    return 0 < kept < len(needs)


def has_room(kind: Kind, demand: Demand, asked: StoreNeeds) -> bool:
    """Whether a store of cells, made finer for one demand more, stays coarse enough for its longest window."""
    if kind == "sessions":  # whose cells are as coarse as their gaps let them be
        return True
    return are_coarse_levels(demand, asked) if kind == "stairs" else is_coarse_grid(demand, asked)


def is_coarse_grid(demand: Demand, asked: StoreNeeds) -> bool:
    """Whether a grid with the edges of one window more stays coarse enough for the longest."""
    step = gcd(window_step(demand.window), asked.step)
    return max(demand.window.size, asked.reach) <= MOST_SLICES * step


def are_coarse_levels(demand: Demand, asked: StoreNeeds) -> bool:
    """The same for the levels of stairs."""
    shape = shape_of(demand.window)
    assert shape is not None
    longest = asked.longest
    if demand.window.size <= longest.get(shape, 0):
        return True
    return granules(levels_for({**longest, shape: demand.window.size})) <= MOST_SLICES


def stands_there(group: WindowGroup, demand: Demand) -> bool:
    """What stairs may make coarser depends on where their readers stand: those of one slide stand together."""
    return group.store.kind != "stairs" or demand.pace in group.paces
