"""Which store a group reads: events are stored, or folded into slices, once for all that can share."""

from __future__ import annotations

from typing import Literal, NamedTuple

from muntin.expression import Expression
from muntin.plan.demand import Demand

Kind = Literal["ring", "slices", "stairs"]


class StoreId(NamedTuple):
    """The stream's ring has neither `where` nor `keys`: its readers filter and tell keys apart.
    Rings of ROWS windows keep the last events that pass, of each key; slices are cells per key, and stairs
    are slices that get coarser with age."""

    kind: Kind
    where: Expression | None = None
    keys: tuple[Expression, ...] = ()
    grid: int = 0  # of slices: those whose edges share one grid have one number
    generation: int = 0  # 0 for what began with the stream, or while it ran; one for each history filled in


STREAM_RING = StoreId("ring")


def ring_of(demand: Demand) -> StoreId:
    """The ring for single events."""
    return STREAM_RING if demand.window.is_time else StoreId("ring", demand.where, demand.keys)
