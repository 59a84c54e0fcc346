"""The shared state behind windows: one algorithm a file, named as in its paper."""

from muntin.synopsis.contract import Batch, Column, Found, Need, Needs, Synopsis
from muntin.synopsis.rescan import Rescan, RingSynopsis
from muntin.synopsis.rescan_rows import RescanRows
from muntin.synopsis.slices import Slices

SYNOPSES: dict[str, type[Synopsis]] = {synopsis.name: synopsis for synopsis in (Rescan, RescanRows, Slices)}

__all__ = [
    "SYNOPSES",
    "Batch",
    "Column",
    "Found",
    "Need",
    "Needs",
    "Rescan",
    "RescanRows",
    "RingSynopsis",
    "Slices",
    "Synopsis",
]
