"""Synopses by name: what the plan chooses from, and what a hint may ask for."""

from functools import partial
from typing import Any

from muntin.aggregate.component import COMPONENTS, HOLISTIC
from muntin.expression import Expression
from muntin.sketch.keyed_sketches import KeyedSketches
from muntin.sketch.kinds import SKETCHES
from muntin.sketch.sketched import Sketched
from muntin.store.needs import place_of
from muntin.structure.b_int import BInt
from muntin.structure.baseline.materialize_all import MaterializeAll
from muntin.structure.baseline.materialize_none import MaterializeNone
from muntin.structure.baseline.paired_windows import PairedWindows
from muntin.structure.baseline.panes import Panes
from muntin.structure.baseline.psoup import PSoup
from muntin.structure.distinct import DistinctCounter
from muntin.structure.intervals import Intervals
from muntin.structure.l_int import LInt
from muntin.structure.monotone_deque import MonotoneDeque
from muntin.structure.quantile_tree import QuantileTree
from muntin.structure.r_int import RInt
from muntin.structure.range_tree import RangeTrack, RangeTree
from muntin.structure.rescan import Rescan
from muntin.structure.rescan_rows import RescanRows
from muntin.structure.runs import RunSynopsis, TrackMaker
from muntin.structure.slices import Slices
from muntin.structure.stairs import Stairs
from muntin.structure.synopsis import Synopsis, TextOrder
from muntin.structure.track import DistinctTrack, IntervalTrack, QuantileTrack, ScanTrack

# Structures over the runs of a sequence, by name; a synopsis is made of one by `RunSynopsis`.
INTERVALS: dict[str, type[Intervals]] = {
    each.name: each for each in (RInt, BInt, LInt, MonotoneDeque, PSoup, MaterializeAll, MaterializeNone)
}
# Every algorithm by the name the plan, EXPLAIN and hints know it by, with the components it serves.
EVERY = frozenset(COMPONENTS) | HOLISTIC
SYNOPSES: dict[str, frozenset[str]] = {
    Rescan.name: EVERY,
    RescanRows.name: EVERY,
    Slices.name: frozenset(COMPONENTS),
    Stairs.name: frozenset(COMPONENTS),
    **{name: kind.components for name, kind in INTERVALS.items()},
    QuantileTree.name: frozenset({"quantile"}),
    DistinctCounter.name: frozenset({"distinct"}),
    RangeTree.name: RangeTree.components,
    Panes.name: frozenset(COMPONENTS),
    PairedWindows.name: frozenset(COMPONENTS),
    **SKETCHES,
}
# Those that read single events even where folded slices would do.
READ_EVENTS = frozenset(
    {each.name for each in (Rescan, RescanRows, RangeTree, Panes, PairedWindows)} | SKETCHES.keys()
)


def build_synopsis(
    name: str, store: Any, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
) -> Synopsis[Any]:
    """A synopsis by name, over a store."""
    kinds = (Rescan, RescanRows, Slices, Stairs, Panes, PairedWindows)
    whole: dict[str, type[Synopsis[Any]]] = {each.name: each for each in kinds}
    if name in whole:
        return whole[name](store, where, keys, text_order)
    if name in SKETCHES:
        return (KeyedSketches if keys else Sketched)(store, where, keys, text_order, name)
    if name == RangeTree.name:
        return RunSynopsis(store, where, keys, text_order, name, RangeTrack, place_of)
    makers: dict[str, TrackMaker] = {
        QuantileTree.name: QuantileTrack,
        DistinctCounter.name: DistinctTrack,
        MaterializeNone.name: ScanTrack,
    }
    make_track = makers.get(name) or partial(IntervalTrack, kind=INTERVALS[name])
    return RunSynopsis(store, where, keys, text_order, name, make_track)
