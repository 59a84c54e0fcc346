"""Expressions and sources: sqlglot's base language, with `FILTER (WHERE …) OVER [RANGE …]` after a call.

Base SQL reads brackets as arrays and subscripts; here they hold windows and nothing else. The
functions known here are those that compute a value per row; all other calls, aggregates among
them, stay `exp.Anonymous` for the binder to look up.

What stands after FROM is read here as well: a stream with its window, and the streams it is joined with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.parser import IsPredicatePrecedence, Parser

from muntin.errors import nearest
from muntin.sql.function_nodes import OWN_FUNCTIONS
from muntin.sql.place import Misfit, mark, misfit
from muntin.sql.syntax import JoinSyntax, Name, SourceSyntax
from muntin.sql.type_name import unknown_type
from muntin.sql.vocabulary import FUNCTIONS, JOIN_REFUSALS, SPECIAL_FUNCTIONS
from muntin.sql.window_clause import WindowParser
from muntin.window import Window

_DEEPEST = 200  # operations; each takes a few of the interpreter's 1,000 frames, to compile and to evaluate
_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)
_ENDS = (TokenType.COMMA, TokenType.R_PAREN)


def _depth(tree: exp.Expr) -> int:
    """How many operations stand inside one another; without recursion, since a tree may be deep."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in node.iter_expressions()]
    return depth


class Over(exp.Expression):
    """An aggregate call with its own FILTER condition, its own OVER window, or both."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "filter": False, "window": False}


def _closed(parse: Callable[[Any], exp.Expr]) -> Callable[[Any], exp.Expr]:
    """`parse`, insisting on the closing parenthesis that sqlglot lets such functions leave out."""

    def parse_closed(parser: ExpressionParser) -> exp.Expr:
        node = parse(parser)
        if parser._curr.token_type != TokenType.R_PAREN:
            parser.fault(f"expected ')', found {parser.found()}")
        return node

    return parse_closed


class ExpressionParser(WindowParser):
    """Expressions of the base language; every operand is marked with its place."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {
        name: Parser.FUNCTIONS[name] for name in FUNCTIONS if name in Parser.FUNCTIONS
    } | {function.sql_name(): function.from_arg_list for function in OWN_FUNCTIONS}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: _closed(Parser.FUNCTION_PARSERS[name]) for name in SPECIAL_FUNCTIONS
    } | {"CEILING": _closed(Parser.FUNCTION_PARSERS["CEIL"])}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **Parser.UNARY_PARSERS,
        TokenType.TILDE: lambda self: exp.BitwiseNot(this=self._parse_term()),  # ~a + b is ~(a + b)
    }
    IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW  # x > 0 IS TRUE is (x > 0) IS TRUE
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    BRACKETS: ClassVar[frozenset[TokenType]] = frozenset(
        {TokenType.L_BRACKET}
    )  # sqlglot reads maps in braces

    windows: Mapping[str, Window] = MappingProxyType({})  # that OVER may name, by folded name

    def condition(self) -> exp.Expr:
        """A whole expression, or a fault where one should begin."""
        before, start = self._prev, self._index
        node = self._parse_disjunction()
        if node is None:
            self.fault(f"expected an expression after '{before.text}', found {self.found()}")
        if self._index - start > _DEEPEST and (depth := _depth(node)) > _DEEPEST:
            raise misfit(
                node,
                f"the expression is {depth} operations deep, and {_DEEPEST} is the most; put parts of a long chain "
                "into parentheses: (a + b + …) + (c + d + …)",
            )
        return node

    def _parse_disjunction(self) -> exp.Expr | None:
        if (constant := self._lone_constant()) is not None:
            return constant
        terms = [self._parse_conjunction()]
        while self._match(TokenType.OR):
            terms.append(self._parse_conjunction())
        return self._balanced(exp.Or, terms)

    def _parse_conjunction(self) -> exp.Expr | None:
        terms = [self._parse_equality()]
        while self._match(TokenType.AND):
            terms.append(self._parse_equality())
        return self._balanced(exp.And, terms)

    def _balanced(self, kind: type[exp.Connector], terms: list[exp.Expr | None]) -> exp.Expr | None:
        """The terms joined by AND or OR, as a tree whose depth is the logarithm of their number."""
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            odd = terms[-1:] if len(terms) % 2 else []
            terms = [self.expression(kind(this=left, expression=right)) for left, right in pairs] + odd
        return terms[0]

    def _lone_constant(self) -> exp.Expr | None:
        """A constant that is a whole expression, as in IN (1, 2, 3); sqlglot would try every level of the grammar."""
        kind = self._curr.token_type
        if kind not in _CONSTANTS or self._next.token_type not in _ENDS:
            return None
        token = self._curr
        self._advance()
        node = exp.Literal(this=token.text, is_string=kind == TokenType.STRING)
        mark(node, token.start, token.end + 1)
        return node

    def raise_error(self, message: str, token: Token | None = None) -> None:
        if message.startswith("Required "):
            # sqlglot names the node that lacks an operand; the user wants the word before the gap
            self.fault(f"expected an expression after '{self._prev.text}', found {self.found()}")
        if message == "Expected TYPE after CAST":
            self.fault(unknown_type(self._curr.text) if self._curr else message)
        if message.startswith("Expecting "):
            self.fault(f"expected '{message.removeprefix('Expecting ')}', found {self.found()}")
        self.fault(message[:1].lower() + message[1:], token)

    def _parse_unary(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_unary()
        if node is not None:
            mark(node, first.start, self._prev.end + 1)
        return node

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_types(*args, **kwargs)
        if node is not None:
            mark(node, first.start, self._prev.end + 1)
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        name = self._curr
        try:
            return super()._parse_function_call(*args, **kwargs)
        except Misfit as fault:
            fault.span = fault.span or (name.start, name.end + 1)
            raise

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        if args is not None and list(expression.error_messages(args)):
            name = expression.sql_name() if isinstance(expression, exp.Func) else expression.key.upper()
            raise Misfit(f"{name} does not take {len(args)} argument{'' if len(args) == 1 else 's'}", None)
        return super().validate_expression(expression)

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        """What may follow a call: FILTER (WHERE …), then OVER [window]."""
        kept = window = None
        if self._match(TokenType.FILTER):
            if not (self._match(TokenType.L_PAREN) and self._match(TokenType.WHERE)):
                self.fault("FILTER reads FILTER (WHERE condition)", self._prev)
            kept = self.condition()
            if not self._match(TokenType.R_PAREN):
                self.fault(f"expected ')' after FILTER (WHERE …, found {self.found()}")
        if self._match(TokenType.OVER):
            window = self._over()
            if self._match(TokenType.FILTER):
                self.fault("FILTER stands before OVER: SUM(x) FILTER (WHERE …) OVER […]", self._prev)
        if self.word("WITHIN", "GROUP"):
            self.fault(
                "WITHIN GROUP is not supported; write QUANTILE(x, 0.99)", self._tokens[self._index - 2]
            )
        return Over(this=this, filter=kept, window=window) if kept is not None or window else this

    def _over(self) -> Window:
        """The window after OVER: in brackets, or by its name."""
        if self._curr.token_type == TokenType.L_BRACKET:
            return self.window_clause()
        name = self._curr
        is_name = name.token_type == TokenType.IDENTIFIER or name.token_type in self.ID_VAR_TOKENS
        if not is_name or self._at_word("ROWS", "RANGE"):
            self.fault("OVER takes a window in brackets: OVER [RANGE 5 MINUTES] or OVER [ROWS 100]")
        if name.text.casefold() not in self.windows:
            hint = (
                nearest(name.text, self.windows) if self.windows else "; write WINDOW w AS [RANGE 5 MINUTES]"
            )
            self.fault(f"there is no window '{name.text}'{hint}")
        self._advance()
        return self.windows[name.text.casefold()]

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if self._curr.token_type == TokenType.L_BRACKET:
            self.fault("a window in brackets belongs after the stream in FROM or after OVER")
        return this

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if self._curr.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.VALUES):
            self.fault(
                "subqueries are not supported; filter with WHERE or FILTER, or write CREATE STREAM name AS SELECT …"
            )
        return None

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.fault(f"BETWEEN reads x BETWEEN low AND high; expected AND, found {self.found()}")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_case(self) -> exp.Expr | None:
        start = self._prev
        subject = None if self._curr.token_type == TokenType.WHEN else self.condition()
        branches = []
        while self._match(TokenType.WHEN):
            when = self.condition()
            if not self._match(TokenType.THEN):
                self.fault(f"expected THEN after WHEN …, found {self.found()}")
            branches.append(exp.If(this=when, true=self.condition()))
        if not branches:
            self.fault(f"expected WHEN after CASE, found {self.found()}")
        default = self.condition() if self._match(TokenType.ELSE) else None
        if not self._match(TokenType.END):
            self.fault("CASE is not closed; add END", start)
        return exp.Case(this=subject, ifs=branches, default=default)


