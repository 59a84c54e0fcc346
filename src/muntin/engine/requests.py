"""Requests of an engine: which queries they are for, and what these answer (shard/requests.py)."""

from __future__ import annotations

from typing import Any

from muntin.argument import texts_of
from muntin.engine.catalog import Catalog, reads_view
from muntin.errors import MuntinError
from muntin.query import Query
from muntin.shard.read.lookup_at import AtPoints
from muntin.shard.requests import Requests, answerable, read_requests


def requests_of(catalog: Catalog, names: Any, requests: Any, at: str) -> Requests:
    """Requests for queries by name, checked; answers of a list of names are called after their query."""
    return read_requests(_queries_of(catalog, names), requests, at, is_prefixed=not isinstance(names, str))


def _queries_of(catalog: Catalog, names: Any) -> dict[str, Query]:
    """The queries that requests are for; an error if one cannot be looked up at instants of its past."""
    chosen = [names] if isinstance(names, str) else list(dict.fromkeys(texts_of("names", names)))
    if not chosen:
        raise MuntinError("give the name of a query, or a list of names")
    return {name: _query_of(catalog, name) for name in chosen}


def _query_of(catalog: Catalog, name: str) -> Query:
    if reads_view(catalog, name):
        raise MuntinError(f"'{name}' is a view: it answers as of its last update, at no other instant")
    return answerable(name, catalog.query(name))


def answer_requests(catalog: Catalog, requests: Requests) -> dict[str, AtPoints]:
    """What each query answers; those over one stream are looked up together."""
    found: dict[str, AtPoints] = {}
    for stream in dict.fromkeys(catalog.stream_of[name] for name in requests.keys):
        asked = {name: keys for name, keys in requests.keys.items() if catalog.stream_of[name] == stream}
        found |= catalog.shards[stream].lookup_at(asked, requests.at)
    return found
