"""MIN and MAX. NaN counts as the greatest number, as in DuckDB, PostgreSQL and Spark."""

from __future__ import annotations

from muntin.aggregate.contract import Picked


class Min(Picked):
    """The smallest value in the window; NULL if there is none."""

    name = "min"
    components = ("count", "min")


class Max(Picked):
    """The greatest value in the window; NULL if there is none."""

    name = "max"
    components = ("count", "max")
