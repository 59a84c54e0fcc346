"""The shared state behind windows: one algorithm a file, named as in its paper."""

from typing import Any

from muntin.synopsis.contract import Batch, Column, Found, Need
from muntin.synopsis.intervals import Intervals
from muntin.synopsis.needs import Needs
from muntin.synopsis.rescan import Rescan, RingSynopsis
from muntin.synopsis.rescan_rows import RescanRows
from muntin.synopsis.ring import EventRing
from muntin.synopsis.runs import RunSynopsis
from muntin.synopsis.slice_store import SliceStore
from muntin.synopsis.slices import Slices
from muntin.synopsis.synopsis import Synopsis, TextOrder

# Every algorithm by the name the plan, EXPLAIN and hints know it by: synopses, and structures that
# `RunSynopsis` makes one of.
SYNOPSES: dict[str, type[Synopsis[Any]] | type[Intervals]] = {
    each.name: each for each in (Rescan, RescanRows, Slices)
}


def build_synopsis(name: str, store: Any, where: Any, keys: Any, text_order: TextOrder) -> Synopsis[Any]:
    """A synopsis by name, over a store."""
    kind = SYNOPSES[name]
    if issubclass(kind, Intervals):
        return RunSynopsis(store, where, keys, text_order, kind)
    return kind(store, where, keys, text_order)


__all__ = [
    "SYNOPSES",
    "Batch",
    "Column",
    "EventRing",
    "Found",
    "Intervals",
    "Need",
    "Needs",
    "Rescan",
    "RescanRows",
    "RingSynopsis",
    "RunSynopsis",
    "SliceStore",
    "Slices",
    "Synopsis",
    "build_synopsis",
]
