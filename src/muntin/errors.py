"""Errors that name the problem and the nearest thing that works.

Every error muntin raises on purpose is a `MuntinError`; its first line says what is wrong, and
the call that raised it has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_WIDEST = 200  # characters of a line that an error shows


class MuntinError(Exception):
    """Base of all errors raised on purpose."""


class SqlError(MuntinError):
    """A statement that cannot be accepted, with the place in its text.

    >>> print(SqlError("unknown column 'prize'; did you mean 'price'?", "SELECT prize", 1, 8, 5))
    unknown column 'prize'; did you mean 'price'? (line 1, column 8)
      SELECT prize
             ^^^^^
    """

    def __init__(self, message: str, text: str = "", line: int = 0, column: int = 0, width: int = 1):
        self.message = message
        self.line = line  # 1-based; 0 when the place is unknown
        self.column = column  # 1-based
        super().__init__(message + _excerpt(text, line, column, width))


class SchemaError(MuntinError):
    """A batch that does not fit its stream or table: a missing column, a wrong type, a NULL time, a key twice."""


class NotFound(MuntinError):
    """A stream, table, query or file that is not there."""


class NameTaken(MuntinError):
    """A name that is already in use."""


class NoValue(MuntinError):
    """A value that does not exist: a sum beyond 64 bits, an integer that overflows, a text that is no number."""


class FunctionError(MuntinError):
    """A function of the user's own that has raised, or has given what it is not declared to give."""


class WindowTooLarge(MuntinError):
    """A look-up at an instant whose window the state no longer (or not yet) covers."""


class CheckpointError(MuntinError):
    """A checkpoint that cannot be written, is damaged, or has another format version."""


class ArchiveError(MuntinError):
    """An archive that cannot be written, is damaged, or is asked for what it cannot do."""


class MissingPackage(MuntinError, ImportError):
    """A package that a part of muntin needs and that is not installed."""


def damaged(view: str, why: str) -> ArchiveError:
    """What is said of a view that cannot be read."""
    return ArchiveError(f"view '{view}' is damaged: {why}; DROP MATERIALIZED VIEW removes it")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the closest known one, else all of them.

    >>> nearest("prize", ["price", "shares"])
    "; did you mean 'price'?"
    >>> nearest("x", ["price", "shares"])
    '; there are: price, shares'
    """
    names = list(known)
    if close := get_close_matches(name, names, n=1):
        return f"; did you mean '{close[0]}'?"
    return f"; there are: {', '.join(names)}" if names else "; there is none yet"


def _excerpt(text: str, line: int, column: int, width: int) -> str:
    if line < 1:
        return ""
    place = f" (line {line}, column {column})"
    lines = text.splitlines()
    if line > len(lines):
        return place
    # half of a surrogate pair can stand in a text, but not where an error is printed
    shown, before = lines[line - 1].encode(errors="replace").decode(), column - 1
    if len(shown) > _WIDEST:
        start = max(0, min(before - _WIDEST // 2, len(shown) - _WIDEST))
        shown, before = shown[start : start + _WIDEST], before - start
    width = min(width, len(shown) - before)
    return f"{place}\n  {shown}\n  {' ' * before}{'^' * max(width, 1)}"
