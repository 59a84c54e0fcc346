"""Sources: the streams, tables and views that a text may name, and which one a name means."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.derived import DerivedStream
from muntin.errors import nearest
from muntin.sql.syntax import Name, SourceSyntax
from muntin.stream import Stream
from muntin.table import Table
from muntin.view_query import ViewQuery

Source = Stream | Table
# by name, which no two of them share; a view that has the name of a stream is not among them
Sources = Mapping[str, Source | ViewQuery]


def find_source(name: Name, sources: Sources) -> Source | ViewQuery | None:
    """The stream, table or view of that name, if there is one; unquoted names match in any case."""
    if name.text in sources:
        return sources[name.text]
    matching = [known for known in sources if known.casefold() == name.text.casefold()]
    return sources[matching[0]] if len(matching) == 1 and not name.is_quoted else None


def find_stream(name: Name, sources: Sources) -> Stream:
    """The stream of that name, or a fault."""
    found = find_source(name, sources)
    if isinstance(found, Stream):
        return found
    if isinstance(found, ViewQuery):
        raise name.misfit(
            f"'{name.text}' is a materialised view, which is read alone: FROM {name.text}; joins, other views and "
            "derived streams read streams"
        )
    if found is not None:
        raise name.misfit(
            f"'{name.text}' is a table; a query reads a stream, and may join the table: "
            f"FROM stream [RANGE 5 MINUTES] JOIN {name.text} ON …"
        )
    streams = [known for known, each in sources.items() if isinstance(each, Stream)]
    raise name.misfit(f"unknown stream '{name.text}'{nearest(name.text, streams)}")


def find_pushed(name: Name, sources: Sources) -> Stream:
    """The stream of that name, if events are pushed into it; or a fault."""
    found = find_stream(name, sources)
    if isinstance(found, DerivedStream):
        raise name.misfit(
            f"stream '{found.name}' {found.origin}; joins of streams and materialised views read pushed streams"
        )
    return found


def find_table(name: Name, sources: Sources) -> Table:
    """The table of that name, or a fault."""
    found = find_source(name, sources)
    if isinstance(found, Table):
        return found
    if isinstance(found, ViewQuery):
        raise name.misfit(f"'{name.text}' is a materialised view: its rows follow from streams")
    if found is not None:
        raise name.misfit(f"'{name.text}' is a stream: its events come with engine.push, and do not change")
    tables = [known for known, each in sources.items() if isinstance(each, Table)]
    raise name.misfit(f"unknown table '{name.text}'{nearest(name.text, tables)}")


def refuse_own_times(source: SourceSyntax) -> None:
    """A fault if a stream has a window that joins of streams and views do not know."""
    if source.window is not None and source.window.offset:
        raise source.stream.misfit(
            f"joins of streams and views move at multiples of their SLIDE; leave OFFSET out of {source.window}"
        )
    if source.window is not None and source.window.since:
        raise source.stream.misfit(
            f"joins of streams and views take windows of a fixed length, such as [RANGE 1 DAY], not {source.window}"
        )
