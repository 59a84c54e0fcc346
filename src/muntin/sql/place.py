"""A place in the text: which characters a node was written as, so that an error can point at them.

The parser marks nodes where they begin and end (`mark`); whoever finds a fault raises `misfit`
with the node; `as_sql_error` turns that into the error the user sees. Only the last step needs
the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError

from muntin.errors import SqlError

Span = tuple[int, int]  # offsets in the text, half-open


class Misfit(ParseError):
    """A fault and its place; sqlglot's own error type, since its parser backtracks on that."""

    def __init__(self, message: str, span: Span | None):
        super().__init__(message)
        self.message = message
        self.span = span


def mark(node: exp.Expr, start: int, end: int) -> None:
    """Note that `node` was written as the characters [start, end)."""
    node.meta["span"] = (start, end)


def place(node: exp.Expr) -> Span | None:
    """The characters of a node: as marked, else from its first part to its last."""
    meta = node.meta
    if "span" in meta:
        return meta["span"]  # type: ignore[no-any-return]
    if "start" in meta:  # sqlglot's own mark on a token; its end is inclusive
        return meta["start"], meta["end"] + 1
    parts = [span for child in node.iter_expressions() if (span := place(child))]
    return (min(start for start, _ in parts), max(end for _, end in parts)) if parts else None


def misfit(node: exp.Expr, message: str) -> Misfit:
    """A fault of `node`, to be raised; a node without a place, such as an empty DISTINCT, is where its parent is."""
    found, around = place(node), node.parent
    while found is None and around is not None:
        found, around = place(around), around.parent
    return Misfit(message, found)


def as_sql_error(fault: Misfit, text: str) -> SqlError:
    """The fault with line, column and a caret under the word.

    >>> print(as_sql_error(Misfit("unknown column 'prize'", (7, 12)), "SELECT prize"))
    unknown column 'prize' (line 1, column 8)
      SELECT prize
             ^^^^^
    """
    if fault.span is None:
        return SqlError(fault.message)
    start, end = fault.span
    lines = (text[:start] + "|").splitlines()  # the bar keeps a place right after a line break
    rest = text[start:end].splitlines()
    return SqlError(fault.message, text, len(lines), len(lines[-1]), len(rest[0]) if rest else 1)


@contextmanager
def pointing_into(text: str) -> Iterator[None]:
    """Turn the faults of a text, however deep they are found, into the errors users see."""
    try:
        yield
    except Misfit as fault:
        raise as_sql_error(fault, text) from None
    except pa.ArrowException as error:  # of a constant that no rule of this package foresees
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise as_sql_error(Misfit(f"this cannot be computed: {why}", None), text) from None
    except RecursionError:
        raise as_sql_error(Misfit("the text is nested too deeply", (0, 1)), text) from None
