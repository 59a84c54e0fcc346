"""Plan again: place all queries of a shard anew, as long as nothing is kept for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.plan import Changes, request_of
from muntin.plan.anew import planned_anew, without_history

if TYPE_CHECKING:
    from muntin.operator.shard import Shard


def plan_again(shard: Shard) -> None:
    """Place queries together that were registered one after the other; no event has come yet. State filled from a
    history stays. O(queries)."""
    queries = {name: shard.registrations[name].query for name in without_history(shard.manager)}
    if not planned_anew(shard.manager, queries):
        return  # the plan is what it would be
    changes = Changes()
    for name in queries:
        shard.manager.drop(name, changes)
    for store in [each for each in shard.stores if not each.generation]:
        del shard.stores[store], shard.meter.stores[store]
    shard.manager.register({name: request_of(query) for name, query in queries.items()}, changes)
    shard.raise_stairs(changes)
    shard.prepared.forget_all()
    if shard.adaptation is not None:
        shard.adaptation.part(changes.groups.keys() - shard.manager.groups.keys(), False)
        shard.adaptation.welcome(changes.came)
    shard.fit(changes)
