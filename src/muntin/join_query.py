"""A join query: one standing question about pairs of events, one of each of two streams.

A pair is in the answer while both its events are in their windows. What is shared is the finding of
pairs: queries that agree on streams and ON differ only in which pairs they see, and what they make of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.expression import Expression
from muntin.query import CHANGE, Key, Output, Query, schema_of_answers
from muntin.stream import Stream
from muntin.table_query import TableQuery
from muntin.view_select import StandingQuery
from muntin.window import Window

LEAVES_AT = "leaves_at"  # the column of EMIT CHANGES with the instant at which a pair leaves

# of the stream of pairs that aggregates of a join read: when a pair is looked at, and which one it is
PAIR_TIME, PAIR_NUMBER = "#at", "#"


@dataclass(frozen=True)
class JoinSide:
    """One stream of a join: `trades [RANGE 1 HOUR SLIDE 1 MINUTE] AS t`."""

    name: str  # by which the query calls it
    stream: Stream
    window: Window  # a time window; both sides have the same slide
    columns: tuple[str, ...]  # of the stream, that the query reads of pairs

    def __str__(self) -> str:
        alias = "" if self.name == self.stream.name else f" AS {self.name}"
        return f"{self.stream.name} {self.window}{alias}"


@dataclass(frozen=True)
class JoinSignature:
    """What queries must agree on to share pairs."""

    left: str  # stream
    right: str
    on: tuple[tuple[Expression, Expression], ...]  # a value of the left event, and the right one's

    def __str__(self) -> str:
        equal = " AND ".join(
            f"{self.left}.{left} = {self.right}.{right}"
            if left.is_column and right.is_column
            else f"{left} = {right}"
            for left, right in self.on
        )
        return f"{self.left} JOIN {self.right} ON {equal}"


@dataclass(frozen=True)
class JoinQuery:
    """WHERE, and what ON says beyond equalities, filter pairs; columns of pairs are called `t.price`.

    Without aggregates, `outputs` are over those columns, a row for each pair. With them, `fold` is an
    ordinary query over the stream of pairs, of which it looks at one instant.
    """

    text: str  # as the user wrote it
    left: JoinSide
    right: JoinSide
    on: tuple[tuple[Expression, Expression], ...]
    where: Expression | None
    outputs: tuple[Output, ...]
    fold: Query | None = None
    emits_changes: bool = False
    is_part: bool = False  # of some pairs only: answers are partials, to be merged elsewhere (join/part.py)
    named: str | None = None  # the view that the text names, if it names one (`sql/bind_standing.py`)

    @property
    def signature(self) -> JoinSignature:
        return JoinSignature(self.left.stream.name, self.right.stream.name, self.on)

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        return self.left, self.right

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams it reads, each once."""
        both = (self.left.stream, self.right.stream)
        return both[:1] if both[0] == both[1] else both

    @property
    def keys(self) -> tuple[Key, ...]:
        return self.fold.keys if self.fold is not None else ()

    @property
    def slide(self) -> int:
        """Microseconds between its instants, 0 if it can be looked up at any instant."""
        return self.left.window.slide

    @property
    def size(self) -> int:
        """How far back its windows reach."""
        return max(self.left.window.size, self.right.window.size)

    def answer_schema(self) -> pa.Schema:
        """Columns of its answers: keys, values, then the windows' bounds and whether they were covered."""
        return schema_of_answers(self.keys, self.outputs)

    def emission_schema(self) -> pa.Schema:
        """Columns of what `advance` gives: with EMIT CHANGES, also whether a pair enters or leaves, and the
        instant at which it leaves, which is known when it enters."""
        schema = self.answer_schema()
        if not self.emits_changes:
            return schema
        return schema.append(pa.field(CHANGE, pa.string())).append(pa.field(LEAVES_AT, pa.timestamp("us")))


AnyQuery = Query | JoinQuery | TableQuery | StandingQuery
