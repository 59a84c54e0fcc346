"""Connections: what a script says of the world outside.

The WITH of a stream says where its events come from, CREATE SINK where answers go. Servers open them. Whoever else
reads the script can leave them out, and the rest of it stays where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muntin.sql.dialect import read_script
from muntin.sql.place import Span, pointing_into
from muntin.sql.syntax import CreateSinkSyntax, CreateStreamSyntax, DropSyntax, StatementSyntax


def connection_spans(statements: Iterable[StatementSyntax]) -> Iterator[Span]:
    """Where connections stand in the text of these statements."""
    for statement in statements:
        match statement:
            case CreateStreamSyntax(source=source) if source is not None:
                yield source.span
            case CreateSinkSyntax(span=span) | DropSyntax("SINK", span=span):
                yield span


def without_connections(text: str) -> str:
    """The same text with blanks where they stood, so that errors still point at the right words.

    >>> without_connections("CREATE STREAM s (ts BIGINT) TIMESTAMP BY ts WITH (source = 'http')").rstrip()
    'CREATE STREAM s (ts BIGINT) TIMESTAMP BY ts'
    """
    with pointing_into(text):
        statements = read_script(text)
    return blanked(text, connection_spans(statements))


def blanked(text: str, spans: Iterable[Span]) -> str:
    """The same text with blanks in these places."""
    for start, end in spans:
        blank = "".join(each if each.isspace() else " " for each in text[start:end])
        text = text[:start] + blank + text[end:]
    return text
