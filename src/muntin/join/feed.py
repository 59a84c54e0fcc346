"""How a batch reaches joins: its stream takes it in first, and either both do or neither."""

from __future__ import annotations

from typing import Any

from muntin.join.operator import JoinOperator
from muntin.shard.shard import Shard


def feed(joins: JoinOperator, shard: Shard, batch: Any) -> int:
    """Push a batch to a stream that joins read; returns how many of its events were late. All or nothing: what
    can fail comes before the first change."""
    stream = shard.stream.name
    admitted = shard.admit(batch)
    prepared = joins.prepare(stream, admitted)
    settled_to = joins.settled_to()  # before the batch, so that what it closes can still be asked for
    late = shard.take_in(admitted)
    joins.forget(settled_to)
    joins.insert(stream, prepared)
    return late
