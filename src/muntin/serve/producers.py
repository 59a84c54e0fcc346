"""Producers: who sends changes, and the number of the last one of each that was made.

When a connection breaks, a client cannot know whether its change was taken. So it may name itself, number its changes
1, 2, 3, …, and send one again under the number that it had: the change counts once. The numbers are kept with the
changes, in the log and in checkpoints, so a crash forgets neither without the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from muntin.errors import MuntinError

MOST = 10_000  # producers that are remembered: those that changed something last


class OutOfSequence(MuntinError):
    """A change that is numbered higher than the next one of its producer: one before it is missing."""


class Once(NamedTuple):
    """What a producer calls a change."""

    producer: str
    sequence: int


class Producers:
    """The number of the last change of each producer.

    >>> producers = Producers()
    >>> producers.add(Once("meter 7", 1))
    >>> producers.has(Once("meter 7", 1)), producers.has(Once("meter 7", 2))
    (True, False)
    """

    def __init__(self, last: Iterable[tuple[str, int]] = ()):
        self._last = dict(last)

    def last(self, producer: str) -> int | None:
        """The number of its last change; None of a producer that is not known."""
        return self._last.get(producer)

    def has(self, change: Once) -> bool:
        """Whether a change has been made. A producer that is not known may begin with any number."""
        last = self._last.get(change.producer, change.sequence - 1)
        if change.sequence > last + 1:
            raise OutOfSequence(
                f"the next change of '{change.producer}' is number {last + 1:,}, not {change.sequence:,}"
            )
        return change.sequence <= last

    def add(self, change: Once) -> None:
        """It has been made."""
        self._last.pop(change.producer, None)
        self._last[change.producer] = change.sequence
        if len(self._last) > MOST:
            del self._last[next(iter(self._last))]

    def note(self) -> list[list[str | int]]:
        """As they stand in a checkpoint: whoever changed something last is last."""
        return [list(each) for each in self._last.items()]
