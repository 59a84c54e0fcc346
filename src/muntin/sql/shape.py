"""The shape of a query's text: what is left of it without its windows, numbers and strings.

    SELECT SUM(x) FROM s [RANGE 60 SECONDS] WHERE y > 3 AND z = 'a'
    SELECT SUM(x) FROM s ▢                  WHERE y > ▢ AND z = ▢

Thousands of standing queries have a few dozen shapes. Which of the values taken out are equal belongs to
the shape as well: `SUM(x) OVER [ROWS 5]` written twice is one aggregate, with another window it is two.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from muntin.sql.window_clause import UNITS
from muntin.window import LONGEST_TIME, Window

_UNIT = "(" + "|".join(f"{unit}S?" for unit in UNITS) + ")"
_TIME = re.compile(
    rf"\[\s*RANGE\s+(\d{{1,15}})\s+{_UNIT}(?:\s+TO\s+(\d{{1,15}})\s+{_UNIT})?"
    rf"(?:\s+SLIDE\s+(\d{{1,15}})\s+{_UNIT})?\s*\]",
    re.IGNORECASE,
)
_ROWS = re.compile(
    r"\[\s*ROWS\s+(\d{1,15})(?:\s+TO\s+(\d{1,15}))?(?:\s+SLIDE\s+(\d{1,15}))?\s*\]", re.IGNORECASE
)
_VALUE = re.compile(r"\[[^\[\]]*\]|(?<!\w)'[^']*'|(?<![\w.])\d{1,18}(?:\.\d{1,17})?(?![\w.])")
_OTHER = re.compile(r"--|/\*|[\"\\`{}@#]|''")  # comments, quoted names, escapes
_LEFT = re.compile(r"['\[\]]|(?<!\w)\.?\d|\.\d")  # a value in a notation that is not taken out
_LONGEST = 2**62

Value = Window | int | float | str


class Hole(NamedTuple):
    """A value that was taken out, and the characters it was written as."""

    value: Value
    start: int
    end: int


class Shape(NamedTuple):
    """`same[i]` is the number of the first hole with the value of hole `i`. Windows are of one kind if they
    count alike, and all or none of them slide."""

    pieces: tuple[str, ...]  # the text between the holes
    kinds: tuple[str, ...]
    same: tuple[int, ...]


def shape_of(text: str) -> tuple[Shape, list[Hole]] | None:
    """A text's shape and what was taken out; None if it is written in a way that needs the parser.

    >>> shape, holes = shape_of("SELECT MAX(x) FROM s [ROWS 5] WHERE x < 3 OR y < 3")
    >>> shape.pieces, shape.same
    (('SELECT MAX(x) FROM s ', ' WHERE x < ', ' OR y < ', ''), (0, 1, 1))
    >>> [hole.value for hole in holes]
    [[ROWS 5], 3, 3]
    """
    if _OTHER.search(text):
        return None
    pieces, kinds, same, end = [], [], [], 0
    holes: list[Hole] = []
    first: dict[tuple[str, Value], int] = {}
    for found in _VALUE.finditer(text):
        written, (start, after) = found[0], found.span()
        value: Value | None
        if written[0] == "[":
            value = read_window(written)
            if value is None:
                return None
            kind = f"{value.unit} slides" if value.slide else value.unit
        elif written[0] == "'":
            value, kind = written[1:-1], "text"
        else:
            value, kind = (float(written), "float") if "." in written else (int(written), "int")
        pieces.append(text[end:start])
        kinds.append(kind)
        same.append(first.setdefault((kind, value), len(holes)))
        holes.append(Hole(value, start, after))
        end = after
    pieces.append(text[end:])
    return Shape(tuple(pieces), tuple(kinds), tuple(same)), holes


def has_values_left(shape: Shape) -> bool:
    """Whether values are left in the text, in a notation that was not taken out."""
    return any(_LEFT.search(piece) for piece in shape.pieces)


@lru_cache(maxsize=4096)
def read_window(text: str) -> Window | None:
    """The window of a clause in its plain form; None if it is written otherwise, or wrong.

    >>> read_window("[RANGE 1 HOUR SLIDE 30 SECONDS]"), read_window("[ROWS 0]")
    ([RANGE 1 HOUR SLIDE 30 SECONDS], None)
    """
    if found := _TIME.fullmatch(text):
        size, to, slide = (
            int(found[i]) * UNITS[found[i + 1].upper().removesuffix("S")] if found[i] else None
            for i in (1, 3, 5)
        )
    elif found := _ROWS.fullmatch(text):
        size, to, slide = (int(found[i]) if found[i] else None for i in (1, 2, 3))
    else:
        return None
    assert size is not None
    longest = LONGEST_TIME if found.re is _TIME else _LONGEST
    is_right = 0 < size <= longest and (to is None or to <= size) and (slide is None or 0 < slide <= longest)
    return Window("time" if found.re is _TIME else "rows", size, to or 0, slide or 0) if is_right else None
