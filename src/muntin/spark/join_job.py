"""A job of joins: queries over pairs of events of two streams, as the driver plans them.

Queries with the same streams and ON form a route. The events of both streams go to the shard of their *join key*, the
values that ON compares, so that both events of a pair meet there. What a query makes of pairs decides the rest:

| the query | how it runs |
|---|---|
| a row for each pair, EMIT CHANGES; GROUP BY or DISTINCT with the join key in it | each shard answers for its keys |
| other GROUP BY, none, DISTINCT; aggregates whose partials merge | shards give out partials to merge (join/part.py) |
| other aggregates (MEDIAN, FIRST, COUNT(DISTINCT) …) | in one shard, on a route of their own |

The streams of a job are one `Stream` to the rest of this folder, whose columns are called `trades.price`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from muntin.errors import MuntinError, SchemaError
from muntin.expression import Expression
from muntin.join.part import can_merge
from muntin.join_query import AnyQuery, JoinQuery
from muntin.spark.answer_table import table_of
from muntin.spark.job import MOST_SHARDS, TOGETHER, Job, Route, is_together
from muntin.spark.own_functions import shipped
from muntin.sql import Templates, parse_query, shared_templates
from muntin.sql.sources import Sources
from muntin.stream import Stream

_RIGHT = " (right)"  # how the right side of a stream joined with itself is called, if it has another join key


class Feed(NamedTuple):
    """What a shard of a route takes in under one name: events of a stream, by their join key."""

    name: str
    stream: str
    on: tuple[Expression, ...]


@dataclass(frozen=True)
class JoinJob(Job):
    """`stream` has the columns of all `streams`; nothing is folded."""

    streams: tuple[Stream, ...] = ()
    is_controlled: bool = False  # queries may come by statements

    @cached_property
    def fingerprint(self) -> str:
        told = [(each.name, each.time, each.delay, each.ahead) for each in self.streams]
        return hashlib.sha256((super().fingerprint + repr((told, self.is_controlled))).encode()).hexdigest()

    @property
    def sources(self) -> Sources:
        return {each.name: each for each in self.streams}

    @property
    def is_spread(self) -> bool:
        """Whether some query has partials that are merged, or may yet come to have."""
        routes = [route for route in self.routes if route.shards > 1]
        if self.is_controlled:
            return bool(routes)
        return any(is_merged(self.read(text)) for route in routes for text in route.queries.values())

    @property
    def delays(self) -> dict[str, int]:
        """Of each stream."""
        return {each.name: each.delay for each in self.streams}

    def counted(self, route: Route) -> set[str]:
        """The feeds of a route whose late events are counted in its shards."""
        before = {
            feed.stream for each in self.routes[: self.routes.index(route)] for feed in self.feeds(each)
        }
        found: dict[str, str] = {}
        for feed in self.feeds(route):
            if feed.stream not in before:
                found.setdefault(feed.stream, feed.name)
        return set(found.values())

    def read(
        self, text: str, templates: Templates | None = None, streams: Sources | None = None
    ) -> JoinQuery:
        """The join of a text, over these streams or those of the job."""
        return a_join(text, parse_query(text, self.sources if streams is None else streams, templates))

    def reading_of(self, name: str) -> Stream:
        """A stream as tasks read it: the columns that some route needs."""
        stream = next(each for each in self.streams if each.name == name)
        needed = {column for route in self.routes for column in self.columns_of(route, name)}
        return replace(stream, schema=pa.schema([field for field in stream.schema if field.name in needed]))

    def feeds(self, route: Route) -> tuple[Feed, ...]:
        """What the shards of a route take in; any of its queries tells."""
        place = (self.fingerprint, route.name)
        if place not in _FEEDS:
            if len(_FEEDS) >= _MOST_FEEDS:
                _FEEDS.clear()
            _FEEDS[place] = feeds_of(self.read(next(iter(route.queries.values()))))
        return _FEEDS[place]

    def columns_of(self, route: Route, stream: str) -> tuple[str, ...]:
        """The columns of a stream that a route reads."""
        prefix = f"{stream}."
        return tuple(name.removeprefix(prefix) for name in route.columns if name.startswith(prefix))

    def route_for(self, name: str, query: AnyQuery) -> str:
        """The route of a query that comes by a statement; an error if there is none."""
        found = route_of_join(a_join(name, query), max(route.shards for route in self.routes))
        known = [route.name for route in self.routes]
        if found not in known:
            raise MuntinError(
                f"query '{name}' is of '{found}', and this job has {known}: queries may come and go, but the streams, "
                "ON, and whether all pairs must be in one shard are those of a query that shared_windows was given"
            )
        return found


_FEEDS: dict[tuple[str, str], tuple[Feed, ...]] = {}  # by job and route
_MOST_FEEDS = 64


def plan_joins(
    streams: Sequence[Stream],
    queries: Mapping[str, str],
    *,
    shards: int = 4,
    flush: bool = False,
    zones: Mapping[str, str | None] | None = None,
    is_controlled: bool = False,
) -> JoinJob:
    """Parse and plan joins; an error if any of them cannot run. `zones` are the time zones of columns of timestamps,
    which are called `trades.ts`."""
    if not 1 <= shards <= MOST_SHARDS:
        raise MuntinError(f"a join has 1 to {MOST_SHARDS:,} shards, not {shards:,}")
    for stream in streams:
        if "." in stream.name:  # columns of all streams are called stream.column
            raise MuntinError(f"give stream '{stream.name}' a name without a dot")
    sources = {each.name: each for each in streams}
    templates = shared_templates()
    asked = {name: a_join(name, parse_query(sql, sources, templates)) for name, sql in queries.items()}
    if not asked:
        raise MuntinError("there is no query: give at least one, as {name: sql}")
    routes: dict[str, dict[str, JoinQuery]] = {}
    for name, query in asked.items():
        routes.setdefault(route_of_join(query, shards), {})[name] = query
    whole = all_as_one(streams)
    planned = tuple(
        Route(
            name, name, {each: query.text for each, query in some.items()},
            tuple(_columns(streams, some.values(), is_controlled)), 1 if is_together(name) else shards, None,
        )
        for name, some in routes.items()
    )  # fmt: skip
    used = {stream.name for query in asked.values() for stream in query.streams}
    for stream in streams:
        if stream.name not in used:
            raise MuntinError(
                f"no query joins {stream.label}: leave it out, or write JOIN {stream.name} [RANGE …]"
            )
    ids = [Job.ID, *(each for route in planned for each in route.ids)]
    if len(set(ids)) < len(ids):
        raise MuntinError("two shards would have the same id: choose another number of shards")
    zones = zones or {}
    answers = table_of(asked, _zone_of_times(streams, zones), zones, is_controlled)
    functions = shipped(queries.values(), is_controlled)
    return JoinJob(
        whole,
        planned,
        answers,
        flush,
        functions=functions,
        streams=tuple(streams),
        is_controlled=is_controlled,
    )


def a_join(name: str, query: AnyQuery) -> JoinQuery:
    """The same query, if it joins two streams."""
    if isinstance(query, JoinQuery):
        return query
    stream = query.streams[0].name
    raise MuntinError(
        f"query '{name}' is over stream '{stream}' alone, and several DataFrames are for joins of streams: ask it in a "
        f"call of its own, shared_windows(df, {{…}}, stream='{stream}', time=…)"
    )


def route_of_join(query: JoinQuery, shards: int) -> str:
    """The name of a query's route."""
    name = str(query.signature)
    return TOGETHER + name if shards > 1 and not (is_local(query) or can_merge(query)) else name


