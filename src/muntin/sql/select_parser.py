"""SELECT, clause by clause.

The clauses are read here and not by sqlglot's own SELECT parser, which accepts the clauses of
every dialect: so whatever is left out can be refused at its first word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from sqlglot import Token, TokenType, exp

from muntin.errors import nearest
from muntin.sql.call import calls_in
from muntin.sql.expression_parser import SourceParser
from muntin.sql.parameters import Written, as_written
from muntin.sql.place import Span, mark, misfit, place
from muntin.sql.syntax import Item, OrderSyntax, SelectSyntax, WindowedSelect
from muntin.sql.vocabulary import CLAUSE_REFUSALS, LATENESS
from muntin.window import Window

_HINT = re.compile(r"\s*SYNOPSIS\s*\(\s*(\w+)\s*\)\s*", re.IGNORECASE)
_CLAUSES = ("JOIN", "INNER", "WHERE", "GROUP BY", "HAVING", "WINDOW")
_LIMIT_DIGITS = 18  # which 64 bits have room for


class SelectParser(SourceParser):
    """Reads a SELECT."""

    written: Sequence[Written] = ()  # constants in the place of parameters

    def text_between(self, first: Token, last: Token) -> str:
        """The text from a token to another, with constants in the place of parameters."""
        return as_written(self.sql, first.start, last.end + 1, self.written)

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """EXISTS (SELECT …) in an expression; other subqueries are refused."""
        before = self._tokens[max(0, self._index - 2)]
        if self._curr.token_type != TokenType.SELECT or before.token_type != TokenType.EXISTS:
            return super()._parse_select(*args, **kwargs)
        return WindowedSelect(select=self.select(is_inner=True))

    def select(self, *followers: str, is_inner: bool = False) -> SelectSyntax:
        """A SELECT; one of the `followers` may stand after it, or, if it is in another, the parenthesis."""
        start = self._curr
        if not self._match(TokenType.SELECT):
            self.fault(f"expected SELECT, found {self.found()}")
        around, self.windows = self.windows, self._windows_ahead()
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
            keys = self._keys(items)
        if self._match(TokenType.HAVING):
            having = self.condition()
        if self._at_word("WINDOW"):
            self._named_windows()  # which are known already
        changes = self._changes()
        order = self._order(items)
        changes = changes or self._changes()
        self.windows = around
        is_closed = is_inner and self._curr and self._curr.token_type == TokenType.R_PAREN
        if not is_closed and not self._at_word(*followers):
            self._end_of_select()
        text = self.text_between(start, self._prev)
        return SelectSyntax(text, (start.start, start.end + 1), tuple(items), source.stream,
                            source.alias, source.window, where, tuple(keys or ()), having, hint, changes,
                            distinct, join, order, source.span)  # fmt: skip

    def _windows_ahead(self) -> Mapping[str, Window]:
        """The windows that this SELECT names, where they stand: after their names are used."""
        start, depth = self._index, 0
        for ahead, token in enumerate(self._tokens[start:]):
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth < 0 or (ahead and token.token_type == TokenType.SELECT and not depth):
                return {}
            if token.token_type == TokenType.WINDOW and not depth:
                self._advance(ahead)
                named = self._named_windows()
                self._retreat(start)
                return named
        return {}

    def _named_windows(self) -> Mapping[str, Window]:
        """`WINDOW w AS [RANGE 5 MINUTES], v AS [ROWS 100]`."""
        named: dict[str, Window] = {}
        self._advance()
        while True:
            name = self.name("a name for a window")
            if name.text.casefold() in named:
                raise name.misfit(f"two windows are called '{name.text}'")
            if not self._match(TokenType.ALIAS) or self._curr.token_type != TokenType.L_BRACKET:
                self.fault(f"WINDOW reads WINDOW w AS [RANGE 5 MINUTES], found {self.found()}")
            named[name.text.casefold()] = self.window_clause()
            if not self._match(TokenType.COMMA):
                return named

    def _keys(self, items: list[Item]) -> list[exp.Expr]:
        """What stands after GROUP BY: expressions, positions of items, or ALL."""
        if self.word("ALL"):
            return list(_keys_among(items))
        keys = [self._key(items)]
        while self._match(TokenType.COMMA):
            keys.append(self._key(items))
        return keys

    def _key(self, items: list[Item]) -> exp.Expr:
        """An expression, or the item of SELECT with the number that stands in its place."""
        tree = self.condition()
        if not isinstance(tree, exp.Literal) or tree.is_string or not tree.name.isdigit():
            return tree
        if not 1 <= int(tree.name) <= len(items):
            raise misfit(tree, f"there is no item {tree.name} in SELECT; it has {len(items)}")
        meant = items[int(tree.name) - 1].tree.copy()
        mark(meant, *cast(Span, place(tree)))
        return meant

    def _refuse_grouping(self) -> None:
        word = " ".join(self._curr.text.upper().split()) if self._curr else ""
        if word == "GROUPING SETS" or (
            word in ("ROLLUP", "CUBE") and self._next.token_type == TokenType.L_PAREN
        ):
            self.fault(
                f"{word} is not supported; register a query for each set of keys: they share their events"
            )

    def _order(self, items: list[Item]) -> OrderSyntax | None:
        """ORDER BY and LIMIT, if there is one of them."""
        first = self._curr
        by = []
        if self._match(TokenType.ORDER_BY):
            by.append(self._ordered(items))
            while self._match(TokenType.COMMA):
                by.append(self._ordered(items))
        limit = limit_place = None
        if self._match(TokenType.LIMIT):
            number = self._curr
            if not number or number.token_type != TokenType.NUMBER or not number.text.isdigit():
                self.fault(f"LIMIT takes a number of rows, found {self.found()}", number or None)
            self._advance()
            if len(number.text) > _LIMIT_DIGITS:
                self.fault(f"LIMIT takes a number of up to {_LIMIT_DIGITS} digits", number)
            limit, limit_place = int(number.text), (number.start, number.end + 1)
        if not by and limit is None:
            return None
        word = " ".join(first.text.upper().split())
        return OrderSyntax(word, (first.start, first.end + 1), tuple(by), limit, limit_place)

    def _ordered(self, items: list[Item]) -> tuple[exp.Expr, bool]:
        tree = self._key(items)
        descends = bool(self._match(TokenType.DESC))
        if not descends:
            self._match(TokenType.ASC)
        if self.word("NULLS") and not self.word("LAST"):
            self.fault("NULL is always last in an order; leave out NULLS FIRST")
        return tree, descends

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
        alias = self._prev.text.upper()
        if alias in LATENESS and self._curr.token_type in (TokenType.NUMBER, TokenType.INTERVAL):
            self.fault(LATENESS[alias], self._prev)
        if self._curr.token_type == TokenType.L_BRACKET:
            self.fault("the window stands directly after the stream: FROM stream [RANGE …]")
        if word in _CLAUSES:
            self.fault(
                f"{word} is out of order; the order is FROM, JOIN, WHERE, GROUP BY, HAVING, WINDOW, ORDER BY, "
                "LIMIT, EMIT CHANGES"
            )
        self._refuse_misspelling("WHERE", "GROUP", "HAVING", "EMIT")
        self.fault(f"unexpected {self.found()}")

    def _refuse_misspelling(self, *words: str) -> None:
        """A fault at this token or the one before (which was read as an alias) if it resembles a word."""
        for token in (self._curr, self._prev):
            if token.token_type == TokenType.VAR and "mean" in (hint := nearest(token.text.upper(), words)):
                self.fault(f"unexpected '{token.text}'{hint}", token)


def _keys_among(items: Sequence[Item]) -> Iterator[exp.Expr]:
    """What GROUP BY ALL groups by: items with columns, and neither an aggregate nor the alias of one before them."""
    summed: set[str] = set()  # such aliases
    for item in items:
        columns = list(item.tree.find_all(exp.Column))
        if any(calls_in(item.tree)) or any(
            not each.table and each.name.casefold() in summed for each in columns
        ):
            summed |= set() if item.alias is None else {item.alias.text.casefold()}
        elif columns:
            yield item.tree.copy()
