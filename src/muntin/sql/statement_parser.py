"""Statements: CREATE STREAM, SELECT, REGISTER QUERY, EXPLAIN and DROP, clause by clause.

The clauses are read here and not by sqlglot's own SELECT parser, which accepts the clauses of
every dialect: so whatever is left out can be refused at its first word.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import Token, TokenType, exp

from muntin.errors import nearest
from muntin.sql.connection_parser import ConnectionParser
from muntin.sql.place import Span, mark
from muntin.sql.syntax import (
    AlterViewSyntax,
    CreateStreamSyntax,
    CreateViewSyntax,
    DropSyntax,
    ExplainSyntax,
    ExplainViewSyntax,
    Item,
    Name,
    OrderSyntax,
    RegisterSyntax,
    RewindSyntax,
    SelectSyntax,
    StatementSyntax,
    WindowedSelect,
)
from muntin.sql.vocabulary import CLAUSE_REFUSALS, STATEMENT_REFUSALS, STATEMENTS

_HINT = re.compile(r"\s*SYNOPSIS\s*\(\s*(\w+)\s*\)\s*", re.IGNORECASE)
_AGAIN = {"QUERY": ("DROP QUERY", "REGISTER QUERY"), "STREAM": ("DROP STREAM", "CREATE STREAM")}
_KINDS = {
    "VIEW": "write CREATE MATERIALIZED VIEW name AS SELECT … EVERY 1 MINUTE",
    "QUERY": "write REGISTER QUERY name AS SELECT …",
    "OR": "only queries are replaced: write CREATE OR REPLACE QUERY name AS SELECT …",
}
_FIRST_WORDS = (
    "SELECT", "CREATE", "DROP", "REGISTER", "EXPLAIN", "ALTER", "REWIND", "INSERT", "DELETE",
)  # fmt: skip
_CLAUSES = ("JOIN", "INNER", "WHERE", "GROUP BY", "HAVING")


class StatementParser(ConnectionParser):
    """Reads a script, statement by statement."""

    def script(self, tokens: list[Token], text: str) -> list[StatementSyntax]:
        """All statements of the text, which are separated by semicolons."""
        self.reset()
        self.sql = text
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
            return self._select()
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
        word = self._curr.text.upper()
        hint = nearest(word, _FIRST_WORDS)
        known = hint if "did you mean" in hint else f"; begin with {STATEMENTS}"
        self.fault(STATEMENT_REFUSALS.get(word, f"unknown statement {self.found()}{known}"))

    def _create(self) -> StatementSyntax:
        if self.word("OR", "REPLACE"):
            return self._replace()
        if self.word("TABLE"):
            self._refuse_if()
            return self.create_table()
        if not self.word("STREAM"):
            if self.word("MATERIALIZED", "VIEW"):
                return self._create_view()
            if self.word("SINK"):
                self._refuse_if()
                return self.create_sink()
            word = self._curr.text.upper() if self._curr else ""
            self.fault(
                _KINDS.get(
                    word,
                    f"expected STREAM, TABLE, SINK or MATERIALIZED VIEW after CREATE, found {self.found()}",
                )
            )
        self._refuse_if()
        name = self.name("a stream name")
        self._expect(TokenType.L_PAREN, "'(' and the columns")
        columns = [self.column_definition()]
        while self._match(TokenType.COMMA):
            columns.append(self.column_definition())
        self._expect(TokenType.R_PAREN, "',' or ')'")
        if not self.word("TIMESTAMP", "BY"):
            self.fault(f"CREATE STREAM needs TIMESTAMP BY and the time column, found {self.found()}")
        time = self.name("the time column")
        delay, ahead = self._length("DELAY") or 0, self._length("AHEAD")
        return CreateStreamSyntax(name, tuple(columns), time, delay, ahead, self.options())

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
        self._refuse_if()
        name = self.name("a view name")
        key: list[Name] = []
        if self.word("KEY"):
            key += self.names_in_parentheses("the columns of the key")
        if not self.word("AS"):
            self.fault(f"expected AS and a SELECT after the view's name, found {self.found()}")
        select = self._select("EVERY", "INDEX", "EXCEPT")
        negated = self._select("EVERY", "INDEX") if self.word("EXCEPT") else None
        every = None
        if self.word("EVERY"):
            at = self._curr
            every = self.duration()
            if every < 1:
                self.fault("EVERY is a length of time above 0", at)
        indexing = self._indexing() if self.word("INDEX") else None
        text = self.sql[start.start : self._prev.end + 1]
        return CreateViewSyntax(text, name, tuple(key), select, every, indexing, negated)

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

    def _refuse_if(self) -> None:
        """IF EXISTS and IF NOT EXISTS, which would else be read as names."""
        first = self._curr
        if self.word("IF", "NOT", "EXISTS") or self.word("IF", "EXISTS"):
            self.fault(
                "IF EXISTS and IF NOT EXISTS are not supported; ask engine.streams and engine.queries what is there",
                first,
            )

    def _drop(self) -> DropSyntax:
        start, kind = self._tokens[0], self._curr.text.upper()
        if self.word("MATERIALIZED", "VIEW"):
            kind = "VIEW"
        elif not any(map(self.word, ("STREAM", "TABLE", "QUERY", "SINK"))):
            self.fault(
                f"expected STREAM, TABLE, QUERY, SINK or MATERIALIZED VIEW after DROP, found {self.found()}"
            )
        self._refuse_if()
        name = self.name(f"a {kind.lower()} name")
        return DropSyntax(kind, name, (start.start, self._prev.end + 1))

    def _register(self) -> RegisterSyntax:
        if not self.word("QUERY"):
            self.fault(f"expected QUERY after REGISTER, found {self.found()}")
        return RegisterSyntax(self._query_name(), self._select(), self._backfill())

    def _replace(self) -> RegisterSyntax:
        if not self.word("QUERY"):
            self.fault(
                f"expected QUERY after CREATE OR REPLACE, found {self.found()}; only queries are replaced"
            )
        made = RegisterSyntax(self._query_name(), self._select(), None, is_replacement=True)
        if self.word("BACKFILL"):
            self.fault("CREATE OR REPLACE QUERY takes no BACKFILL; DROP the query, and REGISTER it again")
        return made

    def _query_name(self) -> Name:
        self._refuse_if()
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
        return ExplainSyntax(None, self._select())

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """EXISTS (SELECT …) in an expression; other subqueries are refused."""
        before = self._tokens[max(0, self._index - 2)]
        if self._curr.token_type != TokenType.SELECT or before.token_type != TokenType.EXISTS:
            return super()._parse_select(*args, **kwargs)
        return WindowedSelect(select=self._select(is_inner=True))

    def _select(self, *followers: str, is_inner: bool = False) -> SelectSyntax:
        """A SELECT; one of the `followers` may stand after it, or, if it is in another, the parenthesis."""
        start = self._curr
        if not self._match(TokenType.SELECT):
            self.fault(f"expected SELECT, found {self.found()}")
        hint = self._hint()
        distinct = self._distinct()
        if is_inner and self._match(TokenType.STAR):
            items = [Item(exp.Literal.number(1), None)]  # whatever it is, it exists or not
        else:
            items = [self._item()]
        while self._match(TokenType.COMMA):
            items.append(self._item())
        if self._curr.token_type != TokenType.FROM:
            self._refuse_misspelling("FROM")
        self._expect(TokenType.FROM, "',' or FROM")
        source, join = self.source(), self.join()
        where = keys = having = None
        if self._match(TokenType.WHERE):
            where = self.condition()
        if self._match(TokenType.GROUP_BY):
            self._refuse_grouping()
            keys = [self.condition()]
            while self._match(TokenType.COMMA):
                keys.append(self.condition())
        if self._match(TokenType.HAVING):
            having = self.condition()
        changes = self._changes()
        order = self._order()
        is_closed = is_inner and self._curr and self._curr.token_type == TokenType.R_PAREN
        if not is_closed and not self._at_word(*followers):
            self._end_of_select()
        text = self.sql[start.start : self._prev.end + 1]
        return SelectSyntax(text, (start.start, start.end + 1), tuple(items), source.stream,
                            source.alias, source.window, where, tuple(keys or ()), having, hint, changes,
                            distinct, join, order, source.span)  # fmt: skip

    def _refuse_grouping(self) -> None:
        word = " ".join(self._curr.text.upper().split()) if self._curr else ""
        if word == "GROUPING SETS" or (
            word in ("ROLLUP", "CUBE") and self._next.token_type == TokenType.L_PAREN
        ):
            self.fault(
                f"{word} is not supported; register a query for each set of keys: they share their events"
            )

    def _order(self) -> OrderSyntax | None:
        """ORDER BY and LIMIT, if there is one of them."""
        first = self._curr
        by = []
        if self._match(TokenType.ORDER_BY):
            by.append(self._ordered())
            while self._match(TokenType.COMMA):
                by.append(self._ordered())
        limit = None
        if self._match(TokenType.LIMIT):
            number = self._curr
            if not self._match(TokenType.NUMBER) or not number.text.isdigit():
                self.fault(f"LIMIT takes a number of rows, found {self.found()}", number or None)
            limit = int(number.text)
        if not by and limit is None:
            return None
        word = " ".join(first.text.upper().split())
        return OrderSyntax(word, (first.start, first.end + 1), tuple(by), limit)

    def _ordered(self) -> tuple[exp.Expr, bool]:
        tree = self.condition()
        if self._match(TokenType.DESC):
            return tree, True
        self._match(TokenType.ASC)
        return tree, False

    def _distinct(self) -> Span | None:
        """Where DISTINCT stands, if it does."""
        if not self._match(TokenType.DISTINCT):
            return None
        if self._curr.token_type == TokenType.ON:
            self.fault(
                "DISTINCT ON is not supported; write GROUP BY with LAST(x), the most recent of each key"
            )
        return self._prev.start, self._prev.end + 1

    def _changes(self) -> Span | None:
        """Where EMIT CHANGES stands, if it does."""
        start = self._curr
        if not self.word("EMIT"):
            return None
        if not self.word("CHANGES"):
            self.fault(f"expected CHANGES after EMIT, found {self.found()}")
        return start.start, self._prev.end + 1

    def _hint(self) -> str | None:
        token = self._curr
        if not self._match(TokenType.HINT):
            return None
        if not (hint := _HINT.fullmatch(token.comments[0] if token.comments else "")):
            self.fault("the only hint is /*+ SYNOPSIS(name) */", token)
        return hint[1].lower()

    def _item(self) -> Item:
        star = self._curr
        if self._match(TokenType.STAR):
            every = exp.Star()  # for a table to read
            mark(every, star.start, star.end + 1)
            return Item(every, None)
        tree = self.condition()
        if self._match(TokenType.ALIAS):
            return Item(tree, self.name("a name after AS"))
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        return Item(tree, self.name("a name") if is_name else None)

    def _end_of_select(self) -> None:
        if not self._curr or self._at_word("BACKFILL"):
            return
        word = " ".join(self._curr.text.upper().split())
        if word in CLAUSE_REFUSALS:
            self.fault(CLAUSE_REFUSALS[word])
        if self._curr.token_type == TokenType.L_BRACKET:
            self.fault("the window stands directly after the stream: FROM stream [RANGE …]")
        if word in _CLAUSES:
            self.fault(
                f"{word} is out of order; the order is FROM, JOIN, WHERE, GROUP BY, HAVING, EMIT CHANGES"
            )
        self._refuse_misspelling("WHERE", "GROUP", "HAVING", "EMIT")
        self.fault(f"unexpected {self.found()}")

    def _refuse_misspelling(self, *words: str) -> None:
        """A fault at this token or the one before (which was read as an alias) if it resembles a word."""
        for token in (self._curr, self._prev):
            if token.token_type == TokenType.VAR and "mean" in (hint := nearest(token.text.upper(), words)):
                self.fault(f"unexpected '{token.text}'{hint}", token)
