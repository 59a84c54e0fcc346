"""The choice of a synopsis: everything that decides which synopsis serves a demand.

A query meets choices at five moments, and every moment is in this file:

1. `choose_synopsis` takes the first of `CHOICES` that applies to a demand, before the plan is known: an error comes
   before anything has changed.
2. `Precedents` sends a demand to the group of a demand like it that came before, if that changes nothing else there.
   Otherwise the manager asks `choose_synopsis` again: it knows how many bands there are, and whether there are stairs.
3. `MANY_LANES`, `MANY_LANES_PER_KEY` and `MANY_RANGES_PER_KEY` decide whether queries whose WHERE compares the same
   attributes with different constants read lanes of one store, or have a store each.
4. `stores_for_stairs` decides whether all windows per key that have the same filter and keys go to stairs.
5. While events come, the load may choose among the `candidates` of a group (`shard/adapt/adaptation.py`).

`because_of` says which of them had the last word on a group: `explain` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from muntin.aggregates.component import APPROXIMATE, INEXACT
from muntin.errors import MuntinError, nearest
from muntin.expression import Expression
from muntin.plan.cost import UNIT_COSTS
from muntin.plan.demand import Demand
from muntin.plan.group import StoreId, WindowGroup, longest_of
from muntin.plan.synopses import (
    INDEXES,
    SYNOPSES,
    is_on_slices,
    is_sliced,
    orders_text,
    serves_band,
    subtracts,
    why_not,
)
from muntin.sketch.kinds import SKETCHES, sketch_for
from muntin.store.granularity import granules, granules_on_one_grid, levels_for
from muntin.store.grid import window_step
from muntin.store.needs import Need, Shape, shape_of
from muntin.structure.range_tree import RangeTree
from muntin.structure.slices import Slices
from muntin.window import Pace, Unit, Window

# From so many different bands of one attribute on, a range tree takes in events faster than a structure for
# each (benchmarks/filters.py). Slices break even later, and keep no events, which a tree must: there it has to
# save more, over windows short enough for their events to be kept.
MANY_BANDS, MANY_BANDS_ON_SLICES = 8, 64
LONGEST_BAND_ON_SLICES = 600_000_000  # microseconds
# From so many constants on, one store with a key more is cheaper than a store for each. Without GROUP BY, a structure
# without keys answers in fewer steps; per key, a store of few lanes is read for windows that only others need.
MANY_LANES, MANY_LANES_PER_KEY = 8, 12
FEW_PASS = 0.1  # of the events: then half as many are enough (decision 0055)
MANY_RANGES_PER_KEY = 8  # a lane: most have their events in common, which a store for each would fold again


@dataclass(frozen=True)
class Choice:
    """If `applies`, use `synopsis`; `because` is what `explain` prints."""

    applies: Callable[[Demand], bool]
    synopsis: str  # empty if the query names it
    because: str


class Chosen(NamedTuple):
    """What serves a demand, and why."""

    synopsis: str
    because: str
    is_on_slices: bool  # whether folded slices could serve it


def _asks_for_nothing_else(demand: Demand) -> bool:
    """Whether a demand only tells which keys there are, of a query whose sketch knows them."""
    return demand.beside is not None


def _is_asked_for(demand: Demand) -> bool:
    """Whether a hint names another synopsis than would be chosen without the hint. A hint is about the components
    that its synopsis knows: all others go their usual way. An error if the synopsis cannot serve the demand."""
    hint = demand.hint
    if hint is None:
        return False
    unhinted = choose_synopsis(demand._replace(hint=None))  # an error even if the hint is about HAVING
    if hint in INDEXES or hint == unhinted.synopsis:
        return False
    if hint not in SYNOPSES:
        raise MuntinError(f"there is no synopsis '{hint}'{nearest(hint, [*SYNOPSES, *INDEXES])}")
    if demand.need.component not in SYNOPSES[hint]:
        return False
    if hint == RangeTree.name and demand.need.input.filter is None and demand.where is None:
        return False
    if reason := why_not(hint, demand):
        raise MuntinError(f"synopsis '{hint}' cannot serve {demand.need} over {demand.window}: {reason}")
    return True


def _is_sketched(name: str) -> Callable[[Demand], bool]:
    """Whether a sketch is the one that keeps a demand's promise in the least space."""
    return lambda demand: demand.need.component in APPROXIMATE and sketch_for(demand.need) == name


def _is_keyed(demand: Demand) -> bool:
    return bool(demand.keys)


