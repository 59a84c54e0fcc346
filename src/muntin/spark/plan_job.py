"""Planning a job: which queries go by which route, how many shards share it, and what tasks fold for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import is_text
from muntin.errors import MuntinError, NameTaken
from muntin.lane import Laned
from muntin.plan import Chosen, Demand, demands_of, request_of
from muntin.plan.lanes import folded_by_lanes, lanes_of
from muntin.plan.request import demands_in
from muntin.plan.synopses import reads_slices
from muntin.query import Query
from muntin.spark.answer_table import table_of
from muntin.spark.bad_events import EMIT, FAIL, check_policy
from muntin.spark.held_rows import By, held_by
from muntin.spark.job import (
    ALL,
    MOST_SHARDS,
    SPREAD,
    Fold,
    Job,
    Route,
    columns_of,
    is_together,
    key_query,
    read_query,
    route_name,
    source_of,
)
from muntin.spark.own_functions import shipped
from muntin.spark.ranked import is_ranked
from muntin.spark.shares import dealt_by, has_shares
from muntin.spark.spread import is_spread, share_text
from muntin.sql import shared_templates
from muntin.store.grid import window_step
from muntin.stream import Stream
from muntin.table import Table
from muntin.table_query import TableQuery


def plan_job(
    stream: Stream,
    queries: Mapping[str, str],
    *,
    keys: Iterable[str] = (),
    shards: int = 4,
    fold: bool = True,
    flush: bool = False,
    spread: bool | str = False,
    zone: str | None = "UTC",
    zones: Mapping[str, str | None] | None = None,
    is_controlled: bool = False,
    rewind: int | None = None,
    tables: Sequence[Table] = (),
    has_changes: bool = False,
    history: Sequence[str] = (),
    bad_events: str = FAIL,
    name: str | None = None,
    roster: str | None = None,
) -> Job:
    """Parse and plan queries; an error if any of them cannot run.

    `zone` is the time zone of the answers' instants, `zones` those of columns of timestamps.
    `keys` are lists of GROUP BY that queries to come may have, "" for those without: their routes are there
    from the start. Then nobody knows what will be read, so all columns are. With a control stream nobody knows what to
    fold for, unless there is a `roster`. `has_changes` says whether some of the `tables` change by rows of a stream, of
    which the answers may have to tell.
    """
    check_policy(bad_events)
    if not 1 <= shards <= MOST_SHARDS:
        raise MuntinError(f"a keyed query has 1 to {MOST_SHARDS:,} shards, not {shards:,}")
    parsed: dict[str, dict[str, Query | TableQuery]] = {}
    written: dict[str, str] = {}
    for each in keys:
        route = route_name(read_query(stream, key_query(stream, each)))
        parsed[route], written[route] = {}, each
    is_declared = bool(parsed)
    is_open = is_declared or is_controlled
    if spread and is_open:
        raise MuntinError(
            "spread is for queries that are all known from the start: leave out keys and control, or spread"
        )
    if spread not in (True, False, ALL):
        raise MuntinError(f"spread is True, False or '{ALL}', not {spread!r}")
    dealt: dict[str, dict[str, Query]] = {}
    templates = shared_templates()
    for each, sql in queries.items():
        query = read_query(stream, sql, templates, tables)
        if shards > 1 and isinstance(query, Query) and (place := _spread_route(query, spread)):
            dealt.setdefault(place, {})[each] = query
            continue
        route = route_name(query)
        if is_declared and route not in parsed and not is_together(route):
            raise MuntinError(
                f"query '{each}' has GROUP BY {route or 'nothing'}, which is not among keys={list(written.values())}"
            )
        parsed.setdefault(route, {})[each] = query
        written.setdefault(route, route)
    if not parsed and not dealt:
        raise MuntinError("there is no query: give at least one, as {name: sql}")
    is_folded = fold and (not is_controlled or roster is not None)
    routes = tuple(
        plan_route(each, written[each], some, stream, shards, is_folded, is_open, tables)
        for each, some in parsed.items()
    )
    for table in tables:
        if table.name in queries:
            raise NameTaken(
                f"a query and a table are both called '{table.name}'; choose another name for one"
            )
        if not any(table.name in route.held for route in routes):
            raise MuntinError(
                f"no query joins {table.label}: leave the table out, or write JOIN {table.name} ON …"
            )
    routes += tuple(_plan_spread(name, some, stream, shards) for name, some in dealt.items())
    ids = [Job.ID, *(each for route in routes for each in route.ids)]
    if len(set(ids)) < len(ids):
        raise MuntinError("two shards would have the same id: choose another number of shards")
    asked: dict[str, Query | TableQuery] = {
        each: query for some in parsed.values() for each, query in some.items()
    }
    asked |= {each: query for some in dealt.values() for each, query in some.items()}
    has_rest = is_controlled or has_changes or bad_events == EMIT
    answer_table = table_of(asked, zone, zones or {}, has_rest)
    if history and tables:
        raise MuntinError("queries that join tables take no history: leave it out, or the tables")
    return Job(
        stream, routes, answer_table, flush, rewind, tuple(tables), history=tuple(history), bad_events=bad_events,
        name=name, roster=roster, functions=shipped(queries.values(), is_open),
        is_ranked=any(is_ranked(asked[each]) for route in routes if route.shards > 1 for each in route.queries),
    )  # fmt: skip


def plan_route(
    name: str, keys: str, queries: Mapping[str, Query | TableQuery], stream: Stream, shards: int, fold: bool,
    is_open: bool, tables: Sequence[Table] = (),
) -> Route:  # fmt: skip
    requests = {each: request_of(query, is_by_demand=True) for each, query in queries.items()}
    asked = [demand for request in requests.values() for demand in demands_in(request)]
    return Route(
        name,
        keys,
        {each: query.text for each, query in queries.items()},
        tuple(stream.schema.names) if is_open else columns_of(stream, map(source_of, queries.values())),
        shards if name and not is_together(name) else 1,
        _plan_fold(queries) if fold and all(can_fold(*each) for each in asked) else None,
        held=_held(tables, [each for each in queries.values() if isinstance(each, TableQuery)], is_open),
    )


def _held(tables: Sequence[Table], queries: Sequence[TableQuery], is_open: bool) -> dict[str, By]:
    if is_open:
        return {table.name: None for table in tables}
    joined = [(table, [query for query in queries if table in query.tables]) for table in tables]
    return {table.name: held_by(table, some) for table, some in joined if some}


def _spread_route(query: Query, spread: bool | str) -> str | None:
    """The route of a query that all shards answer together, if it is one. As whether it can be folded, this depends on
    its text alone: a restart finds it there, with `fold` or without."""
    if spread and is_spread(query):
        return SPREAD
    if spread != ALL or not has_shares(query):
        return None
    if all(can_fold(*each) for each in demands_in(request_of(query, is_by_demand=True))):
        return None
    return SPREAD + "".join(f" by {each}" for each in dealt_by(query))


def _plan_spread(route_name: str, queries: dict[str, Query], stream: Stream, shards: int) -> Route:
    """A route of queries whose events are dealt out to all shards."""
    texts = {
        name: query.text if has_shares(query) else share_text(query, shards)
        for name, query in queries.items()
    }
    templates = shared_templates()
    shares: dict[str, Query | TableQuery] = {
        name: read_query(stream, text, templates) for name, text in texts.items()
    }
    route = plan_route(route_name, "", shares, stream, shards, fold=False, is_open=False)
    return replace(route, whole={name: query.text for name, query in queries.items()})


def can_fold(demand: Demand, chosen: Chosen) -> bool:
    """Whether what is kept for a demand can be folded elsewhere: cells of numbers, not codes of texts.

    This depends on the demand alone, as it does where shards plan (`is_planned_by_demand`): a shard that has come to
    the same queries by another path, with other state kept, takes the same cells.
    """
    need, argument = demand.need, demand.need.input.argument
    is_number = need.component in COMPONENTS and not (argument and is_text(argument.type))
    return is_number and reads_slices(demand, chosen.synopsis)


def _plan_fold(queries: Mapping[str, Query | TableQuery]) -> Fold:
    """Slices of a filter are as fine as those of every store that may take its cells: a store may have some needs of a
    filter from cells of its own, and others from lanes."""
    steps: dict[str, int] = {}
    of_store: dict[str, int] = {}  # by filter: the step of its store, if no query of it reads lanes
    takers: dict[str, set[str]] = {}  # by lanes: the filters whose stores may take cells from them
    seen: set[object] = set()
    chosen = []
    for query in queries.values():
        for alone in demands_of(source_of(query)).all():
            store = _text(alone)
            of_store[store] = gcd(of_store.get(store, 0), window_step(alone.window))
        new: set[object] = set()
        for demand, laned, served in folded_demands(source_of(query)):
            where = _text(demand)
            steps[where] = gcd(steps.get(where, 0), window_step(demand.window))
            new.add((demand.where, demand.need))
            if laned is not None:
                new |= {(demand.where, lane) for lane in laned.lanes}
            if served is not None:
                takers.setdefault(where, {where}).add(_text(served))
        if not new <= seen:
            chosen.append(query.text)
            seen |= new
    fine = {
        where: gcd(step, *(of_store.get(each, 0) for each in takers.get(where, {where})))
        for where, step in steps.items()
    }
    return Fold(fine, tuple(chosen))


def _text(demand: Demand) -> str:
    """The filter of a demand, "" for none."""
    return str(demand.where or "")


def folded_demands(query: Query) -> Iterator[tuple[Demand, Laned | None, Demand | None]]:
    """What is folded for a query: in lanes, if it could read any, and otherwise by its own filter; and what it asks for
    if it is served without lanes."""
    whole, of_calls = lanes_of(query, is_by_demand=True)
    calls = [None if each is None else each[0] for each in of_calls]
    for alone, in_lanes, laned in folded_by_lanes(query, demands_of(query), whole and whole[0], calls):
        if in_lanes is not None:
            yield in_lanes, laned, alone
        elif alone is not None:
            yield alone, None, alone
