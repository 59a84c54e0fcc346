"""Joins for people and dashboards: their plan and their counters."""

from __future__ import annotations

from typing import Any

from muntin.join.group import JoinGroup
from muntin.join.operator import JoinOperator
from muntin.join_query import JoinSignature
from muntin.plan.explain import KeptMatches, explain_join


def join_stats(joins: JoinOperator) -> list[dict[str, Any]]:
    """For each join group: what it joins, its queries, events by side, matches found and kept, bytes."""
    return [
        {
            "join": str(group.signature),
            "queries": len(group.registrations),
            "events": list(_kept(group).events),
            "found": group.matches.found,
            "matches": len(group.matches),
            "bytes": _kept(group).nbytes,
        }
        for group in joins.groups.values()
    ]


def explain_joins(joins: JoinOperator, only: JoinSignature | None = None) -> str:
    """A paragraph for each join group, or for one."""
    groups = joins.groups.values() if only is None else [joins.groups[only]]
    return "\n\n".join(
        explain_join(
            group.signature, {name: each.query for name, each in group.registrations.items()}, _kept(group)
        )
        for group in groups
    )


def _kept(group: JoinGroup) -> KeptMatches:
    left, right = group.sides
    logs = {id(side.log): side.log.nbytes() for side in group.sides}
    return KeptMatches(
        (len(left.events), len(right.events)),
        len(group.matches),
        group.matches.found,
        group.nbytes() + sum(logs.values()),
    )
