"""A script: the streams, tables, views and queries that a FILE.sql declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType

from muntin.derived import DerivedStream, Selection, WindowStream, named_by
from muntin.engine import Engine
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.join_query import AnyQuery
from muntin.sql import (
    CreateStream,
    CreateTable,
    CreateView,
    Explain,
    InsertRows,
    RegisterQuery,
    Select,
    SelectView,
    Skipped,
    parse_statements,
    statement_texts,
)
from muntin.sql.connections import without_connections
from muntin.stream import Stream
from muntin.table import Table
from muntin.view_query import ViewQuery
from muntin.view_select import ViewSelect


@dataclass(frozen=True)
class Script:
    """Streams and queries by name; a plain SELECT is called `query_1`, `query_2`, …"""

    streams: dict[str, Stream]
    queries: dict[str, AnyQuery]
    creates: tuple[str, ...]  # texts of the CREATE STREAM, CREATE TABLE and INSERT statements
    backfills: dict[str, str] = field(default_factory=dict)  # paths of the histories of some queries
    views: dict[str, ViewQuery] = field(default_factory=dict)
    reads: dict[str, ViewSelect] = field(default_factory=dict)  # SELECTs from the views, answered at the end
    tables: dict[str, Table] = field(default_factory=dict)

    @property
    def pushed(self) -> dict[str, Stream]:
        """The streams that have files."""
        return {name: each for name, each in self.streams.items() if not isinstance(each, DerivedStream)}

    @property
    def derived(self) -> dict[str, DerivedStream]:
        """The streams that follow from others, in order."""
        return {name: each for name, each in self.streams.items() if isinstance(each, DerivedStream)}

    @property
    def feeding(self) -> set[str]:
        """The queries whose windows are streams."""
        return {each.query for each in self.streams.values() if isinstance(each, WindowStream)}

    def refuse_derived(self, where: str) -> None:
        """An error if streams follow from others, which is not done there."""
        for name, each in self.derived.items():
            raise MuntinError(f"stream '{name}' {each.origin}, which {where}")

    @property
    def answered(self) -> dict[str, AnyQuery | ViewSelect]:
        """All that has answers, by name."""
        return {**self.queries, **self.reads}

    def stream_of_input(self, name: str | None) -> Stream:
        """The stream called `name`, or the only one there is."""
        if name is not None:
            if name not in self.streams:
                raise NotFound(f"the script has no stream '{name}'{nearest(name, self.streams)}")
            if name in self.derived:
                raise MuntinError(f"stream '{name}' {self.derived[name].origin}: it has no input of its own")
            return self.streams[name]
        if len(self.pushed) > 1:
            raise MuntinError(f"which stream is the input? choose with --stream: {', '.join(self.pushed)}")
        if not self.pushed:
            raise NotFound("the script has no CREATE STREAM, so the columns of the input are unknown")
        return next(iter(self.pushed.values()))

    def only(self, streams: Sequence[Stream]) -> Script:
        """The same script with just the queries that read these streams and no other."""
        given = {stream.name for stream in streams}
        queries = {
            name: query
            for name, query in self.queries.items()
            if all(map(given.__contains__, self._inputs(query.streams)))
        }
        views = {name: view for name, view in self.views.items() if given.issuperset(view.streams)}
        reads = {name: read for name, read in self.reads.items() if read.view.name in views}
        if not self.answered and not self.views:
            raise NotFound("the script has no query: add REGISTER QUERY name AS SELECT …")
        if not queries and not views:
            names = " and ".join(f"'{stream.name}'" for stream in streams)
            read = [name for query in self.queries.values() for name in self._inputs(query.streams)]
            missing = [name for name in read if name not in given]
            hint = f"; give an input for '{missing[0]}' too: --input {missing[0]}=FILE" if missing else ""
            raise NotFound(f"the script has no query that reads stream {names} alone{hint}")
        left = {name: each for name, each in self.streams.items() if given.issuperset(self._inputs([each]))}
        return replace(self, streams=left, queries=queries, views=views, reads=reads)

    def _inputs(self, streams: Iterable[Stream]) -> list[str]:
        """The names of the streams with files that some streams follow from."""
        found: list[str] = []
        for each in streams:
            if isinstance(each, WindowStream):
                found += self._inputs(self.queries[each.query].streams)
            else:
                found.append(each.base.name if isinstance(each, Selection) else each.name)
        return found

    def start_engine(
        self,
        is_filled: bool = True,
        archive: Path | None = None,
        tables: Mapping[str, Path] = MappingProxyType({}),
        threads: int = 1,
    ) -> Engine:
        """An engine with the streams, tables, views and queries of the script; histories are read if it is to be
        `filled`. `tables` are files with rows of some tables."""
        if self.views and archive is None:
            raise MuntinError(needs_archive(self))
        engine = Engine(archive=archive, threads=threads)
        for create in (*self.creates, *(view.text for view in self.views.values())):
            engine.execute(create)
        for name, file in tables.items():
            engine.load(name, file)
        waiting = dict(self.queries)
        for derived in self.derived.values():
            if isinstance(derived, WindowStream):
                there = {name for name, query in waiting.items() if _is_readable(query, engine.streams)}
                self._register(
                    engine, {name: waiting.pop(name) for name in list(waiting) if name in there}, is_filled
                )
            engine.execute(derived.text)
        self._register(engine, waiting, is_filled)
        return engine

    def _register(self, engine: Engine, queries: Mapping[str, AnyQuery], is_filled: bool) -> None:
        paths = self.backfills if is_filled else {}
        for path in dict.fromkeys(
            [None, *(paths.get(name) for name in queries)]
        ):  # queries with one history share what is made of it
            some = {name: query.text for name, query in queries.items() if paths.get(name) == path}
            engine.register_many(some, backfill=path)


def needs_archive(script: Script) -> str:
    """What is wrong where a script has views and nobody has said where they are kept."""
    return f"view '{next(iter(script.views))}' needs a place on disk: choose one with --archive FOLDER"


def _is_readable(query: AnyQuery, streams: Mapping[str, Stream]) -> bool:
    """Whether the streams that a query reads are there, by the names that its text has for them."""
    names = [stream.name for stream in query.streams]
    return all(name in streams for name in (*names, named_by(query) or names[0]))


def read_script(path: Path) -> Script:
    """The script in a file; an SqlError points at the word, any other error names the file."""
    try:
        return parse_script(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"there is no script '{path}'") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise MuntinError(f"cannot read the script '{path}': {fault}") from fault


def parse_script(text: str) -> Script:
    """The streams and queries of a text, which does nothing else.

    >>> text = "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; SELECT COUNT(*) FROM s [ROWS 5]"
    >>> script = parse_script(text)
    >>> list(script.streams), list(script.queries)
    (['s'], ['query_1'])
    """
    streams: dict[str, Stream] = {}
    named: dict[str, AnyQuery] = {}
    plain: list[AnyQuery] = []
    creates: list[str] = []
    backfills: dict[str, str] = {}
    views: dict[str, ViewQuery] = {}
    reads: list[ViewSelect] = []
    tables: dict[str, Table] = {}
    text = without_connections(text)  # files are read in place of sources, and all answers are given out
    for statement, words in zip(parse_statements(text, {}), statement_texts(text), strict=True):
        match statement:
            case CreateStream(stream):
                _refuse_taken(stream.name, streams, "streams")
                _refuse_taken(stream.name, tables, "streams or tables")
                streams[stream.name] = stream
                if not isinstance(stream, DerivedStream):
                    creates.append(words)
            case CreateTable(table):
                _refuse_taken(table.name, {**streams, **tables}, "streams or tables")
                tables[table.name] = table
                creates.append(words)
            case InsertRows():
                creates.append(words)
            case RegisterQuery(name, query, backfill, is_replacement):
                if not is_replacement:
                    _refuse_taken(name, named, "queries")
                named[name] = query
                if backfill is not None:
                    backfills[name] = backfill
            case Select(query):
                plain.append(query)
            case CreateView(view):
                _refuse_taken(view.name, {**views, **named}, "queries")
                views[view.name] = view
            case SelectView(select):
                reads.append(select)
            case Explain() | Skipped():
                pass  # `muntin explain` is the command for the plan
            case _:
                raise MuntinError(
                    f"a script only declares streams, tables, views and queries; it cannot {words.splitlines()[0]}"
                )
    free = (name for number in count(1) if (name := f"query_{number}") not in {**named, **views})
    queries = named | {next(free): query for query in plain}
    read = {next(free): select for select in reads}
    return Script(streams, queries, tuple(creates), backfills, views, read, tables)


def _refuse_taken(name: str, names: Iterable[str], kind: str) -> None:
    if name in names:
        raise NameTaken(f"two {kind} of the script are called '{name}'")
