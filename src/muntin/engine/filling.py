"""Filling: the history of new queries is read beside the stream, which goes on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from muntin.engine.catalog import Asked, Catalog
from muntin.engine.history import history_batches
from muntin.errors import MuntinError
from muntin.join_query import JoinQuery
from muntin.shard.backfill import Backfill

_ROUNDS = 3  # in which a backfill catches up with the stream, before the last in which the stream waits


@contextmanager
def filling(
    catalog: Catalog, lock: AbstractContextManager[Any], asked: Mapping[str, Asked], history: Any
) -> Iterator[Backfill]:
    """Queries of one stream with their history filled in, ready to be grafted; until the block ends they follow
    what is pushed."""
    if joins := [name for name, each in asked.items() if isinstance(each, JoinQuery)]:
        raise MuntinError(f"a backfill is the history of one stream; query '{joins[0]}' joins two")
    requests = {name: each for name, each in asked.items() if not isinstance(each, JoinQuery)}
    streams = {request.query.stream.name: request.query.stream for request in requests.values()}
    if len(streams) != 1:
        names = ", ".join(streams) or "none"
        raise MuntinError(f"a backfill is the history of one stream; these queries read {names}")
    (stream,) = streams.values()
    with lock:
        operator = catalog.operators.get(stream.name)
        if operator is None or operator.stream is not stream:
            operator = catalog.make_operator(stream)  # a script that creates it is about to run
        backfill = operator.begin_backfill(requests)
    try:
        backfill.fill(history_batches(stream, history, catalog.folders))
        for _ in range(_ROUNDS):  # what was pushed meanwhile, ever less of it
            with lock:
                live = backfill.take_held()
            backfill.catch_up(live)
        yield backfill
    finally:
        with lock:
            operator.end_backfill(backfill)
