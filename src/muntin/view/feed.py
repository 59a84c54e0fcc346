"""How a batch reaches views that follow their streams by themselves: all that read it take it in, or none."""

from __future__ import annotations

from typing import Any

from muntin.join.operator import JoinOperator
from muntin.shard.shard import Shard
from muntin.view.views import Views


def feed_views(views: Views, joins: JoinOperator, shard: Shard, batch: Any) -> None:
    """Push a batch to a stream that such views read. What can fail comes before the first change."""
    stream = shard.stream.name
    admitted = shard.admit(batch)
    prepared = [(operator, operator.prepare(stream, admitted)) for operator in views.operators().values()]
    joined = joins.prepare(stream, admitted) if joins.reads(stream) else None
    settled_to = joins.settled_to()
    shard.take_in(admitted)
    if joined is not None:
        joins.forget(settled_to)
        joins.insert(stream, joined)
    for operator, events in prepared:
        operator.insert(events)
