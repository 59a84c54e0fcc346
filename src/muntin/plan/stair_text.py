"""Stairs in words: their levels, and what a key takes there and would take on one grid."""

from __future__ import annotations

from collections.abc import Collection

from muntin.aggregate.component import COMPONENTS
from muntin.plan.group import WindowGroup, longest_of
from muntin.plan.wording import size
from muntin.store.granularity import granules, granules_on_one_grid, levels_for
from muntin.store.needs import dtype_of
from muntin.window import span

_PLACE = 16  # bytes of a cell for its key, and for the number of the key's cell before it


def explain_stairs(groups: Collection[WindowGroup]) -> list[str]:
    """Lines on the stairs that some groups share."""
    longest = longest_of(group.needs.longest() for group in groups)
    levels = levels_for(longest)
    needs = {need for group in groups for need in group.needs.components}
    kinds = [COMPONENTS[need.component].identity(dtype_of(need)) for need in needs]
    cell = _PLACE + sum(dtype.itemsize for kind in kinds for dtype, _ in kind)
    few, many = granules(levels), granules_on_one_grid(longest)
    younger = (0, *(reach for _, reach in levels))
    shown = ", ".join(
        f"{span(step)} up to {span(reach)} back" if reach > before else f"{span(step)} to fill the next"
        for (step, reach), before in zip(levels, younger, strict=False)
    )
    return [
        f"  levels   {shown}",
        f"  per key  at most {few:,} granules, {size(few * cell)}; on one grid {many:,}, {size(many * cell)}",
    ]
