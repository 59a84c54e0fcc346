"""Thresholds: HAVING clauses for which an index can find the keys that pass, without visiting all keys."""

from __future__ import annotations

from typing import NamedTuple

from muntin.aggregate.contract import is_text
from muntin.plan.synopses import INDEXES
from muntin.query import Query


class Threshold(NamedTuple):
    """Only keys for which call number `call` has a sort key from `low` to `high` have an answer."""

    call: int
    component: str
    low: int
    high: int
    is_forced: bool  # whether the query asks for the index
    tolerance: float | None  # by what factor keys may miss the range; None: not at all


def compared_call(query: Query) -> int | None:
    """The number of the call whose answer HAVING compares with constants, if that is all it does."""
    band = query.having.band if query.having is not None else None
    if band is None or not band.attribute.is_column or not band.attribute.columns[0].startswith("$"):
        return None
    return int(band.attribute.columns[0][1:])


def threshold_of(query: Query) -> Threshold | str:
    """What HAVING compares, if an index can find the keys that pass; or else why none can."""
    having = query.having
    if having is None or not query.keys:
        return "the query has no HAVING" if having is None else "the query has no GROUP BY"
    number = compared_call(query)
    if number is None or having.band is None:
        return "HAVING is more than a comparison of one aggregate with constants"
    call = query.calls[number]
    index = next((name for name, served in INDEXES.items() if call.function in served), None)
    if index is None or (call.argument is not None and is_text(call.argument.type)):
        return f"there is no index for {call.function.upper()}({call.argument or '*'})"
    if not call.window.is_time or call.window.to:
        return f"{call.window} does not end now, or counts events"
    if query.hint in INDEXES and query.hint != index:
        return f"{call.function.upper()} is found by the {index}"
    is_forced = query.hint == index or query.tolerance is not None
    return Threshold(number, call.function, having.band.low, having.band.high, is_forced, query.tolerance)
