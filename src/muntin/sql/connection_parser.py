"""Where events come from and where answers go: WITH (…) of a stream, and CREATE SINK."""

from __future__ import annotations

from sqlglot import TokenType

from muntin.sql.syntax import CreateSinkSyntax, Name, OptionsSyntax, OptionSyntax
from muntin.sql.table_parser import TableParser


class ConnectionParser(TableParser):
    """Reads what only a server makes use of."""

    def create_sink(self) -> CreateSinkSyntax:
        """`pager FROM busy WITH (sink = 'http', url = '…')`."""
        start = self._tokens[0]
        name = self.name("a sink name")
        self._expect(TokenType.FROM, "FROM and a query after the sink's name")
        query = self.name("a query name")
        options = self.options()
        if options is None:
            self.fault(f"CREATE SINK needs WITH (sink = 'kafka', …), found {self.found()}")
        return CreateSinkSyntax(name, query, options, (start.start, self._prev.end + 1))

    def options(self) -> OptionsSyntax | None:
        """`WITH (name = value, …)`, if it stands here."""
        start = self._curr
        if not self.word("WITH"):
            return None
        self._expect(TokenType.L_PAREN, "'(' and options such as source = 'kafka'")
        options = [self._option()]
        while self._match(TokenType.COMMA):
            options.append(self._option())
        self._expect(TokenType.R_PAREN, "',' or ')'")
        return OptionsSyntax(tuple(options), (start.start, self._prev.end + 1))

    def _option(self) -> OptionSyntax:
        word = self._curr
        if not word or not word.text.isidentifier() or word.token_type == TokenType.STRING:
            self.fault(f"expected the name of an option, found {self.found()}")
        self._advance()  # also a word that the language has, such as format
        name = Name(word.text.lower(), word.token_type == TokenType.IDENTIFIER, (word.start, word.end + 1))
        self._expect(TokenType.EQ, f"'=' after option '{name.text}'")
        token = self._curr
        if self._match(TokenType.STRING):
            return OptionSyntax(name, token.text, (token.start, token.end + 1))
        if self._match(TokenType.NUMBER) and token.text.isdigit():
            return OptionSyntax(name, int(token.text), (token.start, token.end + 1))
        self.fault(f"option '{name.text}' is a text in quotes or a whole number, found {self.found()}", token)