def is_merged(query: JoinQuery) -> bool:
    """Whether shards answer a query together, each with the partials of its pairs."""
    return not is_local(query) and can_merge(query)


def is_local(query: JoinQuery) -> bool:
    """Whether all pairs of an answer are in one shard: there is a row for each pair, or GROUP BY has the join key.

    A value that ON compares is known where all columns that it is made of are keys of GROUP BY.
    """
    if query.fold is None:
        return True
    keys = {each.columns[0] for each in query.fold.key_expressions if each.is_column}
    return all(
        any(
            {f"{side.name}.{column}" for column in value.columns} <= keys
            for side, value in zip(query.sides, values, strict=True)
        )
        for values in query.on
    )


def feeds_of(query: JoinQuery) -> tuple[Feed, ...]:
    """The inputs of a join: one of a stream joined with itself by one value, else two."""
    left, right = (tuple(values) for values in zip(*query.on, strict=True))
    name = query.left.stream.name
    if query.right.stream.name != name:
        return Feed(name, name, left), Feed(query.right.stream.name, query.right.stream.name, right)
    # an event whose join key differs by side goes to two shards, and must meet no partner in the wrong one
    return (
        (Feed(name, name, left),)
        if left == right
        else (Feed(name, name, left), Feed(name + _RIGHT, name, right))
    )


def as_fed(query: JoinQuery) -> JoinQuery:
    """The query over its feeds: the right side of a stream joined with itself may be a stream of its own."""
    right = feeds_of(query)[-1].name
    if right == query.right.stream.name:
        return query
    return replace(query, right=replace(query.right, stream=replace(query.right.stream, name=right)))


def all_as_one(streams: Iterable[Stream]) -> Stream:
    """All streams as one, with columns that are called after both."""
    some = list(streams)
    fields = [pa.field(f"{each.name}.{field.name}", field.type) for each in some for field in each.schema]
    first = some[0]
    return Stream(", ".join(each.name for each in some), pa.schema(fields), f"{first.name}.{first.time}")


def _columns(streams: Sequence[Stream], queries: Iterable[JoinQuery], is_open: bool) -> Iterator[str]:
    """The columns that joins read, with the time of each stream."""
    some = list(queries)
    of_route = [stream for stream in streams if stream in some[0].streams]
    read = {f"{stream.name}.{stream.time}" for stream in of_route}
    for query in some:
        for number, side in enumerate(query.sides):
            own = [*side.columns, *(column for pair in query.on for column in pair[number].columns)]
            read |= {f"{side.stream.name}.{column}" for column in own}
    for stream in of_route:
        for column in stream.schema.names:
            if is_open or f"{stream.name}.{column}" in read:
                yield f"{stream.name}.{column}"


def _zone_of_times(streams: Sequence[Stream], zones: Mapping[str, str | None]) -> str | None:
    found = {zones.get(f"{each.name}.{each.time}", "UTC"): each for each in streams}
    if len(found) > 1:
        raise SchemaError(
            f"the time of {found['UTC'].label} is a TIMESTAMP, that of {found[None].label} a TIMESTAMP_NTZ: "
            "cast one of them in the DataFrame"
        )
    return next(iter(found))
