"""FIRST and LAST: the value of the earliest or latest event that has one.

Ties in event time are broken by arrival: FIRST takes the first to arrive, LAST the last.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Lowered, Partials


class _End(Aggregate):
    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None:
            raise TypeError("takes a column or expression")
        return argument

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        value, _at = partials[self.name]
        return Lowered(value, count > 0)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        return partials[1][0] if partials[0][0] else None


class First(_End):
    """The earliest value in the window that is not NULL."""

    name = "first"
    components = ("count", "first")


class Last(_End):
    """The latest value in the window that is not NULL."""

    name = "last"
    components = ("count", "last")
