"""What stands after FROM: a stream with its window, and the stream it is joined with."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import TokenType

from muntin.sql.expression_parser import ExpressionParser
from muntin.sql.syntax import JoinSyntax, Name, SourceSyntax
from muntin.sql.vocabulary import JOIN_REFUSALS


class SourceParser(ExpressionParser):
    """Reads names, sources and joins."""

    def source(self) -> SourceSyntax:
        """`trades [RANGE 5 MINUTES] AS t`."""
        if self._curr.token_type == TokenType.L_PAREN:
            self.fault(
                "subqueries are not supported; filter with WHERE or FILTER, or push its answers as a stream"
            )
        stream = self.name("a stream name")
        window = self.window_clause() if self._curr.token_type == TokenType.L_BRACKET else None
        has_as = self._match(TokenType.ALIAS)
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER) and not self._at_word(
            "EMIT", "EVERY", "BACKFILL"
        )
        alias = self.name("a name after AS") if has_as or is_name else None
        if window is None and alias is not None and self._curr.token_type == TokenType.L_BRACKET:
            self.fault("the window stands directly after the stream: FROM stream [RANGE …] AS name")
        return SourceSyntax(stream, alias, window)

    def join(self) -> JoinSyntax | None:
        """`JOIN b [RANGE 5 MINUTES] ON a.k = b.k`, if there is one, with those that follow."""
        word = self._curr.text.upper() if self._curr else ""
        if word in JOIN_REFUSALS:
            self.fault(JOIN_REFUSALS[word])
        if word not in ("INNER", "JOIN"):
            return None
        self.word("INNER")
        at = self._curr
        if not self.word("JOIN"):
            self.fault(f"expected JOIN after INNER, found {self.found()}")
        source = self.source()
        if self._match(TokenType.ON):
            join = JoinSyntax(source, self.condition(), (), (at.start, at.end + 1))
        elif self._match(TokenType.USING):
            join = JoinSyntax(source, None, self._using(), (at.start, at.end + 1))
        else:
            self.fault(f"a join needs ON left.column = right.column, found {self.found()}")
        after = self.join()
        return join if after is None else replace(join, further=(replace(after, further=()), *after.further))

    def _using(self) -> tuple[Name, ...]:
        self._expect(TokenType.L_PAREN, "'(' and the columns after USING")
        names = [self.name("a column name")]
        while self._match(TokenType.COMMA):
            names.append(self.name("a column name"))
        self._expect(TokenType.R_PAREN, "',' or ')'")
        return tuple(names)

    def name(self, wanted: str) -> Name:
        """A name, quoted or not; reserved words must be quoted."""
        token = self._curr
        if token.token_type != TokenType.IDENTIFIER and token.token_type not in self.ID_VAR_TOKENS:
            hint = (
                f'; to use it as a name, quote it: "{token.text}"'
                if token and token.text.isidentifier()
                else ""
            )
            self.fault(f"expected {wanted}, found {self.found()}{hint}")
        self._advance()
        is_quoted = token.token_type == TokenType.IDENTIFIER
        if not token.text:
            self.fault("a name cannot be empty", token)
        return Name(token.text, is_quoted, (token.start, token.end + 1))

    def _expect(self, kind: TokenType, wanted: str) -> None:
        if not self._match(kind):
            self.fault(f"expected {wanted}, found {self.found()}")
