"""The shared state behind windows: one algorithm a file, named as in its paper."""

from functools import partial
from typing import Any

from muntin.aggregate.component import COMPONENTS, HOLISTIC
from muntin.expression import Expression
from muntin.synopsis.b_int import BInt
from muntin.synopsis.bands import place_of
from muntin.synopsis.batch import Batch, Column
from muntin.synopsis.distinct import DistinctCounter
from muntin.synopsis.found import Found
from muntin.synopsis.intervals import Intervals
from muntin.synopsis.l_int import LInt
from muntin.synopsis.materialize_all import MaterializeAll
from muntin.synopsis.materialize_none import MaterializeNone
from muntin.synopsis.monotone_deque import MonotoneDeque
from muntin.synopsis.need import Need
from muntin.synopsis.needs import Needs
from muntin.synopsis.paired_windows import PairedWindows
from muntin.synopsis.panes import Panes
from muntin.synopsis.psoup import PSoup
from muntin.synopsis.quantile_tree import QuantileTree
from muntin.synopsis.r_int import RInt
from muntin.synopsis.range_track import RangeTrack
from muntin.synopsis.range_tree import RangeTree
from muntin.synopsis.rescan import Rescan, RingSynopsis
from muntin.synopsis.rescan_rows import RescanRows
from muntin.synopsis.ring import EventRing
from muntin.synopsis.runs import RunSynopsis, TrackMaker
from muntin.synopsis.sketch.keyed_sketches import KeyedSketches
from muntin.synopsis.sketch.kinds import SKETCHES
from muntin.synopsis.sketch.sketched import Sketched
from muntin.synopsis.slice_store import SliceStore
from muntin.synopsis.slices import Slices
from muntin.synopsis.stair_store import StairStore
from muntin.synopsis.stairs import Stairs
from muntin.synopsis.store_scan import ScanTrack
from muntin.synopsis.synopsis import Synopsis, TextOrder
from muntin.synopsis.track import DistinctTrack, IntervalTrack, QuantileTrack

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


__all__ = [
    "INTERVALS",
    "READ_EVENTS",
    "SYNOPSES",
    "Batch",
    "Column",
    "EventRing",
    "Found",
    "Intervals",
    "KeyedSketches",
    "Need",
    "Needs",
    "RInt",
    "RangeTree",
    "Rescan",
    "RescanRows",
    "RingSynopsis",
    "RunSynopsis",
    "SliceStore",
    "Slices",
    "StairStore",
    "Stairs",
    "Synopsis",
    "build_synopsis",
]
