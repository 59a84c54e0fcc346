"""What a look-up found: partials of windows, and where the windows lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muntin.aggregate.contract import Partial
from muntin.arrays import Bools, Ints
from muntin.synopsis.located import is_complete
from muntin.synopsis.need import Need


class Found(NamedTuple):
    """What a look-up at `r` instants for `k` keys found.

    `partials` have r * k slots, key by key within each instant. `start`, `end` and `is_whole` (nothing
    of the window has been forgotten) describe the windows: one element per `width` slots. An empty
    ROWS window has start == end.
    """

    partials: dict[Need, Partial]
    start: Ints
    end: Ints
    is_whole: Bools
    known_since: dict[Need, int]  # the instant from which on each need has been kept
    width: int

    def complete(self, needs: Sequence[Need]) -> Bools:
        """Which windows are covered from their start, as far as some needs are concerned."""
        known_since = max(self.known_since[need] for need in needs)
        complete: Bools = is_complete(self.start, self.end, self.is_whole, known_since)
        return complete