class SourceParser(ExpressionParser):
    """Reads names, sources and joins."""

    def source(self) -> SourceSyntax:
        """`trades [RANGE 5 MINUTES] AS t`."""
        if self._curr.token_type == TokenType.L_PAREN:
            self.fault(
                "subqueries are not supported; filter with WHERE or FILTER, or write CREATE STREAM name AS SELECT …"
            )
        stream = self.name("a stream name")
        window, span = self.windowed() if self._curr.token_type == TokenType.L_BRACKET else (None, None)
        has_as = self._match(TokenType.ALIAS)
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER) and not self._at_word(
            "EMIT", "EVERY", "BACKFILL"
        )
        alias = self.name("a name after AS") if has_as or is_name else None
        if window is None and alias is not None and self._curr.token_type == TokenType.L_BRACKET:
            self.fault("the window stands directly after the stream: FROM stream [RANGE …] AS name")
        return SourceSyntax(stream, alias, window, span)

    def join(self) -> JoinSyntax | None:
        """`JOIN b [RANGE 5 MINUTES] ON a.k = b.k`, if there is one, with those that follow."""
        word = self._curr.text.upper() if self._curr else ""
        if word in JOIN_REFUSALS:
            self.fault(JOIN_REFUSALS[word])
        if word not in ("INNER", "LEFT", "JOIN"):
            return None
        first = self._curr
        left = (first.start, first.end + 1) if self.word("LEFT") else None
        self.word("INNER" if left is None else "OUTER")
        at = self._curr
        if not self.word("JOIN"):
            self.fault(f"expected JOIN after {self._prev.text.upper()}, found {self.found()}")
        source = self.source()
        if self._match(TokenType.ON):
            join = JoinSyntax(source, self.condition(), (), (at.start, at.end + 1), left=left)
        elif self._match(TokenType.USING):
            join = JoinSyntax(
                source,
                None,
                self.names_in_parentheses("the columns after USING"),
                (at.start, at.end + 1),
                left=left,
            )
        else:
            self.fault(f"a join needs ON left.column = right.column, found {self.found()}")
        after = self.join()
        return join if after is None else replace(join, further=(replace(after, further=()), *after.further))

    def names_in_parentheses(self, what: str) -> tuple[Name, ...]:
        """`(a, b)`."""
        self._expect(TokenType.L_PAREN, f"'(' and {what}")
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
