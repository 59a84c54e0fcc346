"""A job: what the driver plans once and every task is told, as plain data.

Queries with the same keys form a *route*: their events, or the cells these were folded into, go to the same
shards. A query that joins tables is of the route of its source, unless it needs all keys in one shard
(`is_in_one_shard`): such queries have a route of their own. Workers parse the texts again, once per process: nothing
executable travels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.join_query import AnyQuery, JoinQuery
from muntin.query import Query
from muntin.spark.answer_table import AnswerTable
from muntin.spark.bad_events import EMIT, FAIL
from muntin.spark.held_rows import By, is_in_one_shard
from muntin.spark.own_functions import NO_FUNCTIONS, Shipped
from muntin.spark.shard_of import shard_id
from muntin.sql import Templates, parse_query
from muntin.sql.sources import Sources
from muntin.stream import Stream
from muntin.table import Table
from muntin.table_query import TableQuery
from muntin.view_select import StandingQuery

if TYPE_CHECKING:
    from muntin.spark.asking import Asking

ANY_DELAY = 2**60  # microseconds: a shard's own clock calls no event late, its runtime tells it the time
MOST_SHARDS = 1 << 15  # tasks sort what they send by the number of its shard, in 16 bits
SPREAD = "(spread)"  # how the names of their routes begin, which no key has
TOGETHER = "(together) "  # how the names of routes begin whose keys are all in one shard
ALL = "all"  # what `spread` is if exact queries are spread, too
NO_LIMIT = 2**62  # bytes of backlog: a runtime hands out windows as soon as they close


_WHOLE: dict[str, dict[str, Query]] = {}  # spread queries by job and name, parsed once per process …
_MOST_JOBS = 8  # … for so many jobs at most


@dataclass(frozen=True)
class Fold:
    """How the events of a route are folded where they are read: by filter, the step of its slices.

    Queries that could read lanes are folded by these, however they are served: which of them share a store is for the
    shards to know. `queries` are few, but ask for everything that is folded.
    """

    steps: dict[str, int]  # by the text of the filter, "" for none
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """Queries with the same keys, and how many shards share these."""

    name: str  # the keys, as canonical text; "" without keys, "(spread) …" where events are dealt out
    keys: str  # the same as it can be written after GROUP BY
    queries: dict[str, str]  # texts by name
    columns: tuple[str, ...]  # that they read, the time among them
    shards: int
    fold: Fold | None  # None: events travel as they are
    whole: dict[str, str] = field(default_factory=dict)  # of spread queries: what shards answer a share of
    held: dict[str, By] = field(default_factory=dict)  # tables that they join, and which shards hold rows

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Its shards, as Spark knows them."""
        return tuple(shard_id(self.name, bucket) for bucket in range(self.shards))


