"""From texts to statements, queries and expressions: read, then bound to the names that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakSet

import pyarrow as pa

from muntin.errors import SchemaError
from muntin.expression import Expression
from muntin.join_query import AnyQuery
from muntin.sql.bind import bind_select
from muntin.sql.bind_derived import bind_selection, bind_window_stream, unfolded
from muntin.sql.bind_join import bind_join
from muntin.sql.bind_session import refuse_joined_sessions
from muntin.sql.bind_standing import bind_standing
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
from muntin.sql.parameters import Parameters
from muntin.sql.place import Misfit, misfit, pointing_into
from muntin.sql.sources import Source, Sources, find_source, find_table
from muntin.sql.statement import (
    AlterView,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    DeleteRows,
    Describe,
    DropQuery,
    DropSink,
    DropStream,
    DropTable,
    DropView,
    Explain,
    ExplainView,
    InsertRows,
    RegisterQuery,
    RewindStream,
    Select,
    SelectTable,
    SelectView,
    Show,
    Skipped,
    Statement,
)
from muntin.sql.syntax import (
    AlterViewSyntax,
    CreateSinkSyntax,
    CreateStreamSyntax,
    CreateTableSyntax,
    CreateViewSyntax,
    DeleteSyntax,
    DescribeSyntax,
    DropSyntax,
    ExplainSyntax,
    ExplainViewSyntax,
    InsertSyntax,
    RegisterSyntax,
    RewindSyntax,
    SelectionSyntax,
    SelectSyntax,
    ShowSyntax,
    StatementSyntax,
    WindowStreamSyntax,
)
from muntin.sql.template import Templates
from muntin.sql.vocabulary import STATEMENTS
from muntin.stream import Stream
from muntin.table import SPAN, Table
from muntin.view_query import ViewQuery
from muntin.view_select import KnownView


def parse_query(
    text: str,
    streams: Sources,
    templates: Templates | None = None,
    parameters: Parameters | None = None,
) -> AnyQuery:
    """The query of one SELECT, or an `SqlError` at the word that is wrong.

    `templates` know texts of the same shape, and learn from this one: for who reads many.

    >>> trades = Stream("trades", pa.schema([("ts", pa.timestamp("us")), ("shares", pa.int64())]), "ts")
    >>> query = parse_query("SELECT SUM(shares) FROM trades [RANGE 5 MINUTES]", {"trades": trades})
    >>> str(query.calls[0]), query.outputs[0].name
    ('SUM(shares) OVER [RANGE 5 MINUTES]', 'sum_shares')
    """
    with pointing_into(text):
        if templates is None or parameters:
            return _query(_read_select(text, parameters), streams)
        return unfolded(templates.query(text, streams))


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
    made = Templates(_read_select, lambda select, streams: _as_written(select, streams))
    _SHARED.add(made)
    return made


def _read_select(text: str, parameters: Parameters | None = None) -> SelectSyntax:
    statements = _read(text, parameters)
    if not isinstance(statements[0], SelectSyntax):
        raise Misfit("expected one SELECT; statements of other kinds go to engine.execute", _first(text))
    if len(statements) > 1:
        raise Misfit("expected one SELECT, found several statements; they go to engine.execute", _first(text))
    return statements[0]


def parse_statements(
    text: str,
    streams: Sources,
    views: Mapping[str, KnownView] = MappingProxyType({}),
    queries: Iterable[str] = (),
    parameters: Mapping[str, Any] | None = None,
    query_of: Callable[[str], AnyQuery | None] = lambda name: None,
) -> list[Statement]:
    """The statements of a script; later ones see what earlier ones create or drop. `queries` are names in use, also
    of views that are kept up to date; `query_of` gives a query of such a name."""
    with pointing_into(text):
        values = Parameters(parameters)
        read = _read(text, values)
        values.check()
        known = _Known(dict(streams), dict(views), set(queries), {}, query_of)
        return [_bind(syntax, known) for syntax in read]


def parse_view(text: str, streams: Sources) -> ViewQuery | None:
    """The view of a CREATE MATERIALIZED VIEW; None if the text is another statement."""
    with pointing_into(text):
        syntax = _read(text)[0]
        return bind_view(syntax, streams) if isinstance(syntax, CreateViewSyntax) else None


def _read(text: str, parameters: Parameters | None = None) -> list[StatementSyntax]:
    statements = read_script(text, parameters)
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


class _Known(NamedTuple):
    """What is there when a statement of a script runs."""

    sources: dict[str, Source | ViewQuery]
    views: dict[str, KnownView]  # also those that nobody keeps up to date
    queries: set[str]  # also views that are kept up to date
    registered: dict[str, AnyQuery]  # by the script
    query_of: Callable[[str], AnyQuery | None]  # of others

    def query(self, name: str) -> AnyQuery | None:
        """The query of a name, if there is one."""
        return (self.registered.get(name) or self.query_of(name)) if name in self.queries else None

    def has_nothing_to_do(self, syntax: StatementSyntax) -> bool:
        """Whether IF EXISTS or IF NOT EXISTS says that a statement is to be left out."""
        match syntax:
            case (
                CreateStreamSyntax(name=name, is_lenient=True)
                | SelectionSyntax(name=name, is_lenient=True)
                | WindowStreamSyntax(name=name, is_lenient=True)
            ):
                return isinstance(self.sources.get(name.text), Stream)
            case CreateTableSyntax(name=name, is_lenient=True):
                return isinstance(self.sources.get(name.text), Table)
            case CreateViewSyntax(name=name, is_lenient=True) | RegisterSyntax(name=name, is_lenient=True):
                return name.text in self.queries
            case DropSyntax("STREAM", name, is_lenient=True):
                return not isinstance(self.sources.get(name.text), Stream)
            case DropSyntax("TABLE", name, is_lenient=True):
                return not isinstance(self.sources.get(name.text), Table)
            case DropSyntax("VIEW", name, is_lenient=True):
                return name.text not in self.views
            case DropSyntax("QUERY", name, is_lenient=True):
                return name.text not in self.queries
        return False


def _bind(syntax: StatementSyntax, known: _Known) -> Statement:
    if known.has_nothing_to_do(syntax):
        return Skipped()
    streams, views, queries, *_ = known
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
            streams.setdefault(made.name, made)
            queries.add(made.name)
            return CreateView(made)
        case AlterViewSyntax(name, indexing):
            return AlterView(name.text, indexing.text)
        case ExplainViewSyntax(name):
            return ExplainView(name.text)
        case DropSyntax("VIEW", name):
            views.pop(name.text, None)
            if isinstance(streams.get(name.text), ViewQuery):
                del streams[name.text]
            queries.discard(name.text)
            return DropView(name.text)
        case RegisterSyntax(name, select, backfill, is_replacement):
            _refuse_left_view(select, known)
            asked = known.registered[name.text] = _query(select, streams)
            queries.add(name.text)
            return RegisterQuery(name.text, asked, backfill, is_replacement)
        case ShowSyntax(kind):
            return Show(kind)
        case DescribeSyntax(name):
            return Describe(name.text)
        case ExplainSyntax(name, select):
            return Explain(name.text if name else None, _query(select, streams) if select else None)
        case CreateStreamSyntax():
            stream = _create(syntax)
            streams[stream.name] = stream
            return CreateStream(stream, syntax.source is not None)
        case SelectionSyntax():
            selection = streams[syntax.name.text] = bind_selection(syntax, streams)
            return CreateStream(selection)
        case WindowStreamSyntax(name, source):
            windows = streams[name.text] = bind_window_stream(name, source, known.query(source.text), queries)
            return CreateStream(windows)
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
            queries.discard(name.text)
            known.registered.pop(name.text, None)
            return DropQuery(name.text)
        case DropSyntax(_, name):
            streams.pop(name.text, None)
            return DropStream(name.text)


def _refuse_left_view(select: SelectSyntax, known: _Known) -> None:
    """A fault if a standing query would read a view that nobody here keeps up to date."""
    if (
        find_source(select.stream, known.sources) is None
        and find_view(select.stream, known.views) is not None
    ):
        raise select.stream.misfit(
            f"view '{select.stream.text}' is not kept up to date by this engine, so that nothing can follow it; "
            "repeat its CREATE MATERIALIZED VIEW first, or read it by a SELECT without REGISTER QUERY"
        )


def _refuse_hint(select: SelectSyntax | None) -> None:
    if select is not None and select.hint is not None:
        raise Misfit(f"SYNOPSIS({select.hint}) is not for views; leave the hint out", select.start)


def _query(select: SelectSyntax, streams: Sources) -> AnyQuery:
    """What a SELECT means over streams that have events."""
    return unfolded(_as_written(select, streams))


def _as_written(select: SelectSyntax, streams: Sources) -> AnyQuery:
    """What a SELECT means over the streams that it names, which may be selections of others."""
    source = find_source(select.stream, streams)
    if source is not None:  # else that is what to say
        refuse_star(select)
    if isinstance(source, ViewQuery):
        refuse_spans(select)
        return bind_standing(select, source)
    if select.order is not None and select.join is not None:
        raise Misfit(f"{select.order.word} is not for joins: rank the keys of one stream", select.order.place)
    refuse_joined_sessions(select)
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
