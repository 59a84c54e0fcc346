"""A job: what the driver plans once and every task is told, as plain data.

Queries with the same keys form a *route*: their events, or the cells these were folded into, go to the same
shards. A query that joins tables is of the route of its source, unless it needs all keys in one shard
(`is_in_one_shard`): such queries have a route of their own. Workers parse the texts again, once per process: nothing
executable travels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import ClassVar

import pyarrow as pa

from muntin.aggregate.component import COMPONENTS
from muntin.aggregate.contract import is_text
from muntin.errors import MuntinError, NameTaken
from muntin.join_query import AnyQuery, JoinQuery
from muntin.lane import Laned
from muntin.plan import Chosen, Demand, demands_of, request_of
from muntin.plan.lanes import folded_by_lanes, lanes_of
from muntin.plan.request import demands_in
from muntin.plan.synopses import reads_slices
from muntin.query import Query
from muntin.spark.answer_table import AnswerTable, table_of
from muntin.spark.held_rows import By, held_by, is_in_one_shard
from muntin.spark.shard_of import shard_id
from muntin.spark.spread import is_spread, share_text
from muntin.sql import Templates, parse_query, shared_templates
from muntin.sql.sources import Sources
from muntin.store.grid import window_step
from muntin.stream import Stream
from muntin.table import Table
from muntin.table_query import TableQuery

ANY_DELAY = 2**60  # microseconds: a shard's own clock calls no event late, its runtime tells it the time
MOST_SHARDS = 1 << 15  # tasks sort what they send by the number of its shard, in 16 bits
_SPREAD = "(spread)"  # the name of their route, which no key has
_TOGETHER = "(together) "  # how the names of routes begin whose keys are all in one shard
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

    name: str  # the keys, as canonical text; "" without keys, "(spread)" where events are dealt out
    keys: str  # the same as it can be written after GROUP BY
    queries: dict[str, str]  # texts by name
    columns: tuple[str, ...]  # that they read, the time among them
    shards: int
    fold: Fold | None  # None: events travel as they are
    whole: dict[str, str] = field(
        default_factory=dict
    )  # of spread queries: the texts that shards answer a share of
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

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal jobs: under this name a process keeps what it has made of one."""
        schema = self.stream.schema.serialize().to_pybytes()
        told = repr((self.stream.name, self.stream.time, self.stream.delay, self.routes, self.flush))
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
        """The stream as tasks read it: the columns that some route needs."""
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
        return any(route.whole for route in self.routes)

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


def plan_job(
    stream: Stream,
    queries: Mapping[str, str],
    *,
    keys: Iterable[str] = (),
    shards: int = 4,
    fold: bool = True,
    flush: bool = False,
    spread: bool = False,
    zone: str | None = "UTC",
    zones: Mapping[str, str | None] | None = None,
    is_controlled: bool = False,
    rewind: int | None = None,
    tables: Sequence[Table] = (),
    has_changes: bool = False,
) -> Job:
    """Parse and plan queries; an error if any of them cannot run.

    `zone` is the time zone of the answers' instants, `zones` those of columns of timestamps.
    `keys` are lists of GROUP BY that queries to come may have, "" for those without: their routes are there
    from the start. Then nobody knows what will be read, so all events travel whole. `has_changes` says whether some of
    the `tables` change by rows of a stream, of which the answers may have to tell.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise MuntinError(f"a keyed query has 1 to {MOST_SHARDS:,} shards, not {shards:,}")
    parsed: dict[str, dict[str, Query | TableQuery]] = {}
    written: dict[str, str] = {}
    for each in keys:
        route = route_name(read_query(stream, key_query(stream, each)))
        parsed[route], written[route] = {}, each
    is_declared = bool(parsed)
    is_open = is_declared or is_controlled
    if spread and is_open:
        raise MuntinError(
            "spread is for queries that are all known from the start: leave out keys and control, or spread"
        )
    dealt: dict[str, Query] = {}
    templates = shared_templates()
    for name, sql in queries.items():
        query = read_query(stream, sql, templates, tables)
        if spread and shards > 1 and isinstance(query, Query) and is_spread(query):
            dealt[name] = query
            continue
        route = route_name(query)
        if is_declared and route not in parsed and not is_together(route):
            raise MuntinError(
                f"query '{name}' has GROUP BY {route or 'nothing'}, which is not among keys={list(written.values())}"
            )
        parsed.setdefault(route, {})[name] = query
        written.setdefault(route, route)
    if not parsed and not dealt:
        raise MuntinError("there is no query: give at least one, as {name: sql}")
    routes = tuple(
        _plan_route(name, written[name], some, stream, shards, fold and not is_open, is_open, tables)
        for name, some in parsed.items()
    )
    for table in tables:
        if table.name in queries:
            raise NameTaken(
                f"a query and a table are both called '{table.name}'; choose another name for one"
            )
        if not any(table.name in route.held for route in routes):
            raise MuntinError(
                f"no query joins {table.label}: leave the table out, or write JOIN {table.name} ON …"
            )
    if dealt:
        routes += (_plan_spread(dealt, stream, shards),)
    ids = [Job.ID, *(each for route in routes for each in route.ids)]
    if len(set(ids)) < len(ids):
        raise MuntinError("two shards would have the same id: choose another number of shards")
    asked = {name: query for some in parsed.values() for name, query in some.items()}
    answer_table = table_of({**asked, **dealt}, zone, zones or {}, is_controlled or has_changes)
    return Job(stream, routes, answer_table, flush, rewind, tuple(tables))


def route_name(query: Query | TableQuery) -> str:
    """The name of a query's route: the keys of its source."""
    together = _TOGETHER if isinstance(query, TableQuery) and is_in_one_shard(query) else ""
    return together + ", ".join(map(str, source_of(query).key_expressions))