def _is_by_stairs(demand: Demand) -> bool:
    """Whether cells are enough for a demand, and `stores_for_stairs` sent those of its filter and keys to stairs."""
    return demand.stairs and _is_keyed(demand) and is_on_slices(demand)


def _is_one_of_many_bands(demand: Demand) -> bool:
    many = MANY_BANDS
    if is_on_slices(demand):
        many = MANY_BANDS_ON_SLICES
        if demand.window.size > LONGEST_BAND_ON_SLICES:
            return False
    return demand.bands >= many and serves_band(demand)


_SKETCHED = {
    "sliding_quantiles": "an approximate quantile, within eps for sure",
    "sampled_quantiles": "it may fail by a chance of delta, and eps is large",
    "sliding_counts": "approximate counts of items, within eps for sure",
    "sampled_counts": "they may fail by a chance of delta: a sample is smaller",
    "weighted_counts": "approximate weights of items, within eps for sure",
    "sliding_registers": "an approximate number of different values",
}
_AT_LOOK_UP = "the order of text is known only at look-up"
CHOICES: tuple[Choice, ...] = (
    # what the query says
    Choice(_asks_for_nothing_else, "", "the query asks for nothing else"),
    Choice(_is_asked_for, "", "the query asks for it"),
    Choice(lambda demand: demand.window.is_session, "sessions", "cells between silences serve all gaps"),
    # sketches
    *(Choice(_is_sketched(name), name, because) for name, because in _SKETCHED.items()),
    # per key
    Choice(
        lambda demand: _is_keyed(demand) and not demand.window.is_time,
        "key_runs_rows",
        "a ROWS window per key counts the events of each key",
    ),
    Choice(
        _is_by_stairs,
        "stairs",
        "its windows differ so much in length and slide that granules which get coarser with age are cheaper",
    ),
    Choice(
        lambda demand: demand.is_laned and is_on_slices(demand),
        "slices",
        "many filters compare the same attributes with constants: a cell per slice and constant serves them all",
    ),
    Choice(
        lambda demand: demand.is_laned,
        "key_runs",
        "many filters compare the same attributes with constants: the events of each constant lie side by side",
    ),
    Choice(
        lambda demand: _is_keyed(demand) and is_on_slices(demand),
        "slices",
        "its edges fall on a grid, so a cell per slice and key is enough",
    ),
    Choice(_is_keyed, "key_runs", "windows per key without a grid, or of aggregates that do not merge"),
    # without keys
    Choice(lambda demand: orders_text(demand.need) and not demand.window.is_time, "rescan_rows", _AT_LOOK_UP),
    Choice(lambda demand: orders_text(demand.need), "rescan", _AT_LOOK_UP),
    Choice(
        lambda demand: demand.need.component == "quantile", "quantile_tree", "quantiles need sorted values"
    ),
    Choice(lambda demand: demand.need.component == "distinct", "distinct", "it needs to know equal values"),
    Choice(lambda demand: demand.need.component == "mode", "value_order", "equal values have to be counted"),
    Choice(
        _is_one_of_many_bands,
        "range_tree",
        "many filters are bands of one attribute: one tree sorted by it serves them all",
    ),
    Choice(subtracts, "r_int", "two prefixes answer any window, without a trace of what left"),
    Choice(lambda demand: True, "b_int", "it can be merged, but not subtracted without a trace"),
)


class _Traits(NamedTuple):
    """All that choices look at in a demand without a hint: among thousands of demands few differ in it."""

    need: Need
    is_keyed: bool
    is_filtered: bool
    unit: Unit
    is_sliced: bool
    is_short: bool
    bands: int
    stairs: bool
    is_laned: bool


_BY_TRAITS: dict[_Traits, Chosen] = {}  # what was chosen, remembered
_MOST_TRAITS = 4096


def choose_synopsis(demand: Demand) -> Chosen:
    """What the first of `CHOICES` that applies says; an error if the demand cannot be served."""
    if demand.hint is not None or demand.beside is not None:
        return _first(demand)
    window = demand.window
    traits = _Traits(
        demand.need, bool(demand.keys), demand.where is not None, window.unit, is_sliced(window),
        window.size <= LONGEST_BAND_ON_SLICES, demand.bands, demand.stairs, demand.is_laned,
    )  # fmt: skip
    chosen = _BY_TRAITS.get(traits)
    if chosen is None:
        if len(_BY_TRAITS) >= _MOST_TRAITS:
            _BY_TRAITS.clear()
        chosen = _BY_TRAITS[traits] = _first(demand)
    if chosen.synopsis in SKETCHES and (reason := why_not(chosen.synopsis, demand)):
        raise MuntinError(f"{demand.need} over {window} is not supported: {reason}")
    return chosen


