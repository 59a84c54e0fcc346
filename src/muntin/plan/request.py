"""A request: a query to be placed, what it asks for, and what was chosen for each demand; all checked."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from muntin.errors import MuntinError
from muntin.plan.choices import Call, Chosen, choose_synopsis
from muntin.plan.demand import Demand, Demands, demands_of
from muntin.plan.synopses import INDEXES
from muntin.plan.threshold import threshold_of
from muntin.query import Query


class Request(NamedTuple):
    """`calls` and `presence` are demands as in `Demands`, each with what was chosen for it."""

    query: Query
    calls: tuple[Call, ...]
    presence: Call


def request_of(query: Query) -> Request:
    """The request of a query; an error if any of it cannot be served. Needs no plan, and changes none."""
    demands: Demands = demands_of(query)
    calls = tuple([tuple([(demand, choose_synopsis(demand)) for demand in call]) for call in demands.calls])
    presence = tuple([(demand, choose_synopsis(demand)) for demand in demands.presence])
    _check_hint(query, [chosen for *_, chosen in (*chain.from_iterable(calls), *presence)])
    is_asked_for = query.hint in INDEXES or query.tolerance is not None
    if is_asked_for and isinstance(reason := threshold_of(query), str):
        index = query.hint if query.hint in INDEXES else "index that APPROX reads"
        raise MuntinError(f"the {index} cannot find the keys of this query: {reason}")
    return Request(query, calls, presence)


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
