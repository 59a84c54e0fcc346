"""Statements: CREATE STREAM, REGISTER QUERY, EXPLAIN, DROP and others, by their first words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import Token, TokenType, exp

from muntin.errors import nearest
from muntin.sql.connection_parser import ConnectionParser
from muntin.sql.parameters import Written
from muntin.sql.syntax import (
    SHOWN,
    AlterViewSyntax,
    CreateStreamSyntax,
    CreateViewSyntax,
    DerivedSyntax,
    DescribeSyntax,
    DropSyntax,
    ExplainSyntax,
    ExplainViewSyntax,
    Name,
    RegisterSyntax,
    RewindSyntax,
    SelectionSyntax,
    ShowSyntax,
    StatementSyntax,
    WindowStreamSyntax,
)
from muntin.sql.vocabulary import LATENESS, STATEMENT_REFUSALS, STATEMENTS

_AGAIN = {"QUERY": ("DROP QUERY", "REGISTER QUERY"), "STREAM": ("DROP STREAM", "CREATE STREAM")}
_KINDS = {
    "VIEW": "write CREATE MATERIALIZED VIEW name AS SELECT … EVERY 1 MINUTE",
    "QUERY": "write REGISTER QUERY name AS SELECT …",
    "OR": "only queries are replaced: write CREATE OR REPLACE QUERY name AS SELECT …",
}
_FIRST_WORDS = (
    "SELECT", "CREATE", "DROP", "REGISTER", "EXPLAIN", "ALTER", "REWIND", "INSERT", "DELETE", "SHOW", "DESCRIBE",
)  # fmt: skip


class StatementParser(ConnectionParser):
    """Reads a script, statement by statement."""

    def script(self, tokens: list[Token], text: str, written: Sequence[Written]) -> list[StatementSyntax]:
        """All statements of the text, which are separated by semicolons; constants are `written` for its parameters."""
        self.reset()
        self.sql, self.written = text, written
        chunks: list[list[Token]] = [[]]
        for token in tokens:
            if token.token_type == TokenType.SEMICOLON:
                chunks.append([])
            else:
                chunks[-1].append(token)
        self._chunks = [chunk for chunk in chunks if chunk]
        statements = []
        while self._chunk_index < len(self._chunks):
            self._advance_chunk()
            statements.append(self._statement())
            if self._at_word("BACKFILL"):
                self.fault(
                    "BACKFILL belongs to REGISTER QUERY name AS SELECT …; in Python, give register(backfill=…)"
                )
            if self._curr:
                self.fault(f"unexpected {self.found()} after the end of the statement")
        return statements

    def lone_expression(self, tokens: list[Token], text: str) -> exp.Expr:
        """The expression that is the whole text."""
        self.reset()
        self.sql = text
        self._chunks = [tokens]
        self._advance_chunk()
        tree = self.condition()
        if self._curr:
            self.fault(f"unexpected {self.found()} after the end of the expression")
        return tree

    def _statement(self) -> StatementSyntax:
        if self._curr.token_type == TokenType.SELECT:
            return self.select()
        if self.word("CREATE"):
            return self._create()
        if self.word("DROP"):
            return self._drop()
        if self.word("REGISTER"):
            return self._register()
        if self.word("EXPLAIN"):
            return self._explain()
        if self.word("ALTER"):
            return self._alter()
        if self.word("REWIND"):
            return self._rewind()
        if self.word("INSERT"):
            return self.insert()
        if self.word("DELETE"):
            return self.delete()
        if self.word("SHOW"):
            return self._show()
        if self.word("DESCRIBE"):
            return DescribeSyntax(self.name("the name of a stream, table, view or query"))
        word = self._curr.text.upper()
        hint = nearest(word, _FIRST_WORDS)
        known = hint if "did you mean" in hint else f"; begin with {STATEMENTS}"
        self.fault(STATEMENT_REFUSALS.get(word, f"unknown statement {self.found()}{known}"))

    def _create(self) -> StatementSyntax:
        if self.word("OR", "REPLACE"):
            return self._replace()
        if self.word("TABLE"):
            is_lenient = self._if_not_exists()
            return replace(self.create_table(), is_lenient=is_lenient)
        if not self.word("STREAM"):
            if self.word("MATERIALIZED", "VIEW"):
                return self._create_view()
            if self.word("SINK"):
                is_lenient = self._if_not_exists()
                return replace(self.create_sink(), is_lenient=is_lenient)
            word = self._curr.text.upper() if self._curr else ""
            self.fault(
                _KINDS.get(
                    word,
                    f"expected STREAM, TABLE, SINK or MATERIALIZED VIEW after CREATE, found {self.found()}",
                )
            )
        is_lenient, named = self._if_not_exists(), self._curr
        name = self.name("a stream name")
        if (derived := self._derived(name, named, is_lenient)) is not None:
            return derived
        if not self._match(TokenType.L_PAREN):
            self.fault(f"expected '(' and the columns, AS SELECT or FROM QUERY, found {self.found()}")
        columns = [self.column_definition()]
        while self._match(TokenType.COMMA):
            columns.append(self.column_definition())
        self._expect(TokenType.R_PAREN, "',' or ')'")
        if not self.word("TIMESTAMP", "BY"):
            self.fault(f"CREATE STREAM needs TIMESTAMP BY and the time column, found {self.found()}")
        time = self.name("the time column")
        delay, ahead = self._length("DELAY") or 0, self._length("AHEAD")
        return CreateStreamSyntax(name, tuple(columns), time, delay, ahead, self.options(), is_lenient)

    def _derived(self, name: Name, named: Token, is_lenient: bool) -> DerivedSyntax | None:
        """What stands after the name of a stream that nobody pushes."""
        if self.word("AS"):
            select = self.select()
            text = f"CREATE STREAM {self.text_between(named, self._prev)}"  # however it came
            return SelectionSyntax(text, name, select, is_lenient)
        if not self.word("FROM"):
            return None
        if not self.word("QUERY"):
            self.fault(
                f"expected QUERY and its name after FROM, found {self.found()}; events of a stream are selected with "
                "AS SELECT … FROM"
            )
        made = WindowStreamSyntax(name, self.name("a query name"), is_lenient)
        if self._at_word(*LATENESS):
            self.fault(LATENESS[self._curr.text.upper()])
        return made

    def _length(self, word: str) -> int | None:
        """The length of time after a word, if the word stands here."""
        if not self.word(word):
            return None
        at, length = self._curr, self.duration()
        if length < 0:
            self.fault(f"{word} cannot be negative", at)
        return length

    def _rewind(self) -> RewindSyntax:
        if not self.word("STREAM"):
            self.fault(f"expected STREAM after REWIND, found {self.found()}")
        name = self.name("a stream name")
        if not self.word("TO"):
            self.fault(f"expected TO and an instant after the stream's name, found {self.found()}")
        self.word("TIMESTAMP")
        instant = self._curr
        if not self._match(TokenType.STRING):
            self.fault(f"expected an instant in quotes, such as '2026-01-31 12:00:00', found {self.found()}")
        return RewindSyntax(name, instant.text)

    def _create_view(self) -> CreateViewSyntax:
        start = self._tokens[0]
        is_lenient, named = self._if_not_exists(), self._curr
        name = self.name("a view name")
        key: list[Name] = []
        if self.word("KEY"):
            key += self.names_in_parentheses("the columns of the key")
        if not self.word("AS"):
            self.fault(f"expected AS and a SELECT after the view's name, found {self.found()}")
        select = self.select("EVERY", "INDEX", "EXCEPT")
        negated = self.select("EVERY", "INDEX") if self.word("EXCEPT") else None
        every = None
        if self.word("EVERY"):
            at = self._curr
            every = self.duration()
            if every < 1:
                self.fault("EVERY is a length of time above 0", at)
        indexing = self._indexing() if self.word("INDEX") else None
        text = self.text_between(start, self._prev)
        if is_lenient:  # what is kept is what is declared, however it came
            text = f"CREATE MATERIALIZED VIEW {self.text_between(named, self._prev)}"
        return CreateViewSyntax(text, name, tuple(key), select, every, indexing, negated, is_lenient)

    def _indexing(self) -> Name:
        token = self._curr
        if not self._match(TokenType.STRING):
            self.fault(f"expected an index such as 'rebuild 4x4' in quotes, found {self.found()}")
        return Name(token.text, True, (token.start, token.end + 1))

    def _alter(self) -> AlterViewSyntax:
        if not self.word("MATERIALIZED", "VIEW"):
            what = " and ".join(_AGAIN.get(self._curr.text.upper(), _AGAIN["STREAM"]))
            self.fault(f"only a MATERIALIZED VIEW can be altered; {what} again")
        name = self.name("a view name")
        if not self.word("INDEX"):
            self.fault(f"expected INDEX and an index such as 'rebuild 4x4', found {self.found()}")
        return AlterViewSyntax(name, self._indexing())

    def _if_not_exists(self) -> bool:
        """Whether IF NOT EXISTS stands here."""
        first = self._curr
        if self.word("IF", "EXISTS"):
            self.fault("what is made takes IF NOT EXISTS; IF EXISTS belongs to DROP", first)
        return self.word("IF", "NOT", "EXISTS")

    def _if_exists(self) -> bool:
        """Whether IF EXISTS stands here."""
        first = self._curr
        if self.word("IF", "NOT", "EXISTS"):
            self.fault("DROP takes IF EXISTS; IF NOT EXISTS belongs to what is made", first)
        return self.word("IF", "EXISTS")

    def _show(self) -> ShowSyntax:
        kind = self._curr
        if not any(map(self.word, SHOWN)):
            self.fault(f"expected {', '.join(SHOWN[:-1])} or {SHOWN[-1]} after SHOW, found {self.found()}")
        return ShowSyntax(kind.text.upper())

    def _drop(self) -> DropSyntax:
        start, kind = self._tokens[0], self._curr.text.upper()
        if self.word("MATERIALIZED", "VIEW"):
            kind = "VIEW"
        elif not any(map(self.word, ("STREAM", "TABLE", "QUERY", "SINK"))):
            self.fault(
                f"expected STREAM, TABLE, QUERY, SINK or MATERIALIZED VIEW after DROP, found {self.found()}"
            )
        is_lenient = self._if_exists()
        name = self.name(f"a {kind.lower()} name")
        return DropSyntax(kind, name, (start.start, self._prev.end + 1), is_lenient)

    def _register(self) -> RegisterSyntax:
        if not self.word("QUERY"):
            self.fault(f"expected QUERY after REGISTER, found {self.found()}")
        is_lenient = self._if_not_exists()
        name, select, begin = self._query_name(), self.select(), self._curr
        backfill = self._backfill()
        span = None if backfill is None else (begin.start, self._prev.end + 1)
        return RegisterSyntax(name, select, backfill, is_lenient=is_lenient, backfill_span=span)

    def _replace(self) -> RegisterSyntax:
        if not self.word("QUERY"):
            self.fault(
                f"expected QUERY after CREATE OR REPLACE, found {self.found()}; only queries are replaced"
            )
        first = self._curr
        if self._if_not_exists():
            self.fault("CREATE OR REPLACE takes no IF NOT EXISTS: it replaces what is there", first)
        made = RegisterSyntax(self._query_name(), self.select(), None, is_replacement=True)
        if self.word("BACKFILL"):
            self.fault("CREATE OR REPLACE QUERY takes no BACKFILL; DROP the query, and REGISTER it again")
        return made

    def _query_name(self) -> Name:
        name = self.name("a query name")
        if not self.word("AS"):
            self.fault(f"expected AS and a SELECT after the query's name, found {self.found()}")
        return name

    def _backfill(self) -> str | None:
        """The path after BACKFILL, if there is one."""
        if not self.word("BACKFILL"):
            return None
        path = self._curr
        if not self._match(TokenType.STRING):
            self.fault(f"expected a path in quotes after BACKFILL, found {self.found()}")
        if not path.text:
            self.fault("the path after BACKFILL is empty", path)
        return path.text

    def _explain(self) -> ExplainSyntax | ExplainViewSyntax:
        if not self._curr:
            return ExplainSyntax(None, None)
        if self.word("QUERY"):
            return ExplainSyntax(self.name("a query name"), None)
        if self.word("VIEW"):
            return ExplainViewSyntax(self.name("a view name"))
        if self._curr.token_type != TokenType.SELECT:
            self.fault(f"expected QUERY name, VIEW name or SELECT after EXPLAIN, found {self.found()}")
        return ExplainSyntax(None, self.select())
