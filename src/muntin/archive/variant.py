"""Variants: how an index deals results out to parts, and how it lays out a part on disk.

Each is a choice of three things: a rule for the slots in which results are generated, one for those in
which they expire, and a layout. All answer alike; they differ in what an update and a probe cost.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """How the rows of a part lie on disk."""

    is_sorted: bool  # by key, then by expiry; if not, a probe reads everything
    most_runs: int  # a part is at most that many segments: 1 is clustered, more let updates append


CLUSTERED = Layout(is_sorted=True, most_runs=1)
APPENDED = Layout(is_sorted=True, most_runs=4)
UNSORTED = Layout(is_sorted=False, most_runs=4)


@dataclass(frozen=True)
class Variant:
    """One way to index results; its name in the paper beside it in `title`."""

    name: str
    title: str
    generation: str  # rules of slots.py
    expiry: str
    layout: Layout
    sweeps: bool = True  # if not, the dead stay until their part is thrown away

    @property
    def is_lazy(self) -> bool:
        """Whether the oldest part waits until all in it has expired, and is thrown away."""
        return self.generation == "lazy"


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("reindex", "R-ins", "chronological", "whole", CLUSTERED),
        Variant("reindex_by_expiry", "R-exp", "whole", "chronological", CLUSTERED),
        Variant("del", "D-ins", "chronological", "whole", APPENDED),
        Variant("del_by_expiry", "D-exp", "whole", "chronological", APPENDED),
        Variant("wata", "WATA", "lazy", "whole", APPENDED, sweeps=False),
        Variant("wata_swept", "WATA, swept", "lazy", "whole", APPENDED),
        Variant("chronological", "chr, Rebuild", "chronological", "chronological", CLUSTERED),
        Variant("chronological_no_rebuild", "chr, NoRebuild", "chronological", "chronological", APPENDED),
        Variant("rebuild", "Rebuild", "round_robin", "round_robin", CLUSTERED),
        Variant("no_rebuild", "NoRebuild", "round_robin", "round_robin", APPENDED),
        Variant("lazy_rebuild", "LazyRebuild", "lazy", "round_robin", CLUSTERED),
        Variant("lazy_no_rebuild", "LazyNoRebuild", "lazy", "round_robin", APPENDED),
        Variant("count_rebuild", "CountRebuild", "round_robin", "chronological", CLUSTERED),
        Variant("count_no_rebuild", "CountNoRebuild", "round_robin", "chronological", APPENDED),
        Variant("random_rebuild", "RND, Rebuild", "random", "random", CLUSTERED),
        Variant("random_no_rebuild", "RND, NoRebuild", "random", "random", APPENDED),
        Variant("none", "no index", "round_robin", "round_robin", UNSORTED),
    )
}
