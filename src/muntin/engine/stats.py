"""What an engine counts: of its streams, queries, joins and views."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from muntin.coverage import Coverage
from muntin.engine.catalog import Catalog
from muntin.join.stats import join_stats


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
