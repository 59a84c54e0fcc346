"""Windows that close by count instead of by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from muntin.arrays import Ints
from muntin.synopsis.found import Found
from muntin.synopsis.need import Need
from muntin.window import Window


class Moves(NamedTuple):
    """Windows that closed by count: the slot of each and how many events it had seen, as they closed."""

    slot: Ints
    seen: Ints


@runtime_checkable
class CountsEvents(Protocol):
    """A synopsis of ROWS windows."""

    def moves(self, slide: int, after: int | None, until: int, width: int) -> Moves:
        """Where the number of a slot's events passed a multiple of `slide` by events in [after, until)."""

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of `window` for given slots when they had given numbers of events."""
