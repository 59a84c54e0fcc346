"""What a SELECT reads of a materialised view: once, or at each of its updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.expression import Expression
from muntin.query import CHANGE, Key, Output, Query, schema_of_answers
from muntin.stream import Stream


@dataclass(frozen=True)
class KnownView:
    """What a SELECT has to know of a view: its columns, and those it is found by."""

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    sizes: tuple[int, ...]  # of the windows of a join; none if it has no smaller ones
    by_count: bool = False  # sizes are numbers of events, not microseconds
    damage: str | None = None  # why it cannot be read

    @classmethod
    def damaged(cls, name: str, damage: str) -> KnownView:
        """A view of which only its name is left."""
        return cls(name, pa.schema([]), (), (), damage=damage)


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
    order: tuple[tuple[str, bool], ...] = ()  # columns of the answer, and whether they descend
    limit: int | None = None  # rows of the answer

    @property
    def keys(self) -> tuple[Key, ...]:
        return self.fold.keys if self.fold is not None else ()

    def emission_schema(self) -> pa.Schema:
        """Columns of its answer."""
        return schema_of_answers(self.keys, self.outputs)


@dataclass(frozen=True)
class StandingQuery:
    """`REGISTER QUERY q AS SELECT … FROM v`, as far as it is read from the view's archive at each update: over views
    of groups, of negations, of many inputs, by count, or of single events. All others are written out over streams
    (`sql/bind_standing.py`)."""

    text: str  # as the user wrote it
    select: ViewSelect
    streams: tuple[Stream, ...]  # of the view, each once
    slide: int  # microseconds between its instants, a multiple of the view's
    emits_changes: bool = False  # the rows that come and go; one whose values change does both

    @property
    def named(self) -> str:
        """The view that it reads."""
        return self.select.view.name

    @property
    def keys(self) -> tuple[Key, ...]:
        return self.select.keys

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.select.outputs

    @property
    def is_always(self) -> bool:
        """Whether there may be a row at any instant: aggregates without keys have one of nothing, too."""
        return self.select.fold is not None and not self.keys

    def answer_schema(self) -> pa.Schema:
        """Columns of its answers."""
        return self.select.emission_schema()

    def emission_schema(self) -> pa.Schema:
        """Columns of what `advance` gives: with EMIT CHANGES, one more that is 'enter' or 'leave'."""
        schema = self.answer_schema()
        return schema.append(pa.field(CHANGE, pa.string())) if self.emits_changes else schema
