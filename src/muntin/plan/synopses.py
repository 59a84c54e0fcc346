"""Synopses by name: what the plan chooses from and a hint may ask for, what each can serve, and how it is made."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Set
from functools import lru_cache, partial
from typing import Any

from muntin.aggregates.component import APPROXIMATE, COMPARING, COMPONENTS, HOLISTIC
from muntin.aggregates.contract import is_text
from muntin.expression import Expression
from muntin.plan.demand import Demand
from muntin.sketch.keyed_sketches import KeyedSketches
from muntin.sketch.kinds import REGISTERS, SKETCHES, is_weighted, promise_of
from muntin.sketch.sketched import Sketched
from muntin.sketch.sliding_registers import RegisterSketches
from muntin.sketch.weighted_counts import WeightedCounts
from muntin.store.grid import window_step
from muntin.store.needs import Need, dtype_of, place_of
from muntin.structure.b_int import BInt
from muntin.structure.baseline.materialize_none import MaterializeNone
from muntin.structure.baseline.paired_windows import PairedWindows
from muntin.structure.baseline.panes import Panes
from muntin.structure.baseline.psoup import PSoup
from muntin.structure.distinct import DistinctCounter
from muntin.structure.intervals import Intervals
from muntin.structure.key_runs import ByKeyRuns
from muntin.structure.key_runs_rows import RowsByKeyRuns
from muntin.structure.l_int import LInt
from muntin.structure.materialize_all import MaterializeAll
from muntin.structure.monotone_deque import MonotoneDeque
from muntin.structure.quantile_tree import QuantileTree
from muntin.structure.r_int import RInt
from muntin.structure.range_tree import RangeTrack, RangeTree
from muntin.structure.rescan import Rescan
from muntin.structure.rescan_rows import RescanRows
from muntin.structure.runs import RunSynopsis, TrackMaker
from muntin.structure.sessions import Sessions
from muntin.structure.slices import Slices
from muntin.structure.stairs import Stairs
from muntin.structure.synopsis import Synopsis, TextOrder
from muntin.structure.track import DistinctTrack, IntervalTrack, ModeTrack, QuantileTrack, ScanTrack
from muntin.structure.value_order import OrderedElements
from muntin.window import Window

# Structures over the runs of a sequence, by name; a synopsis is made of one by `RunSynopsis`.
INTERVALS: dict[str, type[Intervals]] = {
    each.name: each for each in (RInt, BInt, LInt, MonotoneDeque, PSoup, MaterializeAll, MaterializeNone)
}
# Every algorithm by the name the plan, EXPLAIN and hints know it by, with the components it serves.
EVERY = ChainMap[str, Any](COMPONENTS, dict.fromkeys(HOLISTIC)).keys()
SYNOPSES: dict[str, Set[str]] = {
    Rescan.name: EVERY,
    RescanRows.name: EVERY,
    ByKeyRuns.name: EVERY,
    RowsByKeyRuns.name: EVERY,
    Slices.name: COMPONENTS.keys(),
    Stairs.name: COMPONENTS.keys(),
    Sessions.name: COMPONENTS.keys(),
    **{name: kind.components for name, kind in INTERVALS.items()},
    QuantileTree.name: frozenset({"quantile"}),
    DistinctCounter.name: frozenset({"distinct"}),
    OrderedElements.name: frozenset({"mode"}),
    RangeTree.name: RangeTree.components,
    Panes.name: COMPONENTS.keys(),
    PairedWindows.name: COMPONENTS.keys(),
    **SKETCHES,
}
# Those that read single events even where folded slices would do.
READ_EVENTS = frozenset(
    {each.name for each in (Rescan, RescanRows, ByKeyRuns, RowsByKeyRuns, RangeTree, Panes, PairedWindows)}
    | SKETCHES.keys()
)
# Hints that are about HAVING, with the functions it may compare: how its keys are found, not how windows are answered.
INDEXES = {"collective_index": ("count", "sum"), "staircase_index": ("max", "min")}


def build_synopsis(
    name: str, store: Any, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
) -> Synopsis[Any]:
    """A synopsis by name, over a store."""
    kinds = (Rescan, RescanRows, ByKeyRuns, RowsByKeyRuns, Slices, Stairs, Sessions, Panes, PairedWindows)
    whole: dict[str, type[Synopsis[Any]]] = {each.name: each for each in kinds}
    if name in whole:
        return whole[name](store, where, keys, text_order)
    if name in SKETCHES:
        if name == REGISTERS:
            return RegisterSketches(store, where, keys, text_order, name)
        return (KeyedSketches if keys else Sketched)(store, where, keys, text_order, name)
    if name == RangeTree.name:
        return RunSynopsis(store, where, keys, text_order, name, RangeTrack, place_of)
    makers: dict[str, TrackMaker] = {
        QuantileTree.name: QuantileTrack,
        DistinctCounter.name: DistinctTrack,
        OrderedElements.name: ModeTrack,
        MaterializeNone.name: ScanTrack,
    }
    make_track = makers.get(name) or partial(IntervalTrack, kind=INTERVALS[name])
    return RunSynopsis(store, where, keys, text_order, name, make_track)


# What a synopsis can serve.

MOST_SLICES = 100_000  # beyond this a window's slices save nothing over its events


def is_on_slices(demand: Demand) -> bool:
    """Whether folded slices can serve a demand: its edges fall on a grid, and partials can be merged."""
    return is_sliced(demand.window) and merges(demand.need)


def merges(need: Need) -> bool:
    """Whether the partials of two neighbouring runs are enough for that of both, whenever they were made."""
    return not _is_holistic(need) and not orders_text(need)


@lru_cache(maxsize=4096)
def is_sliced(window: Window) -> bool:
    """Whether the edges of a window fall on a grid that is not too fine for it."""
    return window.is_time and window.slide > 0 and window.size <= MOST_SLICES * window_step(window)


def serves_band(demand: Demand) -> bool:
    """Whether a range tree can serve a demand."""
    return demand.band is not None and not demand.keys and demand.window.is_time and merges(demand.need)


def subtracts(demand: Demand) -> bool:
    """Whether two prefixes answer any run without a trace of what lies outside it."""
    return RInt.serves(demand.need.component, dtype_of(demand.need))


def orders_text(need: Need) -> bool:
    argument = need.input.argument
    return need.component in COMPARING and argument is not None and is_text(argument.type)


def _is_holistic(need: Need) -> bool:
    return need.component in HOLISTIC or need.component in APPROXIMATE


def reads_slices(demand: Demand, synopsis: str) -> bool:
    """Whether cells are enough for a demand that a synopsis serves; else single events are kept for it."""
    return is_on_slices(demand) and synopsis not in READ_EVENTS


def keeps_cells(demand: Demand) -> bool:
    """Whether cells can serve a demand: of slices, or of sessions."""
    return demand.window.is_session or is_on_slices(demand)


def reads_cells(demand: Demand, synopsis: str) -> bool:
    """Whether they are enough for it, given the synopsis that serves it."""
    return demand.window.is_session or reads_slices(demand, synopsis)


def why_not(synopsis: str, demand: Demand) -> str | None:
    """What keeps a synopsis from serving a demand; None if nothing does."""
    if demand.window.is_session != (synopsis == Sessions.name):
        return "it is for sessions" if synopsis == Sessions.name else "sessions have a synopsis of their own"
    if synopsis == Sessions.name:
        return None if merges(demand.need) else "it needs an aggregate that merges"
    if synopsis in SKETCHES:
        return _why_not_sketch(synopsis, demand)
    if synopsis in ("slices", "stairs"):
        return (
            None if is_on_slices(demand) else "it needs a time window with SLIDE and an aggregate that merges"
        )
    if synopsis == "rescan":
        return None if demand.window.is_time else "it is for time windows; use 'rescan_rows'"
    if synopsis in ("key_runs", "key_runs_rows"):
        return _why_not_runs(synopsis, demand)
    if demand.keys:
        return "it has no keys"
    if synopsis == "rescan_rows":
        return "it is for ROWS windows; use 'rescan'" if demand.window.is_time else None
    if orders_text(demand.need):
        return "the order of text is known only at look-up"
    if synopsis == RangeTree.name and not serves_band(demand):
        return "it needs a time window, and a filter that compares one number or time with constants"
    if synopsis in ("panes", "paired_windows") and (
        not (demand.window.is_time and demand.window.slide) or demand.window.offset or demand.window.since
    ):
        return "its edges are those of RANGE windows with SLIDE and no OFFSET"
    if demand.window.since and synopsis in INTERVALS and INTERVALS[synopsis].takes_widths:
        return "a window since a landmark has no fixed width; use 'b_int'"
    if synopsis in ("r_int", "materialize_all") and demand.need.component == "sum" and not subtracts(demand):
        return "only counts and integer sums can be subtracted without a trace"
    if synopsis in ("l_int", "materialize_all") and demand.window.is_time and not is_on_slices(demand):
        return "a time window without SLIDE has no fixed width; use 'b_int'"
    return None


def _why_not_runs(synopsis: str, demand: Demand) -> str | None:
    """What keeps runs per key from serving a demand; None if nothing does."""
    if not demand.keys:
        return "it is for windows per key; use 'b_int'"
    if synopsis == "key_runs" and not demand.window.is_time:
        return "it is for time windows; use 'key_runs_rows'"
    if synopsis == "key_runs_rows" and demand.window.is_time:
        return "it is for ROWS windows; use 'key_runs'"
    return None


def _why_not_sketch(synopsis: str, demand: Demand) -> str | None:
    """What keeps a sketch from serving a demand; None if nothing does."""
    if synopsis == REGISTERS and not demand.window.is_time:
        return "it goes by time; use RANGE, or COUNT(DISTINCT x), which is exact"
    if is_weighted(demand.need) != (synopsis == WeightedCounts.name):
        return (
            "it counts items that have weights" if synopsis == WeightedCounts.name else "it knows no weights"
        )
    if not demand.window.is_time and demand.keys:
        return (
            "the last events of a silent key never leave, so its sketch would stay for ever; "
            "use RANGE, or leave out GROUP BY, or ask for exact aggregates, such as QUANTILE(x, 0.9)"
        )
    if synopsis.startswith("sampled") and promise_of(demand.need).delta is None:
        return "a sample may fail; say by what chance, as the last argument"
    return None
