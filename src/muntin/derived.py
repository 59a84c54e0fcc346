"""Derived streams: nobody pushes them. A selection is another stream, filtered and projected; a stream of windows has
the closed windows of a query as its events."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.join_query import AnyQuery
from muntin.stream import Stream
from muntin.table_query import TableQuery

TIME = "ts"  # the time column of a stream of windows


@dataclass(frozen=True, kw_only=True)
class Selection(Stream):
    """`CREATE STREAM large AS SELECT ts, symbol, price * shares AS worth FROM trades WHERE shares > 100`.

    It has no state: a query over it is one over `base`, with the expressions of its columns in their place.
    """

    text: str  # the statement
    source: str  # the stream that it selects from, as named there
    base: Stream  # the stream at the bottom of all selections, which has events
    where: Expression | None  # over the columns of `base`
    columns: tuple[Expression, ...]  # over those of `base`, too

    __hash__ = Stream.__hash__

    @property
    def origin(self) -> str:
        """Where its events come from, for errors and listings."""
        return f"selects from stream '{self.source}'"


@dataclass(frozen=True, kw_only=True)
class WindowStream(Stream):
    """`CREATE STREAM hourly FROM QUERY busy`: a row for each row that the query's closed windows have, 1 us before the
    instant at which they closed."""

    query: str

    __hash__ = Stream.__hash__

    @property
    def text(self) -> str:
        """The statement."""
        name, query = (each.replace('"', '""') for each in (self.name, self.query))
        return f'CREATE STREAM "{name}" FROM QUERY "{query}"'

    @property
    def origin(self) -> str:
        """Where its events come from, for errors and listings."""
        return f"has the closed windows of query '{self.query}'"


DerivedStream = Selection | WindowStream


def refuse_pushing(stream: Stream) -> None:
    """An error if nobody can push events into a stream, or rewind it."""
    if isinstance(stream, DerivedStream):
        raise MuntinError(
            f"stream '{stream.name}' {stream.origin}: its events follow from others, and cannot be pushed or rewound"
        )


def carrier_of(stream: Stream) -> str:
    """The name of the stream whose events, clock and state a stream has."""
    return stream.base.name if isinstance(stream, Selection) else stream.name


def schema_of_windows(query: AnyQuery) -> pa.Schema:
    """The columns of a stream of a query's windows: its time, then those of the answers."""
    return query.answer_schema().insert(0, pa.field(TIME, pa.timestamp("us")))


def end_to_instant(query: AnyQuery) -> int:
    """From `window_end` of an answer to the instant at which the window closed, in microseconds."""
    asked = query.source if isinstance(query, TableQuery) else query
    window = getattr(asked, "window", None)  # without one after FROM, windows end at the instant
    return 0 if window is None else int(window.to)


def named_by(query: AnyQuery) -> str | None:
    """The selection or view that a query names instead of the streams that it reads, if it does."""
    source = query.source if isinstance(query, TableQuery) else query
    return source.named
