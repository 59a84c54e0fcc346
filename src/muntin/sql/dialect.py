"""muntin's SQL as a sqlglot dialect: the base language, with windows in brackets.

    CREATE STREAM trades (…) TIMESTAMP BY ts        FROM trades [RANGE 5 MINUTES]
    REGISTER QUERY busy AS SELECT …                 SUM(x) FILTER (WHERE …) OVER [ROWS 100]

The grammar is in layers, each a file: `window_clause`, `expression_parser`, `statement_parser`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from sqlglot import Token, Tokenizer, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError

from muntin.argument import half_of_pair
from muntin.sql.parameters import Parameters
from muntin.sql.place import Misfit
from muntin.sql.statement_parser import StatementParser
from muntin.sql.syntax import StatementSyntax


class MuntinTokenizer(Tokenizer):
    """No statement swallows its text whole, there are no template braces, and types that only some dialects of
    sqlglot know are words."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{
            word: kind
            for word, kind in Tokenizer.KEYWORDS.items()
            if kind not in (TokenType.COMMAND, TokenType.BLOCK_START, TokenType.BLOCK_END)
        },
        "//": TokenType.DIV,
        "UTINYINT": TokenType.UTINYINT,
        "USMALLINT": TokenType.USMALLINT,
        "UINTEGER": TokenType.UINT,
        "UBIGINT": TokenType.UBIGINT,
        "TIMESTAMP_S": TokenType.TIMESTAMP_S,
        "TIMESTAMP_MS": TokenType.TIMESTAMP_MS,
        "TIMESTAMP_NS": TokenType.TIMESTAMP_NS,
    }
    COMMANDS: ClassVar[set[TokenType]] = set()


class Muntin(Dialect):
    """Registered with sqlglot under the name "muntin"."""

    SUPPORTS_USER_DEFINED_TYPES = False
    NORMALIZE_NOT_NULL = False  # keep x IS NOT NULL as it is written

    Tokenizer = MuntinTokenizer
    Parser = StatementParser


_DIALECT = Muntin()
_MOST_CHARACTERS = 100_000  # of one statement
_MOST_WORDS = 10_000  # and operators, of one statement; the constants of a list are not counted
_MOST_DIGITS = 1_000  # of a number; Python reads no integer of more than 4,300
_UNCOUNTED = (TokenType.NUMBER, TokenType.STRING, TokenType.COMMA)
_BRACES = (TokenType.L_BRACE, TokenType.R_BRACE)
_NO_BRACES = "braces are not part of the language; a window stands in brackets, such as [RANGE 5 MINUTES]"
_TOO_LONG = (
    f"a statement has at most {_MOST_CHARACTERS:,} characters, and {_MOST_WORDS:,} words and operators besides the "
    "constants of IN lists; write x IN (…) instead of x = … OR x = …, or ask several queries"
)


def read_script(text: str, parameters: Parameters | None = None) -> list[StatementSyntax]:
    """The statements of a text, not yet looked up; a `Misfit` at the first fault."""
    tokens, written = (parameters or Parameters()).bind(_tokenize(text))
    return StatementParser(dialect=_DIALECT).script(tokens, text, written)


def read_expression(text: str) -> exp.Expr:
    """The tree of a text that is one expression."""
    return StatementParser(dialect=_DIALECT).lone_expression(_tokenize(text), text)


def _tokenize(text: str) -> list[Token]:
    """The tokens of a text of which no statement is too long to be read within a second."""
    if len(text) > _MOST_CHARACTERS:
        _refuse_length(text)
    if (at := half_of_pair(text)) is not None:
        half = f"\\u{ord(text[at]):04x}"
        raise Misfit(f"UTF-8 cannot say {half}: it is one half of a surrogate pair", (at, at + 1))
    try:
        tokens = _DIALECT.tokenize(text)
    except TokenError as error:
        raise _unclosed(text) from error
    words = 0
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.SEMICOLON:
            words = 0
        elif kind == TokenType.NUMBER and len(token.text) > _MOST_DIGITS:
            raise Misfit(f"a number has at most {_MOST_DIGITS:,} digits", (token.start, token.end + 1))
        elif kind not in _UNCOUNTED:
            words += 1
            if words > _MOST_WORDS or kind in _BRACES:
                raise Misfit(_TOO_LONG if words > _MOST_WORDS else _NO_BRACES, (token.start, token.end + 1))
    return tokens


def _refuse_length(text: str) -> None:
    """A fault if a statement is too long; what stands between semicolons is never longer than a statement."""
    start = 0
    for piece in text.split(";"):
        if len(piece) > _MOST_CHARACTERS:
            raise Misfit(_TOO_LONG, (start, start + 1))
        start += len(piece) + 1


def _unclosed(text: str) -> Misfit:
    """Where the string, quoted name or comment begins that never ends."""
    closing = {"'": "'", '"': '"', "/*": "*/", "--": "\n"}
    names = {"'": "string", '"': "quoted name", "/*": "comment"}
    at = 0
    while at < len(text):
        opening = next((mark for mark in closing if text.startswith(mark, at)), None)
        if opening is None:
            at += 1
            continue
        end = text.find(closing[opening], at + len(opening))
        if end < 0 and opening in names:
            return Misfit(f"the {names[opening]} that begins here is not closed; add {closing[opening]}",
                          (at, len(text)))  # fmt: skip
        at = len(text) if end < 0 else end + len(closing[opening])
    return Misfit("the text cannot be read as SQL", (0, len(text)))


def statement_texts(text: str) -> list[str]:
    """The text of each statement, without the semicolons between them."""
    statements: list[list[Token]] = [[]]
    for token in Muntin().tokenize(text):
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [text[tokens[0].start : tokens[-1].end + 1] for tokens in statements if tokens]


def functions_called(text: str) -> frozenset[str]:
    """The names that stand before a parenthesis in a text, in capitals: functions, and some words of the language.

    >>> sorted(functions_called("SELECT geomean (x) FROM s [ROWS 5] WHERE y = 'f(x)' -- g(x)"))
    ['GEOMEAN']
    """
    tokens = _DIALECT.tokenize(text)
    return frozenset(
        token.text.upper()
        for token, after in pairwise(tokens)
        if after.token_type == TokenType.L_PAREN and token.token_type != TokenType.STRING
    )
