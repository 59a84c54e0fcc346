"""The catalog: all that an engine has, by name. Streams with their shards, tables, queries, joins, views; counters."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from muntin.answer import Coverage
from muntin.derived import Selection, WindowStream
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.join.group import JoinRegistration
from muntin.join.operator import JoinOperator, explain_joins, join_stats
from muntin.join_query import AnyQuery, JoinQuery
from muntin.plan.request import Request, request_of
from muntin.query import UNNAMED
from muntin.shard.backfill import Backfill
from muntin.shard.emit.portion import DEFAULT_ROWS
from muntin.shard.shard import Shard
from muntin.sql import shared_templates
from muntin.sql.sources import Sources
from muntin.stream import Stream
from muntin.tables.change import Change
from muntin.tables.rows import TableRows
from muntin.view.folders import Folders
from muntin.view.grouped import QueryFeed
from muntin.view.standing import StandingSelects
from muntin.view.views import Views
from muntin.view_query import GroupedQuery, ViewQuery
from muntin.view_select import StandingQuery

Asked = Request | JoinQuery | StandingQuery
Serving = Shard | JoinOperator | StandingSelects


class Catalog:
    """Lets in one thread at a time only if its owner does. A call that raises has changed nothing.

    `make_shard` gives a stream its shard; `folders` are those that paths may lie in.
    """

    def __init__(
        self,
        make_shard: Callable[[Stream], Shard],
        backlog_bytes: int,
        archive: str | Path | None,
        folders: Folders,
        portion_rows: int = DEFAULT_ROWS,
    ):
        self.make_shard = make_shard
        self.folders = folders
        self.templates = shared_templates()
        self.shards: dict[str, Shard] = {}
        self.selections: dict[str, Selection] = {}  # streams without a shard of their own
        self.window_streams: dict[str, WindowStream] = {}  # those whose shards are fed by queries
        self.tables: dict[str, TableRows] = {}
        self.stream_of: dict[str, str] = {}  # by query name; of a join, the left one
        self.reserved: set[str] = set()  # names of queries that are on their way
        self.joins = JoinOperator(lambda stream: self.shards[stream].clock, backlog_bytes, portion_rows)
        self.views = Views(archive, self.joins, folders)

    @property
    def streams(self) -> Mapping[str, Stream]:
        of_shards = {name: each.stream for name, each in self.shards.items()}
        return MappingProxyType({**of_shards, **self.selections})

    @property
    def sources(self) -> Sources:
        """Streams, tables and views by name; a stream that has the name of a view hides it."""
        tables = {name: each.table for name, each in self.tables.items()}
        return {**self.views.declared, **self.streams, **tables}

    @property
    def query_names(self) -> set[str]:
        """Those in use: of queries, and of views that are kept up to date."""
        return {*self.stream_of, *self.views.at_work}

    def table(self, name: str) -> TableRows:
        require(name, self.tables, "table")
        return self.tables[name]

    def shard(self, stream: str) -> Shard:
        require(stream, self.shards, "stream")
        return self.shards[stream]

    def serving(self, query: str) -> Serving:
        """What answers a query: the shard of its stream, the joins, or the views."""
        if query in self.joins.group_of:
            return self.joins
        if query in self.views.standing.registrations:
            return self.views.standing
        try:
            return self.shards[self.stream_of[query]]
        except KeyError:
            require(query, self.stream_of)
            raise

    def registration(self, query: str) -> Any:
        return self.serving(query).registrations[query]

    def query(self, name: str) -> AnyQuery:
        """As it was registered."""
        serving = self.serving(name)
        if isinstance(serving, Shard):
            return serving.registrations[name].asked
        return serving.registrations[name].query

    def reserve(self, names: Collection[str]) -> None:
        """Take names for queries that will have them in a moment."""
        for name in names:
            self.refuse_taken(name, self.stream_of)
        self.reserved.update(names)

    def refuse_taken(self, query: str, names: Collection[str]) -> None:
        refuse_taken(query, names)
        refuse_taken(query, self.reserved)
        refuse_taken(query, self.tables, "table")

    def add(self, asked: Mapping[str, Asked]) -> None:
        """Have queries from now on."""
        by_stream: dict[str, dict[str, Request]] = {}
        joins: dict[str, JoinQuery] = {}
        standing: dict[str, StandingQuery] = {}
        for name, each in asked.items():
            for stream in _streams_of(each):
                self._shard_still(stream)
            if isinstance(each, JoinQuery):
                joins[name] = each
            elif isinstance(each, StandingQuery):
                standing[name] = each
            else:
                by_stream.setdefault(each.query.stream.name, {})[name] = each
        added: list[tuple[str, str]] = []
        try:
            for of, some in by_stream.items():
                self.shards[of].register(some)
                added += [(of, name) for name in some]
            self.views.standing.register(standing)
            self.joins.register(joins)
        except BaseException:
            for of, name in added:
                self.shards[of].drop(name)
            raise
        self.stream_of |= {name: _streams_of(each)[0].name for name, each in asked.items()}

    def graft(self, backfill: Backfill) -> None:
        """Have the queries of a backfill from now on."""
        shard = self._shard_still(backfill.stream)
        backfill.catch_up(backfill.take_held())
        shard.join(backfill)
        self.stream_of |= dict.fromkeys(backfill.names, backfill.stream.name)

    def drop(self, query: str) -> None:
        self.serving(query).drop(query)
        del self.stream_of[query]

    def replace(self, query: str, asked: Asked) -> None:
        """Have another query under a name. It is there before the old one goes: what both need stays."""
        self.add({UNNAMED: asked})
        try:
            self.drop(query)
            self.add({query: asked})
        finally:
            self.drop(UNNAMED)

    def rewind(self, stream: str, to: int) -> None:
        """Have a stream start again at an instant, and with it the joins and views that read it."""
        shard = self.shard(stream)
        self.views.refuse_rewind(stream, to)
        shard.rewind(to)
        self.joins.start_again(stream)
        self.views.start_again(stream)

    def change(self, table: TableRows, change: Change) -> None:
        """Have rows of a table come, become others, or go: from the watermark on, for the queries of each stream."""
        if change.is_empty:
            return
        seen = {name: shard.seen_until(table.table.name) for name, shard in self.shards.items()}
        table.apply(change, {name: until for name, until in seen.items() if until is not None})

    def use_once(self, query: AnyQuery, use: Callable[[str], Any]) -> Any:
        """Register a query only for as long as it takes to use it."""
        self.add({UNNAMED: asked_of(query)})
        try:
            return use(UNNAMED)
        finally:
            self.drop(UNNAMED)

    def create_view(self, view: ViewQuery) -> None:
        made = self.views.create(view)
        if made.operator is not None:
            return
        try:
            self.add({view.name: _feeding(view)})
            made.feed(self.feed_of(view))
        except BaseException:
            self.views.release(view.name)
            raise

    def feed_of(self, view: ViewQuery) -> JoinRegistration | QueryFeed:
        """What brings the results of a view: a join, or the query of its groups."""
        if isinstance(view.source, GroupedQuery):
            return QueryFeed(view.source, self.shards[view.source.side.stream.name], view.name)
        return self.joins.registrations[view.name]

    def drop_view(self, name: str) -> None:
        is_joined = name in self.views.at_work and name in self.stream_of
        try:
            self.views.drop(name)
        finally:
            if is_joined and name not in self.views.at_work:
                self.drop(name)

    def check(self) -> None:
        """Assert every invariant."""
        for shard in self.shards.values():
            shard.check()
        for table in self.tables.values():
            table.check()
        self.joins.check()
        self.views.check()

    def _shard_still(self, stream: Stream) -> Shard:
        """The shard of a stream that was there a moment ago."""
        shard = self.shards.get(stream.name)
        if shard is None or shard.stream is not stream:
            raise NotFound(f"stream '{stream.name}' was dropped while a query over it was being registered")
        return shard


def _feeding(view: ViewQuery) -> Asked:
    """What is registered to feed a view."""
    source = view.source
    assert isinstance(source, JoinQuery | GroupedQuery)
    return asked_of(source.query if isinstance(source, GroupedQuery) else source)


def asked_of(query: AnyQuery) -> Asked:
    """A query with all that can be told without a plan; an error if it cannot be served."""
    return query if isinstance(query, JoinQuery | StandingQuery) else request_of(query)


def refuse_taken(name: str, names: Collection[str], kind: str = "query") -> None:
    if name in names:
        raise NameTaken(f"there is a {kind} '{name}' already; drop it first or choose another name")


def require(name: str, names: Iterable[str], kind: str = "query") -> None:
    if name not in names:
        raise NotFound(f"there is no {kind} '{name}'{nearest(name, names)}")


def _streams_of(asked: Asked) -> tuple[Stream, ...]:
    return asked.query.streams if isinstance(asked, Request) else asked.streams


def lookup_many(catalog: Catalog, names: tuple[str, ...], at: int | None) -> pa.Table:
    """As `Engine.lookup_many` gives it."""
    for name in names:
        require(name, catalog.stream_of)
    if joined := tuple(name for name in names if name in catalog.joins.group_of):
        return catalog.joins.lookup_many(joined)
    streams = {catalog.stream_of[name] for name in names}
    if read := [name for name in names if name in catalog.views.standing.registrations]:
        raise MuntinError(f"lookup_many is for queries over one stream; '{read[0]}' reads a view: use lookup")
    if len(streams) != 1:
        raise MuntinError("lookup_many takes the names of queries over one stream")
    return catalog.shards[streams.pop()].lookup_many(names, at)


def stats(catalog: Catalog, with_queries: bool = True) -> dict[str, Any]:
    """As `Engine.stats` gives them. Of many thousand queries those of each take seconds."""
    return {
        "streams": {name: each.stats(with_queries) for name, each in catalog.shards.items()},
        "tables": {
            name: {"rows": len(each), "bytes": each.nbytes()} for name, each in catalog.tables.items()
        },
        "queries": {name: query_stats(catalog, name) for name in catalog.stream_of if with_queries},
        "joins": join_stats(catalog.joins),
        "views": catalog.views.stats(),
    }


def coverage_of(catalog: Catalog, name: str) -> Coverage:
    """Of a query, a join or a view."""
    if reads_view(catalog, name):
        return catalog.views.coverage(name)
    return catalog.serving(name).coverage(name)


def reads_view(catalog: Catalog, name: str) -> bool:
    """Whether a name is that of a view, and of no query."""
    return name in catalog.views.at_work or (name not in catalog.stream_of and name in catalog.views.known())


def query_stats(catalog: Catalog, name: str) -> dict[str, Any]:
    """Answers given out, missed and owed, and whether the windows are covered."""
    registration = catalog.registration(name)
    return {
        "stream": " JOIN ".join(stream.name for stream in registration.query.streams),
        "emitted": registration.emitted,
        "missed": registration.missed,
        "overflows": registration.overflows,
        **asdict(coverage_of(catalog, name)),
        "owed": catalog.serving(name).owed(name),
        **_without_window(catalog, name),
    }


def _without_window(catalog: Catalog, name: str) -> dict[str, int]:
    serving = catalog.serving(name)
    many = serving.without_window(name) if isinstance(serving, Shard) else None
    return {} if many is None else {"without_window": many}


# Explained: which queries share which state, by which rule, at what predicted and measured cost.


def explain(catalog: Catalog, query: str | None) -> str:
    """The plan of one query, or of all."""
    joins, views = catalog.joins, catalog.views
    if query is None:
        parts = [_explain_stream(catalog, name) for name in catalog.streams]
        parts += filter(None, [explain_joins(joins)])
        shown = [*views.at_work, *(name for name in views.damaged() if name not in views.at_work)]
        return "\n\n".join([*parts, *map(views.explain, shown)]) or "no streams"
    if query in joins.group_of:
        told = explain_joins(joins, joins.group_of[query].signature)
        return f"{told}\n\n{query}: {joins.coverage(query)}"
    require(query, catalog.stream_of)
    if query in views.standing.registrations:
        named = views.standing.registrations[query].query.named
        told = f"{query}: read from the archive of view {named}, at each of its updates"
        return f"{told}; {views.standing.coverage(query)}\n\n{views.explain(named)}"
    return catalog.shards[catalog.stream_of[query]].explain(query)


def _explain_stream(catalog: Catalog, name: str) -> str:
    """The plan of a stream; of a derived one also what it follows from."""
    stream = catalog.streams[name]
    if isinstance(stream, Selection):
        return f"stream {name} {stream.origin}: its queries are queries over '{stream.base.name}'\n  {stream.text}"
    told = catalog.shards[name].explain()
    return f"stream {name} {stream.origin}\n{told}" if isinstance(stream, WindowStream) else told


_MANY = 100


@contextmanager
def bulk(many: int) -> Iterator[None]:
    """Objects for so many queries are made; if these are many, without looking for cycles of garbage meanwhile.

    That search takes a fifth of the time of registrations, and half of that of answers, ever longer as the objects
    become more. It finds nothing.
    """
    if many < _MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
