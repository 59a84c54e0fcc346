"""MIN and MAX. NaN counts as the greatest number, as in DuckDB, PostgreSQL and Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Lowered, Partials


class _Extreme(Aggregate):
    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None:
            raise TypeError("takes a column or expression")
        return argument

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        (value,) = partials[self.name]
        return Lowered(value, count > 0)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        return partials[1][0] if partials[0][0] else None


class Min(_Extreme):
    """The smallest value in the window; NULL if there is none."""

    name = "min"
    components = ("count", "min")


class Max(_Extreme):
    """The greatest value in the window; NULL if there is none."""

    name = "max"
    components = ("count", "max")
