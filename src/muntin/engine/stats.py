"""What an engine counts: of its streams, queries, joins and views."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from muntin.coverage import Coverage
from muntin.engine.catalog import Catalog, require
from muntin.join.stats import explain_joins, join_stats


def stats(catalog: Catalog) -> dict[str, Any]:
    """As `Engine.stats` gives them."""
    return {
        "streams": {name: each.stats() for name, each in catalog.operators.items()},
        "queries": {name: _query_stats(catalog, name) for name in catalog.stream_of},
        "joins": join_stats(catalog.joins),
        "views": catalog.views.stats(),
    }


def coverage_of(catalog: Catalog, name: str) -> Coverage:
    """Of a query, a join or a view."""
    if reads_view(catalog, name):
        return catalog.views.coverage(name)
    return catalog.operator_of(name).coverage(name)


def reads_view(catalog: Catalog, name: str) -> bool:
    """Whether a name is that of a view, and of no query."""
    return name in catalog.views.at_work or (name not in catalog.stream_of and name in catalog.views.known())


def _query_stats(catalog: Catalog, name: str) -> dict[str, Any]:
    registration = catalog.registration(name)
    return {
        "stream": " JOIN ".join(stream.name for stream in registration.query.streams),
        "emitted": registration.emitted,
        "missed": registration.missed,
        "overflows": registration.overflows,
        **asdict(coverage_of(catalog, name)),
        "owed": catalog.operator_of(name).owed(name),
    }


# Explained: which queries share which state, by which rule, at what predicted and measured cost.


def explain(catalog: Catalog, query: str | None) -> str:
    """The plan of one query, or of all."""
    joins, views = catalog.joins, catalog.views
    if query is None:
        parts = [each.explain() for each in catalog.operators.values()]
        parts += filter(None, [explain_joins(joins)])
        shown = [*views.at_work, *(name for name in views.damaged() if name not in views.at_work)]
        return "\n\n".join([*parts, *map(views.explain, shown)]) or "no streams"
    if query in joins.group_of:
        told = explain_joins(joins, joins.group_of[query].signature)
        return f"{told}\n\n{query}: {joins.coverage(query)}"
    require(query, catalog.stream_of)
    return catalog.operators[catalog.stream_of[query]].explain(query)
