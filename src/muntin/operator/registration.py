"""A query at work: its plan, and how far its answers have been given out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from muntin.aggregate.approximate import APPROXIMATE_NAMES
from muntin.arrays import Ints
from muntin.query import Query

_NOBODY = np.zeros(0, np.int64)


class History(NamedTuple):
    """From the earliest event of a history to just after the latest."""

    start: int
    end: int


@dataclass
class Registration:
    """`emitted_to`: windows that closed up to this instant are no longer owed (None: none closed)."""

    query: Query
    emitted_to: int | None
    emitted: int = 0  # rows given out by advance
    inside: Ints = field(default_factory=lambda: _NOBODY)  # EMIT CHANGES: keys that are in
    slide: int = field(init=False)  # of its instants, 0 if it has none of its own
    owes: bool = field(init=False)  # whether past instants must be kept for it
    missed: int = 0  # windows that closed but had to be forgotten before advance asked for them
    history: History | None = None  # that it was filled from
    overflows: int = 0  # rows left out since a value of them does not exist

    def __post_init__(self) -> None:
        query = self.query
        self.slide = query.slide
        self.owes = self.slide > 0 or query.moves_by_rows or _is_exact(query)

    def owes_after(self, first: int) -> int:
        """Windows that end up to here are not owed, the first event of the stream being at `first`."""
        begin = first if self.history is None else min(first, self.history.start)
        return begin if self.emitted_to is None else max(begin, self.emitted_to)


def _is_exact(query: Query) -> bool:
    """Whether not all of it comes from sketches: to keep events of the past would undo these."""
    return not query.calls or any(call.function not in APPROXIMATE_NAMES for call in query.calls)
