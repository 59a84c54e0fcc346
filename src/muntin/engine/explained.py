"""Explained: which queries share which state, by which rule, at what predicted and measured cost."""

from __future__ import annotations

from muntin.engine.catalog import Catalog, require
from muntin.join.stats import explain_joins
from muntin.operator.covered import coverage_of
from muntin.operator.shard import Shard
from muntin.operator.stats import running
from muntin.plan.anew import planned_anew
from muntin.plan.explain import explain_group, explain_stream
from muntin.window import span


def explain(catalog: Catalog, query: str | None) -> str:
    """The plan of one query, or of all."""
    joins, views = catalog.joins, catalog.views
    if query is None:
        parts = [_explain_stream(each.shard) for each in catalog.operators.values()]
        parts += filter(None, [explain_joins(joins)])
        shown = [*views.at_work, *(name for name in views.damaged() if name not in views.at_work)]
        return "\n\n".join([*parts, *map(views.explain, shown)]) or "no streams"
    if query in joins.group_of:
        told = explain_joins(joins, joins.group_of[query].signature)
        return f"{told}\n\n{query}: {joins.coverage(query)}"
    require(query, catalog.stream_of)
    shard = catalog.operators[catalog.stream_of[query]].shard
    anew = _planned_anew(shard)
    numbers, groups = sorted(shard.manager.placements[query].groups()), shard.manager.groups
    parts = [
        explain_group(groups[each], running(shard, each), groups.values(), anew.get(each, ""))
        for each in numbers
    ]
    return "\n\n".join([*parts, f"{query}: {coverage_of(shard, query)}"])


def _planned_anew(shard: Shard) -> dict[int, str]:
    """How a new plan would serve queries that are served otherwise, by group: why a plan depends on the past."""
    shard.settle_plan()
    return planned_anew(shard.manager, {name: each.query for name, each in shard.registrations.items()})


def _explain_stream(shard: Shard) -> str:
    anew = _planned_anew(shard)
    rings = [f"ring of {len(store):,} events" for id, store in shard.stores.items() if id.kind == "ring"]
    ahead = "" if shard.stream.ahead is None else f" AHEAD {span(shard.stream.ahead)}"
    title = f"{shard.stream.name} (DELAY {span(shard.stream.delay)}{ahead})"
    groups, nestings = shard.manager.groups, shard.manager.nestings
    at_work = {number: running(shard, number) for number in groups}
    return explain_stream(title, len(shard.registrations), groups, at_work, ", ".join(rings), nestings, anew)
