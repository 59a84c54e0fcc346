"""Statements: what a text asks for, checked and ready to carry out."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.join_query import AnyQuery
from muntin.stream import Stream
from muntin.table import Table
from muntin.table_query import RowsWhere, TableSelect
from muntin.view_query import ViewQuery
from muntin.view_select import ViewSelect


@dataclass(frozen=True)
class CreateStream:
    """`CREATE STREAM trades (…) TIMESTAMP BY ts DELAY 5 SECONDS WITH (source = 'kafka', …)`, `… AS SELECT …`, or
    `… FROM QUERY busy`."""

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
class Show:
    """`SHOW STREAMS`."""

    kind: str  # STREAMS, TABLES, QUERIES or VIEWS


@dataclass(frozen=True)
class Describe:
    """`DESCRIBE trades`."""

    name: str


@dataclass(frozen=True)
class Skipped:
    """A statement with IF EXISTS or IF NOT EXISTS that has nothing to do."""


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
    | Show
    | Describe
    | Skipped
)