def _first(demand: Demand) -> Chosen:
    choice = next(each for each in CHOICES if each.applies(demand))
    return Chosen(choice.synopsis or demand.beside or demand.hint or "", choice.because, is_on_slices(demand))


def because_of(group: WindowGroup, fresh: str = "") -> str:
    """Why a group is served as it is. The last word has the load, unless state that was kept already stood in the way:
    `fresh` is how a fresh plan would serve the group's queries, if otherwise."""
    if fresh:
        return (
            f"state was kept there already, and kept state stays where it is; a new plan would have {fresh}"
        )
    return f"{group.adapted} (by plan {group.planned}: {group.because})" if group.adapted else group.because


# Precedents: the groups that demands like a new one went to, so that most demands need not be placed by choices again.

_MOST_PRECEDENTS = 1 << 14
Call = tuple[tuple[Demand, Chosen], ...]
# filter, keys, component, pace of the query, synopsis chosen for the demand alone, whether on slices
_Alike = tuple[Expression | None, tuple[Expression, ...], Need, Pace, str, bool]


class Precedent(NamedTuple):
    """A group for a demand; `is_served` there for another query that looks at the same window at the same instants."""

    group: WindowGroup
    demand: Demand
    is_served: bool


class Precedents:
    """What is remembered may be out of date: it is tried before it is believed."""

    def __init__(self) -> None:
        self._last: dict[_Alike, int] = {}  # numbers of groups

    def find(self, call: Call, groups: Mapping[int, WindowGroup]) -> list[Precedent] | None:
        """The groups that choices would send the components of a call to, if one window more makes no grid there finer
        and no level longer; None if choices must tell. O(components)."""
        found: list[Precedent] = []
        for demand, chosen in call:
            if demand.hint is not None or demand.beside is not None or demand.band is not None:
                return None
            group = groups.get(self._last.get(_alike(demand, chosen), 0))  # numbers begin with 1
            if group is None or demand.pace not in group.paces:
                return None
            is_served = demand.need in group.needs.windows.get(demand.window, ())
            if not is_served and not _has_room(group, demand):
                return None
            if found and group.store != found[0].group.store:
                return None
            found.append(Precedent(group, demand, is_served))
        return found

    def remember(self, demand: Demand, chosen: Chosen, group: WindowGroup) -> None:
        """A demand for which a synopsis was chosen went to a group."""
        if group.store.grid or group.store.generation:
            return  # others may have to go elsewhere
        if len(self._last) >= _MOST_PRECEDENTS:
            self._last.clear()
        self._last[_alike(demand, chosen)] = group.number


def _alike(demand: Demand, chosen: Chosen) -> _Alike:
    return demand.where, demand.keys, demand.need, demand.pace, chosen.synopsis, chosen.is_on_slices


def _has_room(group: WindowGroup, demand: Demand) -> bool:
    needs, window = group.needs, demand.window
    if demand.need not in needs.components:
        return False
    if group.store.kind in ("ring", "sessions") or window in needs.windows:
        return True
    if group.store.kind == "stairs":
        shape = shape_of(window)
        return shape is not None and window.size <= needs.longest_of(shape)
    return window_step(window) % needs.step == 0 and window.size + window.slide <= needs.reach("time")


# Stairs: when they serve windows per key better than grids, since granules that get coarser with age are far fewer.
#
# Plain slices have what stairs have not: an index for thresholds, and one scan for windows of all slides. So
# they stay where they are not large, or not much larger; but several grids fold every event several times.
FEW_GRANULES = 1_000
CLEAR_MARGIN = 4
MOST_FOR_ONE_FOLD = 2  # times the granules on several grids


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
    if any(size > most * step for longest in grids for (_, step, *_), size in longest.items()):
        return False
    return granules(levels_for(longest_of(grids))) <= most


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
    is_better = bool(stores) and is_better_by_stairs(
        [longest_of(group.needs.longest() for group in on_grids[store]) for store in stores]
    )
    return stores if is_better else []


# Candidates: the structures that could take the place of the one that serves a window group.


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
    if demand.need.component in INEXACT or demand.hint == group.planned:
        return (group.planned,)
    return tuple(name for name in names if _serves(name, demand))


def still_serves(group: WindowGroup, demand: Demand) -> bool:
    """Whether the structure that a group has now serves a demand that is sent there."""
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
