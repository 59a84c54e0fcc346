"""FIRST and LAST: the value of the earliest or latest event that has one.

Ties in event time are broken by arrival: FIRST takes the first to arrive, LAST the last.
"""

from __future__ import annotations

from muntin.aggregate.contract import Picked


class First(Picked):
    """The earliest value in the window that is not NULL."""

    name = "first"
    components = ("count", "first")


class Last(Picked):
    """The latest value in the window that is not NULL."""

    name = "last"
    components = ("count", "last")
