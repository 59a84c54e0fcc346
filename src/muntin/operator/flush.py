"""Closing what the end of a file or table leaves open: every window that holds an event is emitted.

A file has an end, so the watermark need not stop `DELAY` before it. Each query goes on until its own
last window with an event has closed, and is then dropped: an un-keyed `[RANGE 1 MINUTE SLIDE 1 SECOND]`
does not count empty seconds until a `[RANGE 30 DAYS SLIDE 1 DAY]` beside it has closed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from muntin.join_query import AnyQuery, JoinQuery
from muntin.operator.portion import Advancing, Answers, portions


class Flushed(Advancing, Protocol):
    """An engine or an operator."""

    def drop(self, name: str) -> None: ...


def flush(engine: Flushed, queries: Mapping[str, AnyQuery], last: int) -> Iterator[Answers]:
    """Emit and drop the queries in the order they end, `last` being the greatest event time."""
    ends = {name: last_instant(query, last) for name, query in queries.items()}
    for instant in sorted(set(ends.values())):
        yield from portions(engine, instant)
        for name, end in ends.items():
            if end == instant:
                engine.drop(name)


def last_instant(query: AnyQuery, last: int) -> int:
    """The last instant at which a window of `query` can hold the event at `last`.

    A query that does not move by time has no window left to close: it is looked at just after `last`.
    """
    if not query.slide:
        return last + 1
    if isinstance(query, JoinQuery):  # a pair goes with the first of its events
        shorter = min(side.window.size for side in query.sides)
        return (last + shorter) // query.slide * query.slide
    sizes = [call.window.size for call in query.calls if call.window.is_time]
    reach = max([query.window.size] if query.window else sizes)
    return (last + reach) // query.slide * query.slide
