"""Materialised views: what CREATE MATERIALIZED VIEW declares."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.expression import Expression
from muntin.join_query import JoinQuery, JoinSide
from muntin.query import Output, Query
from muntin.view_select import KnownView

HIDDEN = "#"  # begins the names of columns that a view keeps and its readers do not see
LEFT_TIME, RIGHT_TIME = "#left_at", "#right_at"  # of pairs
Equality = tuple[Expression, Expression]  # a value of sides before, and one of the side itself


def place_of(side: int) -> str:
    """The column with the place of a side's event: its time, or its number with windows by count."""
    return f"{HIDDEN}at_{side}"


@dataclass(frozen=True)
class WideJoinQuery:
    """`SELECT … FROM a [ROWS 100] JOIN b [ROWS 50] ON … JOIN c [ROWS 20] ON …`: a join that only views have, of any
    number of inputs, over time windows or windows by count. Columns are called `t.price`."""

    sides: tuple[JoinSide, ...]
    on: tuple[tuple[Equality, ...], ...]  # of each side but the first, with those before it
    where: Expression | None  # also what ON says beyond equalities
    outputs: tuple[Output, ...]
    slide: int  # microseconds between its instants

    @property
    def by_count(self) -> bool:
        """Whether its windows hold numbers of events."""
        return not self.sides[0].window.is_time


@dataclass(frozen=True)
class NegationQuery:
    """`SELECT … FROM a [RANGE …] EXCEPT SELECT k FROM b [RANGE …]`, or with NOT EXISTS: events of `a` whose values
    no event of `b` has while both are in their windows. NULL equals nothing."""

    left: JoinSide
    right: JoinSide
    outputs: tuple[Output, ...]  # over an event of the left stream
    where: Expression | None
    on: tuple[tuple[str, Expression], ...]  # an output, and the value of a right event that must not equal it
    right_where: Expression | None
    slide: int  # microseconds between its instants

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        return self.left, self.right

    @property
    def by_count(self) -> bool:
        """Whether results live for a number of events."""
        return not self.left.window.is_time


@dataclass(frozen=True)
class SelectionQuery:
    """`SELECT … FROM a [RANGE …] WHERE …`: the events of a window that pass, a row each. WHERE comes before the
    window, as in any query."""

    side: JoinSide
    outputs: tuple[Output, ...]  # over an event
    where: Expression | None
    slide: int  # microseconds between its instants

    @property
    def sides(self) -> tuple[JoinSide]:
        return (self.side,)

    @property
    def by_count(self) -> bool:
        """Whether results live for a number of events."""
        return not self.side.window.is_time


@dataclass(frozen=True)
class GroupedQuery:
    """`SELECT k, COUNT(*) … FROM a [RANGE …] GROUP BY k`, or `SELECT DISTINCT k …`: the rows that a query over one
    stream answers, which replace each other. `query` moves with the view; of DISTINCT it has one more output, the
    time of the latest event of a row, so that smaller windows can be told."""

    side: JoinSide
    query: Query

    @property
    def sides(self) -> tuple[JoinSide]:
        return (self.side,)

    @property
    def slide(self) -> int:
        """Microseconds between its instants."""
        return self.query.slide

    @property
    def by_count(self) -> bool:
        return False

    @property
    def is_distinct(self) -> bool:
        """Whether a row says nothing but that an event has its values."""
        return any(output.name == place_of(0) for output in self.query.outputs)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns of its rows: keys, then values."""
        return (*(Output(key.name, key.expression) for key in self.query.keys), *self.query.outputs)

    @property
    def longest(self) -> int:
        """The longest of its windows."""
        spans = [call.window.size for call in self.query.calls if call.window.is_time]
        return max([self.side.window.size, *spans])


ViewSource = JoinQuery | WideJoinQuery | NegationQuery | SelectionQuery | GroupedQuery


@dataclass(frozen=True)
class ViewQuery:
    """`CREATE MATERIALIZED VIEW v AS SELECT … JOIN … EVERY 1 MINUTE`, with EXCEPT instead of JOIN, or of one stream.

    A join emits the pairs that come and go, with the times of both events.
    """

    name: str
    text: str  # of the whole statement
    source: ViewSource
    key: tuple[str, ...]
    indexing: str | None  # as written after INDEX

    @property
    def every(self) -> int:
        """Microseconds between two updates."""
        return self.source.slide

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams it reads, each once."""
        return tuple(dict.fromkeys(side.stream.name for side in self.source.sides))

    @property
    def known(self) -> KnownView:
        """For those who read it."""
        fields = [
            pa.field(output.name, output.expression.type)
            for output in self.source.outputs
            if not output.name.startswith(HIDDEN)
        ]
        source = self.source
        is_whole = isinstance(source, NegationQuery) or (
            isinstance(source, GroupedQuery) and not source.is_distinct
        )
        sizes = () if is_whole else tuple(side.window.size for side in source.sides)
        by_count = not isinstance(self.source, JoinQuery) and self.source.by_count
        return KnownView(self.name, pa.schema(fields), self.key, sizes, by_count)