def is_together(route: str) -> bool:
    """Whether the keys of a route are all in one shard."""
    return route.startswith(_TOGETHER)


def key_query(stream: Stream, keys: str) -> str:
    """A query with these keys that asks for as little as possible."""
    by = f" GROUP BY {keys}" if keys else ""
    return f'SELECT COUNT(*) FROM "{stream.name}" [RANGE 1 SECOND SLIDE 1 SECOND]{by}'


def _plan_route(
    name: str, keys: str, queries: Mapping[str, Query | TableQuery], stream: Stream, shards: int, fold: bool,
    is_open: bool, tables: Sequence[Table] = (),
) -> Route:  # fmt: skip
    requests = {each: request_of(query, is_by_demand=True) for each, query in queries.items()}
    asked = [demand for request in requests.values() for demand in demands_in(request)]
    return Route(
        name,
        keys,
        {each: query.text for each, query in queries.items()},
        tuple(stream.schema.names) if is_open else columns_of(stream, map(source_of, queries.values())),
        shards if name and not is_together(name) else 1,
        _plan_fold(queries) if fold and all(_can_fold(*each) for each in asked) else None,
        held=_held(tables, [each for each in queries.values() if isinstance(each, TableQuery)], is_open),
    )


def _held(tables: Sequence[Table], queries: Sequence[TableQuery], is_open: bool) -> dict[str, By]:
    if is_open:
        return {table.name: None for table in tables}
    joined = [(table, [query for query in queries if table in query.tables]) for table in tables]
    return {table.name: held_by(table, some) for table, some in joined if some}


def _plan_spread(queries: dict[str, Query], stream: Stream, shards: int) -> Route:
    """The route of queries whose events are dealt out to all shards."""
    texts = {name: share_text(query, shards) for name, query in queries.items()}
    templates = shared_templates()
    shares: dict[str, Query | TableQuery] = {
        name: read_query(stream, text, templates) for name, text in texts.items()
    }
    route = _plan_route(_SPREAD, "", shares, stream, shards, fold=False, is_open=False)
    return replace(route, whole={name: query.text for name, query in queries.items()})


def columns_of(stream: Stream, queries: Iterable[Query]) -> tuple[str, ...]:
    """The columns of a stream that queries read, and its time."""
    read = {stream.time}
    for query in queries:
        expressions = [*query.key_expressions, query.where]
        expressions += [each for call in query.calls for each in (call.argument, call.filter)]
        read |= {column for each in expressions if each is not None for column in each.columns}
    return tuple(name for name in stream.schema.names if name in read)


def _can_fold(demand: Demand, chosen: Chosen) -> bool:
    """Whether what is kept for a demand can be folded elsewhere: cells of numbers, not codes of texts.

    This depends on the demand alone, as it does where shards plan (`is_planned_by_demand`): a shard that has come to
    the same queries by another path, with other state kept, takes the same cells.
    """
    need, argument = demand.need, demand.need.input.argument
    is_number = need.component in COMPONENTS and not (argument and is_text(argument.type))
    return is_number and reads_slices(demand, chosen.synopsis)


def _plan_fold(queries: Mapping[str, Query | TableQuery]) -> Fold:
    steps: dict[str, int] = {}
    seen: set[object] = set()
    chosen = []
    for query in queries.values():
        new: set[object] = set()
        for demand, laned in folded_demands(source_of(query)):
            where = str(demand.where or "")
            steps[where] = gcd(steps.get(where, 0), window_step(demand.window))
            new.add((demand.where, demand.need))
            if laned is not None:
                new |= {(demand.where, lane) for lane in laned.lanes}
        if not new <= seen:
            chosen.append(query.text)
            seen |= new
    return Fold(steps, tuple(chosen))


def folded_demands(query: Query) -> Iterator[tuple[Demand, Laned | None]]:
    """What is folded for a query: in lanes, if it could read any, and otherwise by its own filter."""
    whole, of_calls = lanes_of(query, is_by_demand=True)
    calls = [None if each is None else each[0] for each in of_calls]
    for alone, in_lanes, laned in folded_by_lanes(query, demands_of(query), whole and whole[0], calls):
        if in_lanes is not None:
            yield in_lanes, laned
        elif alone is not None:
            yield alone, None


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
        raise MuntinError(
            "a windowed JOIN runs in the embedded engine only. On Spark, keep a view of it with archive_join; or join "
            "the DataFrames and ask about the result, whose pairs stay as long as its window, not as their events do "
            "(docs/concepts/spark.md, Joins)"
        )
    return query


def source_of(query: Query | TableQuery) -> Query:
    """The query over the stream alone."""
    return query.source if isinstance(query, TableQuery) else query
