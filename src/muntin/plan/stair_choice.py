"""When stairs serve windows per key better than grids: granules that get coarser with age are far fewer."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from muntin.plan.group import WindowGroup
from muntin.plan.store import StoreId
from muntin.store.granularity import granules, granules_on_one_grid, levels_for
from muntin.store.needs import Shape
from muntin.structure.slices import Slices

# Plain slices have what stairs have not: an index for thresholds, and one scan for windows of all slides. So
# they stay where they are not large, or not much larger; but several grids fold every event several times.
FEW_GRANULES = 1_000
CLEAR_MARGIN = 4
MOST_FOR_ONE_FOLD = 2  # times the granules on several grids
BECAUSE = (
    "its windows differ so much in length and slide that granules which get coarser with age are cheaper"
)


def longest_of(groups: Iterable[WindowGroup]) -> dict[Shape, int]:
    """The size of the longest window of each shape."""
    return _together(group.needs.longest() for group in groups)


def _together(sizes: Iterable[Mapping[Shape, int]]) -> dict[Shape, int]:
    longest: dict[Shape, int] = {}
    for some in sizes:
        for shape, size in some.items():
            longest[shape] = max(size, longest.get(shape, 0))
    return longest


def is_better_by_stairs(grids: Collection[Mapping[Shape, int]]) -> bool:
    """Whether stairs need far fewer granules for windows than the grids they are on now, or little more than several
    grids.

    >>> seconds, hours = {(1, 1): 60}, {(3600, 3600): 2_592_000}
    >>> is_better_by_stairs([seconds | hours]), is_better_by_stairs([seconds]), is_better_by_stairs([hours])
    (True, False, False)
    >>> is_better_by_stairs([seconds, hours])
    True
    """
    on_grids = sum(map(granules_on_one_grid, grids))
    most = on_grids / CLEAR_MARGIN if on_grids > FEW_GRANULES else 0.0
    if len(grids) > 1:
        most = MOST_FOR_ONE_FOLD * on_grids
    # no window has fewer granules on stairs than on a grid of its own: most registrations end here
    if any(size > most * step for longest in grids for (_, step), size in longest.items()):
        return False
    return granules(levels_for(_together(grids))) <= most


def stores_for_stairs(groups: Iterable[WindowGroup], filled: Container[StoreId]) -> list[StoreId]:
    """The stores whose windows should move to stairs together, among those of groups with the same filter and
    keys; none if they had better stay, or if there are such stairs already.

    At most one of them, the first, is filled already: cells of two cannot become those of one.
    """
    on_grids: dict[StoreId, list[WindowGroup]] = {}
    for group in groups:
        if not group.store.generation:  # what was filled from a history is apart from all else
            if group.store.kind == "stairs":
                return []
            if group.planned == Slices.name and group.keys:
                on_grids.setdefault(group.store, []).append(group)
    stores = [store for store, some in on_grids.items() if not any(group.pinned for group in some)]
    old = [store for store in stores if store in filled][:1]
    stores = old + [store for store in stores if store not in filled]
    is_better = bool(stores) and is_better_by_stairs([longest_of(on_grids[store]) for store in stores])
    return stores if is_better else []
