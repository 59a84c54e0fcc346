"""Shards that live on in a Python worker between micro-batches, so that state is seldom read back.

Spark may give the next micro-batch of a shard to another worker, whose copy has then missed some: it takes
them in from the log. A copy that did not write what the log says, since its attempt failed, is thrown away
and rebuilt. The ledger is the truth; what is here only makes it fast.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from muntin.spark.ledger import Head
from muntin.spark.operator import ShardOperator

_MOST = 64  # shards that a worker keeps


@dataclass
class Copy:
    """A shard as of one entry of its ledger, which it knows by token."""

    operator: ShardOperator
    job: str  # the fingerprint of the job that it was made for: another one may read other columns
    entries: int
    token: str


class ShardCache:
    """The copies of one process, by ledger; those used least recently go first."""

    def __init__(self) -> None:
        self._copies: OrderedDict[str, Copy] = OrderedDict()

    def take(self, head: Head, job: str) -> Copy | None:
        """The copy of a ledger's shard, made for a job, if the rest can be had from the log. It is taken out:
        whoever fails half-way leaves nothing behind."""
        copy = self._copies.pop(head.ledger, None)
        if copy is None or copy.job != job or head.tokens.get(copy.entries) != copy.token:
            return None
        return copy

    def put(self, head: Head, job: str, operator: ShardOperator) -> None:
        self._copies[head.ledger] = Copy(operator, job, head.entries, head.tokens[head.entries])
        while len(self._copies) > _MOST:
            self._copies.popitem(last=False)

    def clear(self) -> None:
        self._copies.clear()


CACHE = ShardCache()
