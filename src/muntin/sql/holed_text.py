"""Canonical text with holes: what an expression is called, whatever numbers are filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from muntin.sql.shape import Value

_FIRST = 900_000_000_000_000_001  # numbers nobody writes; as floats they would lose their last digits


class HoledText(NamedTuple):
    """`pieces` are what stands before each hole and after the last; `holes` are the numbers of values."""

    pieces: tuple[str, ...]
    holes: tuple[int, ...]

    def fill(self, values: Sequence[Value]) -> str:
        """
        >>> HoledText(("x > ", " AND y < ", ""), (1, 0)).fill([0.5, 3])
        'x > 3 AND y < 0.5'
        """
        parts = [self.pieces[0]]
        for hole, piece in zip(self.holes, self.pieces[1:], strict=True):
            parts += (repr(values[hole]), piece)
        return "".join(parts)


def find_holes(write: Callable[[Sequence[Value]], str], values: Sequence[Value]) -> HoledText:
    """The text with holes that gives what `write` does for all numbers of the types that `values` have.

    >>> find_holes(lambda values: f"x BETWEEN {values[0]} AND {values[0] + 0}", [3])
    HoledText(pieces=('x BETWEEN ', ' AND ', ''), holes=(0, 0))
    """
    probes = [_FIRST + i if isinstance(value, int) else i + 123456789.5 for i, value in enumerate(values)]
    hole_of = {repr(probe): hole for hole, probe in enumerate(probes)}
    pieces = re.split(rf"(?<![\w.])({'|'.join(map(re.escape, hole_of))})(?![\w.])", write(probes))
    return HoledText(tuple(pieces[::2]), tuple(hole_of[each] for each in pieces[1::2]))
