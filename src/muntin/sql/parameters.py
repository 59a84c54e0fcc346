"""Parameters: `$limit` in a text, and the value that a call gives it.

A value takes the place of the parameter's token, as the tokens of a constant: it is never read as SQL, whatever is in
it, and errors still point at the parameter. A query is kept as a text, in which the constant is written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import copysign, isfinite
from typing import Any, NamedTuple

import numpy as np
from sqlglot import Token, TokenType

from muntin.argument import kept_text_of, shown
from muntin.errors import MuntinError, nearest
from muntin.sql.place import Misfit, Span

_Word = tuple[TokenType, str]
_OPEN, _MINUS, _CLOSE = (TokenType.L_PAREN, "("), (TokenType.DASH, "-"), (TokenType.R_PAREN, ")")


class Written(NamedTuple):
    """Where a parameter stands, and the constant that is meant, as it would be written."""

    span: Span
    constant: str


class Parameters:
    """Values by name, put into the texts that they are given with; `check` when all have been read."""

    def __init__(self, values: Mapping[str, Any] | None = None):
        if values is not None and not isinstance(values, Mapping):
            raise MuntinError(f"parameters is a dict {{name: value}}, not {shown(values)}")
        self._values = values or {}
        self._used: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._values)

    def bind(self, tokens: Sequence[Token]) -> tuple[list[Token], list[Written]]:
        """The tokens with constants in the place of parameters, and what was put where."""
        bound: list[Token] = []
        written: list[Written] = []
        for token in tokens:
            if token.token_type != TokenType.VAR or not token.text.startswith("$"):
                bound.append(token)
                continue
            span = token.start, token.end + 1
            words = list(self._words(token.text[1:], span))
            bound += [
                Token(kind, text, token.line, token.col, token.start, token.end) for kind, text in words
            ]
            written.append(Written(span, " ".join(_quoted(*word) for word in words)))
        return bound, written

    def _words(self, name: str, span: Span) -> Iterator[_Word]:
        if name not in self._values:
            hint = nearest(name, self._values) if self._values else f"; give it: {{'{name}': 5}}"
            raise Misfit(f"parameter '{name}' has no value{hint}", span)
        self._used.add(name)
        yield from _constant(name, self._values[name])

    def check(self) -> None:
        """Refuse values for which there is no parameter."""
        for name in self._values:
            if name not in self._used:
                raise MuntinError(f"the text has no parameter '${name}', for which a value is given")


def as_written(text: str, start: int, end: int, written: Sequence[Written]) -> str:
    """A part of a text with constants in the place of its parameters."""
    parts, at = [], start
    for (first, after), constant in written:
        if start <= first and after <= end:
            parts += [text[at:first], constant]
            at = after
    return "".join([*parts, text[at:end]])


def _constant(name: str, value: Any) -> Iterator[_Word]:
    """The words of a value."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        yield TokenType.NULL, "NULL"
    elif isinstance(value, bool):
        yield (TokenType.TRUE, "TRUE") if value else (TokenType.FALSE, "FALSE")
    elif isinstance(value, Decimal) and value.is_finite():
        number = (TokenType.NUMBER, f"{value.copy_abs():f}")
        yield from (_OPEN, _MINUS, number, _CLOSE) if value < 0 else (number,)
    elif isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        is_negative = copysign(1, value) < 0
        number = (TokenType.NUMBER, repr(abs(value)))
        yield from (_OPEN, _MINUS, number, _CLOSE) if is_negative else (number,)
    elif isinstance(value, str):
        yield TokenType.STRING, kept_text_of(f"parameter '{name}'", value)
    elif isinstance(value, datetime):
        instant = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        yield from ((TokenType.TIMESTAMP, "TIMESTAMP"), (TokenType.STRING, instant.isoformat(" ")))
    elif isinstance(value, date):
        yield from ((TokenType.DATE, "DATE"), (TokenType.STRING, value.isoformat()))
    elif isinstance(value, timedelta):
        length = f"{value // timedelta(microseconds=1)} microseconds"
        yield from ((TokenType.INTERVAL, "INTERVAL"), (TokenType.STRING, length))
    else:
        raise MuntinError(
            f"parameter '{name}' is {shown(value)}; a value is a number, a text, a boolean, None, a datetime, a date "
            "or a timedelta"
        )


def _quoted(kind: TokenType, text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if kind == TokenType.STRING else text
