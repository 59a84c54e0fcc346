"""A shard at work, as `stats`, `explain` and `sharing` show it: counters, plans, costs, and who reads which group."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.lane import Asked
from muntin.plan.explain import Running, explain_group, explain_never, explain_stream, predicted_combines
from muntin.plan.fresh_plan import differences_to_fresh_plan
from muntin.plan.group import StoreId
from muntin.plan.nesting import Nesting
from muntin.plan.sharing import SharedGroup, SharedStore, shared_group, shared_store
from muntin.shard.read.coverage import coverage_of
from muntin.shard.state import State
from muntin.shard.table_join.table_join import join_of
from muntin.window import span


def running(state: State, number: int) -> Running:
    """A window group at work, as EXPLAIN shows it."""
    group, meter = state.manager.groups[number], state.meter
    lanes = state.lanes[group.where].seen() if isinstance(group.where, Asked) else None
    return Running(state.synopses[number], meter.groups[number], meter.stores[group.store], lanes)


def shared(state: State) -> tuple[list[SharedStore], list[SharedGroup]]:
    """Stores and window groups as `sharing` shows them."""
    stream, stores, groups = state.stream.name, dict[StoreId, SharedStore](), list[SharedGroup]()
    for number, group in state.manager.groups.items():
        at_work = running(state, number)
        if group.store not in stores:
            stores[group.store] = shared_store(stream, group.store, len(stores) + 1, at_work)
        groups.append(shared_group(stream, group, stores[group.store].id, at_work))
    return list(stores.values()), groups


def stream_stats(state: State) -> dict[str, Any]:
    """Events accepted and late, event time, watermark, and what is kept."""
    clock = state.clock
    return {
        "pushed": clock.events + clock.late_events + clock.ahead_events,
        "events": clock.events,
        "late": clock.late_events,
        "ahead": clock.ahead_events,
        "greatest": _instant(clock.greatest),
        "watermark": _instant(clock.watermark),
        "queries": len(state.registrations),
        "moving": len(state.manager.moving.to),
        "groups": len(state.synopses),
        "keys": sum(len(keys) for keys in state.keys.values()),
        "bytes": state.nbytes(),
    }


def group_stats(state: State) -> dict[str, Any]:
    """How windows nest, and what groups cost."""
    nestings = state.manager.nestings()
    return {
        "nestings": {str(each): _nested(nesting) for each, nesting in nestings.items()},
        "costs": {number: _costs(state, number) for number in state.manager.groups},
    }


def _nested(nesting: Nesting) -> dict[str, int]:
    """How the windows of one operation signature nest."""
    return {
        "windows": nesting.windows,
        "chains": len(nesting.chains),
        "optimum": nesting.optimum,
        "members": nesting.members,
        "piggybacked": nesting.piggybacked,
    }


def _costs(state: State, number: int) -> dict[str, Any]:
    """What a window group costs, predicted and measured; None where nothing was observed yet."""
    group, (synopsis, own, store, _) = state.manager.groups[number], running(state, number)
    return {
        "synopsis": group.synopsis,
        "planned": group.planned,
        "combines": predicted_combines(group, synopsis),
        "update_ns": own.updates.mean,
        "store_update_ns": store.updates.mean,
        "lookups": own.lookups.total,
        "lookup_us": None if own.lookups.mean is None else own.lookups.mean / 1000,
    }


def _instant(at: int | None) -> np.datetime64 | None:
    return None if at is None else np.datetime64(at, "us")


def _differences(state: State) -> dict[int, str]:
    """How a fresh plan would serve queries that are served otherwise, by group: why a plan depends on the past."""
    state.settle_plan()
    queries = {name: each.query for name, each in state.registrations.items()}
    return differences_to_fresh_plan(state.manager, queries)


def explain_query(state: State, name: str) -> str:
    """The groups that serve a query, and whether its windows are covered."""
    fresh = _differences(state)
    numbers, groups = sorted(state.manager.placements[name].groups()), state.manager.groups
    parts = [
        explain_group(groups[each], running(state, each), groups.values(), fresh.get(each, ""))
        for each in numbers
    ]
    told = [str(coverage_of(state, name)), *explain_never(state.registrations[name].query)]
    if name in state.manager.moving.to:
        instant = np.datetime64(state.movers.arrives(name), "us")
        told.append(f"moves to lanes that its like share, which answer from {instant} on")
    join = join_of(state, name)
    begins = [] if join is None else [f"{name}: {join.explain(state)}"]
    return "\n\n".join([*begins, *parts, *(f"{name}: {each}" for each in told)])


def explain_all(state: State) -> str:
    """The plan of all queries."""
    fresh = _differences(state)
    rings = [f"ring of {len(store):,} events" for id, store in state.stores.items() if id.kind == "ring"]
    ahead = "" if state.stream.ahead is None else f" AHEAD {span(state.stream.ahead)}"
    title = f"{state.stream.name} (DELAY {span(state.stream.delay)}{ahead})"
    groups, nestings = state.manager.groups, state.manager.nestings()
    at_work = {number: running(state, number) for number in groups}
    return explain_stream(title, len(state.registrations), groups, at_work, ", ".join(rings), nestings, fresh)
