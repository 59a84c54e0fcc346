"""Explained: which queries share which state, by which rule, at what predicted and measured cost."""

from __future__ import annotations

from muntin.engine.catalog import Catalog, require
from muntin.join.stats import explain_joins


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