@dataclass(frozen=True)
class Job:
    """All a task needs to know."""

    stream: Stream
    routes: tuple[Route, ...]
    answer_table: AnswerTable
    NAME: ClassVar[str] = "(job)"  # of its own ledger, which no route has
    ID: ClassVar[int] = shard_id(NAME, 0)
    flush: bool = False  # at the end of a table, emit the windows still open
    rewind: int | None = None  # where a run is to start again that went on too far
    tables: tuple[Table, ...] = ()
    asking: Asking | None = None  # what requests are like, if answers are for these
    is_table: bool = False  # whether no state keeps the rows that travel: they may then be narrow (narrow.py)
    history: tuple[str, ...] = ()  # files that new queries are filled from
    bad_events: str = FAIL  # what becomes of them (bad_events.py)
    name: str | None = None  # that it is observed by
    roster: str | None = None  # a folder where tasks find queries that came by statements (shared_roster.py)
    is_ranked: bool = False  # whether there is a step that ranks rows of several shards (ranked.py)
    functions: Shipped = NO_FUNCTIONS  # of the user's own

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal jobs: under this name a process keeps what it has made of one."""
        schema = self.stream.schema.serialize().to_pybytes()
        told = repr(
            (
                self.stream.name,
                self.stream.time,
                self.stream.delay,
                self.routes,
                self.flush,
                self.asking,
                self.is_table,
                self.bad_events,
                self.roster,
                self.functions,
            )
        )
        tables = [
            (each.name, each.key, [(field.name, field.type) for field in each.schema]) for each in self.tables
        ]
        return hashlib.sha256(schema + told.encode() + repr(tables).encode()).hexdigest()

    @property
    def sources(self) -> Sources:
        """What a statement may name."""
        return {self.stream.name: self.stream, **{each.name: each for each in self.tables}}

    def table(self, name: str) -> Table:
        return next(each for each in self.tables if each.name == name)

    @cached_property
    def configured(self) -> str:
        """Equal for equal queries."""
        texts = sorted((name, text) for route in self.routes for name, text in route.queries.items())
        return hashlib.sha256(repr(texts).encode()).hexdigest()

    @cached_property
    def reading(self) -> Stream:
        """The stream as tasks read it: the columns that some route needs, or all, if bad events are told of."""
        if self.bad_events == EMIT:
            return self.stream
        needed = {name for route in self.routes for name in route.columns}
        fields = [field for field in self.stream.schema if field.name in needed]
        return replace(self.stream, schema=pa.schema(fields))

    @cached_property
    def counting(self) -> Route:
        """The route whose shards count late events for all: one that sees events as they are, if there is one."""
        return next((route for route in self.routes if route.fold is None), self.routes[0])

    @cached_property
    def slice_step(self) -> int:
        """The step of slices that every slice of every route is made of; 0 if nothing is folded."""
        folds = (route.fold for route in self.routes if route.fold is not None)
        return gcd(*(step for fold in folds for step in fold.steps.values()))

    def route_of(self, shard: int) -> tuple[Route, int]:
        """The route of a shard, and its place there."""
        for route in self.routes:
            if shard in route.ids:
                return route, route.ids.index(shard)
        raise MuntinError(f"no route has a shard {shard}")

    @property
    def is_spread(self) -> bool:
        """Whether answers are merged from what several shards say."""
        return self.is_ranked or any(route.whole for route in self.routes)

    def whole_query(self, name: str) -> tuple[Query, int]:
        """A spread query, and how many shards answer it."""
        route = next(each for each in self.routes if name in each.whole)
        if self.fingerprint not in _WHOLE and len(_WHOLE) >= _MOST_JOBS:
            _WHOLE.clear()
        parsed = _WHOLE.setdefault(self.fingerprint, {})
        if name not in parsed:
            parsed[name] = source_of(read_query(self.stream, route.whole[name]))
        return parsed[name], route.shards

    def stream_of(self, route: Route, columns: pa.Schema | None = None) -> Stream:
        """The stream as the shards of a route see it: the columns that they need, or those given; any delay."""
        if columns is None:
            columns = pa.schema([self.stream.schema.field(name) for name in route.columns])
        return replace(self.stream, schema=columns, delay=ANY_DELAY, ahead=None)


def route_name(query: Query | TableQuery) -> str:
    """The name of a query's route: the keys of its source. Who enters the first keys and who leaves them is known where
    all keys are."""
    is_one = (
        is_in_one_shard(query)
        if isinstance(query, TableQuery)
        else query.top is not None and query.emits_changes
    )
    return (TOGETHER if is_one else "") + ", ".join(map(str, source_of(query).key_expressions))


def is_together(route: str) -> bool:
    """Whether the keys of a route are all in one shard."""
    return route.startswith(TOGETHER)


def key_query(stream: Stream, keys: str) -> str:
    """A query with these keys that asks for as little as possible."""
    by = f" GROUP BY {keys}" if keys else ""
    return f'SELECT COUNT(*) FROM "{stream.name}" [RANGE 1 SECOND SLIDE 1 SECOND]{by}'


def columns_of(stream: Stream, queries: Iterable[Query]) -> tuple[str, ...]:
    """The columns of a stream that queries read, and its time."""
    read = {stream.time}
    for query in queries:
        expressions = [*query.key_expressions, query.where]
        expressions += [each for call in query.calls for each in (call.argument, call.filter)]
        read |= {column for each in expressions if each is not None for column in each.columns}
    return tuple(name for name in stream.schema.names if name in read)


# The queries that run on Spark: those over one stream, perhaps joined with tables.


def read_query(
    stream: Stream, text: str, templates: Templates | None = None, tables: Iterable[Table] = ()
) -> Query | TableQuery:
    """The query of a text over a stream; an error if it cannot run on Spark."""
    sources: Sources = {stream.name: stream, **{each.name: each for each in tables}}
    return over_one_stream(parse_query(text, sources, templates))


def over_one_stream(query: AnyQuery) -> Query | TableQuery:
    """The same query, unless it is a join of streams."""
    if isinstance(query, JoinQuery):
        given = ", ".join(f"'{stream.name}': df" for stream in query.streams)
        raise MuntinError(
            "a windowed JOIN of streams gets a DataFrame for each stream: write "
            f"shared_windows({{{given}}}, …, time=…), without stream=… (docs/concepts/spark.md, Joins)"
        )
    assert not isinstance(query, StandingQuery), "there are no views among the sources"
    return query


def source_of(query: Query | TableQuery) -> Query:
    """The query over the stream alone."""
    return query.source if isinstance(query, TableQuery) else query
