"""What is refused before it is in the log: statements that name files of other folders, and sinks without their key.

Refused here, a statement has an error that somebody reads. Let in, it would be a source or sink that fails, and is
tried again for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from muntin.engine import Engine
from muntin.errors import MuntinError, nearest
from muntin.join_query import AnyQuery
from muntin.serve.options import path_options
from muntin.serve.script import read_names
from muntin.sql import RegisterQuery, parse_statements
from muntin.sql.connections import without_connections
from muntin.sql.place import Misfit, Span, pointing_into
from muntin.sql.syntax import CreateSinkSyntax, CreateStreamSyntax, RegisterSyntax, StatementSyntax
from muntin.view.folders import Folders


def admit(text: str, engine: Engine, folders: Folders) -> list[StatementSyntax]:
    """The statements of a text; an error at the word that no source or sink can follow."""
    statements = read_names(text)
    with pointing_into(text):
        for path, what, span in _paths(statements):
            try:
                folders.require(path, what)
            except MuntinError as error:
                raise Misfit(f"{error}; --folder names one at the start", span) from None
        _check_keys(text, statements, engine)
    return statements


def _paths(statements: Iterable[StatementSyntax]) -> Iterator[tuple[str, str, Span]]:
    """Of files and folders that statements name: each with what it is, and where it stands."""
    for statement in statements:
        match statement:
            case CreateStreamSyntax(source=source) if source is not None:
                for each in path_options(source, "source"):
                    yield str(each.value), f"{each.name.text} of a source", each.span
            case CreateSinkSyntax(options=options):
                for each in path_options(options, "sink"):
                    yield str(each.value), f"{each.name.text} of a sink", each.span
            case RegisterSyntax(backfill=str(path), backfill_span=(_, _) as span):
                yield path, "history", span


def _check_keys(text: str, statements: Iterable[StatementSyntax], engine: Engine) -> None:
    """A sink's key is a column of its query."""
    keyed = [
        (each.query.text, option)
        for each in statements
        if isinstance(each, CreateSinkSyntax)
        for option in each.options.options
        if option.name.text == "key"
    ]
    if not keyed:
        return
    queries = _queries(text, engine)
    for query, option in keyed:
        if query in queries and option.value not in (names := _columns(queries[query])):
            raise Misfit(
                f"query '{query}' has no column '{option.value}' to be the key of a message"
                f"{nearest(str(option.value), names)}",
                option.span,
            )


def _queries(text: str, engine: Engine) -> dict[str, AnyQuery]:
    """Those that are there, and those that a text registers."""
    found = dict(engine.queries)
    with suppress(MuntinError):  # which the engine raises as well, at the same word
        for each in parse_statements(without_connections(text), engine.sources, queries=found):
            if isinstance(each, RegisterQuery):
                found[each.name] = each.query
    return found


def _columns(query: AnyQuery) -> list[str]:
    """What a row of its answers has in a sink."""
    return [*query.answer_schema().names, *["change"] * query.emits_changes, "id", "query"]
