"""A portion: what one `advance` gives of all that is owed, so that a long silence neither fills memory nor
keeps other queries from their answers.

An un-keyed query has a row for each silent window, and there may be billions of them. So a call visits a
bounded number of instants and gives out a bounded number of rows. Whoever is owed little gets everything;
the others share what is left, and go on in the next call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from muntin.derived import WindowStream
from muntin.join_query import AnyQuery, JoinQuery
from muntin.query import Query
from muntin.shard.emit.shown import answers_html
from muntin.table_query import TableQuery
from muntin.view_select import StandingQuery

DEFAULT_ROWS = 2_000_000  # of a portion


class Answers(dict[str, pa.Table]):
    """What `advance` gives: tables by query name. `more` says that another call has more to give."""

    more: bool = False

    def in_order_of(self, names: Iterable[str]) -> Answers:
        """The same tables, in the order of queries; O(queries), unless there are none of either."""
        if not self:
            return self  # most of the time
        answers = Answers({name: self[name] for name in names if name in self})
        answers.more = self.more
        return answers

    def _repr_html_(self) -> str:
        return answers_html(self, self.more)


class Advancing(Protocol):
    """An engine, a shard, or the joins."""

    def advance(self, until: Any = None) -> Answers: ...


def portions(engine: Advancing, until: Any = None) -> Iterator[Answers]:
    """All that is owed up to an instant, portion by portion."""
    while True:
        answers = engine.advance(until)
        yield answers
        if not answers.more:
            return


def allot(wanted: Sequence[int], rows: int) -> int:
    """The most that each may have, so that all together have `rows` at most, but each at least 1.

    >>> allot([5, 1, 100, 200], 106), allot([5, 1], 106), allot([9, 9, 9], 2)
    (50, 5, 1)
    """
    ascending = np.sort(np.minimum(np.asarray(wanted, np.int64), rows))
    left = rows - (np.cumsum(ascending) - ascending)  # for those that want as much as this one, or more
    share = left // np.arange(len(ascending), 0, -1)
    short = np.flatnonzero(ascending > share)
    return max(1, int(share[short[0]] if len(short) else ascending[-1]))


# Closing what the end of a file or table leaves open: every window that holds an event is emitted.
#
# A file has an end, so the watermark need not stop `DELAY` before it. Each query goes on until its own last
# window with an event has closed, and is then dropped: an un-keyed `[RANGE 1 MINUTE SLIDE 1 SECOND]` does
# not count empty seconds until a `[RANGE 30 DAYS SLIDE 1 DAY]` beside it has closed, too.


class Flushed(Advancing, Protocol):
    """An engine, a shard, or the joins."""

    def drop(self, name: str) -> None: ...


def flush(
    engine: Flushed, queries: Mapping[str, AnyQuery], last: int, feeding: Collection[str] = ()
) -> Iterator[Answers]:
    """Emit and drop the queries in the order they end, `last` being the greatest event time. Those that are `feeding` a
    stream with their windows stay as long as there are others, but are not given out any more."""
    ends = {name: last_instant(query, _last_event(query, queries, last)) for name, query in queries.items()}
    ended: set[str] = set()
    for instant in sorted(set(ends.values())):
        for answers in portions(engine, instant):
            for name in ended:
                answers.pop(name, None)
            yield answers
        for name, end in ends.items():
            if end == instant and name in feeding:
                ended.add(name)
            elif end == instant:
                engine.drop(name)


def _last_event(query: AnyQuery, queries: Mapping[str, AnyQuery], last: int) -> int:
    """The time of the last event of a query's stream; in a stream of windows, that of the last one with an event."""
    stream = query.streams[0]
    if not isinstance(stream, WindowStream):
        return last
    source = queries[stream.query]
    return last_instant(source, _last_event(source, queries, last)) - 1


def last_instant(query: AnyQuery, last: int) -> int:
    """The last instant at which a window of `query` can hold the event at `last`.

    A query that does not move by time has no window left to close: it is looked at just after `last`.
    """
    if (
        isinstance(query, Query)
        and query.moves_by_events
        and query.window is not None
        and query.window.is_session
    ):
        return last + query.window.size
    if not query.slide:
        return last + 1
    if isinstance(query, JoinQuery):  # a pair goes with the first of its events
        shorter = min(side.window.size for side in query.sides)
        return (last + shorter) // query.slide * query.slide
    if isinstance(query, StandingQuery):  # until its view is empty, if it has no later event
        return (last // query.slide + 1) * query.slide
    if isinstance(query, TableQuery):
        query = query.source
    windows = [query.window] if query.window else [call.window for call in query.calls if call.window.is_time]
    # a window is seen until it moves again, perhaps more than an instant of the query later
    return query.pace.floor(
        max(window.settle(window.last_with(last)) + max(window.slide - 1, 0) for window in windows)
    )
