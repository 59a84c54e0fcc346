"""Window groups at work, as `explain` and `sharing` show them: their state, what they cost, who reads them."""

from __future__ import annotations

from muntin.lane import Asked
from muntin.plan.explain import Running
from muntin.plan.group import StoreId
from muntin.plan.sharing import SharedGroup, SharedStore, shared_group, shared_store
from muntin.shard.state import State


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
