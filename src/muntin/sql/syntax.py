"""What the parser hands to the binder: statements as written, nothing looked up yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from muntin.sql.place import Misfit, Span
from muntin.window import Window


@dataclass(frozen=True)
class Name:
    """A name as written; a quoted one must match exactly, an unquoted one in any case."""

    text: str
    is_quoted: bool
    span: Span

    def misfit(self, message: str) -> Misfit:
        """A fault of this name, to be raised."""
        return Misfit(message, self.span)


@dataclass(frozen=True)
class Item:
    """One SELECT item."""

    tree: exp.Expr
    alias: Name | None


@dataclass(frozen=True)
class SpanSyntax:
    """`s.span` and `STEP 1 SECOND` of `[RANGE s.span UP TO 1 DAY STEP 1 SECOND SLIDE 1 MINUTE]`."""

    column: exp.Expr
    step: int


@dataclass(frozen=True)
class SourceSyntax:
    """A stream or a table in FROM, as it is named and windowed."""

    stream: Name
    alias: Name | None
    window: Window | None
    span: SpanSyntax | None = (
        None  # of a window whose length rows of a table say; then `window` is the longest
    )

    @property
    def name(self) -> Name:
        """By which the query calls it."""
        return self.alias or self.stream


@dataclass(frozen=True)
class JoinSyntax:
    """`JOIN b [RANGE …] ON condition`, or with `USING (column, …)`."""

    source: SourceSyntax
    on: exp.Expr | None
    using: tuple[Name, ...]
    place: Span  # of the word JOIN
    further: tuple[JoinSyntax, ...] = ()  # those after it
    left: Span | None = None  # of the word LEFT, if there is one


@dataclass(frozen=True)
class OrderSyntax:
    """`ORDER BY n DESC, k LIMIT 10`."""

    word: str  # the first one, and where it stands
    place: Span
    by: tuple[tuple[exp.Expr, bool], ...]  # and whether it descends
    limit: int | None
    limit_place: Span | None = None  # of the number


@dataclass(frozen=True)
class SelectSyntax:
    """A SELECT, clause by clause."""

    text: str  # the characters of the statement
    start: Span  # of the word SELECT
    items: tuple[Item, ...]
    stream: Name
    alias: Name | None  # of the stream
    window: Window | None
    where: exp.Expr | None
    keys: tuple[exp.Expr, ...]
    having: exp.Expr | None
    hint: str | None
    changes: Span | None  # where EMIT CHANGES stands
    distinct: Span | None = None  # where DISTINCT stands
    join: JoinSyntax | None = None
    order: OrderSyntax | None = None
    span: SpanSyntax | None = None  # of a window whose length rows of a table say

    @property
    def source(self) -> SourceSyntax:
        return SourceSyntax(self.stream, self.alias, self.window, self.span)


class WindowedSelect(exp.Expression):
    """A SELECT in an expression: what stands after NOT EXISTS."""

    arg_types: ClassVar[dict[str, bool]] = {"select": True}


@dataclass(frozen=True)
class ColumnSyntax:
    """One column of CREATE STREAM or CREATE TABLE."""

    name: Name
    type: exp.Expr


@dataclass(frozen=True)
class OptionSyntax:
    """`topic = 'trades'`."""

    name: Name
    value: str | int
    span: Span  # of the value


@dataclass(frozen=True)
class OptionsSyntax:
    """`WITH (source = 'kafka', topic = 'trades')`: where events come from, or answers go; for a server."""

    options: tuple[OptionSyntax, ...]
    span: Span  # from WITH to the parenthesis


@dataclass(frozen=True)
class CreateStreamSyntax:
    """CREATE STREAM, its types not yet looked up."""

    name: Name
    columns: tuple[ColumnSyntax, ...]
    time: Name
    delay: int
    ahead: int | None = None
    source: OptionsSyntax | None = None
    is_lenient: bool = False  # IF NOT EXISTS


@dataclass(frozen=True)
class SelectionSyntax:
    """`CREATE STREAM name AS SELECT … FROM stream WHERE …`."""

    text: str
    name: Name
    select: SelectSyntax
    is_lenient: bool = False  # IF NOT EXISTS


@dataclass(frozen=True)
class WindowStreamSyntax:
    """`CREATE STREAM name FROM QUERY query`."""

    name: Name
    query: Name
    is_lenient: bool = False  # IF NOT EXISTS


@dataclass(frozen=True)
class CreateSinkSyntax:
    """`CREATE SINK name FROM query WITH (…)`."""

    name: Name
    query: Name
    options: OptionsSyntax
    span: Span  # of the statement
    is_lenient: bool = False  # IF NOT EXISTS


@dataclass(frozen=True)
class CreateTableSyntax:
    """CREATE TABLE, its types not yet looked up."""

    name: Name
    columns: tuple[ColumnSyntax, ...]
    key: tuple[Name, ...]
    is_lenient: bool = False  # IF NOT EXISTS


@dataclass(frozen=True)
class InsertSyntax:
    """INSERT INTO name (column, …) VALUES (value, …), …"""

    name: Name
    columns: tuple[Name, ...]  # none: all of the table
    rows: tuple[tuple[exp.Expr, ...], ...]
    places: tuple[Span, ...]  # of the parentheses that rows begin with


@dataclass(frozen=True)
class DeleteSyntax:
    """DELETE FROM name WHERE condition"""

    name: Name
    where: exp.Expr | None


@dataclass(frozen=True)
class RewindSyntax:
    """REWIND STREAM name TO 'instant'"""

    name: Name
    to: str


@dataclass(frozen=True)
class RegisterSyntax:
    """REGISTER QUERY name AS SELECT … BACKFILL 'path', or CREATE OR REPLACE QUERY name AS SELECT …"""

    name: Name
    select: SelectSyntax
    backfill: str | None
    is_replacement: bool = False
    is_lenient: bool = False  # IF NOT EXISTS
    backfill_span: Span | None = None  # from the word BACKFILL on


@dataclass(frozen=True)
class DropSyntax:
    """DROP STREAM, DROP TABLE, DROP QUERY, DROP SINK or DROP MATERIALIZED VIEW."""

    kind: str  # "STREAM", "TABLE", "QUERY", "SINK" or "VIEW"
    name: Name
    span: Span  # of the statement
    is_lenient: bool = False  # IF EXISTS


@dataclass(frozen=True)
class ExplainSyntax:
    """`EXPLAIN`, `EXPLAIN QUERY name` or `EXPLAIN SELECT …`."""

    name: Name | None
    select: SelectSyntax | None


@dataclass(frozen=True)
class CreateViewSyntax:
    """`CREATE MATERIALIZED VIEW name KEY (…) AS SELECT … EVERY … INDEX '…'`."""

    text: str
    name: Name
    key: tuple[Name, ...]
    select: SelectSyntax
    every: int | None
    indexing: Name | None  # as quoted after INDEX
    negated: SelectSyntax | None = None  # what stands after EXCEPT
    is_lenient: bool = False  # IF NOT EXISTS


@dataclass(frozen=True)
class AlterViewSyntax:
    """`ALTER MATERIALIZED VIEW name INDEX '…'`."""

    name: Name
    indexing: Name


@dataclass(frozen=True)
class ExplainViewSyntax:
    """`EXPLAIN VIEW name`."""

    name: Name


@dataclass(frozen=True)
class ShowSyntax:
    """SHOW STREAMS, TABLES, QUERIES or VIEWS."""

    kind: str  # one of SHOWN


@dataclass(frozen=True)
class DescribeSyntax:
    """DESCRIBE name"""

    name: Name


SHOWN = ("STREAMS", "TABLES", "QUERIES", "VIEWS")
ViewSyntax = CreateViewSyntax | AlterViewSyntax | ExplainViewSyntax
TableSyntax = CreateTableSyntax | InsertSyntax | DeleteSyntax
DerivedSyntax = SelectionSyntax | WindowStreamSyntax
StatementSyntax = (
    ViewSyntax
    | TableSyntax
    | SelectSyntax
    | CreateStreamSyntax
    | DerivedSyntax
    | CreateSinkSyntax
    | RewindSyntax
    | RegisterSyntax
    | DropSyntax
    | ExplainSyntax
    | ShowSyntax
    | DescribeSyntax
)
