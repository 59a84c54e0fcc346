"""The script that a server is started with, and the names of queries in use.

On its first start a server runs its script as it is. A script that has changed at a later start is compared with what
is there: queries that are new in it are registered, those with another text are replaced, those that have gone from
it are dropped. Streams and tables that are new are created; one that is there must be declared as it was. Other
statements, such as INSERT, are for the first start. Queries that came over HTTP are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from muntin.derived import Selection, WindowStream
from muntin.described import COUNT, LONGEST, WHOLE, Absent, Each
from muntin.engine import Engine
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.serve.feed import Feed
from muntin.serve.options import Given, check_options, read_options
from muntin.serve.record import Record
from muntin.serve.replay import Replay
from muntin.serve.sink import Drain
from muntin.serve.taken import Range
from muntin.sql import CreateStream, CreateTable, parse_statements, statement_texts
from muntin.sql.connections import blanked, connection_spans
from muntin.sql.dialect import read_script
from muntin.sql.place import pointing_into
from muntin.sql.syntax import (
    CreateSinkSyntax,
    CreateStreamSyntax,
    CreateTableSyntax,
    CreateViewSyntax,
    DerivedSyntax,
    DropSyntax,
    OptionsSyntax,
    RegisterSyntax,
    SelectionSyntax,
    StatementSyntax,
    WindowStreamSyntax,
)
from muntin.stream import Stream


def read_names(text: str) -> list[StatementSyntax]:
    """The statements of a text as they are written; an SqlError at the word if it cannot be read."""
    with pointing_into(text):
        statements = read_script(text)
        check_options(statements)
        return statements


def connects(statements: Iterable[StatementSyntax]) -> bool:
    """Whether there are sources or sinks among statements."""
    return any(connection_spans(statements))


def names_of_queries(statements: Iterable[StatementSyntax]) -> tuple[set[str], set[str]]:
    """Names of queries and views that statements bring, and those that they take away for good."""
    new, gone = set[str](), set[str]()
    for statement in statements:
        match statement:
            case RegisterSyntax(name=name) | CreateViewSyntax(name=name):
                new.add(name.text)
                gone.discard(name.text)
            case DropSyntax("QUERY" | "VIEW", name):
                gone.add(name.text)
                new.discard(name.text)
    return new, gone


ROSTER = {  # the shape of its note
    "incarnations": Each(COUNT),
    "last": COUNT,
    "script": str,
    "scripted": Each(str),
    "feeds": Absent(Each({"options": dict, "position": Each(WHOLE)})),
    "sinks": Absent(Each({"query": str, "options": dict, "since": (COUNT, COUNT)})),
    "scripted_sinks": Absent([str]),
}


@dataclass
class Roster:
    """Queries in use, each with the number of its incarnation; sources and sinks; and what the script asked for."""

    incarnations: dict[str, int] = field(default_factory=dict)
    last: int = 0  # incarnation
    script: str = ""
    scripted: dict[str, str] = field(default_factory=dict)  # queries that the script asks for: their texts
    feeds: dict[str, Feed] = field(default_factory=dict)  # sources of streams
    sinks: dict[str, Drain] = field(default_factory=dict)
    scripted_sinks: tuple[str, ...] = ()  # that the script asks for

    def note(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {
            "incarnations": self.incarnations,
            "last": self.last,
            "script": self.script,
            "scripted": self.scripted,
            "feeds": {name: feed.note() for name, feed in self.feeds.items()},
            "sinks": {name: drain.note() for name, drain in self.sinks.items()},
            "scripted_sinks": list(self.scripted_sinks),
        }

    @staticmethod
    def read(note: dict[str, Any]) -> Roster:
        """What `note` wrote."""
        feeds = {
            name: Feed(each["options"], each["position"]) for name, each in note.get("feeds", {}).items()
        }
        sinks = {
            name: Drain(each["query"], each["options"], tuple(each["since"]))
            for name, each in note.get("sinks", {}).items()
        }
        return Roster(
            dict(note["incarnations"]), note["last"], note["script"], dict(note["scripted"]), feeds, sinks,
            tuple(note.get("scripted_sinks", ())),
        )  # fmt: skip

    def execute(self, engine: Engine, text: str, number: int = 0) -> Any:
        """Run statements of a record, number the queries that came, and note sources and sinks."""
        return self._execute(engine, text, read_names(text), number)

    def _execute(self, engine: Engine, text: str, statements: list[StatementSyntax], number: int) -> Any:
        """The same for a text whose statements have been read: a script of thousands takes seconds to read."""
        self._check_sinks(statements)
        streams = set(engine.streams)
        found = _executed(engine, blanked(text, connection_spans(statements)))
        for statement in statements:
            match statement:
                case CreateStreamSyntax(name=name, source=source):
                    options = _source_of(source)
                    if (
                        options is not None and name.text not in streams
                    ):  # else IF NOT EXISTS left it as it was
                        self.feeds[name.text] = Feed(options)
                    streams.add(name.text)
                case CreateSinkSyntax(name, query, options=given):
                    since = (number, LONGEST)
                    if name.text not in self.sinks:
                        self.sinks[name.text] = Drain(query.text, read_options(given, "sink"), since)
                case DropSyntax("SINK", name):
                    self.sinks.pop(name.text, None)
                case DropSyntax("STREAM", name):
                    self.feeds.pop(name.text, None)
                    streams.discard(name.text)
                case RegisterSyntax(name=name) | CreateViewSyntax(name=name):
                    if name.text not in self.incarnations:  # else replaced, or left as it was
                        self._register(name.text)
                case DropSyntax("QUERY" | "VIEW", name):
                    self.incarnations.pop(name.text, None)
        return found

    def _check_sinks(self, statements: list[StatementSyntax]) -> None:
        """Refuse statements of which a later one would find the name of a sink, or of its query, taken or missing."""
        queries, sinks = set(self.incarnations), {name: each.query for name, each in self.sinks.items()}
        for statement in statements:
            match statement:
                case RegisterSyntax(name=name) | CreateViewSyntax(name=name):
                    queries.add(name.text)
                case CreateSinkSyntax(name, query):
                    if name.text in sinks and statement.is_lenient:
                        continue
                    if name.text in sinks:
                        raise NameTaken(f"there is already a sink '{name.text}'")
                    if query.text not in queries:
                        raise NotFound(
                            f"there is no query '{query.text}'{nearest(query.text, list(queries))}"
                        )
                    sinks[name.text] = query.text
                case DropSyntax("SINK", name):
                    if sinks.pop(name.text, None) is None and not statement.is_lenient:
                        raise NotFound(f"there is no sink '{name.text}'{nearest(name.text, list(sinks))}")
                case DropSyntax("QUERY" | "VIEW", name):
                    for sink, query_name in sinks.items():
                        if query_name == name.text:
                            raise MuntinError(f"query '{name.text}' is read by sink '{sink}'; drop it first")
                    queries.discard(name.text)

    def _register(self, name: str) -> None:
        self.last += 1
        self.incarnations[name] = self.last

    def take(self, engine: Engine, record: Record, replay: Replay) -> int:
        """Push messages of a source, at hand or read again, and move its position on; the number of events."""
        name, ranges = record.told["stream"], [Range(*each) for each in record.told["ranges"]]
        feed = self.feeds.get(name)
        if feed is None:
            raise NotFound(f"stream '{name}' has no source")
        feed.check(ranges)
        events = record.events
        if events is None:
            events = replay.events(name, feed.options, ranges, record.told["bad"])
        if events.num_rows:
            engine.push(name, events)
        feed.move(ranges)
        return int(events.num_rows)

    def follow_script(self, engine: Engine, text: str, number: int = 0) -> None:
        """Bring the engine in line with a script; all or nothing."""
        statements = list(zip(read_names(text), statement_texts(text), strict=True))
        wanted = {each.name.text: told for each, told in statements if isinstance(each, RegisterSyntax)}
        if not self.script:
            self._execute(engine, text, [each for each, _ in statements], number)
        else:
            changes = [*self._gone_sinks(statements), *self._gone(wanted), *self._new(engine, statements)]
            if changes:
                self.execute(engine, ";\n".join(changes), number)
        self._change_connections([each for each, _ in statements])
        self.script, self.scripted = text, wanted
        self.scripted_sinks = tuple(_sinks_of(statements))

    def _change_connections(self, statements: list[StatementSyntax]) -> None:
        """Give streams and sinks that were there before the options that the script has for them now. They go on from
        where they stand."""
        for each in statements:
            match each:
                case CreateStreamSyntax(name=name, source=source):
                    options, feed = _source_of(source), self.feeds.pop(name.text, None)
                    if options is not None:
                        is_same = feed is not None and feed.options == options
                        self.feeds[name.text] = (
                            feed if feed and is_same else feed.changed(options) if feed else Feed(options)
                        )
                case CreateSinkSyntax(name=name, options=given):
                    there, options = self.sinks[name.text], read_options(given, "sink")
                    if there.options != options:
                        self.sinks[name.text] = Drain(there.query, options, there.since)

    def _gone_sinks(self, statements: list[tuple[StatementSyntax, str]]) -> Iterator[str]:
        """Those that the script has no more, and those that it has with another query."""
        wanted = _sinks_of(statements)
        for name in sorted({*self.scripted_sinks, *wanted}):
            if name in self.sinks and wanted.get(name) != self.sinks[name].query:
                yield f'DROP SINK "{name}"'

    def _gone(self, wanted: dict[str, str]) -> Iterator[str]:
        for name in self.scripted.keys() - wanted.keys():
            if name in self.incarnations:
                yield f'DROP QUERY "{name}"'

    def _new(self, engine: Engine, statements: list[tuple[StatementSyntax, str]]) -> Iterator[str]:
        for syntax, told in statements:
            match syntax:
                case RegisterSyntax(name):
                    if name.text not in self.incarnations:
                        yield told
                    elif self.scripted.get(name.text) != told and not syntax.is_lenient:
                        yield f"CREATE OR REPLACE QUERY {told[told.upper().index('QUERY') + 5 :]}"
                case CreateStreamSyntax(name=name) | CreateTableSyntax(name=name):
                    there = engine.streams.get(name.text) or engine.tables.get(name.text)
                    if there is None:
                        yield told
                    elif not syntax.is_lenient:
                        _check_declared(told, there)
                case SelectionSyntax(name=name) | WindowStreamSyntax(name=name):
                    derived = engine.streams.get(name.text)
                    if derived is None:
                        yield told
                    elif not syntax.is_lenient and not _is_derived_so(syntax, derived):
                        raise _declared_otherwise(derived)
                case CreateViewSyntax(name=name):
                    if name.text not in self.incarnations:
                        yield told
                case CreateSinkSyntax(name, query):
                    if name.text not in self.sinks or self.sinks[name.text].query != query.text:
                        yield told


def _sinks_of(statements: list[tuple[StatementSyntax, str]]) -> dict[str, str]:
    """Sinks that a script asks for, with their queries."""
    return {each.name.text: each.query.text for each, _ in statements if isinstance(each, CreateSinkSyntax)}


def _source_of(syntax: OptionsSyntax | None) -> Given | None:
    """Options of a source that is to be opened; what comes by HTTP comes by itself."""
    options = None if syntax is None else read_options(syntax, "source")
    return None if options is None or options["source"] == "http" else options


def _executed(engine: Engine, text: str) -> Any:
    """What the engine makes of a text, if it has anything for an engine."""
    return engine.execute(text) if text.replace(";", "").strip() else None


def _check_declared(told: str, there: object) -> None:
    [statement] = parse_statements(told, {})
    declared = statement.stream if isinstance(statement, CreateStream) else None
    if isinstance(statement, CreateTable):
        declared = statement.table  # type: ignore[assignment]
    if declared != there:
        raise _declared_otherwise(there)


def _is_derived_so(syntax: DerivedSyntax, there: Stream) -> bool:
    """Whether a stream follows from what a statement says."""
    if isinstance(syntax, WindowStreamSyntax):
        return isinstance(there, WindowStream) and there.query == syntax.query.text
    return isinstance(there, Selection) and there.text == syntax.text


def _declared_otherwise(there: object) -> MuntinError:
    return MuntinError(
        f"{getattr(there, 'label', there)} is declared otherwise than when the server first started; "
        "give it another name, or start with an empty folder"
    )
