"""The script that a server is started with, and the names of queries in use.

On its first start a server runs its script as it is. A script that has changed at a later start is compared with what
is there: queries that are new in it are registered, those with another text are replaced, those that have gone from
it are dropped. Streams and tables that are new are created; one that is there must be declared as it was. Other
statements, such as INSERT, are for the first start. Queries that came over HTTP are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muntin.engine import Engine
from muntin.errors import MuntinError
from muntin.sql import CreateStream, CreateTable, parse_statements, statement_texts
from muntin.sql.dialect import read_script
from muntin.sql.place import pointing_into
from muntin.sql.syntax import (
    CreateStreamSyntax,
    CreateTableSyntax,
    CreateViewSyntax,
    DropSyntax,
    RegisterSyntax,
    StatementSyntax,
)


def read_names(text: str) -> list[StatementSyntax]:
    """The statements of a text as they are written; an SqlError at the word if it cannot be read."""
    with pointing_into(text):
        return read_script(text)


@dataclass
class Roster:
    """Queries in use, each with the number of its incarnation; and what the script asked for."""

    incarnations: dict[str, int] = field(default_factory=dict)
    last: int = 0  # incarnation
    script: str = ""
    scripted: dict[str, str] = field(default_factory=dict)  # queries that the script asks for: their texts

    def note(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {
            "incarnations": self.incarnations,
            "last": self.last,
            "script": self.script,
            "scripted": self.scripted,
        }

    @staticmethod
    def read(note: dict[str, Any]) -> Roster:
        """What `note` wrote."""
        return Roster(dict(note["incarnations"]), note["last"], note["script"], dict(note["scripted"]))

    def execute(self, engine: Engine, text: str) -> Any:
        """Run statements, and number the queries that came."""
        found = engine.execute(text)
        for statement in read_names(text):
            match statement:
                case RegisterSyntax(name, _, _, is_replacement):
                    if not (is_replacement and name.text in self.incarnations):
                        self._register(name.text)
                case CreateViewSyntax(name=name):
                    self._register(name.text)
                case DropSyntax("QUERY" | "VIEW", name):
                    self.incarnations.pop(name.text, None)
        return found

    def _register(self, name: str) -> None:
        self.last += 1
        self.incarnations[name] = self.last

    def follow_script(self, engine: Engine, text: str) -> None:
        """Bring the engine in line with a script; all or nothing."""
        statements = list(zip(read_names(text), statement_texts(text), strict=True))
        wanted = {each.name.text: told for each, told in statements if isinstance(each, RegisterSyntax)}
        changes = (
            [text] if not self.script else [*self._gone(engine, wanted), *self._new(engine, statements, text)]
        )
        if any(each.strip() for each in changes):
            self.execute(engine, ";\n".join(changes))
        self.script, self.scripted = text, wanted

    def _gone(self, engine: Engine, wanted: dict[str, str]) -> Iterator[str]:
        for name in self.scripted.keys() - wanted.keys():
            if name in engine.queries:
                yield f'DROP QUERY "{name}"'

    def _new(self, engine: Engine, statements: list[tuple[StatementSyntax, str]], text: str) -> Iterator[str]:
        for syntax, told in statements:
            match syntax:
                case RegisterSyntax(name):
                    if name.text not in engine.queries:
                        yield told
                    elif self.scripted.get(name.text) != told:
                        yield f"CREATE OR REPLACE QUERY {told[told.upper().index('QUERY') + 5 :]}"
                case CreateStreamSyntax(name=name) | CreateTableSyntax(name=name):
                    there = engine.streams.get(name.text) or engine.tables.get(name.text)
                    if there is None:
                        yield told
                    else:
                        _check_declared(told, there)
                case CreateViewSyntax(name=name):
                    if name.text not in engine.queries:
                        yield told


def _check_declared(told: str, there: object) -> None:
    [statement] = parse_statements(told, {})
    declared = statement.stream if isinstance(statement, CreateStream) else None
    if isinstance(statement, CreateTable):
        declared = statement.table  # type: ignore[assignment]
    if declared != there:
        raise MuntinError(
            f"{getattr(there, 'label', there)} is declared otherwise than when the server first started; "
            "give it another name, or start with an empty folder"
        )
