"""A request: a query to be placed, what it asks for, and what was chosen for each demand; all checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from muntin.aggregates.contract import is_text
from muntin.band import Band
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.lane import Laned
from muntin.plan.choices import Call, Chosen, choose_synopsis
from muntin.plan.demand import Demand, Demands, demands_of
from muntin.plan.lanes import lanes_of
from muntin.plan.synopses import INDEXES
from muntin.query import Query
from muntin.table_query import TableQuery

# Thresholds: HAVING clauses for which an index can find the keys that pass, without visiting all keys.


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


class LanedRequest(NamedTuple):
    """The same query as it would be placed among lanes."""

    laned: Laned
    calls: tuple[Call, ...]
    presence: Call


class LanedCallRequest(NamedTuple):
    """A call with a FILTER as it would be placed among lanes."""

    laned: Laned
    call: Call


class Request(NamedTuple):
    """`calls` and `presence` are demands as in `Demands`, each with what was chosen for it; `among_lanes` is how the
    query could be served instead, from a store that it shares with queries that have other constants. The same for
    each of its calls are `calls_among_lanes`, of which there are none if no call has a FILTER."""

    query: Query
    calls: tuple[Call, ...]
    presence: Call
    among_lanes: LanedRequest | None = None
    calls_among_lanes: tuple[LanedCallRequest | None, ...] = ()
    joined: TableQuery | None = None  # whose source the query is

    def lanes(self) -> Iterator[Laned]:
        """All lanes that it could read."""
        if self.among_lanes is not None:
            yield self.among_lanes.laned
        yield from (each.laned for each in self.calls_among_lanes if each is not None)


def request_of(query: Query | TableQuery, is_by_demand: bool = False) -> Request:
    """The request of a query; an error if any of it cannot be served. Needs no plan, and changes none; `is_by_demand`
    says which kind of plan it is for."""
    if isinstance(query, TableQuery):
        return request_of(query.source, is_by_demand)._replace(joined=query)
    calls, presence = _chosen(demands_of(query))
    _check_hint(query, [chosen for *_, chosen in (*chain.from_iterable(calls), *presence)])
    is_asked_for = query.hint in INDEXES or query.tolerance is not None
    if is_asked_for and isinstance(reason := threshold_of(query), str):
        index = query.hint if query.hint in INDEXES else "index that APPROX reads"
        raise MuntinError(f"the {index} cannot find the keys of this query: {reason}")
    laned, calls_in_lanes = lanes_of(query, is_by_demand)
    among_lanes = None if laned is None else LanedRequest(laned[0], *_chosen(laned[1]))
    of_calls = tuple(
        None if each is None else LanedCallRequest(each[0], _chosen_each(each[1])) for each in calls_in_lanes
    )
    return Request(query, calls, presence, among_lanes, of_calls)


def _chosen(demands: Demands) -> tuple[tuple[Call, ...], Call]:
    """Each demand with the synopsis that is chosen for it alone."""
    return tuple([_chosen_each(call) for call in demands.calls]), _chosen_each(demands.presence)


def _chosen_each(demands: Iterable[Demand]) -> Call:
    return tuple([(demand, choose_synopsis(demand)) for demand in demands])


def _check_hint(query: Query, chosen: list[Chosen]) -> None:
    """A hint must serve some aggregate of the query, or at least its presence; the others go their usual way."""
    if (
        query.hint is not None
        and query.hint not in INDEXES
        and query.hint not in {each.synopsis for each in chosen}
    ):
        raise MuntinError(
            f"synopsis '{query.hint}' serves nothing of this query, which is answered by "
            f"{' and '.join(dict.fromkeys(each.synopsis for each in chosen))}; leave the hint out"
        )


def demands_in(request: Request) -> list[tuple[Demand, Chosen]]:
    """All demands of a request, each with what was chosen for it."""
    return [each for call in request.calls for each in call] + list(request.presence)


def bands_of(requests: Iterable[Request]) -> dict[Expression, set[Band]]:
    """All bands that queries ask for, by attribute."""
    found: dict[Expression, set[Band]] = {}
    for request in requests:
        for call in request.calls:
            if (band := call[0][0].band) is not None:
                found.setdefault(band.attribute, set()).add(band)
    return found
