"""Materialised views: what CREATE MATERIALIZED VIEW declares, and what a SELECT reads of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.expression import Expression
from muntin.join_query import JoinQuery
from muntin.query import Output, Query

LEFT_TIME, RIGHT_TIME = "#left_at", "#right_at"  # outputs of the join that readers of the view do not see


@dataclass(frozen=True)
class KnownView:
    """What a SELECT has to know of a view: its columns, and those it is found by."""

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    sizes: tuple[int, ...]  # of its windows, in microseconds


@dataclass(frozen=True)
class ViewQuery:
    """`CREATE MATERIALIZED VIEW v AS SELECT … JOIN … EVERY 1 MINUTE`.

    Its join emits the pairs that come and go, with the times of both events.
    """

    name: str
    text: str  # of the whole statement
    join: JoinQuery
    key: tuple[str, ...]
    indexing: str | None  # as written after INDEX

    @property
    def every(self) -> int:
        """Microseconds between two updates."""
        return self.join.slide

    @property
    def known(self) -> KnownView:
        """For those who read it."""
        fields = [
            pa.field(output.name, output.expression.type)
            for output in self.join.outputs
            if output.name not in (LEFT_TIME, RIGHT_TIME)
        ]
        sizes = tuple(side.window.size for side in self.join.sides)
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
