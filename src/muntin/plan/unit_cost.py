"""Unit costs: what an insertion and a look-up cost in each structure, to compare them before they are paid.

In nanoseconds, rounded from what `benchmarks/unit_costs.py` measures. Only their ratios matter, since
everything that is compared is made of them: a machine that is twice as slow decides alike. That is why they
are a table and not measured at start: the same calls lead to the same decisions everywhere, nothing is
compiled that is not used, and no busy moment at start is remembered for ever.
"""

from __future__ import annotations

from typing import NamedTuple

from muntin.plan.combines import roughly_combines


class UnitCost(NamedTuple):
    """Of one component in one structure."""

    batch: float  # of an insertion, whatever its size
    update: float  # of an element
    call: float  # of asking for one window on its own
    lookup: float  # of a window, on its own or among many
    combine: float  # of each combine a look-up makes
    rebuild: float  # of an element, to take the place of another structure
    is_per_window: bool = False  # whether an element costs once for every window
    knows_past: bool = True  # whether it answers windows that do not end now; else they are scanned


UNIT_COSTS: dict[str, UnitCost] = {
    "r_int": UnitCost(batch=10_000, update=4, call=2_000, lookup=120, combine=0, rebuild=4),
    "b_int": UnitCost(batch=10_000, update=4, call=3_000, lookup=130, combine=4, rebuild=5),
    "l_int": UnitCost(batch=30_000, update=16, call=8_000, lookup=150, combine=0, rebuild=30),
    "monotone_deque": UnitCost(12_000, 4, 14_000, lookup=200, combine=0, rebuild=5, knows_past=False),
    "materialize_all": UnitCost(
        12_000, 6, 60_000, lookup=350, combine=0, rebuild=12, is_per_window=True, knows_past=False
    ),
    "materialize_none": UnitCost(batch=800, update=0, call=15_000, lookup=190, combine=2, rebuild=0),
}
SWITCH = 200_000.0  # to replace a structure, even an empty one
COMPILE = 3e9  # to compile its kernels
PREPARE = 20_000.0  # to prepare the look-ups of one query anew, which a change undoes


def update_cost(synopsis: str, elements: int, structures: int, windows: int) -> float:
    """Of inserting `elements` at once into the structures of a group.

    >>> update_cost("materialize_none", 1000, 2, 5), update_cost("b_int", 1000, 2, 5)
    (1600.0, 28000.0)
    """
    unit = UNIT_COSTS[synopsis]
    each = unit.update * windows if unit.is_per_window else unit.update
    return float(structures * (unit.batch + elements * each))


def lookup_cost(synopsis: str, elements: float, lookups: float, calls: float, is_now: bool) -> float:
    """Of so many look-ups of windows with `elements`, of which `calls` are asked for one by one.

    >>> lookup_cost("materialize_none", 1001, 10, 10, True), lookup_cost("r_int", 1001, 10, 10, True)
    (171900.0, 21200.0)
    """
    unit = UNIT_COSTS[synopsis]
    scan = 0.0 if is_now or unit.knows_past else UNIT_COSTS["materialize_none"].combine * elements
    return calls * unit.call + lookups * (
        unit.lookup + unit.combine * roughly_combines(synopsis, elements) + scan
    )


def rebuild_cost(synopsis: str, elements: int, structures: int, is_compiled: bool = True) -> float:
    """Of putting other structures in place, over so many elements each.

    A kernel that has not run yet may have to be compiled, which takes seconds: that must be saved as well.
    """
    compiling = 0.0 if is_compiled else COMPILE
    return SWITCH + compiling + structures * elements * UNIT_COSTS[synopsis].rebuild
