"""Materialised views: what CREATE MATERIALIZED VIEW declares, and what a SELECT reads of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.expression import Expression
from muntin.join_query import JoinQuery, JoinSide
from muntin.query import Output, Query

LEFT_TIME, RIGHT_TIME = "#left_at", "#right_at"  # outputs of the join that readers of the view do not see


@dataclass(frozen=True)
class NegationQuery:
    """`SELECT … FROM a [RANGE …] EXCEPT SELECT k FROM b [RANGE …]`: events of `a` whose values no event of `b` has
    while both are in their windows. NULL equals nothing."""

    left: JoinSide
    right: JoinSide
    outputs: tuple[Output, ...]  # over an event of the left stream
    where: Expression | None
    on: tuple[tuple[str, Expression], ...]  # an output, and the value of a right event that must not equal it
    right_where: Expression | None

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        return self.left, self.right

    @property
    def slide(self) -> int:
        """Microseconds between its instants."""
        return self.left.window.slide


@dataclass(frozen=True)
class KnownView:
    """What a SELECT has to know of a view: its columns, and those it is found by."""

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    sizes: tuple[int, ...]  # of the windows of a join, in microseconds; none if it has no smaller ones


@dataclass(frozen=True)
class ViewQuery:
    """`CREATE MATERIALIZED VIEW v AS SELECT … JOIN … EVERY 1 MINUTE`, or with EXCEPT instead of JOIN.

    A join emits the pairs that come and go, with the times of both events.
    """

    name: str
    text: str  # of the whole statement
    source: JoinQuery | NegationQuery
    key: tuple[str, ...]
    indexing: str | None  # as written after INDEX

    @property
    def every(self) -> int:
        """Microseconds between two updates."""
        return self.source.slide

    @property
    def known(self) -> KnownView:
        """For those who read it."""
        fields = [
            pa.field(output.name, output.expression.type)
            for output in self.source.outputs
            if output.name not in (LEFT_TIME, RIGHT_TIME)
        ]
        is_join = isinstance(self.source, JoinQuery)
        sizes = tuple(side.window.size for side in self.source.sides) if is_join else ()
        return KnownView(self.name, pa.schema(fields), self.key, sizes)


@dataclass(frozen=True)
class ViewSelect:
    """A SELECT from a view: `equal` are values of its first key columns, `low` and `high` (both included, None
    is open) of the next one. All results outside are left unread; WHERE decides about the others."""

    view: KnownView
    text: str
    where: Expression | None
    outputs: tuple[Output, ...]
    fold: Query | None  # of aggregates, over the results
    equal: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None
    sizes: tuple[int, ...] | None = None  # smaller windows
