"""Statements: what a text asks for, checked and ready to carry out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from weakref import WeakSet

import pyarrow as pa

from muntin.errors import SchemaError
from muntin.expression import Expression
from muntin.join_query import AnyQuery
from muntin.sql.bind import bind_select
from muntin.sql.bind_join import bind_join
from muntin.sql.bind_table import (
    bind_columns,
    bind_create_table,
    bind_delete,
    bind_insert,
    bind_table_select,
    find_column,
    refuse_star,
)
from muntin.sql.bind_table_join import bind_table_join, joins_table, on_columns, refuse_spans
from muntin.sql.bind_view import bind_view, bind_view_select, find_view
from muntin.sql.dialect import read_expression, read_script
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.place import Misfit, misfit, pointing_into
from muntin.sql.sources import Source, Sources, find_source, find_table
from muntin.sql.syntax import (
    AlterViewSyntax,
    CreateSinkSyntax,
    CreateStreamSyntax,
    CreateTableSyntax,
    CreateViewSyntax,
    DeleteSyntax,
    DropSyntax,
    ExplainSyntax,
    ExplainViewSyntax,
    InsertSyntax,
    RegisterSyntax,
    RewindSyntax,
    SelectSyntax,
    StatementSyntax,
)
from muntin.sql.template import Templates
from muntin.sql.vocabulary import CLAUSE_REFUSALS, STATEMENTS
from muntin.stream import Stream
from muntin.table import SPAN, Table
from muntin.table_query import RowsWhere, TableSelect
from muntin.view_query import KnownView, ViewQuery, ViewSelect


@dataclass(frozen=True)
class CreateStream:
    """`CREATE STREAM trades (…) TIMESTAMP BY ts DELAY 5 SECONDS WITH (source = 'kafka', …)`."""

    stream: Stream
    has_source: bool = False  # of its own, which a server opens


@dataclass(frozen=True)
class DropStream:
    """`DROP STREAM trades`."""

    name: str


@dataclass(frozen=True)
class RewindStream:
    """`REWIND STREAM trades TO '2026-01-31 12:00:00'`."""

    name: str
    to: str  # an instant


@dataclass(frozen=True)
class RegisterQuery:
    """`REGISTER QUERY busy AS SELECT … BACKFILL 'path'`, or `CREATE OR REPLACE QUERY busy AS SELECT …`."""

    name: str
    query: AnyQuery
    backfill: str | None = None  # the path of its history
    is_replacement: bool = False  # of the query of this name, if there is one


@dataclass(frozen=True)
class DropQuery:
    """`DROP QUERY busy`."""

    name: str


@dataclass(frozen=True)
class CreateSink:
    """`CREATE SINK pager FROM busy WITH (sink = 'http', …)`, for a server."""

    name: str
    query: str


@dataclass(frozen=True)
class DropSink:
    """`DROP SINK pager`."""

    name: str


@dataclass(frozen=True)
class Explain:
    """Of one registered query, of a query not registered, or (both None) of everything."""

    name: str | None = None
    query: AnyQuery | None = None


@dataclass(frozen=True)
class Select:
    """A query to answer once, without a name."""

    query: AnyQuery


@dataclass(frozen=True)
class CreateTable:
    """`CREATE TABLE limits (…, PRIMARY KEY (account))`."""

    table: Table


@dataclass(frozen=True)
class DropTable:
    """`DROP TABLE limits`."""

    name: str


@dataclass(frozen=True)
class InsertRows:
    """`INSERT INTO limits VALUES (7, 100.0)`."""

    table: Table
    rows: pa.RecordBatch


@dataclass(frozen=True)
class DeleteRows:
    """`DELETE FROM limits WHERE account = 7`."""

    table: Table
    where: RowsWhere


@dataclass(frozen=True)
class SelectTable:
    """A SELECT that reads a table."""

    select: TableSelect


@dataclass(frozen=True)
class CreateView:
    """`CREATE MATERIALIZED VIEW v AS SELECT …`."""

    view: ViewQuery


@dataclass(frozen=True)
class AlterView:
    """`ALTER MATERIALIZED VIEW v INDEX 'rebuild 4x4'`."""

    name: str
    indexing: str


@dataclass(frozen=True)
class DropView:
    """`DROP MATERIALIZED VIEW v`."""

    name: str


@dataclass(frozen=True)
class ExplainView:
    """`EXPLAIN VIEW v`."""

    name: str


@dataclass(frozen=True)
class SelectView:
    """A SELECT that reads a view."""

    select: ViewSelect


ViewStatement = CreateView | AlterView | DropView | ExplainView | SelectView
StreamStatement = CreateStream | DropStream | RewindStream
TableStatement = CreateTable | DropTable | InsertRows | DeleteRows | SelectTable
SinkStatement = CreateSink | DropSink
Statement = (
    ViewStatement
    | StreamStatement
    | TableStatement
    | SinkStatement
    | RegisterQuery
    | DropQuery
    | Explain
    | Select
)


def parse_query(text: str, streams: Sources, templates: Templates | None = None) -> AnyQuery:
    """The query of one SELECT, or an `SqlError` at the word that is wrong.

    `templates` know texts of the same shape, and learn from this one: for who reads many.

    >>> trades = Stream("trades", pa.schema([("ts", pa.timestamp("us")), ("shares", pa.int64())]), "ts")
    >>> query = parse_query("SELECT SUM(shares) FROM trades [RANGE 5 MINUTES]", {"trades": trades})
    >>> str(query.calls[0]), query.outputs[0].name
    ('SUM(shares) OVER [RANGE 5 MINUTES]', 'sum_shares')
    """
    with pointing_into(text):
        if templates is None:
            return _query(_read_select(text), streams)
        return templates.query(text, streams)


def tables_joined(text: str, sources: Sources) -> list[tuple[str, tuple[str, ...]]]:
    """The tables that a SELECT joins with a stream, each with its columns that ON compares with the stream: before it
    is known which of them are the primary key."""
    with pointing_into(text):
        select = _read_select(text)
        return on_columns(select, sources) if select.join is not None and joins_table(select, sources) else []


_SHARED: WeakSet[Templates] = WeakSet()  # one at most; its owners are those who asked for it


def shared_templates() -> Templates:
    """The templates of all who read texts in this process: they go with the last who holds them. So a second engine
    need not parse what one that is still there has parsed, and nothing is left behind by engines that are gone."""
    for templates in _SHARED:
        return templates
    made = Templates(_read_select, lambda select, streams: _query(select, streams))
    _SHARED.add(made)
    return made


def _read_select(text: str) -> SelectSyntax:
    statements = _read(text)
    if not isinstance(statements[0], SelectSyntax):
        raise Misfit("expected one SELECT; statements of other kinds go to engine.execute", _first(text))
    if len(statements) > 1:
        raise Misfit("expected one SELECT, found several statements; they go to engine.execute", _first(text))
    return statements[0]


def parse_statements(
    text: str, streams: Sources, views: Mapping[str, KnownView] = MappingProxyType({})
) -> list[Statement]:
    """The statements of a script; later ones see the streams and views that earlier ones create or drop."""
    with pointing_into(text):
        known, seen = dict(streams), dict(views)
        return [_bind(syntax, known, seen) for syntax in _read(text)]


def parse_view(text: str, streams: Sources) -> ViewQuery | None:
    """The view of a CREATE MATERIALIZED VIEW; None if the text is another statement."""
    with pointing_into(text):
        syntax = _read(text)[0]
        return bind_view(syntax, streams) if isinstance(syntax, CreateViewSyntax) else None


def _read(text: str) -> list[StatementSyntax]:
    statements = read_script(text)
    if not statements:
        raise Misfit(f"the text has no statement; begin with {STATEMENTS}", (0, 0))
    return statements


def parse_expression(text: str, columns: Mapping[str, pa.DataType]) -> Expression:
    """One expression over columns of these types; canonical text parses back to itself.

    >>> parse_expression("X  + (1)", {"x": pa.int64()}).sql
    'x + 1'
    """
    with pointing_into(text):
        return compile_expression(read_expression(text), Scope(columns, "the batch"))


def _first(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip())
    word = text[start:].split(maxsplit=1)[:1]
    return start, start + len(word[0] if word else "")


def _bind(syntax: StatementSyntax, streams: dict[str, Source], views: dict[str, KnownView]) -> Statement:
    match syntax:
        case SelectSyntax():
            if syntax.join is None and isinstance(table := find_source(syntax.stream, streams), Table):
                return SelectTable(bind_table_select(syntax, table))
            if syntax.join is None and (view := find_view(syntax.stream, views)) is not None:
                _refuse_hint(syntax)
                refuse_star(syntax)
                refuse_spans(syntax)
                return SelectView(bind_view_select(syntax, view))
            return Select(_query(syntax, streams))
        case CreateViewSyntax():
            _refuse_hint(syntax.select)
            _refuse_hint(syntax.negated)
            refuse_star(syntax.select)
            refuse_spans(syntax.select)
            made = bind_view(syntax, streams)
            views[made.name] = made.known
            return CreateView(made)
        case AlterViewSyntax(name, indexing):
            return AlterView(name.text, indexing.text)
        case ExplainViewSyntax(name):
            return ExplainView(name.text)
        case DropSyntax("VIEW", name):
            views.pop(name.text, None)
            return DropView(name.text)
        case RegisterSyntax(name, select, backfill, is_replacement):
            return RegisterQuery(name.text, _query(select, streams), backfill, is_replacement)
        case ExplainSyntax(name, select):
            return Explain(name.text if name else None, _query(select, streams) if select else None)
        case CreateStreamSyntax():
            stream = _create(syntax)
            streams[stream.name] = stream
            return CreateStream(stream, syntax.source is not None)
        case CreateSinkSyntax(name, query):
            return CreateSink(name.text, query.text)
        case DropSyntax("SINK", name):
            return DropSink(name.text)
        case CreateTableSyntax():
            declared = bind_create_table(syntax)
            streams[declared.name] = declared
            return CreateTable(declared)
        case InsertSyntax(name):
            into = find_table(name, streams)
            return InsertRows(into, bind_insert(syntax, into))
        case DeleteSyntax(name):
            of = find_table(name, streams)
            return DeleteRows(of, bind_delete(syntax, of))
        case DropSyntax("TABLE", name):
            streams.pop(name.text, None)
            return DropTable(name.text)
        case RewindSyntax(name, to):
            return RewindStream(name.text, to)
        case DropSyntax("QUERY", name):
            return DropQuery(name.text)
        case DropSyntax(_, name):
            streams.pop(name.text, None)
            return DropStream(name.text)


def _refuse_hint(select: SelectSyntax | None) -> None:
    if select is not None and select.hint is not None:
        raise Misfit(f"SYNOPSIS({select.hint}) is not for views; leave the hint out", select.start)


def _query(select: SelectSyntax, streams: Sources) -> AnyQuery:
    refuse_star(select)
    if select.order is not None:
        raise Misfit(CLAUSE_REFUSALS[select.order.word], select.order.place)
    if select.join is not None and joins_table(select, streams):
        return bind_table_join(select, streams)
    refuse_spans(select)
    if select.join is None:
        return bind_select(select, streams)
    return bind_join(select, select.join, streams)


def _create(syntax: CreateStreamSyntax) -> Stream:
    fields = bind_columns(syntax.columns)
    for field, column in zip(fields, syntax.columns, strict=True):
        if field.type == SPAN:
            raise misfit(
                column.type,
                "INTERVAL is for columns of a table; in a stream, declare a BIGINT, of microseconds for example",
            )
    time = find_column(syntax.time, [field.name for field in fields], "the stream")
    try:
        return Stream(syntax.name.text, pa.schema(fields), time, syntax.delay, syntax.ahead)
    except SchemaError as error:
        raise syntax.time.misfit(str(error)) from None
