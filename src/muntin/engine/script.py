"""Scripts: statements that are checked as a whole, then run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pyarrow as pa

from muntin import sql
from muntin.derived import Selection, named_by
from muntin.engine.cascade import (
    begin_again,
    create,
    forget,
    pushed,
    refuse_in_use,
    refuse_replacement,
    rewind,
)
from muntin.engine.catalog import Catalog, asked_of, explain, refuse_taken, require
from muntin.engine.event_file import filling
from muntin.engine.listing import described, listed
from muntin.engine.tables import find_rows, select_rows
from muntin.errors import MuntinError
from muntin.instant import to_microseconds
from muntin.join_query import AnyQuery, JoinQuery
from muntin.plan.explain import explain_join, explain_query
from muntin.shard.backfill import Backfill
from muntin.sql.sources import Sources
from muntin.table_query import TableQuery
from muntin.tables.keyed_rows import keyed_rows
from muntin.tables.rows import TableRows
from muntin.view_select import StandingQuery

_FOR_SERVERS = (
    "sources and sinks are for muntin serve: here events are pushed and answers are returned, so leave out CREATE SINK "
    "and the WITH of streams"
)


def run_script(
    catalog: Catalog,
    lock: AbstractContextManager[Any],
    text: str,
    lookup: Callable[[str], pa.Table],
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """What the last statement gives. Texts are parsed and histories are read while others go on."""
    with lock:
        sources, queries = catalog.sources, catalog.query_names
    statements = _parsed(catalog, text, sources, queries, parameters)
    with lock:
        check_names(catalog, statements)  # before any history is read
    with ExitStack() as histories:
        filled = [
            histories.enter_context(filling(catalog, lock, {each.name: asked_of(each.query)}, each.backfill))
            if isinstance(each, sql.RegisterQuery) and each.backfill is not None
            else None
            for each in statements
        ]
        with lock:
            if any(filled):
                if catalog.sources != sources:
                    raise MuntinError("streams came or went while the history was read; run the script again")
            elif (catalog.sources, catalog.query_names) != (sources, queries):
                statements = _parsed(catalog, text, catalog.sources, catalog.query_names, parameters)
            check_names(catalog, statements)
            return [run(catalog, *each, lookup) for each in zip(statements, filled, strict=True)][-1]


def _parsed(
    catalog: Catalog, text: str, sources: Sources, queries: set[str], parameters: Mapping[str, Any] | None
) -> list[sql.Statement]:
    def query_of(name: str) -> AnyQuery | None:
        return (
            catalog.query(name) if name in catalog.stream_of and name not in catalog.views.at_work else None
        )

    return sql.parse_statements(text, sources, catalog.views.known(), queries, parameters, query_of)


def check_names(catalog: Catalog, statements: list[sql.Statement]) -> None:
    """Refuse a script of which a later statement would find its name taken or missing."""
    streams, queries, views = dict(catalog.streams), dict(catalog.stream_of), set(catalog.views.known())
    joined = {name: each.query.right.stream.name for name, each in catalog.joins.registrations.items()}
    viewed = {name: each.query.streams for name, each in catalog.views.at_work.items()}
    queries |= {name: of[0] for name, of in viewed.items()}
    tables = set(catalog.tables)
    asked: dict[str, AnyQuery] = {}  # by the script
    has_named = bool(catalog.selections or catalog.views.declared)
    selected: dict[str, str | None] = {
        name: of
        for name in catalog.stream_of
        if has_named and name not in viewed and (of := named_by(catalog.query(name)))
    }
    reads = {name: tables_of(catalog.query(name)) for name in catalog.stream_of}
    for statement in statements:
        match statement:
            case sql.CreateStream(has_source=True) | sql.CreateSink() | sql.DropSink():
                raise MuntinError(_FOR_SERVERS)
            case sql.CreateStream(stream):
                refuse_taken(stream.name, streams, "stream")
                refuse_taken(stream.name, tables, "table")
                if stream.name in views and stream.name in selected.values():
                    refuse_taken(stream.name, views, "view")  # its queries would mean the stream
                streams[stream.name] = stream
            case sql.CreateTable(table):
                for names, kind in (
                    (tables, "table"),
                    (streams, "stream"),
                    (views, "view"),
                    (queries, "query"),
                ):
                    refuse_taken(table.name, names, kind)
                refuse_taken(table.name, catalog.reserved)
                tables.add(table.name)
            case sql.DropTable(name):
                require(name, tables, "table")
                for query in (each for each in queries if name in reads.get(each, ())):
                    raise MuntinError(f"table '{name}' is joined by query '{query}'; drop its queries first")
                tables.remove(name)
            case sql.InsertRows(table, rows):
                keyed_rows(table, rows)
            case sql.DropStream(name):
                require(name, streams, "stream")
                for query, of in queries.items():
                    if name in (of, joined.get(query), selected.get(query), *viewed.get(query, ())):
                        raise MuntinError(
                            f"stream '{name}' is read by query '{query}'; drop its queries first"
                        )
                for other, each in streams.items():
                    if isinstance(each, Selection) and name in (each.source, each.base.name):
                        raise MuntinError(
                            f"stream '{name}' is selected from by stream '{other}'; drop that first"
                        )
                del streams[name]
            case sql.RewindStream(name, to):
                require(name, streams, "stream")
                pushed(catalog, name)
                to_microseconds(to)
            case sql.RegisterQuery(name, query):
                if statement.is_replacement and name not in viewed:
                    if name in queries:
                        old = asked.get(name) or catalog.query(name)
                        refuse_replacement(name, old, query, streams, queries)
                    queries.pop(name, None)
                    joined.pop(name, None)
                catalog.refuse_taken(name, queries)
                refuse_taken(name, tables, "table")
                if isinstance(query, JoinQuery):
                    joined[name] = query.right.stream.name
                asked_of(query)
                asked[name], selected[name] = query, named_by(query)
                queries[name], reads[name] = query.streams[0].name, tables_of(query)
            case sql.CreateView(view):
                catalog.views.check_creation(view)
                catalog.refuse_taken(view.name, queries)
                refuse_taken(view.name, tables, "table")
                queries[view.name], viewed[view.name] = view.streams[0], view.streams
                views.add(view.name)
            case sql.DropView(name):
                catalog.views.require(name, views)
                for query in (each for each, of in selected.items() if of == name and name not in streams):
                    raise MuntinError(f"view '{name}' is read by query '{query}'; drop its queries first")
                queries.pop(name, None)
                views.remove(name)
            case sql.AlterView(name, _) | sql.ExplainView(name):
                catalog.views.require(name, views)
            case sql.DropQuery(name):
                if name in views:
                    raise MuntinError(f"'{name}' is a view: write DROP MATERIALIZED VIEW {name}")
                require(name, queries)
                refuse_in_use(name, streams)
                del queries[name]
                selected.pop(name, None)
            case sql.Explain(str(name), None):
                require(name, queries)
            case sql.Describe(name):
                require(name, {*streams, *tables, *views, *queries}, "stream, table, view or query")


def tables_of(query: AnyQuery) -> set[str]:
    """The names of the tables that a query joins."""
    return {each.name for each in query.tables} if isinstance(query, TableQuery) else set()


def run(
    catalog: Catalog, statement: sql.Statement, filled: Backfill | None, lookup: Callable[[str], pa.Table]
) -> Any:
    """What a statement gives: answers of a SELECT, text of an EXPLAIN. `filled` is the history of a query that is
    registered with one."""
    match statement:
        case sql.CreateStream(stream):
            create(catalog, stream)
        case sql.DropStream(name):
            forget(catalog, name)
        case sql.CreateTable(table):
            catalog.tables[table.name] = TableRows(table)
        case sql.DropTable(name):
            del catalog.tables[name]
        case sql.InsertRows(table, given):
            rows = catalog.tables[table.name]
            catalog.change(rows, rows.to_put(keyed_rows(table, given)))
        case sql.DeleteRows(table, where):
            rows = catalog.tables[table.name]
            catalog.change(rows, rows.to_delete(find_rows(rows, where)))
        case sql.SelectTable(read):
            return select_rows(catalog.tables[read.table.name], read)
        case sql.RewindStream(name, to):
            rewind(catalog, name, to_microseconds(to))
        case sql.RegisterQuery() if filled is not None:
            catalog.graft(filled)
        case sql.RegisterQuery(name, query):
            asked = asked_of(query)
            if statement.is_replacement and name in catalog.stream_of:
                catalog.replace(name, asked)
                begin_again(catalog, name)
            else:
                catalog.add({name: asked})
        case sql.DropQuery(name):
            catalog.drop(name)
        case sql.Explain(name, query):
            if isinstance(query, JoinQuery):
                return explain_join(query.signature, {"this query": query}, None)
            if isinstance(query, TableQuery):
                return explain_query(query.source)
            if isinstance(query, StandingQuery):
                return f"read from the archive of view {query.named}, at each of its updates"
            return explain(catalog, name) if query is None else explain_query(query)
        case sql.Select(query):
            return catalog.use_once(query, lookup)
        case sql.Show(kind):
            return listed(catalog, kind)
        case sql.Describe(name):
            return described(catalog, name)
        case sql.CreateView(view):
            catalog.create_view(view)
        case sql.DropView(name):
            catalog.drop_view(name)
        case sql.AlterView(name, indexing):
            return catalog.views.alter(name, indexing)
        case sql.ExplainView(name):
            return catalog.views.explain(name)
        case sql.SelectView(select):
            return catalog.views.select_many([select])[0]
    return None
