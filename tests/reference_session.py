"""Sessions in the oracle: lists of events, cut wherever a gap lies between two of them.

Shares no code with the package; `reference.py` calls it for windows that are sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Timed(Protocol):
    at: int


Event = TypeVar("Event", bound=Timed)


def sessions_of(events: Sequence[Event], gap: int) -> list[list[Event]]:
    """The events of one key, which are in order, cut where the gap or more lies between two."""
    found: list[list[Event]] = []
    for event in events:
        if found and event.at - found[-1][-1].at < gap:
            found[-1].append(event)
        else:
            found.append([event])
    return found


def open_at(events: Sequence[Event], gap: int, instant: int) -> list[Event]:
    """The session that is open at an instant, of the events before it; nothing if there is none."""
    before = sessions_of([event for event in events if event.at < instant], gap)
    return before[-1] if before and instant < before[-1][-1].at + gap else []


def closed_between(
    events: Sequence[Event], gap: int, after: int | None, until: int
) -> list[tuple[int, list[Event]]]:
    """The sessions that closed after an instant and up to another, with when they did."""
    found = [(session[-1].at + gap, session) for session in sessions_of(events, gap)]
    return [each for each in found if (after is None or each[0] > after) and each[0] <= until]
