"""Plan again: place all queries of a shard anew, as long as nothing is kept for them.

Queries that are registered one after the other are placed as each comes. Before the first event they are placed
together instead, so that the plan depends on which queries there are, and not on the order in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.plan import PlanChanges
from muntin.plan.fresh_plan import differences_to_fresh_plan, without_history

if TYPE_CHECKING:
    from muntin.shard.state import State


def plan_again(state: State) -> None:
    """Place queries together that were registered one after the other; no event has come yet. State filled from a
    history stays. O(queries)."""
    queries = {name: state.registrations[name].query for name in without_history(state.manager)}
    if not differences_to_fresh_plan(state.manager, queries):
        return  # the plan is what it would be
    changes = PlanChanges()
    for name in queries:
        state.manager.drop(name, changes)
    for store in [each for each in state.stores if not each.generation]:
        del state.stores[store], state.meter.stores[store]
    requests = {name: state.manager.request_of(query) for name, query in queries.items()}
    state.manager.register(requests, changes)
    state.raise_stairs(changes)
    state.prepared.forget_all()
    if state.adaptation is not None:
        state.adaptation.part(changes.groups.keys() - state.manager.groups.keys(), False)
        state.adaptation.welcome(changes.came)
    state.fit(changes)
