"""What an archive lacks: from which time on nothing is missing in it, as far as anyone can tell."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.arrays import LONG_AGO
from muntin.shard.clock import Clock


class ArchiveCoverage:
    """What is missing in an archive; `clocks` are those of the view's streams."""

    def __init__(self, clocks: Sequence[Clock], known_from: int = LONG_AGO):
        self._clocks = clocks
        self._known_from = known_from
        self._in_doubt_to: int | None = None  # None: nothing is in doubt

    def begin_with_the_next(self) -> None:
        """An engine that has seen nothing goes on with an archive: it knows what it is told from now on."""
        self._in_doubt_to = LONG_AGO

    def go_on_to(self, now: int) -> None:
        """An engine goes on from a checkpoint that is older than its archive, which is at `now`: events before that
        instant are pushed again, or else what came since the checkpoint is missing."""
        self._in_doubt_to = now

    def lose_before(self, instant: int) -> None:
        """Results of events before an instant may be missing."""
        self._known_from = max(self._known_from, instant)

    @property
    def known_from(self) -> int | None:
        """All results of events from this time on are there; None if nobody can tell yet."""
        if self._in_doubt_to is None:
            return self._known_from
        first = [clock.seen_from for clock in self._clocks]
        told = [each for each in first if each is not None]
        if told and min(told) < self._in_doubt_to:
            return self._known_from  # pushed again
        if len(told) < len(first):
            return None
        # What came before the first event may be younger than it by the delay, and the first event may be younger
        # than the earliest one seen by as much.
        begins = [each + 2 * clock.delay + 1 for each, clock in zip(told, self._clocks, strict=True)]
        return max(self._known_from, *begins)
